"""Tasks that wait outside the graph: for a signal, a time, a child process. Pure.

A built-in task of these kinds runs once, when its inputs are there: it then waits outside. Whatever
it waits for comes as a visit with a key of its own, made by whoever sends it; both sides look after
their own insert is committed, so whoever comes last finds the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.errors import InvalidArguments
from mainspring.processes.commit.change import NewProcess, TaskChange, Waiting
from mainspring.processes.commit.start import Begin, Parent
from mainspring.processes.commit.task_input import TaskInput
from mainspring.processes.record.arguments import fill
from mainspring.tasks.declare.promise import Failure

LOCK = "@lock"
GRANT = "@lock/"  # with which the names of the signals begin that grant one
KINDS = frozenset({"@signal", "@sleep", "@process", LOCK})
# No timer is set further ahead: a hundred years.
MOST_SECONDS = 36_525 * 86_400.0


class _Signal(msgspec.Struct):
    name: str
    timeout: float | None = None
    now: bool = False  # one that is sent from here on


class _Sleep(msgspec.Struct):
    seconds: float | None = None
    until: datetime | None = None


class _Lock(msgspec.Struct):
    name: str


def lock_signal(task: str, generation: int) -> str:
    """The name of the signal by which a task is granted its lock: once for each time that it asks."""
    return f"{GRANT}{task}/{generation}"


class _Process(msgspec.Struct):
    type: str
    args: msgspec.Raw
    key: str | None = None
    attrs: dict[str, object] | None = None
    version: int = 1  # of the arguments
    at: datetime | None = None
    delay: float | None = None
    priority: int | None = None


def begin_waiting(task_input: TaskInput) -> TaskChange:
    """The task waits outside from here on. What came by a promise may be no time at all."""
    try:
        return _begin_waiting(task_input)
    except msgspec.ValidationError as error:
        raise InvalidArguments(f"{task_input.actor!r} cannot wait: {error}") from None


def _begin_waiting(task_input: TaskInput) -> TaskChange:
    change = TaskChange(task_input.process_id, task_input.task_id, "external", task_input.actor)
    change.generation, change.scope_id = task_input.generation, task_input.scope
    change.promise, change.outcome = None, None
    change.background = task_input.background
    args = fill(task_input.args, task_input.inputs)
    match task_input.actor:
        case "@signal":
            signal = msgspec.json.decode(args, type=_Signal)
            change.waiting = Waiting(
                "signal", signal.name, _checked(signal.timeout), now=signal.now
            )
        case "@sleep":
            sleep = msgspec.json.decode(args, type=_Sleep)
            if sleep.until is not None and sleep.until.tzinfo is None:
                raise InvalidArguments(f"a process cannot sleep until {sleep.until}: no time zone")
            change.waiting = Waiting("timer", None, _checked(sleep.seconds), sleep.until)
        case "@lock":
            if task_input.scope is None:
                raise InvalidArguments("'@lock' is in no scope: nothing would release it")
            signal_name = lock_signal(task_input.task_id, task_input.generation)
            lock = msgspec.json.decode(args, type=_Lock).name
            change.waiting = Waiting("signal", signal_name, lock=lock)
        case _:
            change.waiting = Waiting("child")
            change.child = _child(args, task_input)
    return change


def _checked(seconds: float | None) -> float | None:
    if seconds is not None and not 0 <= seconds <= MOST_SECONDS:
        raise InvalidArguments(
            f"a process cannot wait for {seconds:g} seconds: from 0 to {MOST_SECONDS:g} (100 years)"
        )
    return seconds


def _child(args: str, task_input: TaskInput) -> NewProcess:
    process = msgspec.json.decode(args, type=_Process)
    priority = task_input.background if process.priority is None else process.priority
    return NewProcess(
        process.type,
        process.key or task_input.task_id,
        bytes(process.args).decode(),
        msgspec.json.encode(process.attrs or {}).decode(),
        Parent(task_input.process_id, task_input.task_id, task_input.generation),
        process.version,
        Begin(process.at, process.delay, priority),
    )


class ExternalTask(NamedTuple):
    """A row of read_externals.sql: a task that waits outside, and how its child stands, if it has one."""

    process_id: str
    task: str
    kind: str
    name: str | None  # of a signal
    due_at: datetime | None
    promise: str
    generation: int
    scope_id: str | None
    state: str | None  # of the child, as the next three
    outcome: str | None
    result: str | None
    error: str | None
    actor: str
    since: int | None  # the last signal that it does not take, which came before it waited


class WaitingSignal(NamedTuple):
    """A row of read_signals.sql: a signal that nobody has taken."""

    process_id: str
    name: str
    id: str
    payload: str
    no: int
    again: bool  # taken once, and given back by a restart


def closing_of(
    waits: ExternalTask,
    signals: list[WaitingSignal],
    *,
    now: datetime,
    timers: Mapping[str, int | None],
) -> TaskChange | None:
    """What is there to close an external task with; None: nothing yet.

    A signal that was committed before the timer's decision wins; it is taken out of `signals`. `timers`
    are the tasks whose time has come, with the priority of what follows.
    """
    change = TaskChange(
        waits.process_id,
        waits.task,
        "done",
        waits.actor,
        promise=waits.promise,
        outcome="ok",
        generation=waits.generation,
        scope_id=waits.scope_id,
        was_external=True,
        background=timers.get(waits.task),
    )
    if waits.kind == "child":
        return _closed_by_child(change, waits)
    taken = (s for s in signals if waits.since is None or s.no > waits.since or s.again)
    if waits.kind == "signal" and (signal := next(taken, None)) is not None:
        signals.remove(signal)
        change.signal, change.result = (signal.name, signal.id), signal.payload
        return change
    if waits.due_at is None or waits.due_at > now or waits.task not in timers:
        return None
    if waits.kind == "signal":
        text = f"no signal {waits.name!r} came in time"
        return _failing(change, Failure("mainspring.errors.SignalTimeout", text, cause=waits.task))
    return change


def _closed_by_child(change: TaskChange, waits: ExternalTask) -> TaskChange | None:
    if waits.state == "cancelled":
        text = "the child process was cancelled"
        return _failing(
            change, Failure("mainspring.errors.ProcessCancelled", text, cause=waits.task)
        )
    if waits.state != "finished":
        return None
    if waits.outcome == "err":
        if waits.error:
            return _failing(change, msgspec.json.decode(waits.error, type=Failure))
        return _failing(change, Failure("unknown", "no error was kept", cause=waits.task))
    return msgspec.structs.replace(change, outcome=waits.outcome, result=waits.result)


def _failing(change: TaskChange, error: Failure) -> TaskChange:
    return msgspec.structs.replace(change, outcome="err", error=error)
