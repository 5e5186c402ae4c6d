"""A queue's limit kept by parts, searched: kept with every rule on, lost with any one off."""

from dataclasses import fields

import pytest
from explorer import Report, explore
from parts_protocol import Bounds, PartsProtocol, Rules, State
from traps import Trap, assert_sound, by_rule

TOO_MANY = "runs keep the limit"
TRAPS = [
    Trap(
        "check_under_queue_lock",
        "parts add up",
        "server: A1 wants 1: it has it",
        Bounds(losses=0),
    ),
    Trap(
        "shrink_memory_first",
        TOO_MANY,
        "A1 starts, 2 running",
        Bounds(losses=0),
    ),
    Trap(
        "shrink_after_running",
        TOO_MANY,
        "server: A1 wants 0: it has it",
        Bounds(losses=0),
    ),
    Trap(
        "change_compares_token",
        TOO_MANY,
        "server: A1 wants 1: it has it, nobody hears it",
        Bounds(),
    ),
    Trap(
        "reread_draws_token",
        TOO_MANY,
        "re-reads its part, 2, its ask still on its way",
        Bounds(),
    ),
    Trap(
        "grow_locks_worker_row",
        "no part outlives its worker",
        "B1 takes over from A1",
        Bounds(failures=1),
    ),
    Trap(
        "parts_go_with_worker_row",
        "no part outlives its worker",
        "B1 takes over from A1",
        Bounds(failures=1),
    ),
    Trap(
        "fence_before_takeover",
        TOO_MANY,
        "B1 takes over from A1",
        Bounds(losses=0),
    ),
]


def search(rules: Rules, bounds: Bounds) -> Report:
    protocol = PartsProtocol(rules, bounds)
    return explore(State(), protocol.steps, protocol.invariants())


@pytest.mark.parametrize("failures", [0, 1])
def test_parts_keep_a_queues_limit(failures: int) -> None:
    bounds = Bounds(changes=4 - failures, failures=failures)

    assert_sound(search(Rules(), bounds))


@pytest.mark.slow
def test_parts_keep_a_queues_limit_in_larger_bounds() -> None:
    bounds = Bounds(changes=4, failures=1)

    assert_sound(search(Rules(), bounds))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_parts_fail(trap: Trap) -> None:
    trap.assert_caught(Rules(), search)


def test_every_rule_of_the_parts_has_a_trap() -> None:
    rules = {rule.name for rule in fields(Rules)}

    assert rules == {trap.rule for trap in TRAPS}
