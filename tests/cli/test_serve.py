"""A worker's own process: what it sets for Python is taken back, and less than was asked for never."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from mainspring.serve import COLLECT_AFTER, _calm_collector


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("asked", "given"), [(700, COLLECT_AFTER), (90_000, 90_000), (0, 0)], ids=str
)
def test_the_collector_looks_no_more_often_than_the_application_wants(
    asked: int, given: int
) -> None:
    """An application that has switched it off, or made it rarer, knows why."""
    gc.set_threshold(asked, 11, 12)

    with _calm_collector():
        assert gc.get_threshold() == (given, 11, 12)

    assert gc.get_threshold() == (asked, 11, 12)
