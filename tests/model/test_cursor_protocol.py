"""The reader's cursor, searched: nothing hides with every rule on, something with any one off."""

from dataclasses import fields

import pytest
from cursor_protocol import Bounds, CursorProtocol, Rules
from explorer import Report, explore
from traps import Trap, assert_sound, by_rule

SOUND = {
    "equal times": Bounds(clock=2, keys="ab", returns=1),
    "late commits": Bounds(keys="a"),
    "notifications lost": Bounds(clock=2, keys="ab", lost_notes=2),
    "two levels": Bounds(clock=1),
}

SOUND_AND_LARGE = {
    "late commits, settles again": Bounds(keys="ab", lost_notes=2, returns=1),
    "two levels, a notification lost": Bounds(clock=2, lost_notes=1),
}

TRAPS = [
    Trap(
        "keyset_cursor",
        "nothing hides",
        "the read returns a",
        Bounds(keys="ab"),
    ),
    Trap(
        "cursor_per_level",
        "nothing hides",
        "the read returns a, c",
        Bounds(clock=2),
    ),
    Trap(
        "notifications_rewind",
        "nothing hides",
        "the read returns nothing",
        Bounds(keys="ab"),
    ),
    Trap(
        "merge_rewinds",
        "nothing hides",
        "the read returns nothing",
        Bounds(keys="ab"),
    ),
    Trap(
        "settle_answers_rewind",
        "nothing hides",
        "a is superseded",
        Bounds(keys="ab", returns=1),
    ),
    Trap(
        "settle_rewinds_to_the_end",
        "nothing hides",
        "the settle of a is answered",
        Bounds(keys="a", returns=1),
    ),
    Trap(
        "sweep_pages_past_hand",
        "a sweep finds the rest",
        "is lost",
        Bounds(keys="ab", lost_notes=1),
    ),
]


def search(
    rules: Rules,
    bounds: Bounds,
) -> Report:
    protocol = CursorProtocol(rules, bounds)
    invariants = {
        "nothing hides": protocol.nothing_hides,
        "a sweep finds the rest": protocol.a_sweep_finds_the_rest,
    }
    return explore(protocol.start(), protocol.steps, invariants)


@pytest.mark.parametrize("case", SOUND)
def test_no_due_visit_hides_behind_the_cursor(case: str) -> None:
    assert_sound(search(Rules(), SOUND[case]))


@pytest.mark.slow
@pytest.mark.parametrize("case", SOUND_AND_LARGE)
def test_no_due_visit_hides_behind_the_cursor_in_larger_bounds(case: str) -> None:
    assert_sound(search(Rules(), SOUND_AND_LARGE[case]))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_a_visit_hides(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_the_cursor_has_a_trap() -> None:
    rules = {rule.name for rule in fields(Rules)}

    assert rules == {trap.rule for trap in TRAPS}
