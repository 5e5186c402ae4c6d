"""Fixtures of the processes' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from process_scene import Scene


@pytest.fixture
def scene(mainspring_url: str) -> Iterator[Scene]:
    """Processes on a fresh database; after the test every invariant holds."""
    found = Scene(mainspring_url)
    yield found
    found.check()
