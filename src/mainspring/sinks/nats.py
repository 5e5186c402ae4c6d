"""Events to a stream of NATS JetStream, by nats-py.

Acknowledged means: by the stream. Each record has a `Nats-Msg-Id`, so one that is sent again within the
stream's window is kept once. That window is a convenience, not a promise: consumers compare `ce-sequence`.
A publish that timed out may arrive later all the same; it is sent again with the same id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress

from mainspring.entities.declare.event import Saved
from mainspring.errors import EndpointAway, EventRefused, InvalidSetting, MissingExtra
from mainspring.sinks.record import record_of, record_shape

try:
    from nats import errors, js
    from nats.aio.client import Client
    from nats.js import errors as js_errors
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra("sending events to NATS", error.name, "nats") from error

# Seconds for which an acknowledgement is waited.
ACK_SECONDS = 5.0
CONNECT_SECONDS = 5.0
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def escape(text: str) -> str:
    """An id as one token of a subject: dots, blanks and wildcards are written as %XX, so is the rest."""
    if not text:
        return "%"  # no other id becomes this
    return "".join(
        c if c in _PLAIN else "".join(f"%{byte:02X}" for byte in c.encode()) for c in text
    )


def host_of(server: str) -> str:
    """A server's address, as people are told: without a password or a token in it."""
    return server.rpartition("@")[2].rpartition("//")[2]


class Nats:
    """A stream of JetStream that gets the events of a kind, under `<subject>.<kind>.<entity's id>`.

    The stream must be there: `create=True` makes one of that name for these subjects, with the server's
    defaults. `fields` and `state` choose what is sent. `options` are those of `nats.connect`.
    """

    decodes = False  # it sends JSON as the database has it

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        subject: str,
        stream: str | None = None,
        create: bool = False,
        source: str = "mainspring",
        prefix: str = "",
        state: bool = True,
        fields: Collection[str] | None = None,
        large: str = "park",
        options: dict[str, object] | None = None,
    ) -> None:
        tokens = subject.split(".")
        if not all(token and set(token) <= _PLAIN for token in tokens):
            raise InvalidSetting(
                "subject must be words of letters, digits, '_' and '-' with dots between them, "
                f"got {subject!r}"
            )
        if create and stream is None:
            raise InvalidSetting("create=True needs the name of the stream: stream='...'")
        if large not in ("park", "slim"):
            raise InvalidSetting(f"large must be one of park, slim, got {large!r}")
        self.subject, self.stream = subject, stream
        self._servers = [servers] if isinstance(servers, str) else list(servers)
        self._create, self._large = create, large
        self._shape = record_shape(source, prefix, state, fields)
        self._options = options or {}
        self._client: Client | None = None
        self._opening = asyncio.Lock()

    @property
    def address(self) -> str:
        """Where it sends to, as people are told: without what may be secret in it."""
        return f"nats {','.join(map(host_of, self._servers))} subject {self.subject}"

    async def send(self, event: Saved) -> None:
        """Send an event; returns when the stream has it."""
        try:
            await self._publish(event, slim=False)
        except EventRefused:
            if self._large != "slim":
                raise
            await self._publish(event, slim=True)

    async def _publish(self, event: Saved, *, slim: bool) -> None:
        record = record_of(event, self._shape, slim=slim)
        headers = {f"ce-{name}": text for name, text in record.attributes.items()}
        # A replay within the stream's window would else be taken for a repeat.
        again = "" if event.replay is None else f":{event.replay}"
        headers["Nats-Msg-Id"] = f"{record.attributes['source']}:{event.number}{again}"
        subject = f"{self.subject}.{escape(event.kind)}.{escape(record.key)}"
        stream = await self._stream()
        try:
            await stream.publish(subject, record.data, timeout=ACK_SECONDS, headers=headers)
        except errors.MaxPayloadError as error:
            raise EventRefused(f"{self.address}: too large: {error}") from error
        except js_errors.NoStreamResponseError as error:
            raise EndpointAway(f"{self.address}: no stream takes {subject}") from error
        except js_errors.APIError as error:
            text = f"{self.address}: {error.description or error} (code {error.err_code})"
            if error.code == 503 or error.err_code == _STREAM_STORE_FAILED:
                raise EndpointAway(text) from error
            raise ValueError(text) from error
        except (errors.Error, OSError, TimeoutError) as error:
            raise EndpointAway(f"{self.address}: {_said(error)}") from error

    async def _stream(self) -> js.JetStreamContext:
        async with self._opening:
            if self._client is not None and self._client.is_closed:
                await self.close()
            if self._client is None:
                self._client = await self._connect()
        return self._client.jetstream()

    async def _connect(self) -> Client:
        settings = {
            "connect_timeout": CONNECT_SECONDS,
            "allow_reconnect": True,
            "max_reconnect_attempts": 1,
            "pending_size": 0,
            **self._options,
        }
        try:
            client = await open_connection(self._servers, settings)
        except (errors.Error, OSError, TimeoutError) as error:
            raise EndpointAway(f"{self.address}: {_said(error)}") from error
        if self._create:
            try:
                await self._make_stream(client)
            except BaseException:
                await close_connection(client)
                raise
        return client

    async def _make_stream(self, client: Client) -> None:
        streams = client.jetstream(timeout=ACK_SECONDS)
        try:
            await streams.add_stream(name=self.stream or "", subjects=[f"{self.subject}.>"])
        except js_errors.APIError as error:
            if error.err_code != _STREAM_NAME_IN_USE:
                raise EndpointAway(f"{self.address}: {error.description or error}") from error
        except (errors.Error, js_errors.Error, OSError, TimeoutError) as error:
            raise EndpointAway(f"{self.address}: {_said(error)}") from error

    async def probe(self) -> None:
        """Whether the server is there and a stream takes these subjects; raises EndpointAway if not."""
        stream = await self._stream()
        try:
            await stream.find_stream_name_by_subject(f"{self.subject}.probe.probe")
        except js_errors.NotFoundError as error:
            raise EndpointAway(f"{self.address}: no stream takes its subjects") from error
        except (errors.Error, js_errors.Error, OSError, TimeoutError) as error:
            raise EndpointAway(f"{self.address}: {_said(error)}") from error

    async def close(self) -> None:
        """What is not acknowledged by now is sent again by whoever is next."""
        client, self._client = self._client, None
        if client is not None:
            await close_connection(client)


async def open_connection(servers: Sequence[str], settings: Mapping[str, object]) -> Client:
    """A connection of nats-py, by its own settings; given up on the way it leaves nothing open."""

    async def ignored(_: Exception) -> None:
        """Each call says what failed. Without this nats-py prints a traceback for every attempt."""

    client = Client()
    connect: Callable[..., Awaitable[None]] = client.connect  # settings are what a user chose
    try:
        await connect(list(servers), **{"error_cb": ignored, "name": "mainspring", **settings})
    except BaseException:
        await close_connection(client)
        raise
    return client


async def close_connection(client: Client) -> None:
    """Close a connection of nats-py, also one that breaks or closes itself meanwhile.

    nats-py waits for none of its tasks, ends those of subscriptions only after its last write, and does
    nothing at all when its own reconnecting has just given up and is closing.
    """
    running = _tasks(client)
    try:
        with suppress(errors.Error, OSError, TimeoutError, AssertionError):  # (it never began)
            await client.close()
    finally:
        running |= _tasks(client)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if (transport := client._transport) is not None:
            transport.close()  # type: ignore[no-untyped-call]
            with suppress(OSError):
                await transport.wait_closed()  # type: ignore[no-untyped-call]


def _tasks(client: Client) -> set[asyncio.Task[None]]:
    """Those that nats-py runs for a connection."""
    found: list[asyncio.Task[None] | None] = [
        client._reading_task,
        client._ping_interval_task,
        client._flusher_task,
        client._reconnection_task,
        *(getattr(sub, "_wait_for_msgs_task", None) for sub in client._subs.values()),
    ]
    return {task for task in found if task is not None and task is not asyncio.current_task()}


# Codes of JetStream's own.
_STREAM_NAME_IN_USE = 10058
_STREAM_STORE_FAILED = 10077


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
