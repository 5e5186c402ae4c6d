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
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.db.batcher import Batcher
from mainspring.db.database import Connection
from mainspring.db.shared import SharedLine
from mainspring.db.tx import Tx
from mainspring.entities.declare.consumer import Consumer, EndpointSink
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.event import Saved
from mainspring.entities.declare.ids import typed_id
from mainspring.entities.declare.model import Model
from mainspring.entities.declare.partial_model import model_of
from mainspring.entities.declare.stage import Stage
from mainspring.entities.declare.state import Stored
from mainspring.entities.statements import SQL
from mainspring.errors import EndpointAway, EventRefused
from mainspring.kernel import (
    Again,
    Done,
    Endpoint,
    Outcome,
    Parked,
    Postponed,
    QueueSettings,
    Run,
    Verdict,
    Visit,
    lock_visits,
    to_its_end,
)

# Events that one run delivers before it settles.
EVENTS_AT_ONCE = 50
# Runs whose deliveries are read in one statement.
PAGE = 200
# Entities whose events are on their way to a broker side by side, in one worker.
SIDE_BY_SIDE = 200
# What a broker that is away had not taken is due again after so long (seconds), and waits for it then.
PUT_OFF = 1.0


class WaitingEvent(NamedTuple):
    """An event that waits for a consumer, as its row has it."""

    n: int  # of the question, from 1
    number: int
    stage: str | None
    what: str
    entity_version: int | None
    state_version: int | None
    body: str | None
    created_at: datetime
    outside: bool


class Delivery(NamedTuple):
    """An event of an entity for one consumer."""

    shard: int
    kind: str
    key: str
    number: int
    consumer: str


class EventBody(msgspec.Struct):
    """What an event carries, in JSON."""

    entity: dict[str, object] | None = None
    state: object = None
    schema: int = 1  # of the state
    changed: dict[str, object] | None = None


_body = msgspec.json.Decoder(EventBody).decode


class Relay:
    """All relays of a worker."""

    def __init__(
        self, line: SharedLine, kinds: Sequence[DeclaredKind], threads: Executor | None = None
    ) -> None:
        self._kinds = list(kinds)
        self._threads = threads  # for plain functions; none: the event loop's own
        self._line = line
        self._read = Batcher(self._fetch, most=PAGE)
        self._acknowledge = _Acknowledge()
        self._endpoints: dict[int, tuple[EndpointSink, Endpoint]] = {}  # by the sink's identity

    def queues(self) -> list[QueueSettings]:
        """One queue for each consumer."""
        return [self._queue(kind, c) for kind in self._kinds for c in kind.consumers]

    def _queue(self, kind: DeclaredKind, consumer: Consumer) -> QueueSettings:
        events = Events(kind, consumer)
        endpoint = self._endpoint(consumer)

        async def handle(run: Run) -> Outcome:
            return await self._deliver(consumer, events, endpoint, run)

        return QueueSettings(
            name=consumer.queue,
            handler=handle,
            pool=kind.settings.pool,
            kind="relay",
            concurrency=consumer.parallel,
            timeout=consumer.timeout,
            retry=consumer.retry,
            leaves_slots=endpoint is None,
            slots=None if endpoint is None else SIDE_BY_SIDE,
            endpoint=endpoint,
        )

    def _endpoint(self, consumer: Consumer) -> Endpoint | None:
        """One for each sink, however many kinds send to it."""
        if (sink := consumer.endpoint) is None:
            return None
        known = self._endpoints.get(id(sink))
        if known is None:
            known = self._endpoints[id(sink)] = (sink, Endpoint(consumer.queue, sink.probe))
        return known[1]

    async def _deliver(
        self, consumer: Consumer, events: Events, endpoint: Endpoint | None, run: Run
    ) -> Outcome:
        """Call the consumer for the entity's events, oldest first, as far as it goes well."""
        waiting = await self._read((consumer, run.visit))
        delivered: list[Delivery] = []
        failed = False
        for row in waiting:
            try:
                # Asked first: what nobody hears need not be readable.
                if (hearer := consumer.hearer(row.what, row.outside)) is not None:
                    await _call(hearer, events.read(run.visit.key, row), self._threads)
            except Exception as error:
                if isinstance(error, EndpointAway) and endpoint is not None:
                    endpoint.left(error)
                if not delivered:
                    return _undelivered(error)
                failed = (
                    True  # settle what went well; the next run begins with the one that did not
                )
                break
            visit = run.visit
            delivered.append(
                Delivery(visit.shard, consumer.kind, visit.key, row.number, consumer.name)
            )
        if not delivered:
            return Done()
        if endpoint is not None and not failed:
            endpoint.succeeded()
        run.change = delivered
        if failed or len(waiting) == EVENTS_AT_ONCE:
            return Again(writer=self._acknowledge)
        return Done(writer=self._acknowledge)

    async def _fetch(self, batch: Sequence[tuple[Consumer, Visit]]) -> list[list[WaitingEvent]]:
        """What waits for each of the consumers, of one entity each."""
        found: list[list[WaitingEvent]] = [[] for _ in batch]
        async with self._line.use() as tx:
            rows = await tx.rows(
                SQL["load_deliveries"],
                WaitingEvent,
                shards=[visit.shard for _, visit in batch],
                kinds=[consumer.kind for consumer, _ in batch],
                consumers=[consumer.name for consumer, _ in batch],
                keys=[visit.key for _, visit in batch],
                most=EVENTS_AT_ONCE,
            )
        for row in rows:
            found[row.n - 1].append(row)
        return found

    async def close(self) -> None:
        """End what is under way."""
        await self._read.close()
        for sink, endpoint in self._endpoints.values():
            await endpoint.close()
            await sink.close()


def _undelivered(error: Exception) -> Outcome:
    """What becomes of an entity whose first event was not taken."""
    if isinstance(error, EndpointAway):
        return Postponed(error.retry_after or PUT_OFF, str(error))
    if isinstance(error, EventRefused):
        return Parked(type(error).__name__, str(error))
    raise error


async def _call(hearer: Callable[[Saved], object], event: Saved, threads: Executor | None) -> None:
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
        if not self._consumer.decodes:
            return self._undecoded(key, row)
        body = _body(row.body) if row.body else EventBody()
        return Saved(
            kind=self._kind.name,
            id=typed_id(self._kind, key, body.entity),
            consumer=self._consumer.name,
            number=row.number,
            what=row.what,
            stage=row.stage,
            entity=self._entity(body.entity) if body.entity else None,
            state=self._state(row.stage, body),
            entity_version=row.entity_version,
            state_version=row.state_version,
            changed=body.changed or {},
            created_at=row.created_at,
            outside=row.outside,
            key=key,
            body=row.body,
        )

    def _undecoded(self, key: str, row: WaitingEvent) -> Saved:
        """For a sink that sends JSON as it is."""
        return Saved(
            kind=self._kind.name,
            id=key,
            consumer=self._consumer.name,
            number=row.number,
            what=row.what,
            stage=row.stage,
            entity=None,
            state=None,
            entity_version=row.entity_version,
            state_version=row.state_version,
            changed={},
            created_at=row.created_at,
            outside=row.outside,
            key=key,
            body=row.body,
        )

    def _entity(self, fields: dict[str, object]) -> object:
        """The entity by the kind's model. Where the row does not fit that, a stage's own hook still gets
        what its stage declares, as the stage itself does."""
        try:
            return self._kind.model.decode(fields)
        except msgspec.ValidationError:
            if self._part is None:
                raise
            return self._part.decode(fields)

    def _state(self, name: str | None, body: EventBody) -> object:
        """The state in an event, by its stage's type; as it lies there if the code lacks the stage."""
        state, stage = body.state, self._stages.get(name or "")
        if state is None or stage is None:
            return state
        if stage.state.is_message and isinstance(state, dict) and "@type" in state:
            stored = Stored(body.schema, None, b64decode(state["value"]), state["@type"])
        else:
            stored = Stored(body.schema, msgspec.json.encode(state).decode())
        return stage.state.decode(stored)


class _Acknowledge:
    """The writer of relays: deletes what was delivered in the transaction that settles the runs."""

    most = 500
    overlaps = False
    stands = True  # an event that came meanwhile has its own delivery, and the visit stays due

    async def write(self, connection: Connection, runs: Sequence[Run]) -> Sequence[Verdict]:
        answers = await lock_visits(connection, runs)
        counted = [run for run, at in zip(runs, answers, strict=True) if at in ("same", "moved")]
        if counted:
            await acknowledge(connection, (item for run in counted for item in run.change))
        verdicts = {"locked": "locked", "gone": "gone"}
        return [verdicts.get(answer) for answer in answers]


async def acknowledge(tx: Tx, deliveries: Iterable[Delivery]) -> None:
    """Delete deliveries, and events nobody waits for any more."""
    items = sorted(deliveries)
    values = {
        "shards": [item.shard for item in items],
        "kinds": [item.kind for item in items],
        "keys": [item.key for item in items],
        "numbers": [item.number for item in items],
        "consumers": [item.consumer for item in items],
    }
    for name in ("acknowledge", "forget_events"):
        await tx.run(SQL[name], **values)
