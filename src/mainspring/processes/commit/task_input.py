"""Handing out: what a task is run with. One statement for all tasks that are asked for at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from mainspring.db.batcher import Batcher
from mainspring.db.sql import Steps, rows, words
from mainspring.kernel import BACKGROUND_BELOW, DEFAULT_PRIORITY, Visit
from mainspring.processes.connections import Lines
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.promise import Failure


class InputValue(msgspec.Struct, frozen=True):
    """What came of a promise that a task waits for or holds."""

    promise: str
    kind: str
    outcome: str | None = None
    result: str | None = None  # JSON
    error: Failure | None = None


class TaskOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a task is offered, kept in its row."""

    delay: float | None = None
    at: datetime | None = None
    priority: int | None = None
    group: str | None = None
    daemon: bool = False
    task_timeout: float | None = None
    on_task_timeout: str | None = None
    shielded: bool = False  # an undo: not cancelled with its scope


class TaskInput(msgspec.Struct, frozen=True):
    """A task as it is handed out."""

    process_id: str
    task_id: str
    promise: str
    actor: str
    state: str
    generation: int
    args: str
    args_version: int
    scope: str | None
    step: int
    inputs: tuple[InputValue, ...]
    attempt: int = 1
    priority: int | None = None  # that its call asked for
    # The priority at which what it sets in motion waits, unless told otherwise (see in_background).
    background: int | None = None
    is_undo: bool = False

    @property
    def failed_input(self) -> InputValue | None:
        """The first input whose error stops this task. A compensation that was given up stops no other."""
        stopping = ("value",) if self.is_undo else ("value", "order")
        for given in self.inputs:
            if given.outcome == "err" and given.kind in stopping:
                return given
        return None


class _RawInput(msgspec.Struct, frozen=True, array_like=True):
    promise: str
    kind: str
    outcome: str | None
    result: msgspec.Raw
    error: Failure | None


_inputs = msgspec.json.Decoder(tuple[_RawInput, ...])
_options = msgspec.json.Decoder(TaskOptions)
NO_OPTIONS = TaskOptions()
ENDED = ("done", "cancelled", "superseded")  # states of tasks that are not run any more
# A run that began before its task's timeout is held by then, so that the engine can tell it from none.
DEADLINE_AFTER = timedelta(seconds=2)


def deadline_of(options: TaskOptions, now: datetime) -> datetime | None:
    """The task timeout counts from the first queueing, queue time included (P4)."""
    if options.task_timeout is None:
        return None
    return now + timedelta(seconds=options.task_timeout)


def decode_options(text: str | None) -> TaskOptions:
    """A task's options, as its row has them."""
    return NO_OPTIONS if text is None else _options.decode(text)


class StoredTask(NamedTuple):
    """A row of read_tasks.sql."""

    id: str
    process_id: str
    promise: str
    actor: str
    state: str
    generation: int
    args: str
    args_version: int
    scope_id: str | None
    step: int
    options: str | None
    inputs: str | None  # JSON


def task_input_of(row: StoredTask) -> TaskInput:
    """A task as it is handed out, from its row."""
    options = decode_options(row.options)
    return TaskInput(
        row.process_id,
        row.id,
        row.promise,
        row.actor,
        row.state,
        row.generation,
        row.args,
        row.args_version,
        row.scope_id,
        row.step,
        () if row.inputs is None else tuple(map(_input, _inputs.decode(row.inputs))),
        priority=options.priority,
        is_undo=options.shielded,
    )


def in_background(task_input: TaskInput, visit: Visit) -> TaskInput:
    """What is run in the background sets only background work in motion.

    Else a mass restart would give way to live work with its first step alone. A task whose own call
    asked for so low a priority is another matter: what waits for it does so as its own call says.
    """
    asked = DEFAULT_PRIORITY if task_input.priority is None else task_input.priority
    if visit.priority < min(BACKGROUND_BELOW, asked):
        return msgspec.structs.replace(task_input, background=visit.priority)
    return task_input


def _input(raw: _RawInput) -> InputValue:
    text = bytes(raw.result).decode()
    return InputValue(
        raw.promise, raw.kind, raw.outcome, None if text == "null" else text, raw.error
    )


def read_values(wanted: Sequence[tuple[str, str]]) -> dict[str, object]:
    """The arguments of read_tasks.sql for pairs of process and task."""
    return {"processes": words([p for p, _ in wanted]), "ids": words([t for _, t in wanted])}


def read_steps(wanted: Sequence[tuple[str, str]]) -> Steps[list[TaskInput]]:
    """What tasks are run with, by pairs of process and task; those that are there."""
    found = yield from rows(SQL["read_tasks"], StoredTask, **read_values(wanted))
    return list(map(task_input_of, found))


class TaskInputs:
    """Reads what tasks are handed out with: one read at a time, of all that were asked for meanwhile."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._batcher = Batcher(self._read)

    async def load(self, process_id: str, task: str) -> TaskInput | None:
        """The task as it stands; None if there is no such row."""
        return await self._batcher((process_id, task))

    async def close(self) -> None:
        """When the worker has stopped."""
        await self._batcher.close()

    async def _read(self, wanted: Sequence[tuple[str, str]]) -> list[TaskInput | None]:
        found = await self._lines.rows(SQL["read_tasks"], StoredTask, **read_values(wanted))
        by_id = {row.id: row for row in found}
        return [
            None if (row := by_id.get(task)) is None else task_input_of(row) for _, task in wanted
        ]
