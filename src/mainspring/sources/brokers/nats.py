"""Filters of a stream of NATS JetStream, by nats-py.

Each filter is read by a consumer of its own, which the server forgets when nobody asks it any more.
Nothing is acknowledged to it: what counts is the offset in the database. Its deliveries are numbered
without gaps. A number that is missing was lost on the way: then a new consumer begins after the last
that came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from mainspring.errors import EndpointAway, InvalidSetting, MissingExtra
from mainspring.sources.declare.broker import OffsetGone, RecordChunk
from mainspring.sources.declare.record import BrokerRecord

try:
    from nats import errors
    from nats.aio.client import Client as Connection
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext, api
    from nats.js import errors as js_errors
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("reading records of NATS", error.name, "nats") from error

from mainspring.sinks.nats import close_connection, host_of, open_connection

CONNECT_SECONDS = 5.0
# The server forgets a consumer that nobody has asked for so long.
FORGET_SECONDS = 60.0
# How often a filter that has nothing new is looked at (seconds).
LOOK_SECONDS = 2.0

_FAILED = (errors.Error, js_errors.Error, OSError, TimeoutError)


class NatsFilters:
    """A stream of JetStream; each of `subjects` is read by itself, in order.

    `compacted=True`: the stream drops old messages by design (the last of each subject is kept), so it is
    no loss when its first message is later than where the source stands. `options` are those of
    `nats.connect`.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        stream: str,
        subjects: str | Sequence[str] = ">",
        compacted: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> None:
        self.servers = [servers] if isinstance(servers, str) else list(servers)
        self.subjects = [subjects] if isinstance(subjects, str) else list(subjects)
        if not self.servers or not stream or not self.subjects or not all(self.subjects):
            raise InvalidSetting(
                f"Nats needs servers, a stream and subjects, got {servers!r}, stream={stream!r} and "
                f"subjects={subjects!r}"
            )
        if len(set(self.subjects)) < len(self.subjects):
            raise InvalidSetting(f"subjects must differ, got {self.subjects!r}")
        self.stream = stream
        self.compacted = compacted
        self.options = dict(options or {})

    @property
    def address(self) -> str:
        """Where it reads from, as people are told."""
        return f"nats {','.join(host_of(server) for server in self.servers)} stream {self.stream}"

    def client(self, source: str) -> NatsClient:
        """A client for one worker."""
        return NatsClient(self)


class NatsClient:
    """All filters that one worker reads of a source."""

    def __init__(self, broker: NatsFilters) -> None:
        self.broker = broker
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()

    async def partitions(self) -> list[str]:
        """The filters, if the stream is there."""
        await self.state()
        return [f"{self.broker.stream}/{subject}" for subject in self.broker.subjects]

    async def offset_at(self, partition: str, start: str) -> int:
        """The first sequence of 'earliest', 'latest', or an instant (ISO)."""
        state = await self.state()
        if start == "earliest":
            return max(1, state.first_seq)
        if start == "latest":
            return state.last_seq + 1
        stream = await self.jetstream()
        moment = datetime.fromisoformat(start)
        try:
            info = await stream.add_consumer(
                self.broker.stream,
                self.config(partition, api.DeliverPolicy.BY_START_TIME, start_at=moment),
            )
            await stream.delete_consumer(self.broker.stream, info.name)
        except _FAILED as error:
            raise self.away(error) from error
        return (info.delivered.stream_seq if info.delivered else 0) + 1

    async def read_from(self, partition: str, offset: int) -> NatsStream:
        """The messages of a filter from this sequence on."""
        stream = NatsStream(self, partition, max(1, offset))
        await stream.open()
        return stream

    def note(self, partition: str, next: int) -> None:
        """NATS has no place for it: its consumers come and go."""

    async def probe(self) -> None:
        """Whether the server is there and has the stream."""
        await self.state()

    async def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_connection(connection)

    # -- for streams

    async def jetstream(self) -> JetStreamContext:
        """The connection's JetStream; connects if that is lost."""
        async with self._opening:
            if self._connection is not None and self._connection.is_closed:
                await self.close()
            if self._connection is None:
                self._connection = await self._connect()
        return self._connection.jetstream(timeout=CONNECT_SECONDS)

    async def _connect(self) -> Connection:
        settings = {
            "connect_timeout": CONNECT_SECONDS,
            "allow_reconnect": False,  # a reader begins anew where the database says
            "max_reconnect_attempts": 1,  # else the first connection is tried for minutes
            **self.broker.options,
        }
        try:
            return await open_connection(self.broker.servers, settings)
        except _FAILED as error:
            raise self.away(error) from error

    async def state(self) -> api.StreamState:
        """The first and the last message of the stream."""
        stream = await self.jetstream()
        try:
            return (await stream.stream_info(self.broker.stream)).state
        except js_errors.NotFoundError as error:
            raise EndpointAway(f"{self.broker.address}: there is no such stream") from error
        except _FAILED as error:
            raise self.away(error) from error

    def config(
        self,
        partition: str,
        policy: api.DeliverPolicy,
        *,
        start: int | None = None,
        start_at: datetime | None = None,
    ) -> api.ConsumerConfig:
        """A consumer of a filter."""
        return api.ConsumerConfig(
            filter_subject=partition.partition("/")[2],
            deliver_policy=policy,
            opt_start_seq=start,
            opt_start_time=start_at,
            ack_policy=api.AckPolicy.NONE,
            inactive_threshold=FORGET_SECONDS,
            mem_storage=True,
        )

    def away(self, error: BaseException) -> EndpointAway:
        """The error for whoever reads."""
        return EndpointAway(f"{self.broker.address}: {str(error) or type(error).__name__}")


class NatsStream:
    """One filter as it is read."""

    def __init__(self, client: NatsClient, partition: str, offset: int) -> None:
        self._client = client
        self._partition = partition
        self._next = offset
        self._got = 0  # the number of the consumer's last delivery
        self._name = ""
        self._pulled: JetStreamContext.PullSubscription | None = None
        self._looked_at = 0.0

    async def open(self) -> None:
        """A consumer that begins at the next message."""
        state = await self._client.state()
        self._check(state, self._next)
        stream = await self._client.jetstream()
        name = self._client.broker.stream
        config = self._client.config(
            self._partition, api.DeliverPolicy.BY_START_SEQUENCE, start=self._next
        )
        try:
            info = await stream.add_consumer(name, config)
            self._name, self._got = info.name, 0
            self._pulled = await stream.pull_subscribe_bind(consumer=info.name, stream=name)
        except _FAILED as error:
            raise self._client.away(error) from error

    def _check(self, state: api.StreamState, since: int) -> None:
        """Refuse to pass over messages that the stream has dropped, or numbers that it gives anew."""
        if state.last_seq + 1 < since:
            raise self._gone(state)
        if state.first_seq > since and not self._client.broker.compacted:
            raise self._gone(state)

    def _gone(self, state: api.StreamState) -> OffsetGone:
        return OffsetGone(
            f"{self._partition}: the stream does not have message {self._next}: it has "
            f"{state.first_seq} to {state.last_seq}; look at what was lost, then say where to go on: "
            "mainspring sources seek"
        )

    async def read(self, most: int, seconds: float) -> RecordChunk:
        """What there is, as soon as there is any; none after so many seconds."""
        assert self._pulled is not None
        try:
            messages = await self._pulled.fetch(most, timeout=seconds)
        except TimeoutError:
            return await self._look()
        except js_errors.APIError:  # the consumer is not there any more
            await self._open_anew()
            return RecordChunk([], self._next, None)
        except _FAILED as error:
            raise self._client.away(error) from error
        return await self._taken(messages)

    async def _taken(self, messages: list[Msg]) -> RecordChunk:
        records = []
        since, pending = self._next, 0
        for message in messages:
            told = message.metadata
            if told.sequence.consumer != self._got + 1:
                await self._open_anew()  # one was lost on the way
                break
            self._got += 1
            self._next = told.sequence.stream + 1
            pending = told.num_pending
            records.append(_record(message, self._partition))
        if self._next - since != len(records):
            self._check(await self._client.state(), since)
        return RecordChunk(records, self._next, self._next + pending)

    async def _look(self) -> RecordChunk:
        """Nothing came. Where what the stream has by now is none of this filter's, so far it is done."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < LOOK_SECONDS:
            return RecordChunk([], self._next, None)
        self._looked_at = now
        state = await self._client.state()
        stream = await self._client.jetstream()
        try:
            info = await stream.consumer_info(self._client.broker.stream, self._name)
        except js_errors.NotFoundError:
            await self._open_anew()
            return RecordChunk([], self._next, None)
        except _FAILED as error:
            raise self._client.away(error) from error
        delivered = info.delivered.consumer_seq if info.delivered else 0
        if delivered > self._got:
            await self._open_anew()  # deliveries were lost on the way
        elif not info.num_pending and await self._has_nothing(stream):
            self._next = max(self._next, state.last_seq + 1)
        return RecordChunk([], self._next, self._next + (info.num_pending or 0))

    async def _has_nothing(self, stream: JetStreamContext) -> bool:
        """Whether the stream itself, which said how far it is, has nothing more for this filter. What its
        consumer says of that is not enough: it may live on a server that is behind the stream's leader."""
        broker, subject = self._client.broker, self._partition.partition("/")[2]
        try:
            await stream.get_msg(broker.stream, self._next, subject, next=True)
        except js_errors.NotFoundError:
            return True
        except _FAILED as error:
            raise self._client.away(error) from error
        return False

    async def _open_anew(self) -> None:
        await self.close()
        await self.open()

    async def close(self) -> None:
        """Read it no more."""
        pulled, self._pulled = self._pulled, None
        if pulled is None:
            return
        with suppress(*_FAILED, AttributeError):
            await pulled.unsubscribe()


def _record(message: Msg, partition: str) -> BrokerRecord:
    told = message.metadata
    return BrokerRecord(
        topic=message.subject,
        partition=partition,
        offset=told.sequence.stream,
        key=None,
        value=message.data,
        headers=tuple((name, text.encode()) for name, text in (message.headers or {}).items()),
        time_ms=int(told.timestamp.timestamp() * 1000),
    )
