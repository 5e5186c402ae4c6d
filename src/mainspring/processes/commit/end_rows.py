"""Ends: what becomes of task rows, as the columns that end_tasks.sql takes."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import msgspec

from mainspring.db.literals import as_rows, documents, words
from mainspring.tasks.declare.promise import Failure


class TaskEnd(msgspec.Struct):
    """A task's new state, a promise's outcome, or both of one row."""

    process_id: str
    id: str
    state: str | None = None
    outcome: str | None = None
    result: str | None = None  # JSON
    error: Failure | None = None


def end_values(ends: Iterable[TaskEnd], *, parked_too: bool = True) -> dict[str, Any]:
    """The arguments of end_tasks.sql, in the order in which rows are locked."""
    listed = sorted(ends, key=attrgetter("id"))
    errors = [end.error for end in listed]
    return {
        "processes": words([end.process_id for end in listed]),
        "ids": words([end.id for end in listed]),
        "states": words([end.state or "NULL" for end in listed]),
        "outcomes": words([end.outcome or "NULL" for end in listed]),
        "results": documents([end.result or "null" for end in listed]),
        "errors": as_rows(errors) if any(errors) else None,
        "parked_too": parked_too,
    }
