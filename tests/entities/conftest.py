"""Fixtures of the tests of entities and stages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainspring import Mainspring
from stages import Stages


@pytest.fixture
def stages(database_url: str, app: Mainspring) -> Iterator[Stages]:
    found = Stages(database_url, app)
    yield found
    found.close()
