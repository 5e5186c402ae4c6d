"""The kernel's protocol, searched: sound with every rule on, broken with any one of them off.

A trap names the rule that is off, the invariant that then breaks, and the step of the trace that
shows why. A rule without a trap would be a rule that nobody can see the need of, or an explorer
that is blind to it, so the tests also ask that every rule has one.
"""

from dataclasses import fields
from typing import Any

import pytest
from explorer import Report, explore
from traps import Trap, assert_sound, by_rule
from visit_protocol import VisitProtocol
from visit_rules import Bounds, Rules
from visit_state import (
    DONE,
    FENCED,
    Lease,
    Row,
    Run,
    State,
    Statement,
    Used,
    Visit,
    Worker,
    memory_agrees_with_the_lease,
)

EMPTY = State()
ONE_QUEUE = (0,)
BOTH = frozenset({0, 1})
FIRST = frozenset({1})

# B1 has taken over from A1, whose last settle is still on its way; A is back as A2.
LATE_SETTLE = State(
    visits=(Visit(1, FIRST), None),
    lease=Lease("B1", 2),
    rows=(Row("A2"), Row("B1")),
    workers=(Worker("A2"), Worker("B1", epoch=2, loaded=True)),
    statements=frozenset({Statement("settle", 0, "A1", run=Run(1, 0, 1, FIRST, DONE))}),
    used=Used(offers=1, runs=1),
)
# A1 owns a shard with a visit that C1 held when it died; B comes up later.
DEAD_HOLDER = State(
    visits=(Visit(1, FIRST, run=1, holder="C1"), None),
    rows=(Row("A1"), Row("")),
    workers=(
        Worker("A1", epoch=1, loaded=True, foreign=frozenset({0})),
        Worker("B0", mode=FENCED),
    ),
    used=Used(offers=1, runs=1),
)


def search(rules: Rules, bounds: Bounds, start: State = EMPTY, **limits: Any) -> Report:
    protocol = VisitProtocol(rules, bounds)
    return explore(start, protocol.steps, protocol.invariants(), **limits)


# The visit protocol.

SOUND = {
    "answers lost, runs again": (EMPTY, Bounds(agains=1, runs=2)),
    "a crash": (EMPTY, Bounds(crashes=1, losses=0, takes=1)),
    "a fence": (EMPTY, Bounds(fences=1, losses=0, takes=1, runs=2, holds=0)),
    "a beat just in time": (
        EMPTY,
        Bounds(offers=1, late_beats=1, fences=1, losses=0, takes=1, runs=1),
    ),
    "a give": (EMPTY, Bounds(gives=1, losses=0, runs=2, takes=1)),
    "a give or take unanswered": (EMPTY, Bounds(gives=1, holds=0, runs=1, takes=1)),
    "gives there and back": (EMPTY, Bounds(offers=1, gives=2, losses=0, holds=0, runs=2)),
    "holds at start, a give": (
        EMPTY,
        Bounds(gives=1, losses=0, runs=2, hold_at_start=BOTH),
    ),
    "holds at start, answers lost": (EMPTY, Bounds(losses=2, runs=2, hold_at_start=BOTH)),
    "a late settle": (LATE_SETTLE, Bounds(gives=1, losses=0, takes=1, holds=0)),
    "a dead holder": (
        DEAD_HOLDER,
        Bounds(offers=1, gives=2, losses=0, holds=0, recovers=2, queues=ONE_QUEUE),
    ),
}

SOUND_AND_LARGE = {
    "two answers lost, runs again": (EMPTY, Bounds(losses=2, agains=1)),
    "three offers, a crash": (EMPTY, Bounds(offers=3, crashes=1, losses=0, takes=1)),
    "a crash, an answer lost": (EMPTY, Bounds(crashes=1, takes=1, runs=2)),
    "a fence, a give": (EMPTY, Bounds(fences=1, gives=1, losses=0, holds=0, runs=2, takes=1)),
    "a fence, a give, one queue": (
        EMPTY,
        Bounds(fences=1, gives=1, losses=0, runs=2, takes=1, queues=ONE_QUEUE),
    ),
    "two gives, an answer lost": (EMPTY, Bounds(offers=1, gives=2)),
    "a dead holder, two queues": (DEAD_HOLDER, Bounds(gives=1, losses=0, recovers=2)),
}

NO_HOLD_ENDS = "every hold ends"
TWO_RUNS = "a turn has one run"
TWO_OWNERS = "a shard has one owner"
NET = ("clear_forgotten_holds",)  # it ends what these rules keep from being forgotten

TRAPS = [
    Trap(
        "token_versions",
        "no offer is lost",
        "offer 2 to queue 0: version 1",
        Bounds(runs=2, queues=ONE_QUEUE),
    ),
    Trap(
        "offer_always_writes",
        "no offer is lost",
        "offer 2 to queue 0: version 1",
        Bounds(runs=2, losses=0, queues=ONE_QUEUE),
    ),
    Trap(
        "settle_respects_foreign_hold",
        TWO_RUNS,
        "server: settle of A1 for run 1: settled",
        Bounds(gives=1, losses=0, takes=1, holds=0),
        LATE_SETTLE,
    ),
    Trap(
        "clear_own_pass_when_superseded",
        NO_HOLD_ENDS,
        "settle of A1 for run 1: superseded",
        Bounds(losses=0, queues=ONE_QUEUE),
        also_off=NET,
    ),
    Trap(
        "client_drawn_pass",
        NO_HOLD_ENDS,
        "settle of A1 for run 1: held by another",
        Bounds(losses=0, queues=ONE_QUEUE),
        also_off=NET,
    ),
    Trap(
        "hold_matches_own_pass",
        NO_HOLD_ENDS,
        "hold of A1 for run 1: no row",
        Bounds(queues=ONE_QUEUE, hold_at_start=BOTH),
        also_off=NET,
    ),
    Trap(
        "clear_forgotten_holds",
        NO_HOLD_ENDS,
        "hold of A2 for run 2: held",
        Bounds(offers=1, runs=2, holds=2, losses=0, fences=1, takes=1, queues=ONE_QUEUE),
    ),
    Trap(
        "new_id_after_fence",
        NO_HOLD_ENDS,
        "A1 beats again under its old id",
        Bounds(losses=0, fences=1, queues=ONE_QUEUE),
        also_off=NET,
    ),
    Trap(
        "hold_before_give",
        TWO_RUNS,
        "give of A1: the shard is free, 0 held",
        Bounds(gives=1, losses=0),
    ),
    Trap(
        "give_counts_waiting_holds",
        TWO_RUNS,
        "hold of A1 for run 1: held",
        Bounds(gives=1, losses=0, hold_at_start=frozenset({0})),
    ),
    Trap(
        "drop_shard_before_give",
        TWO_RUNS,
        "give of A1: the shard is free, 0 held",
        Bounds(gives=1, losses=0),
    ),
    Trap("give_compares_epoch", TWO_OWNERS, "its give still on its way", Bounds(gives=1)),
    Trap("adopt_draws_epoch", TWO_OWNERS, "its give still on its way", Bounds(gives=1)),
    Trap(
        "answers_match_requests",
        TWO_OWNERS,
        "A1 hears that it has taken epoch 2",
        Bounds(offers=0, gives=2),
    ),
    Trap("load_held_after_take", TWO_RUNS, "the shard is free, 1 held", Bounds(gives=1, losses=0)),
    Trap(
        "load_in_later_statement",
        TWO_RUNS,
        "A1 sends a take, its snapshot shows held: none",
        Bounds(gives=2, takes=3, losses=0, holds=0, runs=2),
    ),
    Trap(
        "load_held_after_adopt",
        TWO_RUNS,
        "B1 finds the shard its own at a beat",
        Bounds(gives=1, holds=0),
    ),
    Trap(
        "take_locks_worker_row",
        "every shard can be taken",
        "A1 comes back as A2",
        Bounds(offers=0, losses=0, fences=1, gives=1),
    ),
    Trap(
        "compare_and_delete_takeover",
        TWO_OWNERS,
        "A1 beats just in time",
        Bounds(offers=0, losses=0, late_beats=1),
    ),
    Trap(
        "fence_before_takeover",
        TWO_OWNERS,
        "standing still, unfenced",
        Bounds(losses=0, holds=0),
    ),
    Trap(
        "recover_compares_pass",
        TWO_RUNS,
        "recover of A1 for run 1: hold of B1 cleared",
        Bounds(offers=1, gives=2, losses=0, holds=0, recovers=2, queues=ONE_QUEUE),
        DEAD_HOLDER,
    ),
]


@pytest.mark.parametrize("case", SOUND)
def test_the_visit_protocol_keeps_its_invariants(case: str) -> None:
    start, bounds = SOUND[case]

    assert_sound(search(Rules(), bounds, start))


@pytest.mark.slow
@pytest.mark.parametrize("case", SOUND_AND_LARGE)
def test_the_visit_protocol_keeps_its_invariants_in_larger_bounds(case: str) -> None:
    start, bounds = SOUND_AND_LARGE[case]

    assert_sound(search(Rules(), bounds, start))


@pytest.mark.slow
def test_the_first_states_of_everything_at_once_are_sound() -> None:
    """Too many states to finish: the nearest 80,000 of them."""
    bounds = Bounds(offers=3, runs=4, holds=2, agains=1, losses=2, crashes=1, fences=1, gives=2)

    report = search(Rules(), bounds, max_states=80_000)

    assert report.violation is None, report


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_the_visit_protocol_breaks(trap: Trap) -> None:
    trap.assert_caught(Rules(), search, trap.start or EMPTY)


def test_every_rule_of_the_visit_protocol_has_a_trap() -> None:
    switches = {rule.name for rule in fields(Rules) if rule.default is True}

    assert switches == {trap.rule for trap in TRAPS}


def test_a_late_fence_overlaps_runs_but_loses_nothing() -> None:
    """Leases are for exclusion alone: tokens decide what counts even when time is wrong."""
    protocol = VisitProtocol(
        Rules(fence_before_takeover=False),
        Bounds(losses=0, runs=2, takes=1, queues=ONE_QUEUE),
    )
    invariants = protocol.invariants()
    about_tokens = ("no offer is lost", "a version is consumed once")

    report = explore(EMPTY, protocol.steps, {name: invariants[name] for name in about_tokens})

    assert_sound(report)


def test_a_read_need_not_compare_the_lease() -> None:
    """What a worker believes to own is its own in the table, so the check never refuses."""
    bounds = Bounds(offers=1, gives=1, holds=0, runs=2, takes=2)
    states = set()
    for check in ("lease", "worker row", "nothing"):
        protocol = VisitProtocol(Rules(read_checks=check), bounds)
        agrees = {"memory agrees with the lease": memory_agrees_with_the_lease}

        report = explore(EMPTY, protocol.steps, protocol.invariants() | agrees)

        assert_sound(report)
        states.add(report.states)

    assert len(states) == 1


# The explorer itself.


def test_the_explorer_reports_a_shortest_trace() -> None:
    def count(state: int) -> list[tuple[str, int]]:
        return [("add one", state + 1), ("double", state * 2)]

    report = explore(1, count, {"below ten": lambda state: "too big" if state >= 10 else None})

    assert report.violation == "below ten: too big"
    assert len(report.trace) == 4
    assert str(report).splitlines()[1] == f"  1. {report.trace[0]}"


def test_the_explorer_says_when_it_stopped_early() -> None:
    report = explore(0, lambda state: [("add one", state + 1)], {}, max_states=10)

    assert not report.complete
    assert report.violation is None
