"""A partition's offset, searched: every record once and none passed over, and not with any rule off."""

from dataclasses import fields

import pytest
from explorer import Report, explore
from offset_protocol import ONCE, ORDER, ORDERS, WHOLE, Bounds, OffsetProtocol, Rules, State
from traps import Trap, assert_sound, by_rule

CALM = Bounds(records=3, seeks=0, drops=0)
TRAPS = [
    Trap("compare_and_set", ORDER, "arrives", CALM),
    Trap("one_transaction", ONCE, "its effects", CALM),
    Trap("look_when_read_again", ONCE, "the operator moves it to 0", Bounds(drops=0)),
    Trap("reached_under_lock", ONCE, "the operator moves it to 0", Bounds(drops=0)),
    Trap("order_fences", ORDERS, "the operator orders earliest", Bounds(drops=0)),
    Trap("gone_stops", WHOLE, "the broker drops 0", Bounds(seeks=0)),
    Trap("batch_ends_before_bad", WHOLE, "sends 0 to 1", Bounds(seeks=0, drops=0, bad=0)),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = OffsetProtocol(rules, bounds)
    return explore(State(), protocol.steps, protocol.invariants())


@pytest.mark.parametrize(
    "bounds",
    [CALM, Bounds(), Bounds(records=3, seeks=0), Bounds(seeks=2, deaths=0), Bounds(bad=1)],
    ids=str,
)
def test_each_record_has_its_effects_once(bounds: Bounds) -> None:
    assert_sound(search(Rules(), bounds))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_offsets_fail(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_the_offset_has_a_trap() -> None:
    assert {rule.name for rule in fields(Rules)} == {trap.rule for trap in TRAPS}
