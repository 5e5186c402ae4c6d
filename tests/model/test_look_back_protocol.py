"""The look back, searched: no visit of a short transaction is passed over with every rule on."""

from dataclasses import fields

import pytest
from explorer import Report, explore
from look_back_protocol import Bounds, LookBackProtocol, Rules
from traps import Trap, assert_sound, by_rule

PASSED = "nothing is passed over"

TRAPS = [
    Trap("looks_back", PASSED, "the read returns nothing", Bounds()),
    Trap("reaches_the_span", PASSED, "a commits at 2, due at 1", Bounds()),
    Trap("asks_for_a_read", PASSED, "the clock shows 3", Bounds()),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = LookBackProtocol(rules, bounds)
    return explore(protocol.start(), protocol.steps, {PASSED: protocol.nothing_is_passed_over})


def test_a_look_back_finds_what_short_transactions_commit() -> None:
    assert_sound(search(Rules(), Bounds()))


@pytest.mark.slow
def test_a_look_back_finds_what_short_transactions_commit_in_larger_bounds() -> None:
    assert_sound(search(Rules(), Bounds(clock=5, keys="abc")))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_a_visit_is_passed_over(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_the_look_back_has_a_trap() -> None:
    rules = {rule.name for rule in fields(Rules)}

    assert rules == {trap.rule for trap in TRAPS}
