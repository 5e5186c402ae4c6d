"""Params of a small data platform, and the tables of the test's database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gates import Gate
from tables import Base

from mainspring import Mainspring
from mainspring.reactive.model.values import Param


@pytest.fixture
def base(mainspring_url: str) -> Iterator[Base]:
    found = Base(mainspring_url)
    yield found
    found.connection.close()


@pytest.fixture
def orders(app: Mainspring) -> Param:
    return app.data("dwh.orders").param("loaded_to")


@pytest.fixture
def rates(app: Mainspring) -> Param:
    return app.data("ext.rates").param("loaded_to")


@pytest.fixture
def built(app: Mainspring) -> Param:
    return app.data("mart.daily").param("built_to")


@pytest.fixture
async def gate() -> Gate:
    return Gate()
