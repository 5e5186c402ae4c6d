"""Suspects, searched: the poison is parked and nobody else is, with every rule on."""

from dataclasses import fields

import pytest
from explorer import Report, explore
from suspect_protocol import Bounds, Rules, SuspectProtocol
from traps import Trap, assert_sound, by_rule

BLAMED = "no innocent is parked"
KILLS_ON = "the poison is parked soon"

SOUND = {
    "the poison comes first": Bounds(keys="pqrs"),
    "the poison comes last": Bounds(keys="abcp"),
    "in the middle, in pages of one": Bounds(keys="abpq", page=1),
    "all in one page": Bounds(keys="abpq", page=4),
    "innocents last": Bounds(keys="abpq", holds_later=True),
    "the network ends workers": Bounds(keys="abc", holds_later=True, ends=4),
    "the network ends workers beside the poison": Bounds(keys="apq", ends=2),
    "the network cuts workers off": Bounds(keys="abc", holds_later=True, cuts=4),
}

TRAPS = [
    Trap("suspects_are_held_first", KILLS_ON, "it starts p, and dies", Bounds()),
    Trap("reach_is_noted_with_the_page", KILLS_ON, "it starts p, and dies", Bounds(page=3)),
    Trap("only_holds_are_counted", BLAMED, "it reads a and b", Bounds()),
    Trap("last_try_is_alone", BLAMED, "it holds and starts p, and dies", Bounds()),
    Trap("forgotten_when_all_have_ended", KILLS_ON, "it starts p, and dies", Bounds()),
    Trap(
        "the_network_s_end_is_no_death",
        BLAMED,
        "the network ends it",
        Bounds(keys="ab", holds_later=True, ends=2),
    ),
    Trap(
        "who_lives_takes_the_blame_back",
        BLAMED,
        "who was cut off says that it lives",
        Bounds(keys="ab", holds_later=True, cuts=2),
    ),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = SuspectProtocol(rules, bounds)
    invariants = {
        BLAMED: protocol.no_innocent_is_parked,
        KILLS_ON: protocol.the_poison_is_parked_soon,
    }
    return explore(protocol.start(), protocol.steps, invariants)


@pytest.mark.parametrize("case", SOUND)
def test_the_poison_is_parked_and_nobody_else(case: str) -> None:
    assert_sound(search(Rules(), SOUND[case]))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_suspects_fail(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_suspects_has_a_trap() -> None:
    rules = {rule.name for rule in fields(Rules)}

    assert rules == {trap.rule for trap in TRAPS}
