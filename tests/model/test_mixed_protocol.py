"""Mixed pools, searched: no queue and no turn has two owners, and none is left without one."""

from dataclasses import fields

import pytest
from explorer import Report
from liveness import explore_goals
from mixed_protocol import MixedProtocol, is_fault
from mixed_state import CRASHED, GONE, UP, Bounds, Code, Lease, Rules, State, Worker
from traps import Trap, assert_sound, by_rule

QUEUE = "a queue has one owner"
TURN = "a turn has one owner"
SHAPE = "a shard is whole or cut"
SERVED = "every band is served"
WHOLE = "one code is whole"
RUN = "a turn has one run"
SUSPECT = "a suspect is known as one"

ONE, OTHER = Code("xy"), Code("xz")
CANARY = (Code("x"), Code("xy"))
GROWN = (Code("xy", ("xy",)), Code("xyz", ("xyz",)))
SHRUNK = (Code("xy", ("xy",)), Code("y", ("xy",)))
OLD = Code("x", knows_bands=False)

SOUND = {
    "a canary with a new queue": Bounds(CANARY, losses=0),
    "a canary and a lost answer": Bounds(CANARY, failures=0),
    "a queue goes and one comes": Bounds((ONE, OTHER), failures=0, changes=2),
    "the same with one that fails": Bounds((ONE, OTHER), losses=0, changes=2),
    "two of the old, one canary": Bounds((Code("x"), *CANARY), up=2, losses=0),
    "the deploy is done": Bounds((*CANARY, Code("xy")), up=3, losses=0, failures=0),
    "services without a common queue": Bounds((Code("x"), Code("y")), losses=0),
    "a kind gets a stage": Bounds(GROWN),
    "a class that nobody has whole": Bounds((Code("xy", ("xy",)), Code("xz", ("xz",)))),
    "queues come to take turns": Bounds(
        (Code("xy"), Code("x"), Code("xy", ("xy",))), up=2, losses=0, failures=0
    ),
    "three codes": Bounds((Code("xyz"), Code("xy"), Code("x")), up=2, losses=0, failures=0),
    "the release before joins": Bounds((*CANARY, OLD), up=2, losses=0),
    "back to the release before": Bounds((*CANARY, OLD), up=2, losses=0, failures=0, changes=3),
    "one leaves amid a deploy": Bounds(CANARY, failures=0, leaving=1),
    "a stage is taken away amid a run": Bounds(SHRUNK, up=2, failures=0, changes=0, runs=2),
    "the same with a failure": Bounds(SHRUNK, up=2, losses=0, changes=0, runs=2),
    "a burial comes to nothing": Bounds(CANARY, up=2, losses=0, undone_burials=True, changes=0),
    "a service dies of a task": Bounds((Code("px"), Code("x")), losses=0, failures=0, read="px"),
    "the same beside two others": Bounds(
        (Code("p"), Code("x"), Code("xy")), losses=0, failures=0, read="p"
    ),
}

# The old code's worker has left, one of the two others is dead: the pool is to be whole.
CUT = Bounds((*CANARY, Code("xy")), up=3, failures=0, changes=0)
LEFT_BY_A = State(
    frozenset({Lease("x", "B1", 1), Lease("y", "B1", 2)}),
    frozenset({"B1", "C1"}),
    (Worker(GONE), Worker(CRASHED), Worker(UP)),
)

# A has died of a task; whoever is left has no code with p.
STARTS = {
    "a service dies of a task": State(
        frozenset({Lease("p", "A1", 1), Lease("x", "A1", 2)}),
        frozenset({"A1", "B1"}),
        (Worker(CRASHED), Worker(UP)),
        unlooked="px",
    ),
    "the same beside two others": State(
        frozenset({Lease("p", "A1", 1), Lease("x", "B1", 2), Lease("y", "C1", 3)}),
        frozenset({"A1", "B1", "C1"}),
        (
            Worker(CRASHED),
            Worker(UP, mine=frozenset({Lease("x", "B1", 2)})),
            Worker(UP, mine=frozenset({Lease("y", "C1", 3)})),
        ),
        unlooked="p",
    ),
}
ALONE, OTHERS = "a service dies of a task", "the same beside two others"

TRAPS = [
    Trap("owner_of_some_keeps_it", QUEUE, "recuts", SOUND["a kind gets a stage"]),
    Trap("merged_with_one_owner", QUEUE, "recuts", SOUND["the deploy is done"]),
    Trap("named_by_content", QUEUE, "sends a take", SOUND["three codes"]),
    Trap("whole_is_closed", SHAPE, "take of *", SOUND["the release before joins"]),
    Trap("turns_of_all_codes", TURN, "recuts", SOUND["queues come to take turns"]),
    Trap("only_targets_are_taken", TURN, "take", SOUND["queues come to take turns"]),
    Trap("pieces_meet", WHOLE, "recuts", SOUND["the deploy is done"]),
    Trap("workers_read_last", QUEUE, "reads who lives", SOUND["the same with one that fails"]),
    Trap("burial_waits_for_recut", SERVED, "during a recut", CUT, start=LEFT_BY_A),
    Trap("ownerless_are_free", SERVED, "buries", SOUND["the release before joins"]),
    Trap("whole_beside_old", WHOLE, "recuts", SOUND["the release before joins"]),
    Trap("whole_when_old_comes", SERVED, "joins", SOUND["the release before joins"]),
    Trap("last_one_opens", SERVED, "leaves", SOUND["back to the release before"]),
    Trap("part_may_take", SERVED, "joins", SOUND["a class that nobody has whole"]),
    Trap("memory_first", QUEUE, "give", SOUND["a queue goes and one comes"]),
    Trap("give_compares_epoch", QUEUE, "give", SOUND["a queue goes and one comes"]),
    Trap("adoption_draws_epoch", QUEUE, "give", SOUND["a queue goes and one comes"]),
    Trap("fenced_before_burial", QUEUE, "buries", SOUND["a queue goes and one comes"]),
    Trap("leaving_gives_again", SERVED, "recuts", SOUND["one leaves amid a deploy"]),
    Trap("held_turns_of_all_codes", RUN, "give", SOUND["a stage is taken away amid a run"]),
    Trap("rests_beside_burial", QUEUE, "is rolled back", SOUND["a burial comes to nothing"]),
    Trap("suspects_left_to_who_has_them", SUSPECT, "clears", SOUND[ALONE], start=STARTS[ALONE]),
    Trap("suspects_carried", SUSPECT, "recuts", SOUND[ALONE], start=STARTS[ALONE]),
    Trap("suspects_keep_a_piece", SUSPECT, "recuts", SOUND[OTHERS], start=STARTS[OTHERS]),
]


def search(rules: Rules, bounds: Bounds, start: State | None = None) -> Report:
    """What must never be, and what must always be possible."""
    protocol = MixedProtocol(rules, bounds)
    invariants = {
        QUEUE: protocol.one_owner_a_queue,
        TURN: protocol.one_owner_a_turn,
        SHAPE: protocol.whole_or_cut,
        RUN: protocol.one_run_a_turn,
        SUSPECT: protocol.suspects_known,
    }
    first = start or protocol.start()
    return explore_goals(first, protocol.steps, invariants, protocol.goals(), is_fault)


@pytest.mark.parametrize("case", SOUND)
def test_a_mixed_pool_is_served_and_exact(case: str) -> None:
    assert_sound(search(Rules(), SOUND[case], STARTS.get(case)))


@pytest.mark.parametrize("trap", TRAPS, ids=by_rule)
def test_without_this_rule_a_mixed_pool_fails(trap: Trap) -> None:
    trap.assert_caught(Rules(), search, trap.start)


def test_every_rule_of_mixed_pools_has_a_trap() -> None:
    assert {rule.name for rule in fields(Rules)} == {trap.rule for trap in TRAPS}
