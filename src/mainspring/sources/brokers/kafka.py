"""Partitions of a topic of Kafka, by confluent-kafka (librdkafka).

One consumer reads all partitions that a worker has of a source. It is in no consumer group: partitions are
assigned to it one by one, each from the offset that the database has. A thread of its own does all that
consumer's calls, and hands what came over to the event loop in lists. When the brokers are away, or a
record shows an error, the consumer ends, and so do its streams; the next reader makes a new one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

from mainspring.errors import EndpointAway, InvalidSetting, MissingExtra
from mainspring.sources.brokers.kafka_reading import ASK_SECONDS, KafkaReading, Settings
from mainspring.sources.declare.broker import OffsetGone, RecordChunk
from mainspring.sources.declare.record import BrokerRecord

try:
    from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("reading records of Kafka", error.name, "kafka") from error

T = TypeVar("T")
# While so much of a partition waits to be taken (records, bytes) the consumer is asked more rarely. Of one
# of which so many times as much waits it reads no further: that costs what librdkafka has fetched of it.
FULL, FULL_BYTES, TOO_FULL = 2_000, 8_000_000, 5


class KafkaTopic:
    """A topic of Kafka, all of its partitions.

    Transactions that were not committed are not seen, unless `settings` says so. How far records were taken
    in is also committed under `group`, for Kafka's own tools. `settings` are librdkafka's own, for example
    {"security.protocol": "SSL"}.
    """

    def __init__(
        self,
        servers: str,
        *,
        topic: str,
        group: str | None = None,
        settings: Mapping[str, str | int | float | bool] | None = None,
    ) -> None:
        if not servers or not topic:
            raise InvalidSetting(
                f"Kafka needs servers and a topic, got {servers!r} and topic={topic!r}"
            )
        self.topic = topic
        self.group = group
        self.settings: Settings = {
            "bootstrap.servers": servers,
            "log_level": 2,  # that it is away we tell once: librdkafka says it twenty times a second
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "socket.timeout.ms": 10_000,
            "queued.max.messages.kbytes": 16_384,
            **(settings or {}),
            # What exactly once rests on is not to be chosen.
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }

    @property
    def address(self) -> str:
        """Where it reads from, as people are told."""
        return f"kafka {self.settings['bootstrap.servers']} topic {self.topic}"

    def client(self, source: str) -> KafkaClient:
        """A client for one worker."""
        return KafkaClient(self, self.group or f"mainspring-{source}")


class KafkaClient:
    """All partitions that one worker reads of a source."""

    def __init__(self, broker: KafkaTopic, group: str) -> None:
        self._broker = broker
        self._settings: Settings = {**broker.settings, "group.id": group}
        self._reading: KafkaReading | None = None

    async def partitions(self) -> list[str]:
        """The partitions that there are."""
        topic = self._broker.topic

        def ask(consumer: Consumer) -> list[str]:
            found = consumer.list_topics(topic, timeout=ASK_SECONDS).topics[topic]
            if found.error is not None:
                raise KafkaException(found.error)
            return [f"{topic}/{number}" for number in sorted(found.partitions)]

        return await self._ask(ask)

    async def offset_at(self, partition: str, start: str) -> int:
        """The first offset of 'earliest', 'latest', or an instant (ISO)."""
        place = self._place(partition)

        def ask(consumer: Consumer) -> int:
            low, high = consumer.get_watermark_offsets(place, timeout=ASK_SECONDS)
            if start in ("earliest", "latest"):
                return int(low if start == "earliest" else high)
            moment = int(datetime.fromisoformat(start).timestamp() * 1000)
            wanted = TopicPartition(place.topic, place.partition, moment)
            [found] = consumer.offsets_for_times([wanted], timeout=ASK_SECONDS)
            if found.error is not None:
                raise KafkaException(found.error)
            return int(high if found.offset in (OFFSET_END, -1) else found.offset)

        return await self._ask(ask)

    async def read_from(self, partition: str, offset: int) -> KafkaStream:
        """The records of a partition from this offset on."""
        stream = KafkaStream(self._open(), self._place(partition), partition, offset)
        await self._ask(stream.assign)
        return stream

    def note(self, partition: str, next: int) -> None:
        """Commit the offset, for Kafka's own tools."""
        if self._reading is not None:
            self._reading.note(self._place(partition), next)

    async def probe(self) -> None:
        """Whether the cluster is there and has the topic."""
        await self.partitions()

    async def close(self) -> None:
        """End the consumer, and all that is read by it."""
        if self._reading is not None:
            await asyncio.to_thread(self._reading.close)
            self._reading = None

    def _place(self, partition: str) -> TopicPartition:
        topic, _, number = partition.rpartition("/")
        return TopicPartition(topic, int(number))

    def _open(self) -> KafkaReading:
        if self._reading is None or self._reading.why_over is not None:
            loop = asyncio.get_running_loop()
            self._reading = KafkaReading(self._broker.address, self._settings, loop)
        return self._reading

    async def _ask(self, question: Callable[[Consumer], T]) -> T:
        """Have the consumer's thread ask this; what fails says that the cluster is away."""
        try:
            return await self._open().ask(question)
        except KafkaException as error:
            raise EndpointAway(f"{self._broker.address}: {error.args[0].str()}") from error


class KafkaStream:
    """One partition as it is read. What waits to be taken is fed by the consumer's thread."""

    def __init__(
        self, reading: KafkaReading, place: TopicPartition, partition: str, offset: int
    ) -> None:
        self.place = place
        self._reading = reading
        self._partition = partition
        self._next = self._first = offset
        self._waiting: deque[tuple[BrokerRecord, int]] = deque()
        self._bytes = 0
        self._is_paused = False
        self._end: int | None = None  # of the partition, when its last record had come
        self._past = offset  # how far the broker has nothing more, beyond the last record
        self._gone: OffsetGone | None = None
        self._news = asyncio.Event()

    def assign(self, consumer: Consumer) -> None:
        """Have the consumer read it."""
        self._reading.streams[self.place.topic, self.place.partition] = self
        place = TopicPartition(self.place.topic, self.place.partition, self._first)
        consumer.incremental_assign([place])

    async def read(self, most: int, seconds: float) -> RecordChunk:
        """What there is, as soon as there is any; none after so many seconds."""
        if not self._waiting and self._past <= self._next:
            self._check()
            self._news.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._check()
        return self._take(most)

    @property
    def is_full(self) -> bool:
        """Whether enough waits to be taken. Asked by the consumer's thread, too."""
        return self._is_full(1)

    def _is_full(self, times: int) -> bool:
        return len(self._waiting) >= times * FULL or self._bytes >= times * FULL_BYTES

    def _check(self) -> None:
        if self._gone is not None:
            raise self._gone
        if (why := self._reading.why_over) is not None:
            raise EndpointAway(why)

    def _take(self, most: int) -> RecordChunk:
        taken: list[BrokerRecord] = []
        taken_bytes = 0
        while self._waiting and len(taken) < most and taken_bytes < FULL_BYTES:
            record, size = self._waiting.popleft()
            taken.append(record)
            taken_bytes += size
        self._bytes -= taken_bytes
        if taken:
            self._next = taken[-1].offset + 1
        if not self._waiting:
            self._next = max(self._next, self._past)
        if not self.is_full:
            self._reading.has_room.set()
            if self._is_paused:
                self._is_paused = False
                self._reading.tell(lambda consumer: consumer.resume([self.place]))
        return RecordChunk(taken, self._next, self._end)

    # -- told by the consumer's thread, in the event loop

    def feed(
        self, records: list[tuple[BrokerRecord, int]], past: int | None, end: int | None
    ) -> None:
        """Records came; `past` says up to where the broker has nothing else."""
        self._waiting.extend(records)
        self._bytes += sum(size for _, size in records)
        if past is not None:
            self._past = max(self._past, past)
        self._end = end if end is not None and end >= 0 else self._end
        if not self._is_paused and self._is_full(TOO_FULL):
            self._is_paused = True
            self._reading.tell(lambda consumer: consumer.pause([self.place]))
        self._news.set()

    def lose(self, low: int, high: int) -> None:
        """The broker does not have its offset."""
        self._gone = OffsetGone(
            f"{self._partition}: the broker does not have offset {self._next}: it has {low} to "
            f"{high}; look at what was lost, then say where to go on: mainspring sources seek"
        )
        self._news.set()

    def wake(self) -> None:
        """Something has happened to the consumer."""
        self._news.set()

    async def close(self) -> None:
        """Read it no more."""
        reading = self._reading
        key = (self.place.topic, self.place.partition)
        if reading.streams.get(key) is not self:
            return
        del reading.streams[key]
        if reading.why_over is None:
            reading.tell(lambda consumer: consumer.incremental_unassign([self.place]))
