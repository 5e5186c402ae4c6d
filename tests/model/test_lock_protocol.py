"""Locks over a scope, searched: one at a time, in turn, and nobody waits for ever."""

from dataclasses import fields

import pytest
from explorer import Report, explore
from lock_protocol import Bounds, LockProtocol, Rules
from traps import Trap, assert_sound, by_rule

ALONE, TURN, LIVE = "one at a time", "in turn", "nobody waits for ever"

SOUND = {
    "three, a death": Bounds(processes=3, deaths=1),
    "two, changed twice, a death": Bounds(changes=2, deaths=1),
    "three, changed once": Bounds(processes=3, changes=1),
    "beside the release before": Bounds(processes=2, changes=1, silent=1),
}

TRAPS = [
    Trap("serial", ALONE, "commits", Bounds(changes=2)),
    Trap("derived", LIVE, "ends", Bounds()),
    Trap("looks_again", LIVE, "ends without a word", Bounds(silent=1)),
    Trap("until_undone", ALONE, "commits", Bounds(changes=1)),
    Trap("generations", LIVE, "asks", Bounds(changes=1)),
    Trap("in_turn", TURN, "commits", Bounds()),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = LockProtocol(rules, bounds)
    invariants = {
        ALONE: protocol.one_at_a_time,
        TURN: protocol.in_turn,
        LIVE: protocol.nobody_waits_for_ever,
    }
    return explore(protocol.start(), protocol.steps, invariants)


@pytest.mark.parametrize("case", SOUND)
def test_a_lock_is_held_by_one_in_turn_and_given_on(case: str) -> None:
    """P15: whoever dies, fails, is cancelled or restarted where."""
    assert_sound(search(Rules(), SOUND[case]))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_two_are_in_or_one_waits_for_ever(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_a_lock_has_a_trap() -> None:
    assert {rule.name for rule in fields(Rules)} == {trap.rule for trap in TRAPS}
