"""Events to a topic of Kafka, by confluent-kafka (librdkafka).

Acknowledged means: by the broker, with acks=all. Records of one entity have one key, and the next is sent
when the one before is acknowledged, so a refused record is never overtaken. A thread polls the producer and
hands its reports over to the event loop in lists. A producer may end for good at any moment (librdkafka
says "fatal"): then a new one takes its place, and nothing depends on what the old one knew.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Mapping
from typing import TypeAlias

from mainspring.entities.declare.event import Saved
from mainspring.errors import EndpointAway, EventRefused, InvalidSetting, MissingExtra
from mainspring.sinks.record import EventRecord, record_of, record_shape

try:
    from confluent_kafka import KafkaError, KafkaException, Message, Producer
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("sending events to Kafka", error.name, "kafka") from error

Headers: TypeAlias = list[tuple[str, str | bytes | None]]
DELETES = ("event", "tombstone", "both")
LARGE = ("park", "slim")
# Seconds that a look at the cluster may take.
PROBE_SECONDS = 5.0
POLL_SECONDS = 0.1
# A stopping worker waits so long for what is under way (seconds); it is sent again otherwise.
FLUSH_SECONDS = 2.0

_PURGED = {"_PURGE_QUEUE", "_PURGE_INFLIGHT"}
_TOO_LARGE = {"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"}
# Codes that concern this record alone. Every other code is the cluster's: it is away. What librdkafka calls
# retriable does not decide: it says no to timeouts and broken connections.
_THIS_RECORD = {
    *("INVALID_RECORD", "INVALID_TIMESTAMP", "CORRUPT_MESSAGE", "INVALID_MSG", "INVALID_MSG_SIZE"),
    *("_BAD_MSG", "_KEY_SERIALIZATION", "_VALUE_SERIALIZATION", "_INVALID_ARG", "POLICY_VIOLATION"),
}


class Kafka:
    """A topic of Kafka that gets the events of a kind.

    `deletes` says what a deleted entity becomes: an "event", a "tombstone" for compacted topics, or
    "both". `large` says what becomes of a record that the broker finds too large: its entity is parked
    ("park"), or it is sent without entity and state ("slim"). `fields` and `state` choose what is sent.
    `settings` are librdkafka's own, for example {"security.protocol": "SSL"}.
    """

    decodes = False  # it sends JSON as the database has it

    def __init__(
        self,
        servers: str,
        *,
        topic: str,
        source: str = "mainspring",
        prefix: str = "",
        state: bool = True,
        fields: Collection[str] | None = None,
        deletes: str = "event",
        large: str = "park",
        settings: Mapping[str, str | int | float | bool] | None = None,
    ) -> None:
        for name, value, known in (("deletes", deletes, DELETES), ("large", large, LARGE)):
            if value not in known:
                raise InvalidSetting(f"{name} must be one of {', '.join(known)}, got {value!r}")
        if not servers or not topic:
            raise InvalidSetting(
                f"Kafka needs servers and a topic, got {servers!r} and topic={topic!r}"
            )
        self.topic = topic
        self._shape = record_shape(source, prefix, state, fields)
        self._deletes, self._large = deletes, large
        self._settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": servers,
            "log_level": 2,  # that it is away we tell once: librdkafka says it twenty times a second
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": "murmur2_random",  # as Java's clients do: same key, same partition
            "linger.ms": 5,
            "delivery.timeout.ms": 20_000,
            **(settings or {}),
        }
        self._reports: _Reports | None = None

    @property
    def address(self) -> str:
        """Where it sends to, as people are told."""
        return f"kafka {self._settings['bootstrap.servers']} topic {self.topic}"

    async def send(self, event: Saved) -> None:
        """Send an event; returns when the broker has it."""
        record = record_of(event, self._shape)
        is_delete = event.what == "deleted"
        if not is_delete or self._deletes != "tombstone":
            try:
                await self._produce(record, record.data)
            except EventRefused:
                if self._large != "slim":
                    raise
                record = record_of(event, self._shape, slim=True)
                await self._produce(record, record.data)
        if is_delete and self._deletes != "event":
            await self._produce(record, None)

    async def _produce(self, record: EventRecord, value: bytes | None) -> None:
        headers: Headers = [(f"ce_{name}", text) for name, text in record.attributes.items()]
        key = record.key.encode()
        while True:
            reports = self._opened()
            try:
                error = await reports.produce(self.topic, key, value, headers)
            except asyncio.CancelledError:
                # The lease may be lost: what still lies in the queue must not come after what others send.
                reports.end()
                raise
            if error is None:
                return
            if error.fatal():
                reports.end()
                raise EndpointAway(f"{self.address}: {error.str()}")
            name = error.name()
            if name not in _PURGED or self._reports is None:
                break  # else it was another's end: the next producer sends it
        if name in _TOO_LARGE:
            raise EventRefused(f"{self.address}: too large: {error.str()}")
        if name in _THIS_RECORD:
            raise ValueError(f"{self.address} refused the record: {error.str()}")
        raise EndpointAway(f"{self.address}: {error.str()}")

    def _opened(self) -> _Reports:
        if self._reports is None or self._reports.is_over:
            self._reports = _Reports(self._settings, asyncio.get_running_loop())
        return self._reports

    async def probe(self) -> None:
        """Whether the cluster is there and has the topic; raises EndpointAway if not."""
        try:
            await asyncio.to_thread(self._look)
        except KafkaException as error:
            raise EndpointAway(f"{self.address}: {error.args[0].str()}") from error

    def _look(self) -> None:
        looker = Producer({**self._settings, "log_level": 0})
        found = looker.list_topics(self.topic, timeout=PROBE_SECONDS)
        if (error := found.topics[self.topic].error) is not None:
            raise KafkaException(error)

    async def close(self) -> None:
        """What is not acknowledged by now is sent again by whoever is next."""
        if (reports := self._reports) is not None:
            self._reports = None
            await asyncio.to_thread(reports.close)


class _Reports:
    """One producer, the thread that polls it, and those who wait for its reports."""

    def __init__(
        self, settings: Mapping[str, str | int | float | bool], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._producer = Producer(dict(settings))  # told nothing of us: it would never be freed
        self._loop = loop
        self._found: list[tuple[asyncio.Future[KafkaError | None], KafkaError | None]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="mainspring.kafka", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    async def produce(
        self, topic: str, key: bytes, value: bytes | None, headers: Headers
    ) -> KafkaError | None:
        """Send a record; returns the broker's error, or None when it has acknowledged it."""
        reported: asyncio.Future[KafkaError | None] = self._loop.create_future()

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            self._found.append((reported, error))

        try:
            self._producer.produce(topic, value, key, headers=headers, on_delivery=on_delivery)
        except BufferError:  # librdkafka's own queue is full
            return KafkaError(KafkaError._QUEUE_FULL)
        except KafkaException as error:
            found: KafkaError = error.args[0]
            return found
        return await reported

    def _poll(self) -> None:
        while not self._over.is_set():
            self._producer.poll(POLL_SECONDS)
            self._hand_over()
        self._producer.purge()
        self._producer.flush(FLUSH_SECONDS)
        self._hand_over()

    def _hand_over(self) -> None:
        if not self._found:
            return
        found, self._found = self._found, []
        try:
            self._loop.call_soon_threadsafe(_tell, found)
        except RuntimeError:  # the loop is closed: nobody waits any more
            self._over.set()

    def end(self) -> None:
        """Use it no more."""
        self._over.set()

    def close(self) -> None:
        """End, and wait for its thread."""
        self._over.set()
        self._thread.join(2 * FLUSH_SECONDS)


def _tell(
    found: list[tuple[asyncio.Future[KafkaError | None], KafkaError | None]],
) -> None:
    for reported, error in found:
        if not reported.done():
            reported.set_result(error)
