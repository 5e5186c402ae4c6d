"""Tasks that wait outside the graph: for a signal, a time, a child process. Pure.

A built-in task of these kinds runs once, when its inputs are there: it then waits outside. Whatever
it waits for comes as a visit with a key of its own, made by whoever sends it; both sides look after
their own insert is committed, so whoever comes last finds the other.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec

from mainspring.errors import InvalidArguments
from mainspring.processes.commit.change import NewProcess, TaskChange, Waiting
from mainspring.processes.commit.start import Begin, Parent
from mainspring.processes.commit.task_input import TaskInput
from mainspring.processes.record.arguments import fill
from mainspring.tasks.declare.promise import Failure

KINDS = frozenset({"@signal", "@sleep", "@process"})
# No timer is set further ahead: a hundred years.
MOST_SECONDS = 36_525 * 86_400.0


class _Signal(msgspec.Struct):
    name: str
    timeout: float | None = None


class _Sleep(msgspec.Struct):
    seconds: float | None = None
    until: datetime | None = None


class _Process(msgspec.Struct):
    type: str
    args: msgspec.Raw
    key: str | None = None
    attrs: dict[str, Any] | None = None
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
            change.waiting = Waiting("signal", signal.name, _checked(signal.timeout))
        case "@sleep":
            sleep = msgspec.json.decode(args, type=_Sleep)
            if sleep.until is not None and sleep.until.tzinfo is None:
                raise InvalidArguments(f"a process cannot sleep until {sleep.until}: no time zone")
            change.waiting = Waiting("timer", None, _checked(sleep.seconds), sleep.until)
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


def closing_of(
    row: Any, signals: list[Any], *, now: datetime, timers: Collection[str]
) -> TaskChange | None:
    """What is there to close an external task with (a row of read_externals.sql); None: nothing yet.

    A signal that was committed before the timer's decision wins; it is taken out of `signals`.
    """
    process_id, task, kind, name, due_at, promise, generation, scope = row[:8]
    change = TaskChange(process_id, task, "done", row[12], promise=promise, outcome="ok")
    change.generation, change.scope_id, change.was_external = generation, scope, True
    is_over = due_at is not None and due_at <= now and task in timers
    if kind == "child":
        return _closed_by_child(change, row)
    if kind == "signal" and signals:
        _, _, id, payload = signals.pop(0)
        change.signal, change.result = (name, id), payload
        return change
    if not is_over:
        return None
    if kind == "signal":
        change.outcome = "err"
        change.error = Failure(
            "mainspring.errors.SignalTimeout", f"no signal {name!r} came in time", cause=task
        )
    return change


def _closed_by_child(change: TaskChange, row: Any) -> TaskChange | None:
    state, outcome, result, error = row[8:12]
    if state == "finished":
        change.outcome, change.result = outcome, result
        if outcome == "err":
            failure = msgspec.json.decode(error, type=Failure) if error else None
            change.error = failure or Failure("unknown", "no error was kept", cause=change.task)
        return change
    if state == "cancelled":
        change.outcome = "err"
        change.error = Failure(
            "mainspring.errors.ProcessCancelled",
            "the child process was cancelled",
            cause=change.task,
        )
        return change
    return None
