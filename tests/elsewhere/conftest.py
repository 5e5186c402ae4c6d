"""Fixtures of the tests of stages elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from services import Service

from mainspring import Mainspring
from stages import Stages


@pytest.fixture
def stages(database_url: str, app: Mainspring) -> Iterator[Stages]:
    found = Stages(database_url, app)
    yield found
    found.close()


@pytest.fixture
def service() -> Iterator[Service]:
    """A running service of the stage listing/rank."""
    found = Service()
    found.start()
    yield found
    found.end()
