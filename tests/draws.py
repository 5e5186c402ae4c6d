"""Properties of drawn cases: few draws, other ones in each run, and many in the slow form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy


def drawn(
    *strategies: SearchStrategy[Any], few: int, many: int
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Make a test of a property that holds for all that is drawn."""

    def decorate(check: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("draws", [few, pytest.param(many, marks=pytest.mark.slow)])
        def test(draws: int) -> None:
            settings(max_examples=draws, deadline=None)(given(*strategies)(check))()

        test.__doc__ = check.__doc__
        return test

    return decorate


def fast_first(cases: Iterable[Any], fast: int) -> list[Any]:
    """The cases of a test of which so many run in `make test`; the others are its slow form."""
    plain = [case for case in cases if isinstance(case, str)]
    marked = [case for case in cases if not isinstance(case, str)]
    slow = [pytest.param(case, marks=pytest.mark.slow) for case in plain[fast:]]
    return [*plain[:fast], *slow, *marked]
