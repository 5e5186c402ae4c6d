"""What a decider records: calls, edges by kind, tail calls, scopes; and what it is not allowed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from deciders import application, record

import mainspring.testing
from mainspring.errors import (
    InvalidArguments,
    InvalidDecision,
    InvalidSetting,
    NoDecider,
    PayloadTooLarge,
    PromiseMisused,
)
from mainspring.processes.declare.decider_api import (
    Signal,
    gather,
    scope,
    set_attrs,
    sleep,
)
from mainspring.processes.declare.races import first_of
from mainspring.processes.record.arguments import read_holes
from mainspring.processes.record.decision import ChildTask, Recorded, validate
from mainspring.processes.record.map import decide_chunk, record_map
from mainspring.processes.record.recorder import Recorder
from mainspring.tasks.declare.promise import Failure, Outcome, Promise
from mainspring.tasks.declare.recording import recorder

app = application()


class Box(msgspec.Struct):
    item: str
    weight: float = 1.0


@app.task
def charge(order: int, amount: int = 1) -> int:
    return order


@app.task
def refund(order: int, receipt: Outcome[int]) -> None: ...


@app.task
def pack(item: str) -> Box:
    return Box(item)


@app.task
def send(boxes: list[Box], receipt: int) -> str:
    return "sent"


@app.task
def report(receipt: Outcome[int]) -> str:
    return "said"


@app.task
def keep(receipt: Promise[int]) -> str:
    return "kept"


@app.task
def apologise(failure: Failure, order: int) -> str:
    return "sorry"


def kinds(child: ChildTask) -> list[tuple[Any, str]]:
    return [(edge.promise, edge.kind) for edge in child.edges]


def test_a_call_is_recorded_and_not_run() -> None:
    """P1: a decider adds tasks."""

    def decider() -> Any:
        return charge(7, amount=3)

    decision = record(decider)

    assert decision == Recorded((ChildTask("charge", '{"order":7,"amount":3}'),), returned=0)
    assert validate(decision, ()) is None


def test_a_promise_as_argument_is_an_edge_whose_kind_the_parameter_says() -> None:
    """P1: T waits, Outcome[T] waits and catches, Promise[T] is the handle."""

    def decider() -> None:
        receipt = charge(7)
        send([pack("a"), pack("b")], receipt)
        report(receipt)
        keep(receipt)
        charge(8, after=[receipt])

    children = record(decider).children

    assert [c.actor for c in children] == [
        "charge", "pack", "pack", "send", "report", "keep", "charge",
    ]  # fmt: skip
    assert kinds(children[3]) == [(1, "value"), (2, "value"), (0, "value")]
    assert kinds(children[4]) == [(0, "outcome")]
    assert kinds(children[5]) == [(0, "handle")]
    assert kinds(children[6]) == [(0, "order")]
    assert read_holes(children[3].args) == [("value", 0), ("value", 1), ("value", 2)]
    assert read_holes(children[6].args) == []


def test_a_promise_given_in_two_ways_is_one_edge_of_the_stronger_kind() -> None:
    @app.task(name="both")
    def both(value: int, outcome: Outcome[int], handle: Promise[int]) -> None: ...

    def decider() -> None:
        receipt = charge(7)
        both(receipt, receipt, receipt, after=[receipt])  # type: ignore[arg-type]

    child = record(decider).children[1]

    assert kinds(child) == [(0, "value")]
    assert read_holes(child.args) == [("value", 0), ("outcome", 0), ("handle", 0)]


def test_arguments_are_checked_where_the_call_is_made() -> None:
    def wrong_type() -> None:
        send(["no box"], charge(1))  # type: ignore[list-item]

    def missing() -> None:
        send([], after=[charge(1)])

    def unknown() -> None:
        charge(1, amuont=3)

    def handle_of_a_value() -> None:
        keep(3)

    with pytest.raises(InvalidArguments, match="argument 'boxes' of 'send' does not fit its type"):
        record(wrong_type)
    with pytest.raises(InvalidArguments, match="the call of 'send' lacks receipt"):
        record(missing)
    with pytest.raises(InvalidArguments, match="amuont"):
        record(unknown)
    with pytest.raises(
        InvalidArguments, match="is a Promise: it takes the promise of a call, got int"
    ):
        record(handle_of_a_value)


def test_after_takes_promises() -> None:
    def decider() -> None:
        charge(1, after=["x"])

    with pytest.raises(InvalidArguments, match="after takes promises of calls, got str: 'x'"):
        record(decider)


def test_options_of_a_call_that_make_no_sense_in_a_process_are_refused() -> None:
    def decider() -> None:
        charge.options(key="once")(1)

    with pytest.raises(
        InvalidArguments, match=r"charge.options\(key=...\) does not apply in a decider"
    ):
        record(decider)


def test_options_of_a_call_are_recorded() -> None:
    def decider() -> None:
        charge.options(delay=timedelta(minutes=1), priority=8, group="shop-1")(1)

    child = record(decider).children[0]

    assert (child.delay, child.priority, child.group) == (60.0, 8, "shop-1")


def test_returning_a_promise_is_a_tail_call_and_a_value_is_a_result() -> None:
    """P15: a tail call moves the obligation, so loops need no space."""
    assert record(lambda: charge(1)).returned == 0
    assert record(lambda: [1, 2]).result == "[1,2]"
    assert record(lambda: None) == Recorded()


def test_a_promise_inside_a_result_is_refused() -> None:
    def decider() -> Any:
        return {"receipt": charge(1)}

    encode = charge.signature.encode_result
    records = Recorder(decider="decider")
    mark = recorder.set(records)
    returned = decider()
    recorder.reset(mark)

    with pytest.raises(InvalidArguments, match=r"return a promise alone, several as gather\(...\)"):
        records.conclude(returned, encode)


def test_a_handle_that_was_given_can_be_passed_on_and_returned() -> None:
    given: Promise[int] = Promise("01-id")

    decision = record(lambda: given, given={"01-id"})

    assert decision == Recorded(returned="01-id")
    assert kinds(record(lambda: report(given), given={"01-id"}).children[0]) == [
        ("01-id", "outcome")
    ]


def test_a_promise_that_was_not_given_is_refused() -> None:
    """Bad input: a promise of another process, or of another decision."""
    stolen: list[Promise[int]] = []
    record(lambda: stolen.append(charge(1)))

    with pytest.raises(PromiseMisused, match="was not given to this task"):
        record(lambda: report(Promise("99-id")))
    with pytest.raises(PromiseMisused, match=r"made by another decision.*Promise\[T\]"):
        record(lambda: report(stolen[0]))


def test_children_past_the_limit_are_refused_before_commit_and_the_limit_is_named() -> None:
    """Bad input: too wide a fan-out."""

    def decider() -> None:
        for n in range(11):
            charge(n)

    with pytest.raises(InvalidDecision, match=r"more than 10 tasks in one decision; use task.map"):
        record(decider, limit=10)


def test_a_call_after_the_decision_is_refused() -> None:
    records = Recorder(decider="order")
    records.conclude(None, lambda _: None)
    mark = recorder.set(records)

    with pytest.raises(NoDecider, match=r"charge\(...\) was called after order had decided"):
        charge(1)

    recorder.reset(mark)


def test_verbs_outside_a_decider_say_where_they_belong() -> None:
    advice = r"sleep\(...\) is for deciders: .* without a database use mainspring.testing.decide\("
    with pytest.raises(NoDecider, match=advice):
        sleep(3)
    assert callable(mainspring.testing.decide)  # what the advice names is there
    with pytest.raises(NoDecider, match=r"gather\(...\) is for deciders"):
        gather([])
    with pytest.raises(NoDecider, match="signal 'approved' is for deciders"):
        Signal("approved", bool).wait()


def test_gather_and_first_of_keep_the_order_and_a_repeated_promise() -> None:
    def decider() -> None:
        a, b = charge(1), charge(2)
        gather(a, b, a)
        gather([b, a])
        first_of(a, b)

    children = record(decider).children

    assert (children[2].args, kinds(children[2])) == (
        '{"of":[0,1,0]}',
        [(0, "value"), (1, "value")],
    )
    assert kinds(children[3]) == [(1, "value"), (0, "value")]
    assert kinds(children[4]) == [(0, "outcome"), (1, "outcome")]


def test_first_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="would never end"):
        record(lambda: first_of())


def test_timers_and_signals_are_recorded() -> None:
    """P15: durable timers, signals and human steps."""

    def decider() -> None:
        charge(1, after=[sleep(timedelta(hours=1))])
        Signal("approved", bool).wait(timeout=60)

    children = record(decider).children

    assert children[0] == ChildTask("@sleep", '{"seconds":3600.0}')
    assert children[2] == ChildTask("@signal", '{"name":"approved","timeout":60.0}')
    with pytest.raises(InvalidSetting, match="duration must be a timedelta or seconds, 0 or more"):
        record(lambda: sleep(-1))


def test_a_signal_checks_its_payload() -> None:
    approved = Signal("approved", bool)

    assert approved.encode(True) == "true"
    with pytest.raises(
        InvalidArguments, match="payload of signal 'approved' does not fit its type"
    ):
        approved.encode("yes")
    anything = Signal("anything", object)
    with pytest.raises(InvalidArguments, match="of signal 'anything' contains the character NUL"):
        anything.encode(["\x00"])
    with pytest.raises(InvalidArguments, match="of signal 'anything' contains NaN or an infinity"):
        anything.encode(float("inf"))
    with pytest.raises(PayloadTooLarge, match=r"of signal 'anything' is 3000002 bytes, the limit"):
        anything.encode("x" * 3_000_000)


def test_attributes_are_recorded_and_checked() -> None:
    """P12, P15: search attributes."""
    assert record(lambda: set_attrs(shop=7, vip=True)).attrs == {"shop": 7, "vip": True}
    with pytest.raises(
        InvalidArguments, match="attribute 'shop' must be a text, a number or a truth"
    ):
        record(lambda: set_attrs(shop=[7]))  # type: ignore[arg-type]


def test_a_scope_waits_for_all_that_is_in_it_and_has_a_promise() -> None:
    """P15: error scopes and compensation."""

    def decider() -> Any:
        with scope(timeout=60) as s:
            s.on_error(apologise, order=7)
            receipt = charge(7)
            receipt.compensate(refund, 7, receipt)
            pack("a")
            s.returns(receipt)
        return report(s.promise)

    decision = record(decider)

    assert validate(decision, ()) is None
    leave = decision.children[2]
    assert (leave.actor, leave.scope) == ("@leave", 0)
    assert kinds(leave) == [(0, "value"), (1, "order")]
    assert kinds(decision.children[3]) == [(2, "outcome")]
    assert decision.children[3].scope is None
    assert (decision.scopes[0].result, decision.scopes[0].timeout) == (2, 60.0)
    assert decision.scopes[0].on_error is not None
    assert read_holes(decision.scopes[0].on_error.args) == [("error", 0)]
    undo = decision.children[0].undo
    assert undo is not None
    assert (undo.actor, undo.takes_outcome) == ("refund", True)


def test_a_promise_made_in_a_scope_with_a_handler_leaves_it_by_the_scope() -> None:
    def use() -> None:
        with scope() as s:
            s.on_error(apologise, order=7)
            receipt = charge(7)
        send([], receipt)

    def give_back() -> Any:
        with scope() as s:
            s.on_error(apologise, order=7)
            return charge(7)

    for decider in (use, give_back):
        with pytest.raises(PromiseMisused, match=r"s.returns\(promise\)"):
            record(decider)


def test_scopes_nest() -> None:
    def decider() -> Any:
        with scope() as outer:
            with scope() as inner:
                inner.on_error(apologise, order=1)
                inner.returns(charge(1))
            outer.on_error(apologise, order=2)
            outer.returns(send([], inner.promise))
        return outer.promise

    decision = record(decider)

    assert validate(decision, ()) is None
    assert [s.parent for s in decision.scopes] == [None, 0]
    assert [c.scope for c in decision.children] == [1, 1, 0, 0]


def test_a_compensation_takes_plain_values_and_its_own_step() -> None:
    @app.task(name="takes_value")
    def takes_value(receipt: int) -> None: ...

    def foreign() -> None:
        other = charge(1)
        charge(2).compensate(refund, 2, other)

    def by_value() -> None:
        receipt = charge(2)
        receipt.compensate(takes_value, receipt)

    with pytest.raises(PromiseMisused, match="may take plain values and the promise of the step"):
        record(foreign)
    with pytest.raises(PromiseMisused, match=r"must be of the type Outcome\[T\]"):
        record(by_value)


def test_a_scope_is_used_as_a_block() -> None:
    def decider() -> None:
        with scope() as s:
            _ = s.promise

    with pytest.raises(PromiseMisused, match="after the scope's block has ended"):
        record(decider)


def test_map_makes_chunks_in_a_window_and_a_chunk_makes_calls() -> None:
    """P15: wide fan-out from one decision."""

    def decider() -> Any:
        found = recorder.get()
        assert isinstance(found, Recorder)
        return record_map(found, pack, [f"i{n}" for n in range(600)], {}, window=512)

    decision = record(decider)
    chunks = [c for c in decision.children if c.actor == "@map"]

    assert len(chunks) == 3
    assert [kinds(c) for c in chunks] == [[], [], [(0, "order")]]
    assert decision.children[3].actor == "@concat"
    assert decision.returned == 3
    part = decide_chunk(chunks[2].args)
    assert len(part.children) == 600 - 512 + 1
    assert part.children[0] == ChildTask("pack", '{"item":"i512"}')
    assert part.returned == 88
    assert validate(part, ()) is None


def test_map_of_a_promise_or_with_a_wrong_window_is_refused() -> None:
    def of_promise() -> None:
        record_map(recorder.get(), pack, charge(1), {}, window=None)  # type: ignore[arg-type]

    def wrong_window() -> None:
        record_map(recorder.get(), pack, ["a"], {}, window=0)  # type: ignore[arg-type]

    with pytest.raises(
        PromiseMisused, match="write a process that takes the list and maps over it"
    ):
        record(of_promise)
    with pytest.raises(InvalidSetting, match="window must be a whole number of 1 or more, got 0"):
        record(wrong_window)
