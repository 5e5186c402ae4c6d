"""What a decider decides, without a database: the calls that it records, and what it returns.

    decided = decide(order, 7, ["tea", "milk"])
    tea, milk, paid = decided.calls
    assert (tea.actor, tea.args) == ("price", {"item": "tea"})
    assert paid.args == {"order": 7, "prices": [tea, milk]}
    assert decided.returned is paid

A promise among the arguments of a call is shown as the call that it is of. Nothing is run: what a step
comes to is given to the decider that takes it, as its argument.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mainspring.ids import new_id
from mainspring.processes.declare.process import Process
from mainspring.processes.record.decision import Decision, Undo
from mainspring.processes.record.recorder import Recorder
from mainspring.tasks.declare.promise import Promise
from mainspring.tasks.declare.recording import recorder


@dataclass(eq=False)
class DecidedCall:
    """A step that the decider asks for. `args`: by name; `after`: what it waits for besides."""

    actor: str
    args: dict[str, Any] = field(default_factory=dict)
    after: list[object] = field(default_factory=list)
    undo: DecidedCall | None = None
    delay: float | None = None

    def __repr__(self) -> str:
        return f"<call of {self.actor} with {self.args!r}>"


@dataclass(eq=False)
class Decided:
    """What a decider decided: its calls in order, and what it returned."""

    calls: list[DecidedCall]
    returned: object  # the call (or the given promise) whose promise it returned; None: it returned a value
    value: Any
    attrs: dict[str, object]
    decision: Decision  # as it would be committed


def given(label: str = "given") -> Promise[Any]:
    """A promise that a decider is given, for a parameter of the type `Promise[T]`."""
    return Promise(new_id(), label)


def decide(process: Process[Any, Any], /, *args: Any, **kwargs: Any) -> Decided:
    """Run a decider as a worker does, with these arguments; what it raises is raised here.

    An `Outcome` parameter takes an `Outcome`, a `Promise` parameter a promise made by `given()`, and a
    context whatever the decider does with it. An async decider runs in an event loop of its own.
    """
    promises = {p.ref: p for p in (*args, *kwargs.values()) if isinstance(p, Promise)}
    records = Recorder([str(ref) for ref in promises], decider=process.name)
    mark = recorder.set(records)
    try:
        returned = process.function(*args, **kwargs)
        if inspect.iscoroutine(returned):
            returned = _run(returned)
    finally:
        recorder.reset(mark)
    decision = records.conclude(returned, process.signature.encode_result)
    calls = [DecidedCall(child.actor, delay=child.delay) for child in decision.children]

    def of(ref: int | str) -> object:
        return calls[ref] if isinstance(ref, int) else promises.get(ref, ref)

    for call, child in zip(calls, decision.children, strict=True):
        inputs = [of(edge.promise) for edge in child.edges]
        call.args = _filled(child.args, inputs)
        call.after = [of(edge.promise) for edge in child.edges if edge.kind == "order"]
        call.undo = None if child.undo is None else _undo(child.undo, call)
    is_promise = decision.returned is not None
    return Decided(
        calls,
        of(decision.returned) if decision.returned is not None else None,
        None if is_promise else returned,
        dict(decision.attrs or {}),
        decision,
    )


def _run(coroutine: Coroutine[Any, Any, object]) -> object:
    """In a thread of its own: the test may be in an event loop already."""
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(context.run, asyncio.run, coroutine).result()


def _undo(undo: Undo, step: DecidedCall) -> DecidedCall:
    return DecidedCall(undo.actor, _filled(undo.args, [step]))


def _filled(text: str, inputs: list[object]) -> dict[str, object]:
    """Arguments with the holes filled: by what stands for each promise."""
    found: dict[str, object] = msgspec.json.decode(text)
    word = found.pop("@", None)

    def fill(value: object) -> object:
        if isinstance(value, dict):
            return {name: fill(one) for name, one in value.items()}
        if isinstance(value, list):
            return [fill(one) for one in value]
        if word is not None and isinstance(value, str) and value.startswith(f"{word}:"):
            return inputs[int(value.rpartition(":")[2])]
        return value

    return {name: fill(value) for name, value in found.items()}
