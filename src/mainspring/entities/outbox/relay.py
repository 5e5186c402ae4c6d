"""The relay: brings what was saved from the outbox to its consumers (S7).

A save writes its event, a delivery for each consumer, and offers a visit of the queue "kind!consumer" in
one transaction. A run of that visit reads the entity's deliveries in the order of their numbers, calls the
consumer for one after the other, and settles with the delete of those that it acknowledged. So an event
comes at least once, in order per entity and consumer. A consumer that fails is tried again by the rules of
its retry, then parked, for this entity alone; later events of the entity wait behind it. Relays do not take
turns with stages: a slow hook stops none.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from mainspring.db.database import Database, is_transient
from mainspring.db.reconnecting import Line
from mainspring.entities.declare.consumer import Consumer
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.event import Saved
from mainspring.entities.declare.ids import typed_id
from mainspring.entities.declare.model import Model
from mainspring.entities.declare.partial_model import model_of
from mainspring.entities.declare.stage import Stage
from mainspring.entities.declare.state import Stored
from mainspring.entities.statements import SQL
from mainspring.kernel import (
    Again,
    Done,
    Outcome,
    QueueSettings,
    Run,
    Verdict,
    lock_visits,
    to_its_end,
)

# Events that one run delivers before it settles.
EVENTS_AT_ONCE = 50
# Runs whose deliveries are read in one statement.
PAGE = 200


@dataclass(frozen=True, slots=True)
class WaitingEvent:
    """An event that waits for a consumer, as its row has it."""

    number: int
    stage: str | None
    what: str
    entity_version: int | None
    state_version: int | None
    body: str | None
    created_at: datetime
    outside: bool


class Relay:
    """All relays of a worker."""

    def __init__(
        self, database: Database, kinds: Sequence[DeclaredKind], threads: Executor | None = None
    ) -> None:
        self._kinds = list(kinds)
        self._threads = threads  # for plain functions; none: the event loop's own
        self._reader = _Reader(Line(database, "relay"))
        self._acknowledge = _Acknowledge()

    def queues(self) -> list[QueueSettings]:
        """One queue for each consumer."""
        return [self._queue(kind, c) for kind in self._kinds for c in kind.consumers]

    def _queue(self, kind: DeclaredKind, consumer: Consumer) -> QueueSettings:
        events = Events(kind, consumer)

        async def handle(run: Run) -> Outcome:
            return await self._deliver(consumer, events, run)

        return QueueSettings(
            name=consumer.queue,
            handler=handle,
            pool=kind.settings.pool,
            kind="relay",
            concurrency=consumer.parallel,
            timeout=consumer.timeout,
            retry=consumer.retry,
            leaves_slots=True,
        )

    async def _deliver(self, consumer: Consumer, events: Events, run: Run) -> Outcome:
        """Call the consumer for the entity's events, oldest first, as far as it goes well."""
        waiting = await self._reader.read(consumer, run)
        delivered: list[int] = []
        failed = False
        for row in waiting:
            try:
                # Asked first: what nobody hears need not be readable.
                if (hearer := consumer.hearer(row.what, row.outside)) is not None:
                    await _call(hearer, events.read(run.visit.key, row), self._threads)
            except Exception:
                if not delivered:
                    raise
                failed = (
                    True  # settle what went well; the next run begins with the one that did not
                )
                break
            delivered.append(row.number)
        if not delivered:
            return Done()
        run.note = (consumer, delivered)
        if failed or len(waiting) == EVENTS_AT_ONCE:
            return Again(writer=self._acknowledge)
        return Done(writer=self._acknowledge)

    async def close(self) -> None:
        """Close its connection."""
        await self._reader.close()


async def _call(hearer: Callable[[Saved], Any], event: Saved, threads: Executor | None) -> None:
    """Call a consumer; a plain function in a thread, where it may block."""
    if inspect.iscoroutinefunction(hearer):
        await hearer(event)
        return
    context, loop = contextvars.copy_context(), asyncio.get_running_loop()
    answer = await to_its_end(loop.run_in_executor(threads, context.run, hearer, event))
    if inspect.isawaitable(answer):
        await answer


class Events:
    """Rows of the outbox as one consumer gets them. What they are read by is made once: a model of some
    fields costs as much as many events."""

    def __init__(self, kind: DeclaredKind, consumer: Consumer) -> None:
        self._kind = kind
        self._consumer = consumer
        self._part: Model | None = None
        if consumer.stage is not None and consumer.stage.settings.reads is not None:
            self._part = model_of(kind, consumer.stage)
        # A stage by its name, and by those that it had when an event was written.
        self._stages: dict[str, Stage] = {}
        for found in kind.stages.values():
            for name in (found.name, *found.settings.was):
                self._stages.setdefault(name, found)

    def read(self, key: str, row: WaitingEvent) -> Saved:
        """The event of a row."""
        body = msgspec.json.decode(row.body) if row.body else {}
        fields = body.get("entity")
        return Saved(
            kind=self._kind.name,
            id=typed_id(self._kind, key, fields),
            consumer=self._consumer.name,
            number=row.number,
            what=row.what,
            stage=row.stage,
            entity=self._entity(fields) if fields else None,
            state=self._state(row.stage, body),
            entity_version=row.entity_version,
            state_version=row.state_version,
            changed=body.get("changed") or {},
            created_at=row.created_at,
            outside=row.outside,
        )

    def _entity(self, fields: dict[str, Any]) -> Any:
        """The entity by the kind's model. Where the row does not fit that, a stage's own hook still gets
        what its stage declares, as the stage itself does."""
        try:
            return self._kind.decode(fields)
        except msgspec.ValidationError:
            if self._part is None:
                raise
            return self._part.decode(fields)

    def _state(self, name: str | None, body: dict[str, Any]) -> Any:
        """The state in an event, by its stage's type; as it lies there if the code lacks the stage."""
        state, stage = body.get("state"), self._stages.get(name or "")
        if state is None or stage is None:
            return state
        schema = int(body.get("schema", 1))
        if stage.state.is_message and isinstance(state, dict) and "@type" in state:
            stored = Stored(schema, None, b64decode(state["value"]), state["@type"])
        else:
            stored = Stored(schema, msgspec.json.encode(state).decode())
        return stage.state.decode(stored)


class _Reader:
    """Reads deliveries: runs that ask in the same moment share a statement."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._asking: list[tuple[Consumer, Run, asyncio.Future[list[WaitingEvent]]]] = []
        self._busy: asyncio.Task[None] | None = None

    async def read(self, consumer: Consumer, run: Run) -> list[WaitingEvent]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[WaitingEvent]] = loop.create_future()
        self._asking.append((consumer, run, answer))
        if self._busy is None:
            self._busy = loop.create_task(self._run(), name="mainspring.relay")
        return await answer

    async def _run(self) -> None:
        """Begins a tick later: all that asked by then go together."""
        try:
            while self._asking:
                batch, self._asking = self._asking[:PAGE], self._asking[PAGE:]
                batch = [asked for asked in batch if not asked[2].done()]
                try:
                    found = await self._fetch(batch)
                except Exception as error:
                    if is_transient(error):
                        await self._line.lost()
                    for _, _, answer in batch:
                        if not answer.done():
                            answer.set_exception(error)
                            answer.exception()  # its run may have been stopped meanwhile
                    continue
                for (_, _, answer), rows in zip(batch, found, strict=True):
                    if not answer.done():
                        answer.set_result(rows)
        finally:
            self._busy = None

    async def _fetch(self, batch: Sequence[tuple[Consumer, Run, Any]]) -> list[list[WaitingEvent]]:
        statement = SQL["load_deliveries"]
        values = {
            "shards": [run.visit.shard for _, run, _ in batch],
            "kinds": [consumer.kind for consumer, _, _ in batch],
            "consumers": [consumer.name for consumer, _, _ in batch],
            "keys": [run.visit.key for _, run, _ in batch],
            "most": EVENTS_AT_ONCE,
        }
        connection = await self._line.get()
        rows = await connection.fetch(statement.numbered, *statement.arguments(values))
        found: list[list[WaitingEvent]] = [[] for _ in batch]
        for n, *fields in rows:
            found[n - 1].append(WaitingEvent(*fields))
        return found

    async def close(self) -> None:
        if self._busy is not None:
            self._busy.cancel()
            with suppress(asyncio.CancelledError):
                await self._busy
        await self._line.close()


class _Acknowledge:
    """The writer of relays: deletes what was delivered in the transaction that settles the runs."""

    most = 500
    overlaps = False
    stands = True  # an event that came meanwhile has its own delivery, and the visit stays due

    async def write(self, connection: Any, runs: Sequence[Run]) -> Sequence[Verdict]:
        answers = await lock_visits(connection, runs)
        counted = [run for run, at in zip(runs, answers, strict=True) if at in ("same", "moved")]
        if counted:
            await acknowledge(connection, (item for run in counted for item in _delivered(run)))
        verdicts = {"locked": "locked", "gone": "gone"}
        return [verdicts.get(answer) for answer in answers]


def _delivered(run: Run) -> Iterator[tuple[int, str, str, int, str]]:
    consumer, numbers = run.note
    for number in numbers:
        yield (run.visit.shard, consumer.kind, run.visit.key, number, consumer.name)


async def acknowledge(
    connection: Any, deliveries: Iterable[tuple[int, str, str, int, str]]
) -> None:
    """Delete deliveries (shard, kind, key, number, consumer), and events nobody waits for any more."""
    items = sorted(deliveries)
    values = {
        "shards": [item[0] for item in items],
        "kinds": [item[1] for item in items],
        "keys": [item[2] for item in items],
        "numbers": [item[3] for item in items],
        "consumers": [item[4] for item in items],
    }
    for name in ("acknowledge", "forget_events"):
        await connection.fetch(SQL[name].numbered, *SQL[name].arguments(values))
