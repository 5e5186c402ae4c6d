"""A queue's limit kept by parts, searched: kept with every rule on, lost with any one off."""

from dataclasses import fields

import pytest
from explorer import Report, explore
from parts_protocol import Bounds, PartsProtocol, Rules, State
from traps import Trap, assert_sound, by_rule

TOO_MANY = "runs keep the limit"
LEFT = "no part outlives its worker"
TRAPS = [
    Trap("read_under_queue_lock", "parts add up", "which wants more, asks for 2", Bounds(losses=0)),
    Trap("shrink_memory_first", TOO_MANY, "starts, 2 running", Bounds(losses=0)),
    Trap("grow_with_the_answer", TOO_MANY, "it is rolled back", Bounds()),
    Trap("what_runs_is_kept", TOO_MANY, "A1, which wants none, asks for 0", Bounds(losses=0)),
    Trap("counted_again_at_the_shrink", TOO_MANY, "A1, which wants none", Bounds(losses=0)),
    Trap("part_needs_worker_row", LEFT, "B1 takes over from A1", Bounds(failures=1)),
    Trap("parts_go_with_worker_row", LEFT, "B1 takes over from A1", Bounds(failures=1)),
    Trap("fence_before_takeover", TOO_MANY, "takes over from", Bounds(losses=0)),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = PartsProtocol(rules, bounds)
    return explore(State(), protocol.steps, protocol.invariants())


@pytest.mark.parametrize(
    "bounds",
    [Bounds(), Bounds(limit=1), Bounds(limit=3, changes=6), Bounds(changes=4, failures=1)],
    ids=str,
)
def test_parts_keep_a_queues_limit(bounds: Bounds) -> None:
    assert_sound(search(Rules(), bounds))


@pytest.mark.slow
def test_parts_keep_a_queues_limit_in_larger_bounds() -> None:
    assert_sound(search(Rules(), Bounds(limit=3, changes=6, losses=2, failures=1)))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_parts_fail(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_the_parts_has_a_trap() -> None:
    rules = {rule.name for rule in fields(Rules)}

    assert rules == {trap.rule for trap in TRAPS}
