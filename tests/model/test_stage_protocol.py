"""The protocol of stages, searched: sound with every rule on, broken with any one off."""

from dataclasses import fields

import pytest
from explorer import Report, explore
from stage_protocol import Bounds, Rules, StageProtocol, World
from traps import Trap, assert_sound, by_rule

SEEN, LOST, UNSOUND = "rest means seen", "no lost update", "saves are sound"
TRAPS = [
    Trap("due_gets_token", SEEN, "A's timer comes due", Bounds(write_x=1, timer=1)),
    Trap("load_after_read", SEEN, "outsider adds to n", Bounds(write_x=1, add_n=1)),
    Trap("own_by_version", SEEN, "saves low = 1", Bounds(write_x=2)),
    Trap("fields_united", SEEN, "outsider adds to n", Bounds(write_x=1, add_n=1)),
    Trap("ask_remembered", SEEN, "outsider replaces B's state", Bounds(cas=1)),
    Trap("save_offers", SEEN, "saves low = 1", Bounds(write_x=1)),
    Trap(
        "save_compares_version",
        LOST,
        "outsider adds to n",
        Bounds(write_x=1, add_n=1),
        also_off=("save_compares_xmin",),
    ),
    Trap("save_compares_xmin", LOST, "past the trigger", Bounds(write_x=1, bypass=1)),
    Trap("save_compares_state", LOST, "outsider replaces B's state", Bounds(write_x=1, cas=1)),
    Trap("state_save_locks_entity", UNSOUND, "sends its result", Bounds(write_x=2)),
    Trap("visit_locked_first", UNSOUND, "deletes A's visit", Bounds(write_x=1, drop_visit=1)),
    Trap("settle_compares_token", SEEN, "outsider writes x", Bounds(write_x=2)),
    Trap("driven_by_returning", SEEN, "vetoed", Bounds(write_x=1, veto=1)),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = StageProtocol(rules, bounds)
    return explore(World(), protocol.steps, protocol.invariants(), max_seconds=100)


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(write_x=1, veto=1),
        Bounds(cas=2, crash=1, resend=1),
        Bounds(recreate=1, crash=1),
        Bounds(write_x=1, bypass=1),
        Bounds(write_x=1, timer=1),
    ],
    ids=str,
)
def test_stages_lose_nothing(bounds: Bounds) -> None:
    assert_sound(search(Rules(), bounds))


@pytest.mark.slow
@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(write_x=2),
        Bounds(write_x=1, add_n=1),
        Bounds(write_x=1, cas=1),
        Bounds(write_x=1, crash=1, resend=1),
        Bounds(write_x=1, recreate=1),
    ],
    ids=str,
)
def test_stages_lose_nothing_in_larger_bounds(bounds: Bounds) -> None:
    assert_sound(search(Rules(), bounds))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_stages_fail(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_the_stages_has_a_trap() -> None:
    assert {rule.name for rule in fields(Rules)} == {trap.rule for trap in TRAPS}
