"""Races, searched: decided by the ends that are there, and no end that decides one is missed."""

from dataclasses import fields

import pytest
from explorer import Report, explore
from race_protocol import Bounds, RaceProtocol, Rules
from traps import Trap, assert_sound, by_rule

RIGHT = "it is decided rightly"
WOKEN = "no end is missed"

SOUND = {
    "the first success of three": Bounds(need=1),
    "two of four, deaths": Bounds(inputs=4, need=2, deaths=2),
    "all of three": Bounds(need=3),
    "two of three, restarted": Bounds(deaths=1, restarts=2),
}

TRAPS = [
    Trap("alone", WOKEN, "the race waits on", Bounds()),
    Trap("counts_missing", WOKEN, "the race waits on", Bounds()),
    Trap("sees_hopeless", WOKEN, "the race waits on", Bounds()),
    Trap("failures_count", WOKEN, "commits", Bounds()),
    Trap("restarts_race", RIGHT, "is restarted", Bounds(restarts=1)),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = RaceProtocol(rules, bounds)
    invariants = {RIGHT: protocol.is_decided_rightly, WOKEN: protocol.no_end_is_missed}
    return explore(protocol.start(), protocol.steps, invariants)


@pytest.mark.parametrize("case", SOUND)
def test_a_race_is_decided_by_the_ends_that_are_there(case: str) -> None:
    """P15: n of m; whoever dies where."""
    assert_sound(search(Rules(), SOUND[case]))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_a_race_waits_for_ever_or_is_wrong(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_a_race_has_a_trap() -> None:
    assert {rule.name for rule in fields(Rules)} == {trap.rule for trap in TRAPS}
