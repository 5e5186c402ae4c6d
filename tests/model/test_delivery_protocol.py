"""Deliveries, searched: all holds with every rule on; with any one of them off a promise breaks (S7)."""

from dataclasses import fields

import pytest
from delivery_protocol import Bounds, DeliveryProtocol, Rules
from explorer import Report, explore
from traps import Trap, assert_sound, by_rule

SOUND = {
    "deaths and refusals": Bounds(),
    "a resend": Bounds(saves=2, resends=1),
    "a replay beside another consumer": Bounds(saves=2, replays=1, refusals=0),
}

SOUND_AND_LARGE = {
    "two deaths, two refusals": Bounds(saves=2, deaths=2, refusals=2),
    "two resends": Bounds(saves=2, resends=2),
    "a resend and a replay": Bounds(saves=2, resends=1, replays=1),
}

ORDER = "first arrivals are in order"
UNSENT = "nothing goes unsent"

TRAPS = [
    Trap("numbers_under_lock", ORDER, "arrives", Bounds(saves=2)),
    Trap("one_unacknowledged", ORDER, "2 arrives", Bounds(saves=2)),
    Trap("broker_acknowledges", UNSENT, "the worker dies", Bounds(saves=1)),
    Trap("refused_stops", ORDER, "2 arrives", Bounds(saves=2)),
    Trap("deletes_what_was_sent", UNSENT, "the run settles", Bounds(saves=2)),
    Trap("resend_locks", ORDER, "arrives", Bounds(2, resends=1)),
    Trap("replay_locks", "deliveries have their event", "commits", Bounds(1, replays=1)),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = DeliveryProtocol(rules, bounds)
    invariants = {
        ORDER: protocol.first_arrivals_are_in_order,
        UNSENT: protocol.nothing_goes_unsent,
        "newer numbers tell newer versions": protocol.newer_numbers_tell_newer_versions,
        "deliveries have their event": protocol.deliveries_have_their_event,
    }
    return explore(protocol.start(), protocol.steps, invariants)


@pytest.mark.parametrize("case", SOUND)
def test_whatever_dies_each_event_first_arrives_in_order(case: str) -> None:
    assert_sound(search(Rules(), SOUND[case]))


@pytest.mark.slow
@pytest.mark.parametrize("case", SOUND_AND_LARGE)
def test_whatever_dies_each_event_first_arrives_in_order_in_larger_bounds(case: str) -> None:
    assert_sound(search(Rules(), SOUND_AND_LARGE[case]))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_a_promise_breaks(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_the_relay_has_a_trap() -> None:
    assert {rule.name for rule in fields(Rules)} == {trap.rule for trap in TRAPS}
