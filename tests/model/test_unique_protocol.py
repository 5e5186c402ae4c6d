"""Calls under one key, searched: no change unseen, no call lost, never two at once, whoever dies where."""

from dataclasses import fields

import pytest
from explorer import Report, explore
from traps import Trap, assert_sound, by_rule
from unique_protocol import Bounds, Rules, UniqueProtocol

SEEN = "every change is seen"
KEPT = "no call is lost"
ALONE = "one at a time"
HONEST = "nobody is deceived"
STUCK = "nobody waits behind a parked one"

SOUND = {
    "calls alone": Bounds(calls=4),
    "deaths": Bounds(deaths=2),
    "failures": Bounds(fails=3),
    "deaths and failures": Bounds(deaths=1, fails=2),
    "operators": Bounds(fails=2, orders=2),
    "all of it": Bounds(calls=2, deaths=1, fails=2, orders=1),
}

TRAPS = [
    Trap("held_first", HONEST, "it commits", Bounds()),
    Trap("meeting_writes", SEEN, "it commits", Bounds()),
    Trap("new_version", SEEN, "1 is done late", Bounds(deaths=1)),
    Trap("behind_in_the_row", ALONE, "2 begins", Bounds()),
    Trap("payload_is_kept", KEPT, "it commits", Bounds()),
    Trap("follows_an_end", SEEN, "1 is done", Bounds()),
    Trap("follows_at_once", SEEN, "its worker dies before", Bounds(deaths=1)),
    Trap("follows_a_park", STUCK, "1 is parked", Bounds(fails=2)),
    Trap("parked_gives_way", SEEN, "it commits", Bounds(fails=2)),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = UniqueProtocol(rules, bounds)
    invariants = {
        SEEN: protocol.every_change_is_seen,
        KEPT: protocol.no_call_is_lost,
        ALONE: protocol.one_at_a_time,
        HONEST: protocol.nobody_is_deceived,
        STUCK: protocol.nobody_waits_behind_a_parked_one,
    }
    return explore(protocol.start(), protocol.steps, invariants)


@pytest.mark.parametrize("case", SOUND)
def test_nothing_that_was_asked_is_swallowed_and_no_two_run_at_once(case: str) -> None:
    """T13: calls under one key, by the default policy."""
    assert_sound(search(Rules(), SOUND[case]))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_a_call_under_a_key_fails(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_a_key_has_a_trap() -> None:
    rules = {rule.name for rule in fields(Rules)}

    assert rules == {trap.rule for trap in TRAPS}
