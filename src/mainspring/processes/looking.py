"""What a caller reads of a process that runs: its answers, its attributes and its progress."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from mainspring.db.sql import Steps, first
from mainspring.errors import NotFound
from mainspring.processes.declare.question import FoundAnswer, ProcessView
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.promise import Failure


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


def answer_steps(process_id: str, name: str, id: str) -> Steps[FoundAnswer]:
    """How a question stands."""
    row = yield from first(SQL["read_answer"], AnswerRow, process_id=process_id, name=name, id=id)
    if row is None:
        raise NotFound(f"there is no process {process_id}: it was dropped by age")
    failure = None if row.error is None else msgspec.json.decode(row.error, type=Failure)
    return FoundAnswer(row.state, row.taken, row.outcome, row.result, failure)


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
