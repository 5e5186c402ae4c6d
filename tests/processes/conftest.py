"""Fixtures of the processes' tests."""

from __future__ import annotations

import pytest
from process_scene import Scene


@pytest.fixture
def scene(mainspring_url: str) -> Scene:
    return Scene(mainspring_url)
