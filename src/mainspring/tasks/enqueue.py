"""Enqueueing: visits from calls, one or many, on the application's connection or the caller's.

A call without a uniqueness key has a fresh id for a key and cannot conflict, so many of them are
copied in. A call with a key is inserted if the key is free; if it is taken, the call that has it is
answered and nothing else happens.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, LiteralString

import psycopg

from mainspring.db.sql import Statement
from mainspring.kernel.store import SQL
from mainspring.kernel.visit import (
    grouped_key,
    new_id,
    new_ids,
    rising_ids,
    shard_of,
    token,
    tokens,
)
from mainspring.tasks.handle import Handle, Lookup
from mainspring.tasks.signature import PAYLOAD_WARNING_BYTES
from mainspring.tasks.task import Call, Options, Task, Uniform

log = logging.getLogger("mainspring")

# From so many on, copying is faster than one insert of arrays.
COPY_FROM = 50
COPY_LINES = 500


def warn_if_large(call: Call, id: str) -> None:
    if len(call.payload) > PAYLOAD_WARNING_BYTES:
        size = len(call.payload)
        log.warning("payload.large", extra={"task": call.task.name, "bytes": size, "id": id})


class Batch:
    """Calls on their way to the database.

    Those that are copied in are checked, named and written while the server takes in the lines before.
    """

    def __init__(self, calls: Sequence[Call], shard_count: int, lookup: Lookup) -> None:
        self.shard_count = shard_count
        self.lookup = lookup
        self._count = len(calls)
        self._kinds = _kinds(calls)
        self.keyed = any(options.key is not None for _, options in self._kinds)
        self.calls = calls if self.is_copied() else calls[:]
        self._copied: list[Handle[Any]] = []  # of the lines that were made

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
        return not self.keyed and self._count >= COPY_FROM

    def needs_clock(self) -> bool:
        """Whether a due time depends on the database's clock; what is copied in is taken as it is."""
        copied = self.is_copied()
        return any(
            options.delay is not None or (copied and options.at is not None)
            for _, options in self._kinds
        )

    def due_at(self, options: Options, now: datetime | None) -> datetime | None:
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
            "priorities": [_priority(call) for call in calls],
            "due_ats": [self.due_at(call.options, now) for call in calls],
            "expires_ats": [call.options.expires_at for call in calls],
            "versions": list(tokens(len(calls))),
            "payloads": [call.payload.decode() for call in calls],
        }

    def copied(self, now: datetime | None) -> tuple[list[str], Iterator[bytes]]:
        """Columns and text to be copied in; what is not named is left to its default (due now)."""
        extra: dict[str, Callable[[Options], str]] = {}
        if any(options.expires_at is not None for _, options in self._kinds):
            extra["expires_at"] = lambda options: _text(options.expires_at)
        if any(options.group is not None for _, options in self._kinds):
            extra["grp"] = lambda options: _text(options.group)
        if now is not None:
            extra["due_at"] = lambda options: _text(max(self.due_at(options, now) or now, now))
        columns = ["shard", "key", "queue", "id", "priority", "version", "payload"]
        return [*columns, *extra], self._lines(list(extra.values()))

    def _lines(self, extra: list[Callable[[Options], str]]) -> Iterator[bytes]:
        """Lines in COPY's text form, in chunks. Only groups and payloads can need an escape."""
        handles, lookup, shard_count = self._copied, self.lookup, self.shard_count
        ids = rising_ids(self._count)
        for start in range(0, self._count, COPY_LINES):
            part = self.calls[start : start + COPY_LINES]
            lines = []
            for call, id, version in zip(part, ids, tokens(len(part)), strict=False):
                warn_if_large(call, id)
                options, queue = call.options, call.task.settings.name
                shard = shard_of(options.group or id, shard_count)
                payload = call.payload.decode()
                if "\\" in payload:
                    payload = payload.replace("\\", "\\\\")
                line = f"{shard}\t{id}\t{queue}\t{id}\t{_priority(call)}\t{version}\t{payload}"
                for text in extra:
                    line += "\t" + text(options)
                lines.append(line)
                handles.append(Handle(queue, id, id, shard, True, lookup))
            lines.append("")
            yield "\n".join(lines).encode()

    def copied_handles(self) -> list[Handle[Any]]:
        """The handles of calls that were copied in, in their order."""
        return self._copied

    def handles(self, inserted: set[str], taken: dict[tuple[str, str], str]) -> list[Handle[Any]]:
        """The handles, in the order of the calls."""
        found: list[Handle[Any]] = []
        for call, fresh, key, shard in zip(
            self.calls, self.ids, self.keys, self.shards, strict=True
        ):
            is_new = fresh in inserted
            id = fresh if is_new else taken[call.task.name, key]
            found.append(Handle(call.task.name, key, id, shard, is_new, self.lookup))
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


def _kinds(calls: Sequence[Call]) -> list[tuple[Task[Any, Any], Options]]:
    """The tasks and options that occur: few, however many the calls are."""
    if isinstance(calls, Uniform):
        return [(calls.task, calls.options)]
    found = {(id(call.task), id(call.options)): (call.task, call.options) for call in calls}
    return list(found.values())


_NULL = "\\N"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _text(value: datetime | str | None) -> str:
    """A value in COPY's text form."""
    if value is None:
        return _NULL
    return value.isoformat() if isinstance(value, datetime) else value.translate(_ESCAPES)


def _key(options: Options, id: str) -> str:
    """The visit's key: the user's, or the call's own fresh id."""
    return id if options.key is None else grouped_key(options.group, options.key)


def _priority(call: Call) -> int:
    chosen = call.options.priority
    return call.task.settings.priority if chosen is None else chosen


@dataclass(frozen=True, slots=True)
class Fetch:
    """Run a statement; answered by its rows."""

    statement: Statement
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy rows in."""

    columns: list[str]
    lines: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Clock:
    """Ask for the database's time; answered by it."""


def one(call: Call, shard_count: int, lookup: Lookup) -> tuple[Handle[Any], dict[str, Any]]:
    """A call without a key: its handle, and the arguments of insert_one.sql."""
    options, queue, id = call.options, call.task.settings.name, new_id()
    shard = shard_of(options.group or id, shard_count)
    warn_if_large(call, id)
    values = {
        "shard": shard,
        "key": id,
        "queue": queue,
        "id": id,
        "grp": options.group,
        "priority": _priority(call),
        "due_at": options.at,
        "delay": options.delay,
        "expires_at": options.expires_at,
        "version": token(),
        "payload": call.payload.decode(),
    }
    return Handle(queue, id, id, shard, True, lookup), values


def steps(batch: Batch) -> Generator[Fetch | Copy | Clock, Any, list[Handle[Any]]]:
    """What enqueueing a batch asks of the database, one step after another, without doing any I/O."""
    if len(batch.calls) == 1 and not batch.keyed:
        handle, values = one(batch.calls[0], batch.shard_count, batch.lookup)
        yield Fetch(SQL["insert_one"], values)
        return [handle]
    now: datetime | None = (yield Clock()) if batch.needs_clock() else None
    if batch.is_copied():
        yield Copy(*batch.copied(now))
        yield Fetch(SQL["wake"], {"queues": batch.queues})
        return batch.copied_handles()
    else:
        rows = yield Fetch(SQL["insert_new"], batch.arrays(now))
    inserted = {str(row["id"]) for row in rows}
    taken: dict[tuple[str, str], str] = {}
    while missing := batch.missing(inserted, taken):
        taken |= _by_key((yield Fetch(SQL["find_visits"], _keys(batch, missing))))
        if missing := batch.missing(inserted, taken):
            # Whoever had the key was settled between the two statements: insert again.
            part = {name: [v[n] for n in missing] for name, v in batch.arrays(now).items()}
            inserted |= {str(row["id"]) for row in (yield Fetch(SQL["insert_new"], part))}
    return batch.handles(inserted, taken)


def _copy(columns: list[str]) -> LiteralString:
    # Columns are ours, from a fixed list; values never enter the text.
    return f"copy mainspring.visit ({', '.join(columns)}) from stdin"


_NOW = "select mainspring.now() as now"


async def _chunks(lines: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in lines:
        yield chunk


async def on_asyncpg(connection: Any, batch: Batch) -> list[Handle[Any]]:
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
            case Clock():
                answer = await connection.fetchval(_NOW)
            case Copy(columns, lines):
                answer = await connection.copy_to_table(
                    "visit", schema_name="mainspring", columns=columns, source=_chunks(lines)
                )


async def on_psycopg(connection: psycopg.AsyncConnection[Any], batch: Batch) -> list[Handle[Any]]:
    """Enqueue on the caller's async psycopg connection, in its transaction."""
    walk, answer = steps(batch), None
    async with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        while True:
            try:
                step = walk.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            match step:
                case Fetch(statement, values):
                    await cursor.execute(statement.text, values)
                    answer = await cursor.fetchall()
                case Clock():
                    answer = (await (await cursor.execute(_NOW)).fetchall())[0]["now"]
                case Copy(columns, lines):
                    async with cursor.copy(_copy(columns)) as copy:
                        for chunk in lines:
                            await copy.write(chunk)


def on_psycopg_sync(connection: psycopg.Connection[Any], batch: Batch) -> list[Handle[Any]]:
    """Enqueue on a sync psycopg connection, in its transaction."""
    walk, answer = steps(batch), None
    with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        while True:
            try:
                step = walk.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            match step:
                case Fetch(statement, values):
                    answer = cursor.execute(statement.text, values).fetchall()
                case Clock():
                    answer = cursor.execute(_NOW).fetchall()[0]["now"]
                case Copy(columns, lines):
                    with cursor.copy(_copy(columns)) as copy:
                        for chunk in lines:
                            copy.write(chunk)


def _by_key(rows: list[Any]) -> dict[tuple[str, str], str]:
    return {(row["queue"], row["key"]): str(row["id"]) for row in rows}


def _keys(batch: Batch, numbers: Sequence[int]) -> dict[str, list[Any]]:
    return {
        "shards": [batch.shards[n] for n in numbers],
        "keys": [batch.keys[n] for n in numbers],
        "queues": [batch.calls[n].task.name for n in numbers],
    }
