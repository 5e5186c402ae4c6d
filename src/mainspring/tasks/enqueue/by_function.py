"""Enqueueing by the schema's functions: calls with keys, and all calls of roles that may not write visits.

The server has the rule for keys that are taken. For roles without rights on `mainspring.visit` it checks
all that a direct insert is trusted with. What is refused there becomes an error of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar, cast
from uuid import UUID

import asyncpg
import psycopg

from mainspring.db.sql import Steps, rows
from mainspring.errors import (
    AlreadyEnqueued,
    InvalidArguments,
    MainspringError,
    MissingRights,
    NotFound,
    QueueFull,
)
from mainspring.tasks.declare.handle import CallLookup, Handle
from mainspring.tasks.declare.task import Call, priority_of, spec_of, warn_if_large
from mainspring.tasks.declare.unique import REFUSED as REJECTED
from mainspring.tasks.declare.unique import Placed
from mainspring.tasks.statements import SQL

R = TypeVar("R")
MOST = 10_000  # the function takes no more at once
DENIED = (asyncpg.InsufficientPrivilegeError, psycopg.errors.InsufficientPrivilege)
FULL = (asyncpg.ProgramLimitExceededError, psycopg.errors.ProgramLimitExceeded)
REFUSED = (
    *(asyncpg.UndefinedObjectError, psycopg.errors.UndefinedObject),
    *(asyncpg.InvalidParameterValueError, psycopg.errors.InvalidParameterValue),
    *DENIED,
    *FULL,
)


class PlacedCall(NamedTuple):
    id: UUID
    key: str
    outcome: str


def by_function(calls: Sequence[Call[R]], lookup: CallLookup) -> Steps[list[Handle[R]]]:
    """What it asks of the database: a statement for every so many calls."""
    handles: list[Handle[R]] = []
    for start in range(0, len(calls), MOST):
        part = calls[start : start + MOST]
        found = yield from rows(SQL["enqueue_each"], PlacedCall, **place_values(part))
        handles += _handles(part, found, lookup)
    return handles


def by_place(
    calls: Sequence[Call[R]], lookup: CallLookup, ids: Sequence[str] | None
) -> Steps[list[Handle[R]]]:
    """The same with the role's own rights. `ids`: those that the caller has; then nobody is refused."""
    values = place_values(calls, ids)
    return _handles(calls, (yield from rows(SQL["place_all"], PlacedCall, **values)), lookup)


def _handles(
    calls: Sequence[Call[R]], found: Sequence[PlacedCall], lookup: CallLookup
) -> list[Handle[R]]:
    for call, row in zip(calls, found, strict=True):
        if row.outcome in REJECTED:
            _refuse(call, row, found)
        warn_if_large(call, str(row.id))
    return [
        Handle(call.task.name, row.key, str(row.id), cast("Placed", row.outcome), lookup)
        for call, row in zip(calls, found, strict=True)
    ]


def _refuse(call: Call[object], row: PlacedCall, found: Sequence[PlacedCall]) -> None:
    if row.outcome == "rejected":
        others = f"; none of the {len(found)} calls was enqueued" if len(found) > 1 else ""
        raise AlreadyEnqueued(
            f"task {call.task.name!r} has a call under the key {row.key!r} already, {row.id}{others}",
            task=call.task.name,
            key=row.key,
            id=str(row.id),
        )


def place_values(
    calls: Sequence[Call[object]], ids: Sequence[str] | None = None
) -> dict[str, object]:
    """The arguments of place_all.sql and enqueue_each.sql."""
    return {
        "queues": [call.task.name for call in calls],
        "payloads": [call.payload.decode() for call in calls],
        "due_ats": [call.options.at for call in calls],
        "delays": [call.options.delay for call in calls],
        "expires_ats": [call.options.expires_at for call in calls],
        "priorities": [priority_of(call.task, call.options) for call in calls],
        "groups": [call.options.group for call in calls],
        "keys": [call.options.key for call in calls],
        "ids": ids,
        "uniques": [spec_of(call, may_refuse=ids is None) for call in calls],
    }


def refusal(error: Exception) -> MainspringError:
    """The error of ours for one of REFUSED."""
    text = str(error).splitlines()[0]
    if isinstance(error, DENIED):
        return MissingRights(
            f"the role may not enqueue or ask for results: {text}; "
            "mainspring rights enqueue ROLE prints the grants"
        )
    if isinstance(error, FULL):
        return QueueFull(
            f"{text}; enqueue it again when some have run (mainspring queues limit --waiting-max sets "
            "how many may wait)"
        )
    if isinstance(error, asyncpg.UndefinedObjectError | psycopg.errors.UndefinedObject):
        return NotFound(
            f"{text}, or the role may not enqueue it; a worker or mainspring migrate module:app "
            "registers tasks, mainspring rights enqueue ROLE --queue TASK lets a role in"
        )
    return InvalidArguments(text)
