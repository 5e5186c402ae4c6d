"""A breaker, searched: it opens after failures in a row, and nothing starts too much."""

import logging
from dataclasses import fields

import pytest
from breaker_protocol import INVARIANTS, Bounds, BreakerProtocol, Rules, State
from explorer import Report, explore
from traps import Trap, assert_sound, by_rule

RIGHT = "breakers judge right"
TRAPS = [
    Trap("halts", RIGHT, "a run starts", Bounds(losses=0)),
    Trap("counts_what_is_on_its_way", RIGHT, "succeeds", Bounds(losses=0)),
    Trap("a_success_begins_anew", RIGHT, "succeeds", Bounds(losses=0)),
    Trap("puts_back", "failures are told", "it cannot be told", Bounds()),
    Trap("late_is_not_heard", RIGHT, "a tick", Bounds(losses=0)),
    Trap("waits_for_two_reads", RIGHT, "the settings are read", Bounds(losses=0)),
    Trap("an_answer_is_fresh", RIGHT, "the settings are read", Bounds(losses=0)),
    Trap("an_answer_frees", "halts end", "the worker is answered", Bounds()),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = BreakerProtocol(rules, bounds)
    logging.disable(logging.WARNING)  # thousands of breakers open
    try:
        return explore(State(), protocol.steps, INVARIANTS)
    finally:
        logging.disable(logging.NOTSET)


def test_a_breaker_opens_after_failures_in_a_row() -> None:
    """T13: and nothing starts that it should keep back, and nothing waits for ever."""
    assert_sound(search(Rules(), Bounds(starts=3)))


@pytest.mark.slow
def test_a_breaker_opens_after_failures_in_a_row_in_larger_bounds() -> None:
    assert_sound(search(Rules(), Bounds(starts=5)))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_breakers_fail(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_breakers_has_a_trap() -> None:
    rules = {rule.name for rule in fields(Rules)}

    assert rules == {trap.rule for trap in TRAPS}
