"""Starting a process: four rows in anyone's transaction, nothing locked (P6).

A generator of steps without I/O, walked by drivers as in tasks/enqueue/enqueue.py: the application's
own asyncpg connection, or the caller's psycopg one, sync or async.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime
from typing import Any

import msgspec

from mainspring.db.sql import Statement
from mainspring.errors import IdInUse
from mainspring.kernel import KERNEL_SQL, new_id, new_ids
from mainspring.processes.commit.task_input import DEADLINE_AFTER
from mainspring.processes.commit.visits import engine_of, engine_visit, insert_values, task_visit
from mainspring.processes.statements import SQL

Step = tuple[Statement, dict[str, Any]]


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
) -> Generator[Step, list[Any], Started]:
    """Start a process of a type. A key that is taken answers the process that has it, or refuses;
    one that was started with other arguments is refused in any case. Without a pool, it is the one
    that was declared for the type."""
    id, root = new_ids(2)
    values = {
        "id": id,
        "root": root,
        "type": type,
        "key": key if key is not None else id,
        "start": args,
        "attrs": attrs,
        "engine": pool and engine_of(pool),
        "args_version": args_version,
        "at": begin.at,
        "delay": begin.delay,
        "parent_process": parent and parent.process_id,
        "parent_task": parent and parent.task,
        "parent_generation": parent and parent.generation,
    }
    fresh = yield SQL["insert_process"], values
    if not fresh:
        found = yield SQL["find_process"], {"type": type, "key": key}
        return _existing(type, key, args, found, refuse_taken)
    _, due_at, look_at, engine, deadline_at = fresh[0]
    first = task_visit(
        id,
        root,
        type,
        engine=engine,
        due_at=due_at,
        priority=begin.priority,
        deadline_at=deadline_at,
    )
    visits = [
        first,
        engine_visit("look", id, id, id=new_id(), engine=engine, due_at=look_at),
    ]
    if deadline_at is not None:
        after = deadline_at + DEADLINE_AFTER
        visits.append(engine_visit("deadline", id, root, id=new_id(), engine=engine, due_at=after))
    yield KERNEL_SQL["insert_new"], insert_values(visits, shard_count)
    return Started(id, True)


def _existing(
    type: str, key: str | None, args: str, found: list[Any], refuse_taken: bool
) -> Started:
    if not found:
        raise IdInUse(
            f"the id {key!r} of process {type!r} was taken and is free again: start it once more"
        )
    id, state, start = found[0]
    if refuse_taken:
        raise IdInUse(
            f"process {type!r} with the id {key!r} was started before and is {state}; "
            "start it with another id"
        )
    if msgspec.json.decode(start) != msgspec.json.decode(args):
        raise IdInUse(
            f"process {type!r} with the id {key!r} was started before with other arguments "
            f"({start[:200]}), and is {state}; use another id"
        )
    return Started(id, False)
