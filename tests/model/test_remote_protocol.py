"""Stages elsewhere, searched: the poison is parked, nobody else is blamed, with every rule on (S10)."""

from dataclasses import fields

import pytest
from explorer import Report, explore
from remote_protocol import Bounds, RemoteProtocol, Rules
from traps import Trap, assert_sound, by_rule

BLAMED = "no innocent is blamed"
KILLS_ON = "the poison is parked soon"
SHUT = "nothing starts behind a shut gate"
LEFT = "all is done in the end"

SOUND = {
    "poison among innocents": Bounds(keys="abp"),
    "in one call": Bounds(keys="abp", batch=3),
    "one that fails": Bounds(keys="abf", batch=3),
    "one that fails beside poison": Bounds(keys="afp"),
    "the service dies by itself": Bounds(keys="abc", deaths=1),
    "it dies by itself beside poison": Bounds(keys="ap", deaths=1),
    "it says that it is away": Bounds(keys="ab", refusals=2),
    "it says so again and again": Bounds(keys="a", refusals=5),
    "a question kills it": Bounds(keys="ab", questions=2),
}

TRAPS = [
    Trap("suspects_go_alone", KILLS_ON, "kills the service", Bounds(keys="ap")),
    Trap("alone_means_nothing_beside", BLAMED, "kills the service", Bounds(keys="ap", batch=1)),
    Trap("one_break_is_no_crash", BLAMED, "dies by itself", Bounds(keys="ab", deaths=2)),
    Trap(
        "put_off_keeps_what_is_counted", KILLS_ON, "kills the service", Bounds(keys="abp", deaths=1)
    ),
    Trap("halves_find_who_fails", BLAMED, "a call with f fails", Bounds(keys="af")),
    Trap("a_shut_gate_starts_nothing", SHUT, "kills the service", Bounds(keys="ap", batch=1)),
    Trap("its_own_word_is_weighed", BLAMED, "says that it is away", Bounds(keys="a", refusals=3)),
    Trap(
        "questions_wait_for_suspects", BLAMED, "a question goes out", Bounds(keys="a", questions=3)
    ),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = RemoteProtocol(rules, bounds)
    invariants = {
        BLAMED: protocol.no_innocent_is_blamed,
        KILLS_ON: protocol.the_poison_is_parked_soon,
        SHUT: protocol.nothing_starts_behind_a_shut_gate,
        LEFT: protocol.all_is_done_in_the_end,
    }
    return explore(protocol.start(), protocol.steps, invariants)


@pytest.mark.parametrize("case", SOUND)
def test_the_poison_is_parked_and_nobody_else_is_blamed(case: str) -> None:
    """S10."""
    assert_sound(search(Rules(), SOUND[case]))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_somebody_is_blamed_or_lost(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_stages_elsewhere_has_a_trap() -> None:
    rules = {rule.name for rule in fields(Rules)}

    assert rules == {trap.rule for trap in TRAPS}
