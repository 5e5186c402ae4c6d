"""Actors elsewhere, searched: sound with every rule on; with any one off a task is lost, unheld or lied
about."""

from dataclasses import fields

import pytest
from actor_protocol import ActorProtocol, Bounds, Rules, State
from explorer import Report, explore
from traps import Trap, assert_sound, by_rule

TOLD, OUT = "what is told is so", "no task is out without a hold"
ONE, FAILURES = "one result is accepted", "attempts are failures"
LAST = Bounds(accept="last", asks=1)
TRAPS = [
    Trap("hold_commits_before_the_answer", OUT, "dies before the commit", Bounds()),
    Trap("pass_follows_from_the_pull", TOLD, "is not known again", Bounds()),
    Trap("again_moves_the_hold", OUT, "is given back", Bounds()),
    Trap("give_back_compares_the_hold", OUT, "is given back", Bounds()),
    Trap("what_was_found_is_left", OUT, "is given back", Bounds(asks=3, settles=1)),
    Trap("dead_call_gives_back", TOLD, "has gone, and keeps it", Bounds()),
    Trap("locked_is_no_stop", TOLD, "is told to stop", Bounds()),
    Trap("settle_compares_the_version", ONE, "done by", Bounds()),
    Trap("settle_makes_a_version", FAILURES, "fail of", Bounds()),
    Trap("release_counts_nothing", FAILURES, "release of", Bounds()),
    Trap("already_by_the_run", TOLD, "is there already", Bounds()),
    Trap("last_makes_a_version", TOLD, "the time of", LAST),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = ActorProtocol(rules, bounds)
    return explore(State(), protocol.steps, protocol.invariants())


@pytest.mark.parametrize(
    "bounds", [Bounds(), Bounds(asks=1, settles=4), LAST, Bounds(accept="last", settles=2)], ids=str
)
def test_tasks_of_actors_elsewhere_are_held_and_settled_once(bounds: Bounds) -> None:
    """P3, P4: rules 13 to 16, whoever dies and whatever is lost."""
    assert_sound(search(Rules(), bounds))


@pytest.mark.slow
def test_the_same_in_larger_bounds() -> None:
    assert_sound(search(Rules(), Bounds(asks=3, settles=0, recoveries=1)))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_actors_fail(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_actors_has_a_trap() -> None:
    assert {rule.name for rule in fields(Rules)} == {trap.rule for trap in TRAPS}
