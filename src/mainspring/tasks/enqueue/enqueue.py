"""Enqueueing: visits from calls, one or many, on the application's connection or the caller's.

A call without a uniqueness key has a fresh id for a key and cannot conflict, so many of them are
copied in. A call with a key is inserted if the key is free; if it is taken, the call that has it is
answered and nothing else happens.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import psycopg

from mainspring.db.sql import Statement
from mainspring.kernel import (
    KERNEL_SQL,
    copy_asyncpg,
    copy_psycopg,
    copy_sync,
    grouped_key,
    new_ids,
    new_visit,
    shard_of,
    tokens,
)
from mainspring.tasks.declare.handle import CallLookup, Handle
from mainspring.tasks.declare.task import Call, CallOptions, Uniform, warn_if_large
from mainspring.tasks.enqueue.by_function import by_function
from mainspring.tasks.enqueue.copy_rows import Kind, Rows, priority

# From so many on, copying is faster than one insert of arrays.
COPY_FROM = 50


class CallBatch:
    """Calls on their way to the database."""

    def __init__(
        self, calls: Sequence[Call], shard_count: int, lookup: CallLookup, *, way: str = "all"
    ) -> None:
        self.way = way  # what the role may do: Database.enqueues
        self.shard_count = shard_count
        self.lookup = lookup
        self._count = len(calls)
        self._copies = True
        self._kinds = _kinds(calls)
        self.keyed = any(options.key is not None for _, options in self._kinds)
        self.calls = calls if self.is_copied() else calls[:]

    @cached_property
    def ids(self) -> list[str]:
        ids = new_ids(self._count)
        for call, id in zip(self.calls, ids, strict=True):
            warn_if_large(call, id)
        return ids

    @cached_property
    def keys(self) -> list[str]:
        return [_key(call.options, id) for call, id in zip(self.calls, self.ids, strict=True)]

    @cached_property
    def shards(self) -> list[int]:
        return [
            shard_of(call.options.group or key, self.shard_count)
            for call, key in zip(self.calls, self.keys, strict=True)
        ]

    @property
    def queues(self) -> list[str]:
        return sorted({task.name for task, _ in self._kinds})

    def is_copied(self) -> bool:
        return self._copies and not self.keyed and self._count >= COPY_FROM

    def fit(self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> CallBatch:
        """Copied texts are read in the encoding of the connection: in another one none are copied."""
        if self.is_copied() and connection.info.encoding != "utf-8":
            self._copies = False
            self.calls = self.calls[:]
        return self

    def needs_clock(self) -> bool:
        """Whether a due time depends on the database's clock; what is copied in is taken as it is."""
        copied = self.is_copied()
        return any(
            options.delay is not None or (copied and options.at is not None)
            for _, options in self._kinds
        )

    def due_at(self, options: CallOptions, now: datetime | None) -> datetime | None:
        if options.delay is not None:
            assert now is not None
            return now + options.delay
        return options.at

    def arrays(self, now: datetime | None) -> dict[str, list[Any]]:
        """The arguments of insert_new.sql."""
        calls = self.calls
        return {
            "shards": self.shards,
            "keys": self.keys,
            "queues": [call.task.name for call in calls],
            "ids": self.ids,
            "groups": [call.options.group for call in calls],
            "priorities": [priority(call.task, call.options) for call in calls],
            "due_ats": [self.due_at(call.options, now) for call in calls],
            "expires_ats": [call.options.expires_at for call in calls],
            "versions": list(tokens(len(calls))),
            "payloads": [call.payload.decode() for call in calls],
        }

    def rows(self, now: datetime | None) -> Rows:
        """What is copied in."""

        def due_at(options: CallOptions) -> datetime:
            assert now is not None
            return max(self.due_at(options, now) or now, now)

        wanted = None if now is None else due_at
        return Rows(self.calls, self._kinds, wanted, self.shard_count, self.lookup)

    def handles(self, inserted: set[str], taken: dict[tuple[str, str], str]) -> list[Handle[Any]]:
        """The handles, in the order of the calls."""
        found: list[Handle[Any]] = []
        for call, fresh, key in zip(self.calls, self.ids, self.keys, strict=True):
            is_new = fresh in inserted
            id = fresh if is_new else taken[call.task.name, key]
            found.append(Handle(call.task.name, key, id, is_new, self.lookup))
        return found

    def missing(self, inserted: set[str], taken: dict[tuple[str, str], str]) -> list[int]:
        """Calls that neither were inserted nor found: the one with their key ended in between."""
        return [
            n
            for n, (call, fresh, key) in enumerate(
                zip(self.calls, self.ids, self.keys, strict=True)
            )
            if fresh not in inserted and (call.task.name, key) not in taken
        ]


def _kinds(calls: Sequence[Call]) -> list[Kind]:
    """The tasks and options that occur: few, however many the calls are."""
    if isinstance(calls, Uniform):
        return [(calls.task, calls.options)]
    found = {(id(call.task), id(call.options)): (call.task, call.options) for call in calls}
    return list(found.values())


def _key(options: CallOptions, id: str) -> str:
    """The visit's key: the user's, or the call's own fresh id."""
    return id if options.key is None else grouped_key(options.group, options.key)


@dataclass(frozen=True, slots=True)
class Fetch:
    """Run a statement; answered by its rows."""

    statement: Statement
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy rows in."""

    columns: list[str]
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class AskTime:
    """Ask for the database's time; answered by it."""


def one(call: Call, shard_count: int, lookup: CallLookup) -> tuple[Handle[Any], dict[str, Any]]:
    """A call without a key: its handle, and the arguments of insert_one.sql."""
    options, queue = call.options, call.task.settings.name
    id, version = new_visit()
    shard = shard_of(options.group or id, shard_count)
    warn_if_large(call, id)
    values = {
        "shard": shard,
        "key": id,
        "queue": queue,
        "id": id,
        "grp": options.group,
        "priority": priority(call.task, options),
        "due_at": options.at,
        "delay": options.delay,
        "expires_at": options.expires_at,
        "version": version,
        "payload": call.payload.decode(),
    }
    return Handle(queue, id, id, True, lookup), values


def steps(batch: CallBatch) -> Generator[Fetch | Copy | AskTime, Any, list[Handle[Any]]]:
    """What enqueueing a batch asks of the database, one step after another, without doing any I/O."""
    is_one = len(batch.calls) == 1 and not batch.keyed
    if batch.way == "function" or (batch.way == "fresh" and not is_one and not batch.is_copied()):
        walk, rows = by_function(batch.calls, batch.lookup), None
        while True:
            try:
                statement, given = walk.send(rows)  # type: ignore[arg-type]
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            rows = yield Fetch(statement, given)
    if is_one:
        handle, values = one(batch.calls[0], batch.shard_count, batch.lookup)
        yield Fetch(KERNEL_SQL["insert_one"], values)
        return [handle]
    now: datetime | None = (yield AskTime()) if batch.needs_clock() else None
    if batch.is_copied():
        rows = batch.rows(now)
        yield Copy(rows.columns, rows.chunks())
        yield Fetch(KERNEL_SQL["wake"], {"queues": batch.queues})
        return rows.handles
    inserted = {
        str(row["id"]) for row in (yield Fetch(KERNEL_SQL["insert_new"], batch.arrays(now)))
    }
    taken: dict[tuple[str, str], str] = {}
    while missing := batch.missing(inserted, taken):
        taken |= _by_key((yield Fetch(KERNEL_SQL["find_visits"], _keys(batch, missing))))
        if missing := batch.missing(inserted, taken):
            # Whoever had the key was settled between the two statements: insert again.
            part = {name: [v[n] for n in missing] for name, v in batch.arrays(now).items()}
            inserted |= {str(row["id"]) for row in (yield Fetch(KERNEL_SQL["insert_new"], part))}
    return batch.handles(inserted, taken)


_NOW = "select mainspring.now() as now"


async def on_asyncpg(connection: Any, batch: CallBatch) -> list[Handle[Any]]:
    """Enqueue on an asyncpg connection of the application."""
    walk, answer = steps(batch), None
    while True:
        try:
            step = walk.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        match step:
            case Fetch(statement, values):
                answer = await connection.fetch(statement.numbered, *statement.arguments(values))
            case AskTime():
                answer = await connection.fetchval(_NOW)
            case Copy(columns, chunks):
                await copy_asyncpg(connection, columns, chunks)


async def on_psycopg(
    connection: psycopg.AsyncConnection[Any], batch: CallBatch
) -> list[Handle[Any]]:
    """Enqueue on the caller's async psycopg connection, in its transaction."""
    walk, answer = steps(batch.fit(connection)), None
    async with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        while True:
            try:
                step = walk.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            match step:
                case Fetch(statement, values):
                    await cursor.execute(statement.text, values)
                    answer = await cursor.fetchall() if cursor.description else []
                case AskTime():
                    answer = (await (await cursor.execute(_NOW)).fetchall())[0]["now"]
                case Copy(columns, chunks):
                    await copy_psycopg(cursor, columns, chunks)


def on_psycopg_sync(connection: psycopg.Connection[Any], batch: CallBatch) -> list[Handle[Any]]:
    """Enqueue on a sync psycopg connection, in its transaction."""
    walk, answer = steps(batch.fit(connection)), None
    with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        while True:
            try:
                step = walk.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            match step:
                case Fetch(statement, values):
                    cursor.execute(statement.text, values)
                    answer = cursor.fetchall() if cursor.description else []
                case AskTime():
                    answer = cursor.execute(_NOW).fetchall()[0]["now"]
                case Copy(columns, chunks):
                    copy_sync(cursor, columns, chunks)


def _by_key(rows: list[Any]) -> dict[tuple[str, str], str]:
    return {(row["queue"], row["key"]): str(row["id"]) for row in rows}


def _keys(batch: CallBatch, numbers: Sequence[int]) -> dict[str, list[Any]]:
    return {
        "shards": [batch.shards[n] for n in numbers],
        "keys": [batch.keys[n] for n in numbers],
        "queues": [batch.calls[n].task.name for n in numbers],
    }
