"""Which decisions may be committed, and which failures are alike. Pure rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from deciders import application, record
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.processes.record.decision import (
    KINDS,
    ChildTask,
    Decision,
    Edge,
    Scope,
    Undo,
    fingerprint,
    validate,
)
from mainspring.processes.record.map import decide_chunk
from mainspring.tasks.declare.promise import Failure, Outcome, Promise

ours = ChildTask("work")

BAD: dict[str, tuple[Decision, str]] = {
    "foreign edge": (
        Decision((ChildTask("work", edges=(Edge("x", "value"),)),)),
        "the promise 'x', which this task was not given",
    ),
    "foreign return": (Decision(returned="x"), "returns the promise 'x', which this task was not given"),
    "later child": (
        Decision((ChildTask("work", edges=(Edge(1, "value"),)), ours)),
        "the promise of task 1, which the decision has not made before it",
    ),
    "itself": (Decision((ChildTask("work", edges=(Edge(0, "value"),)),)), "has not made before it"),
    "no such child": (Decision((ours,), returned=1), "returns the promise of task 1"),
    "unknown kind": (
        Decision((ours, ChildTask("work", edges=(Edge(0, "maybe"),)))),
        "an edge of the kind 'maybe'; it is one of value, outcome, order, handle",
    ),
    "two edges": (
        Decision((ours, ChildTask("work", edges=(Edge(0, "value"), Edge(0, "order"))))),
        "two edges on one promise",
    ),
    "priority": (Decision((ChildTask("work", priority=50),)), "has the priority 50, which is not 0 to 9"),
    "group": (Decision((ChildTask("work", group=""),)), "has a group of 0 bytes, not 1 to 255"),
    "unknown built-in": (Decision((ChildTask("@magic"),)), "has the actor '@magic', which is none"),
    "no actor": (Decision((ChildTask(""),)), "has the actor '', which is none"),
    "arguments": (Decision((ChildTask("work", "[1]"),)), "cannot be read as JSON"),
    "result": (Decision(result="{oops"), "the result cannot be read as JSON"),
    "two ends": (Decision((ours,), returned=0, result="1"), "one of them only"),
    "failed with children": (
        Decision((ours,), error=Failure("E", "e")),
        "those of a failed attempt never exist",
    ),
    "scope": (Decision((ChildTask("work", scope=0),)), "is in scope 0, which the decision does not open"),
    "scope's end": (Decision((ours,), (Scope(0),)), "ends with task 0, which is not in it"),
    "scope's parent": (
        Decision((ChildTask("@leave", scope=0),), (Scope(0, parent=0),)),
        "which is not opened before it",
    ),
    "hole": (
        Decision((ChildTask("work", '{"@":"0123456789abcdef01","a":"0123456789abcdef01:value:0"}'),)),
        "has a hole for input 0, and 0 inputs",
    ),
    "undo's hole": (
        Decision(
            (
                ChildTask(
                    "work",
                    undo=Undo("x", '{"@":"0123456789abcdef01","a":"0123456789abcdef01:outcome:0"}'),
                ),
            )
        ),
        "has a hole for input 0",
    ),
    "delay": (Decision((ChildTask("work", delay=-1.0),)), "the delay -1.0"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_decision_that_cannot_be_committed_is_an_error(name: str) -> None:
    """P1, P13: a decision is judged before anything of it is written, a remote one too."""
    decision, said = BAD[name]

    failure = validate(decision, given={"mine"})

    assert failure is not None
    assert said in failure.message
    assert failure.type == "mainspring.errors.InvalidDecision"


def test_a_decision_wider_than_the_limit_names_it() -> None:
    """Bad input: too wide a fan-out is refused before commit."""
    failure = validate(Decision((ours,) * 11), (), limit=10)

    assert failure is not None
    assert failure.message.startswith("the decision makes 11 tasks, the limit is 10; use task.map")


def test_what_a_task_was_given_may_be_named() -> None:
    edges = tuple(Edge(f"g{n}", kind) for n, kind in enumerate(KINDS))

    decision = Decision((ChildTask("work", edges=edges),), returned="g0")

    assert validate(decision, {"g0", "g1", "g2", "g3"}) is None


def test_a_decision_travels_as_json() -> None:
    decision = Decision(
        (ChildTask("work", '{"a":1}', (Edge("g", "outcome"),), delay=3.0, undo=Undo("x", "{}")),),
        (),
        {"shop": 7},
        returned=0,
    )

    assert Decision.decode(decision.encode()) == decision


app = application()


@app.task
def work(values: list[int], outcome: Outcome[int] | None, handle: list[Promise[int]]) -> int:
    return 0


@st.composite
def plans(draw: st.DrawFn) -> list[tuple[list[int], int | None, list[int], list[int]]]:
    """For each call: which earlier promises it takes as values, outcome, handles and order."""
    count = draw(st.integers(1, 12))
    plan = []
    for n in range(count):
        some = st.lists(st.integers(0, n - 1), max_size=3) if n else st.just([])
        one = st.none() | st.integers(0, n - 1) if n else st.none()
        plan.append((draw(some), draw(one), draw(some), draw(some)))
    return plan


@settings(max_examples=100, deadline=None)
@given(plans())
def test_whatever_a_decider_records_can_be_committed(
    plan: list[tuple[list[int], int | None, list[int], list[int]]],
) -> None:
    """P1: edges of recorded decisions go backwards, one a promise, of the strongest kind."""

    def decider() -> Any:
        made: list[Any] = []
        for values, outcome, handles, after in plan:
            caught = None if outcome is None else made[outcome]
            made.append(
                work(
                    [made[n] for n in values],
                    caught,
                    [made[n] for n in handles],
                    after=[made[n] for n in after],
                )
            )
        return made[-1]

    decision = record(decider)

    assert validate(decision, ()) is None
    for child, (values, outcome, handles, after) in zip(decision.children, plan, strict=True):
        expected: dict[int, str] = {}
        for kind, named in (
            ("handle", handles),
            ("order", after),
            ("outcome", [] if outcome is None else [outcome]),
            ("value", values),
        ):
            expected |= dict.fromkeys(named, kind)
        assert {edge.promise: edge.kind for edge in child.edges} == expected


# -- fingerprints


def failure(
    message: str, *, type: str = "ValueError", frame: str = "pay", line: int = 3
) -> Failure:
    return Failure(type, message, f'  File "/srv/shop/pay.py", line {line}, in {frame}\n    x()')


def test_failures_that_differ_by_values_are_alike() -> None:
    """P9, P10: parked tasks are grouped by the fingerprint of their error."""
    same = [
        failure("order 17 has no stock of 'tea'"),
        failure("order 4711 has no stock of 'coffee'", line=88),
    ]

    assert len({fingerprint("charge", f) for f in same}) == 1


def test_failures_that_differ_by_actor_type_text_or_place_are_not() -> None:
    prints = {
        fingerprint("charge", failure("order 1 is void")),
        fingerprint("ship", failure("order 1 is void")),
        fingerprint("charge", failure("order 1 is void", type="KeyError")),
        fingerprint("charge", failure("order 1 is late")),
        fingerprint("charge", failure("order 1 is void", frame="check")),
    }

    assert len(prints) == 5


def test_a_chunk_of_a_map_with_a_priority_that_nobody_reads_is_refused() -> None:
    """A remote decision may have made it."""
    with pytest.raises(msgspec.ValidationError, match="<= 9"):
        decide_chunk('{"actor": "work", "calls": [{}], "priority": 50}')
