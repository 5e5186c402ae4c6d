"""Starting a process: four rows in anyone's transaction, nothing locked (P6).

A generator of steps without I/O, walked by drivers as in tasks/enqueue/enqueue.py: the application's
own asyncpg connection, or the caller's psycopg one, sync or async.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.db.sql import Steps, first
from mainspring.errors import IdInUse
from mainspring.ids import new_id, new_ids
from mainspring.processes.commit.task_input import DEADLINE_AFTER
from mainspring.processes.commit.visits import (
    NewVisit,
    engine_of,
    engine_visit,
    insert_steps,
    task_visit,
)
from mainspring.processes.record.sealed_values import opened_value
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.sealing import Sealing


class Parent(msgspec.Struct, frozen=True):
    """The task of another process that waits for this one."""

    process_id: str
    task: str
    generation: int


class Begin(msgspec.Struct, frozen=True):
    """When a process begins, and with which priority: at once and as usual, unless told otherwise."""

    at: datetime | None = None
    delay: float | None = None  # seconds
    priority: int | None = None


NOW = Begin()


class Started(msgspec.Struct, frozen=True):
    """A process: just started, or found under the same key."""

    id: str
    is_new: bool


class InsertedProcess(NamedTuple):
    """A row of insert_process.sql."""

    id: str
    due_at: datetime | None  # None: at once
    look_at: datetime
    engine: str
    deadline_at: datetime | None


class ProcessOfKey(NamedTuple):
    """A row of find_process.sql."""

    id: str
    state: str
    start: str  # JSON


def start_steps(
    type: str,
    key: str | None,
    args: str,
    *,
    shard_count: int,
    attrs: str = "{}",
    args_version: int = 1,
    refuse_taken: bool = False,
    parent: Parent | None = None,
    begin: Begin = NOW,
    pool: str | None = None,
    sealing: Sealing | None = None,
) -> Steps[Started]:
    """Start a process of a type. A key that is taken answers the process that has it, or refuses;
    one that was started with other arguments is refused in any case. Without a pool, it is the one
    that was declared for the type."""
    started, visits = yield from insert_process(
        type,
        key,
        args,
        attrs=attrs,
        args_version=args_version,
        refuse_taken=refuse_taken,
        parent=parent,
        begin=begin,
        pool=pool,
        sealing=sealing,
    )
    yield from insert_steps(visits, shard_count)
    return started


def insert_process(
    type: str,
    key: str | None,
    args: str,
    *,
    attrs: str = "{}",
    args_version: int = 1,
    refuse_taken: bool = False,
    parent: Parent | None = None,
    begin: Begin = NOW,
    pool: str | None = None,
    sealing: Sealing | None = None,
) -> Steps[tuple[Started, list[NewVisit]]]:
    """The rows of a process; answers the visits that it needs, which are still to be inserted."""
    id, root = new_ids(2)
    fresh = yield from first(
        SQL["insert_process"],
        InsertedProcess,
        id=id,
        root=root,
        type=type,
        key=key if key is not None else id,
        start=args,
        attrs=attrs,
        engine=pool and engine_of(pool),
        args_version=args_version,
        at=begin.at,
        delay=begin.delay,
        parent_process=parent and parent.process_id,
        parent_task=parent and parent.task,
        parent_generation=parent and parent.generation,
    )
    if fresh is None:
        found = yield from first(SQL["find_process"], ProcessOfKey, type=type, key=key)
        return _existing(type, key, args, found, refuse_taken, sealing), []
    engine, deadline_at = fresh.engine, fresh.deadline_at
    visits = [
        task_visit(
            id,
            root,
            type,
            engine=engine,
            due_at=fresh.due_at,
            priority=begin.priority,
            deadline_at=deadline_at,
        ),
        engine_visit("look", id, id, id=new_id(), engine=engine, due_at=fresh.look_at),
    ]
    if deadline_at is not None:
        after = deadline_at + DEADLINE_AFTER
        visits.append(engine_visit("deadline", id, root, id=new_id(), engine=engine, due_at=after))
    return Started(id, True), visits


def _existing(
    type: str,
    key: str | None,
    args: str,
    found: ProcessOfKey | None,
    refuse_taken: bool,
    sealing: Sealing | None,
) -> Started:
    if found is None:
        raise IdInUse(
            f"the id {key!r} of process {type!r} was taken and is free again: start it once more"
        )
    if refuse_taken:
        raise IdInUse(
            f"process {type!r} with the id {key!r} was started before and is {found.state}; "
            "start it with another id"
        )
    what = f"the start of process {type!r} with the id {key!r}"
    start, asked = (opened_value(sealing, text, what) for text in (found.start, args))
    if names := _differing(msgspec.json.decode(start), msgspec.json.decode(asked)):
        raise IdInUse(
            f"process {type!r} with the id {key!r} was started before with other arguments "
            f"({', '.join(names)}), and is {found.state}; use another id"
        )
    return Started(found.id, False)


def _differing(one: dict[str, object], other: dict[str, object]) -> list[str]:
    """The arguments that differ. Their values are not for everybody who may start a process."""
    names = sorted({*one, *other})
    return [n for n in names if (n in one, one.get(n)) != (n in other, other.get(n))]
