"""One consumer of Kafka and its thread, which makes all its calls: none is made beside another."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from mainspring.errors import EndpointAway, MissingExtra
from mainspring.sources.declare.record import BrokerRecord

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
    from confluent_kafka import Message as KafkaMessage
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("reading records of Kafka", error.name, "kafka") from error

if TYPE_CHECKING:
    from mainspring.sources.brokers.kafka import KafkaStream

T = TypeVar("T")
Settings: TypeAlias = dict[str, str | int | float | bool]
# Records that the consumer is asked for at once, and for how long (seconds).
AT_ONCE, POLL_SECONDS = 500, 0.05
ASK_SECONDS = 5.0
NOTE_SECONDS = 5.0
CLOSE_SECONDS = 5.0

_GONE = {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"}
# What librdkafka reports beside records that ends the consumer. The rest it mends by itself.
_AWAY = {"_ALL_BROKERS_DOWN", "_FATAL"}


class KafkaReading:
    """Of one client. It ends when the brokers are away; the next reader makes a new one."""

    def __init__(self, address: str, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self.streams: dict[tuple[str, int], KafkaStream] = {}
        self.why_over: str | None = None
        self._address = address
        self._loop = loop
        self._asked: queue.SimpleQueue[Callable[[Consumer], object]] = queue.SimpleQueue()
        self.has_room = threading.Event()  # a partition that was full is not any more
        self._ending = threading.Lock()  # nobody asks once the last questions are answered
        self._notes: dict[tuple[str, int], int] = {}
        self._noted_at = 0.0
        self._trouble: list[KafkaError] = []
        trouble = self._trouble  # told nothing of us: the consumer would never be freed
        self._consumer = Consumer({**settings, "error_cb": trouble.append})
        self._thread = threading.Thread(target=self._read, name="mainspring.kafka", daemon=True)
        self._thread.start()

    async def ask(self, question: Callable[[Consumer], T]) -> T:
        """Have the thread ask the consumer something."""
        answered: asyncio.Future[T] = self._loop.create_future()

        def put(consumer: Consumer) -> None:
            try:
                found = question(consumer)
            except Exception as error:
                self._soon(_fail, answered, error)
            else:
                self._soon(_answer, answered, found)

        with self._ending:
            if self.why_over is not None:
                raise EndpointAway(self.why_over)
            self._asked.put(put)
        return await answered

    def tell(self, order: Callable[[Consumer], object]) -> None:
        """Have the thread do something soon; what fails shows when the partition is read."""
        self._asked.put(order)

    def note(self, place: TopicPartition, next: int) -> None:
        """Commit this offset when it is time."""
        self._notes[place.topic, place.partition] = next

    def _read(self) -> None:
        why = f"{self._address}: the client has ended"
        try:
            while self.why_over is None:
                while not self._asked.empty():
                    self._do(self._asked.get())
                if any(stream.is_full for stream in list(self.streams.values())):
                    self.has_room.clear()
                    self.has_room.wait(POLL_SECONDS)
                found = self._consumer.consume(AT_ONCE, POLL_SECONDS)
                if found:
                    self._hand_over(found)
                self._commit()
                if ended := self._end_of(self._trouble):
                    why = ended
                    break
        except Exception as error:  # of the client itself: a fatal error, say
            why = f"{self._address}: {error}"
        with self._ending:
            self.why_over = self.why_over or why
        while not self._asked.empty():  # who still asks is told
            self._do(self._asked.get())
        self._consumer.close()
        self._soon(self._wake)

    def _do(self, order: Callable[[Consumer], object]) -> None:
        try:
            order(self._consumer)
        except KafkaException:
            return

    def _end_of(self, trouble: list[KafkaError]) -> str | None:
        """Why the consumer is of no use any more, if librdkafka has said so."""
        said, trouble[:] = trouble[:], []
        if not any(error.fatal() or error.name() in _AWAY for error in said):
            return None
        reasons = dict.fromkeys(error.str() for error in said)
        return f"{self._address}: {'; '.join(reasons)}"

    def _hand_over(self, found: list[KafkaMessage]) -> None:
        records: dict[tuple[str, int], list[tuple[BrokerRecord, int]]] = {}
        past: dict[tuple[str, int], int] = {}
        for message in found:
            key = (str(message.topic()), int(message.partition() or 0))
            error = message.error()
            if error is None:
                records.setdefault(key, []).append(_record(message, key))
            elif error.code() == KafkaError._PARTITION_EOF:
                past[key] = int(message.offset() or 0)
            elif error.name() in _GONE:
                self._tell_gone(key)
            else:
                self._trouble.append(KafkaError(KafkaError._FATAL, error.str()))
        for key in records.keys() | past.keys():
            if (stream := self.streams.get(key)) is not None:
                _, end = self._consumer.get_watermark_offsets(TopicPartition(*key), cached=True)
                self._soon(stream.feed, records.get(key, []), past.get(key), end)

    def _tell_gone(self, key: tuple[str, int]) -> None:
        if (stream := self.streams.get(key)) is None:
            return
        try:
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(*key), timeout=ASK_SECONDS
            )
        except KafkaException as error:
            self._trouble.append(KafkaError(KafkaError._FATAL, error.args[0].str()))
            return
        self._soon(stream.lose, low, high)

    def _commit(self) -> None:
        now = self._loop.time()
        if not self._notes or now - self._noted_at < NOTE_SECONDS:
            return
        self._noted_at = now
        notes, self._notes = self._notes, {}
        places = [TopicPartition(*key, next) for key, next in notes.items()]
        self._do(lambda consumer: consumer.commit(offsets=places, asynchronous=True))

    def _wake(self) -> None:
        for stream in list(self.streams.values()):
            stream.wake()

    def _soon(self, action: Callable[..., object], *values: object) -> None:
        try:
            self._loop.call_soon_threadsafe(action, *values)
        except RuntimeError:  # the loop is closed: nobody waits any more
            self.why_over = self.why_over or f"{self._address}: the client has ended"

    def close(self) -> None:
        """End, and wait for the thread."""
        self.why_over = self.why_over or f"{self._address}: the client has ended"
        self._thread.join(CLOSE_SECONDS)


def _record(message: KafkaMessage, key: tuple[str, int]) -> tuple[BrokerRecord, int]:
    """A record with the bytes that it takes."""
    _, time_ms = message.timestamp()
    own_key, value = message.key(), message.value()
    headers = cast("list[tuple[str, bytes | None]] | None", message.headers())
    record = BrokerRecord(
        topic=key[0],
        partition=f"{key[0]}/{key[1]}",
        offset=int(message.offset() or 0),
        key=own_key,
        value=value,
        headers=tuple(headers) if headers else (),
        time_ms=max(0, time_ms),
    )
    return record, len(value or b"") + len(own_key or b"")


def _answer(answered: asyncio.Future[T], found: T) -> None:
    if not answered.done():
        answered.set_result(found)


def _fail(answered: asyncio.Future[T], error: Exception) -> None:
    if not answered.done():
        answered.set_exception(error)
