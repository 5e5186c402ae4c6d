"""Enqueueing: visits from calls, one or many, on the application's connection or the caller's.

A call without a uniqueness key has a fresh id for a key and cannot conflict, so many of them are
copied in. Calls with a key are placed by a function of the schema: it has the rule for taken ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar, cast

from mainspring.db.caller import Caller, Verb, caller_tx, caller_tx_sync, tx_on, tx_on_sync
from mainspring.db.database import Database
from mainspring.db.pool import Pools
from mainspring.db.sql import Steps, first, one, run
from mainspring.db.tx import AsyncpgTx, PsycopgTx, SyncTx
from mainspring.hooks.enqueueing import Enqueueing
from mainspring.hooks.registry import Hooks
from mainspring.ids import new_ids, new_visit, shard_of, tokens
from mainspring.kernel import KERNEL_SQL, copy_visits
from mainspring.tasks.declare.handle import CallLookup, CallState, Handle
from mainspring.tasks.declare.options import CallOptions
from mainspring.tasks.declare.progress import HowFar
from mainspring.tasks.declare.sealing import Sealing, opened_error
from mainspring.tasks.declare.task import Call, Task, Uniform, priority_of, warn_if_large
from mainspring.tasks.enqueue import orders
from mainspring.tasks.enqueue.by_function import (
    DENIED,
    REFUSED,
    by_function,
    by_place,
    refusal,
)
from mainspring.tasks.enqueue.copy_rows import CallKind, CopyRows
from mainspring.tasks.enqueue.results import Results, how_far
from mainspring.tasks.statements import SQL

R = TypeVar("R")
# From so many on, copying is faster than one insert of arrays.
COPY_FROM = 50
ENQUEUE = Verb("enqueue", "enqueue_sync")
ENQUEUE_SYNC = Verb("enqueue_sync", "enqueue")


class CallRow(NamedTuple):
    state: str
    result: str | None
    error: str | None


class EngineTime(NamedTuple):
    now: datetime


class CallBatch(Generic[R]):
    """Calls on their way to the database."""

    def __init__(
        self,
        calls: Sequence[Call[R]],
        database: Database,
        lookup: CallLookup,
        *,
        copies: bool,
        ids: Sequence[str] | None = None,
    ) -> None:
        """`ids`: those that the caller has for them; nobody else can have them."""
        self._own_ids = ids
        self._database = database
        self._lookup = lookup
        self._kinds = _kinds(calls)
        self.keyed = any(options.keyed for _, options in self._kinds)
        self._copied = copies and not self.keyed and len(calls) >= COPY_FROM
        self._calls = calls if self._copied else calls[:]

    def steps(self) -> Steps[list[Handle[R]]]:
        """What enqueueing them asks of the database, one step after another, without doing any I/O."""
        is_one = len(self._calls) == 1 and not self.keyed and self._own_ids is None
        way = self._database.enqueues
        if way == "function" or (way == "fresh" and not is_one and not self._copied):
            return (yield from by_function(self._calls, self._lookup))
        if self.keyed:
            return (yield from by_place(self._calls, self._lookup, self._own_ids))
        if is_one:
            handle, values = fresh_call(self._calls[0], self._database.shard_count, self._lookup)
            yield from run(KERNEL_SQL["insert_one"], **values)
            return [handle]
        now = None
        if self._needs_clock():
            now = (yield from one(KERNEL_SQL["read_clock"], EngineTime)).now
        return (yield from self._copy(now) if self._copied else self._insert(now))

    def _copy(self, now: datetime | None) -> Steps[list[Handle[R]]]:
        def due_at(options: CallOptions) -> datetime:
            assert now is not None
            return max(_due_at(options, now) or now, now)

        wanted = None if now is None else due_at
        copied = CopyRows(
            self._calls,
            self._kinds,
            wanted,
            self._database.shard_count,
            self._lookup,
            self._own_ids,
        )
        yield copy_visits(copied.columns, copied.chunks())
        yield from run(KERNEL_SQL["wake"], queues=sorted({task.name for task, _ in self._kinds}))
        return copied.handles

    def _insert(self, now: datetime | None) -> Steps[list[Handle[R]]]:
        """Their keys are their ids, which nobody else can have."""
        ids = list(self._own_ids or new_ids(len(self._calls)))
        for call, id in zip(self._calls, ids, strict=True):
            warn_if_large(call, id)
        yield from run(KERNEL_SQL["insert_new"], **self._values(now, ids))
        return [
            Handle(call.task.name, id, id, "new", self._lookup)
            for call, id in zip(self._calls, ids, strict=True)
        ]

    def _needs_clock(self) -> bool:
        """Whether a due time depends on the database's clock; what is copied in is taken as it is."""
        return any(
            options.delay is not None or (self._copied and options.at is not None)
            for _, options in self._kinds
        )

    def _values(self, now: datetime | None, ids: Sequence[str]) -> dict[str, object]:
        """The arguments of insert_new.sql."""
        calls = self._calls
        shard_count = self._database.shard_count
        return {
            "shards": [
                shard_of(call.options.group or id, shard_count)
                for call, id in zip(calls, ids, strict=True)
            ],
            "keys": ids,
            "queues": [call.task.name for call in calls],
            "ids": ids,
            "groups": [call.options.group for call in calls],
            "priorities": [priority_of(call.task, call.options) for call in calls],
            "due_ats": [_due_at(call.options, now) for call in calls],
            "expires_ats": [call.options.expires_at for call in calls],
            "versions": list(tokens(len(calls))),
            "payloads": [call.payload.decode() for call in calls],
        }


def _kinds(calls: Sequence[Call[object]]) -> list[CallKind]:
    """The tasks and options that occur: few, however many the calls are."""
    if isinstance(calls, Uniform):
        return [(calls.task, calls.options)]
    found = {(id(call.task), id(call.options)): (call.task, call.options) for call in calls}
    return list(found.values())


def _is_many(calls: Sequence[Call[object]]) -> bool:
    """Whether they are more than one statement."""
    return len(calls) > 1 or calls[0].options.key is not None


def _due_at(options: CallOptions, now: datetime | None) -> datetime | None:
    if options.delay is not None:
        assert now is not None
        return now + options.delay
    return options.at


def fresh_call(
    call: Call[R], shard_count: int, lookup: CallLookup
) -> tuple[Handle[R], dict[str, object]]:
    """A call without a key: its handle, and the arguments of insert_one.sql."""
    options, queue = call.options, call.task.settings.name
    id, version = new_visit()
    warn_if_large(call, id)
    values = {
        "shard": shard_of(options.group or id, shard_count),
        "key": id,
        "queue": queue,
        "id": id,
        "grp": options.group,
        "priority": priority_of(call.task, options),
        "due_at": options.at,
        "delay": options.delay,
        "expires_at": options.expires_at,
        "version": version,
        "payload": call.payload.decode(),
    }
    return Handle(queue, id, id, "new", lookup), values


class Enqueuer:
    """Enqueues the calls of an application's tasks, and looks them up."""

    def __init__(
        self,
        pools: Pools,
        tasks: Mapping[str, Task[..., object]],
        hooks: Hooks,
        former: Mapping[str, str],
    ) -> None:
        """`former`: former names of tasks, with those that they have."""
        self._pools = pools
        self._tasks = tasks
        self._former = former
        self._hooks = hooks

    async def enqueue_call(self, call: Call[R], on: Caller | None) -> Handle[R]:
        """Enqueue one call: by the shortest way if it is ours to commit and has no key."""
        if on is None and not call.options.keyed and not self._hooks.calls:
            pool = self._pools.known() or await self._pools.here()
            if pool.database.enqueues != "function":
                handle, values = fresh_call(call, pool.database.shard_count, self)
                await pool.run(KERNEL_SQL["insert_one"], values)
                return handle
        return (await self.enqueue_calls([call], on))[0]

    async def enqueue_calls(self, calls: Sequence[Call[R]], on: Caller | None) -> list[Handle[R]]:
        """Enqueue calls on a connection of the caller's, or on one of our own; inside of the hooks."""
        if not calls:
            return []
        if not self._hooks.calls:
            return await self._enqueue(calls, on)
        with self._hooks.enqueueing(told := Enqueueing(calls)):
            given = cast("Sequence[Call[R]]", told.calls)
            told.enqueued(handles := await self._enqueue(given, on))
        return handles

    async def _enqueue(self, calls: Sequence[Call[R]], on: Caller | None) -> list[Handle[R]]:
        pool = await self._pools.here()
        try:
            if on is not None:
                # All are checked before the caller's transaction is touched: an error must not break it.
                calls = calls[:]
                async with caller_tx(on, pool, ENQUEUE, transaction=_is_many(calls)) as tx:
                    return await tx.follow(self._steps(calls, pool.database, tx))
            batch = CallBatch(calls, pool.database, self, copies=True)
            async with pool.connection(transaction=len(calls) > 1 or batch.keyed) as connection:
                return await connection.follow(batch.steps())
        except REFUSED as error:
            raise refusal(error) from error

    def enqueue_calls_sync(self, calls: Sequence[Call[R]], on: Caller | None) -> list[Handle[R]]:
        """The same for code that is not async."""
        if not calls:
            return []
        if not self._hooks.calls:
            return self._enqueue_sync(calls, on)
        with self._hooks.enqueueing(told := Enqueueing(calls)):
            given = cast("Sequence[Call[R]]", told.calls)
            told.enqueued(handles := self._enqueue_sync(given, on))
        return handles

    def _enqueue_sync(self, calls: Sequence[Call[R]], on: Caller | None) -> list[Handle[R]]:
        pool = self._pools.plain()
        try:
            if on is not None:
                calls = calls[:]
                with caller_tx_sync(on, pool, ENQUEUE_SYNC, transaction=_is_many(calls)) as tx:
                    return tx.follow(self._steps(calls, pool.database, tx))
            with pool.connection() as ours:
                own = SyncTx(ours)
                return own.follow(self._steps(calls, pool.database, own))
        except REFUSED as error:
            raise refusal(error) from error

    async def look_up(self, handle: Handle[object]) -> CallState:
        """State, result and error of a call."""
        pool = await self._pools.here()
        try:
            async with pool.connection() as connection:
                return await connection.follow(self._looking_up(handle))
        except DENIED as error:
            raise refusal(error) from error

    def look_up_sync(self, handle: Handle[object]) -> CallState:
        """The same for code that is not async."""
        try:
            with self._pools.plain().connection() as connection:
                return SyncTx(connection).follow(self._looking_up(handle))
        except DENIED as error:
            raise refusal(error) from error

    async def cancel(
        self, handle: Handle[object], reason: str | None, on: Caller | None
    ) -> str | None:
        """Call a call off; answers how it stands then."""
        return await self._order(orders.cancelling(handle, reason), on, orders.CANCEL)

    def cancel_sync(
        self, handle: Handle[object], reason: str | None, on: Caller | None
    ) -> str | None:
        """The same for code that is not async."""
        return self._order_sync(orders.cancelling(handle, reason), on, orders.CANCEL_SYNC)

    async def run_now(self, handle: Handle[object], on: Caller | None) -> str | None:
        """Make a call due now; answers how it stands then."""
        return await self._order(orders.running_now(handle), on, orders.RUN_NOW)

    def run_now_sync(self, handle: Handle[object], on: Caller | None) -> str | None:
        """The same for code that is not async."""
        return self._order_sync(orders.running_now(handle), on, orders.RUN_NOW_SYNC)

    async def how_far(self, handle: Handle[object]) -> HowFar:
        """Where a call is, and how far."""
        pool = await self._pools.here()
        try:
            async with pool.connection() as connection:
                return await connection.follow(how_far(handle, self._sealing(handle)))
        except DENIED as error:
            raise refusal(error) from error

    def how_far_sync(self, handle: Handle[object]) -> HowFar:
        """The same for code that is not async."""
        try:
            with self._pools.plain().connection() as connection:
                return SyncTx(connection).follow(how_far(handle, self._sealing(handle)))
        except DENIED as error:
            raise refusal(error) from error

    def results(self, handles: Iterable[Handle[R]]) -> Results[R]:
        """What becomes of these calls."""
        return Results(handles, self._pools, self._tasks, self._former)

    async def _order(self, steps: Steps[str | None], on: Caller | None, verb: Verb) -> str | None:
        try:
            async with tx_on(on, await self._pools.here(), verb) as tx:
                return await tx.follow(steps)
        except REFUSED as error:
            raise refusal(error) from error

    def _order_sync(self, steps: Steps[str | None], on: Caller | None, verb: Verb) -> str | None:
        try:
            with tx_on_sync(on, self._pools.plain(), verb) as tx:
                return tx.follow(steps)
        except REFUSED as error:
            raise refusal(error) from error

    def _steps(
        self, calls: Sequence[Call[R]], database: Database, tx: SyncTx | AsyncpgTx | PsycopgTx
    ) -> Steps[list[Handle[R]]]:
        return CallBatch(calls, database, self, copies=tx.copies_text).steps()

    def _looking_up(self, handle: Handle[object]) -> Steps[CallState]:
        keys = {"queue": handle.task, "id": handle.id, "key": handle.key}
        found = yield from first(SQL["look_up"], CallRow, **keys)
        if found is None:
            return CallState("unknown", None, None)
        task = self._tasks[self._former.get(handle.task, handle.task)]
        result = task.signature.decode_result(found.result)
        return CallState(found.state, result, opened_error(task.signature.sealing, found.error))

    def _sealing(self, handle: Handle[object]) -> Sealing | None:
        task = self._tasks.get(self._former.get(handle.task, handle.task))
        return None if task is None else task.signature.sealing
