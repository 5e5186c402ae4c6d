"""The relay: brings what was saved from the outbox to its consumers (S7).

A save writes its event, a delivery for each consumer, and offers a visit of the queue "kind!consumer" in
one transaction. A run of that visit reads the entity's deliveries in the order of their numbers, calls the
consumer for one after the other, and settles with the delete of those that it acknowledged. So an event
comes at least once, in order per entity and consumer. A consumer that fails is tried again by the rules of
its retry, then parked, for this entity alone; later events of the entity wait behind it. Relays do not take
turns with stages: a slow hook stops none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import NamedTuple

from mainspring import crash_points
from mainspring.db.batcher import Batcher
from mainspring.db.shared import SharedLine
from mainspring.endpoint import Endpoint
from mainspring.entities.declare.consumer import AwayTarget, Consumer, ManySink
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.event import Saved
from mainspring.entities.outbox.events import Acknowledge, Delivery, Events, WaitingEvent
from mainspring.entities.outbox.send import SIDE_BY_SIDE, HandOver, Heard
from mainspring.entities.statements import SQL
from mainspring.errors import EndpointAway, EventRefused, PutOff, ReceiverGone
from mainspring.kernel import (
    Again,
    Done,
    Outcome,
    Parked,
    Postponed,
    QueueSettings,
    Run,
    Visit,
)

log = logging.getLogger("mainspring")
# Events that one run delivers before it settles.
EVENTS_AT_ONCE = 50
# Runs whose deliveries are read in one statement.
PAGE = 200
# What a broker that is away had not taken is due again after so long (seconds), and waits for it then.
PUT_OFF = 1.0


class PausedRelay(NamedTuple):
    """A row of pause_relay.sql."""

    name: str
    pg_notify: None


class Relay:
    """All relays of a worker."""

    def __init__(
        self,
        line: SharedLine,
        kinds: Sequence[DeclaredKind],
        threads: Executor | None = None,
        elsewhere: Mapping[str, ManySink] | None = None,
    ) -> None:
        self._elsewhere = elsewhere or {}  # who hears instead of a stage's hooks, by queue
        self._kinds = list(kinds)
        self._threads = threads
        self._line = line
        self._read = Batcher(self._fetch, most=PAGE)
        self._acknowledge = Acknowledge()
        self._endpoints: dict[int, tuple[AwayTarget, Endpoint]] = {}  # by the target's identity
        self._hand_overs: list[HandOver] = []

    def queues(self) -> list[QueueSettings]:
        """One queue for each consumer."""
        return [self._queue(kind, self._told(c)) for kind in self._kinds for c in kind.consumers]

    def _told(self, consumer: Consumer) -> Consumer:
        """A stage elsewhere is told by its service's calls."""
        if (target := self._elsewhere.get(consumer.queue)) is None:
            return consumer
        return replace(consumer, target=target, call=_in_lists)

    def _queue(self, kind: DeclaredKind, consumer: Consumer) -> QueueSettings:
        events, hand_over = Events(kind, consumer), HandOver(consumer, self._threads)
        self._hand_overs.append(hand_over)
        endpoint = self._endpoint(consumer)

        async def handle(run: Run) -> Outcome:
            return await self._deliver(consumer, events, hand_over, endpoint, run)

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
        """One for each target, however many kinds send to it; or the one that it shares with others."""
        if isinstance(shared := getattr(consumer.target, "endpoint", None), Endpoint):
            return shared
        if (target := consumer.away_target) is None:
            return None
        known = self._endpoints.get(id(target))
        if known is None:
            name = str(getattr(target, "address", consumer.queue))
            known = self._endpoints[id(target)] = (target, Endpoint(name, target.probe))
        return known[1]

    async def _deliver(
        self,
        consumer: Consumer,
        events: Events,
        hand_over: HandOver,
        endpoint: Endpoint | None,
        run: Run,
    ) -> Outcome:
        """Hand the entity's events to the consumer, oldest first, as far as it goes well."""
        waiting = await self._read((consumer, run.visit))
        if not waiting:
            return Done()
        readable, unreadable = _readable(consumer, events, run.visit.key, waiting)
        crash_points.passed("relay.sending")
        heard = await hand_over.send(readable) if readable else Heard(0)
        crash_points.passed("relay.sent")
        error = heard.error or (unreadable if heard.taken == len(readable) else None)
        if endpoint is not None:
            if isinstance(error, EndpointAway):
                endpoint.left(error)
                if isinstance(error, ReceiverGone):
                    await self._pause(consumer, error)
            elif error is None:
                endpoint.succeeded()
        if not heard.taken:
            assert error is not None, "what was not sent has its reason"
            return _undelivered(error)
        visit = run.visit
        taken = [
            Delivery(visit.shard, consumer.kind, visit.key, row.number, consumer.name)
            for row in waiting[: heard.taken]
        ]
        run.leave_to_writer(taken)
        # Settle what went well; the next run begins with the one that did not.
        if heard.taken < len(waiting) or len(waiting) == EVENTS_AT_ONCE:
            return Again(writer=self._acknowledge)
        return Done(writer=self._acknowledge)

    async def _pause(self, consumer: Consumer, error: ReceiverGone) -> None:
        """It wants no more. An operator lets it go on, or retires it."""
        async with self._line.use() as tx:
            paused = await tx.rows(SQL["pause_relay"], PausedRelay, queue=consumer.queue)
        if paused:
            facts = {"queue": consumer.queue, "error": str(error)}
            log.warning("consumer.paused", extra=facts)

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
        for hand_over in self._hand_overs:
            await hand_over.close()
        for target, endpoint in self._endpoints.values():
            await endpoint.close()
            await target.close()


def _in_lists(event: Saved) -> None:
    raise AssertionError("events go by send_many")


def _undelivered(error: Exception) -> Outcome:
    """What becomes of an entity whose first event was not taken."""
    if isinstance(error, EndpointAway):
        return Postponed(error.retry_after or PUT_OFF, str(error))
    if isinstance(error, PutOff):
        return Postponed(error.after, str(error), crash=error.crash)
    if isinstance(error, EventRefused):
        return Parked(type(error).__name__, str(error))
    raise error


def _readable(
    consumer: Consumer, events: Events, key: str, waiting: Sequence[WaitingEvent]
) -> tuple[list[Saved | None], Exception | None]:
    """The events up to the first that does not fit its model, and what is wrong with that one. What nobody
    hears need not be readable."""
    found: list[Saved | None] = []
    try:
        for row in waiting:
            heard = consumer.hearer(row.what, row.outside) is not None
            found.append(events.read(key, row) if heard else None)
    except Exception as error:
        return found, error
    return found, None
