"""What a caller reads of a process that runs: its answers, its attributes and its progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from mainspring.db.sql import Steps, first
from mainspring.errors import NotFound
from mainspring.processes.declare.handle import Found
from mainspring.processes.declare.question import FoundAnswer, ProcessView
from mainspring.processes.record.sealed_values import opened_failure, opened_value
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.promise import Failure
from mainspring.tasks.declare.sealing import Sealing
from mainspring.tasks.declare.signature import Signature

_failure = msgspec.json.Decoder(Failure)


class ProcessOutcome(NamedTuple):
    """A row of read_process.sql."""

    state: str
    outcome: str | None  # of its first task, as the next two
    result: str | None  # JSON
    error: str | None  # JSON
    parked: str | None  # the actor of its first parked task, while there is no outcome
    parked_type: str | None
    parked_error: str | None


class AnswerRow(NamedTuple):
    """A row of read_answer.sql."""

    state: str
    taken: bool
    outcome: str | None
    result: str | None  # JSON
    error: str | None  # JSON


class ViewRow(NamedTuple):
    """A row of read_view.sql."""

    state: str
    attrs: str  # JSON
    done: int
    live: int
    parked: int
    waits_for: str  # JSON


def found_of(process: ProcessOutcome | None, signature: Callable[[], Signature]) -> Found:
    """A process as it stands. `signature`: that of its type, asked for where there is a result."""
    if process is None:
        return Found("unknown")
    failure, value, parked = None, None, None
    if process.error is not None:
        failure = opened_failure(signature().sealing, _failure.decode(process.error))
    if process.outcome == "ok":
        value = signature().decode_result(process.result)
    if process.parked is not None:
        text = process.parked_error or ""
        parked = f"{process.parked!r} is parked: {process.parked_type}: {text:.300}"
    return Found(process.state, process.outcome, value, failure, parked)


def answer_steps(
    process_id: str, name: str, id: str, sealing: Sealing | None
) -> Steps[FoundAnswer]:
    """How a question stands."""
    row = yield from first(SQL["read_answer"], AnswerRow, process_id=process_id, name=name, id=id)
    if row is None:
        raise NotFound(f"there is no process {process_id}: it was dropped by age")
    failure, result = None, row.result
    if row.error is not None:
        failure = opened_failure(sealing, _failure.decode(row.error))
    if result is not None:
        result = opened_value(sealing, result, f"the answer to {name!r}")
    return FoundAnswer(row.state, row.taken, row.outcome, result, failure)


def view_steps(process_id: str) -> Steps[ProcessView]:
    """What is seen of a process."""
    row = yield from first(SQL["read_view"], ViewRow, id=process_id)
    if row is None:
        raise NotFound(
            f"there is no process {process_id}: its start was not committed, or it was dropped by age"
        )
    attrs = msgspec.json.decode(row.attrs, type=dict[str, object])
    waits_for = msgspec.json.decode(row.waits_for, type=list[str])
    return ProcessView(row.state, attrs, row.done, row.live, row.parked, waits_for)
