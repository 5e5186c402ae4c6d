"""Enqueueing by the schema's function: for roles that may not write or read `mainspring.visit`.

The server makes ids and keys and checks all that a direct insert is trusted with. What is refused there
becomes an error of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID

import asyncpg
import psycopg

from mainspring.db.sql import Steps, rows
from mainspring.errors import (
    InvalidArguments,
    MainspringError,
    MissingRights,
    NotFound,
    QueueFull,
)
from mainspring.tasks.declare.handle import CallLookup, Handle
from mainspring.tasks.declare.task import Call, priority_of, warn_if_large
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


class Enqueued(NamedTuple):
    id: UUID
    key: str
    is_new: bool


def by_function(calls: Sequence[Call[R]], lookup: CallLookup) -> Steps[list[Handle[R]]]:
    """What it asks of the database: a statement for every so many calls."""
    handles: list[Handle[R]] = []
    for start in range(0, len(calls), MOST):
        part = calls[start : start + MOST]
        found = yield from rows(SQL["enqueue_many"], Enqueued, **_values(part))
        for call, row in zip(part, found, strict=True):
            warn_if_large(call, id := str(row.id))
            handles.append(Handle(call.task.name, row.key, id, row.is_new, lookup))
    return handles


def _values(calls: Sequence[Call[object]]) -> dict[str, object]:
    return {
        "queues": [call.task.name for call in calls],
        "payloads": [call.payload.decode() for call in calls],
        "due_ats": [call.options.at for call in calls],
        "delays": [call.options.delay for call in calls],
        "expires_ats": [call.options.expires_at for call in calls],
        "priorities": [priority_of(call.task, call.options) for call in calls],
        "groups": [call.options.group for call in calls],
        "keys": [call.options.key for call in calls],
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
