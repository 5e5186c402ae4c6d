"""The HTTP server: its address, its limits, its beginning and its end in order."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator, Sequence

from uvicorn import Config, Server

from mainspring.errors import InvalidSetting
from mainspring.server.certificate import Certificate
from mainspring.server.http.protocol import TimedProtocol
from mainspring.server.http.request import HEAD_BYTES, Asgi
from mainspring.server.listening import listen
from mainspring.server.settings import ListenAddress, ServeSettings

KEEP_ALIVE_SECONDS = 75
BACKLOG = 1024
GRACE_SECONDS = 10
MOST_CONNECTIONS = 4000
OWN_NAMES = ("localhost", "127.0.0.1", "::1")


class HttpServer:
    """Serves at one address. `start` returns when it listens, `stop` when all calls have ended."""

    def __init__(self, app: Asgi, settings: ServeSettings, address: ListenAddress) -> None:
        self._settings = settings
        self._address = address
        self._server = _Quiet(_config(app, settings))
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Listen; returns the address, with the port that was chosen where it was 0."""
        listener = listen(self._address, self._settings.shares_port)
        self._running = asyncio.create_task(
            self._server.serve(sockets=[listener]), name="mainspring.http"
        )
        begun = asyncio.create_task(self._server.begun.wait())
        await asyncio.wait([begun, self._running], return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            begun.cancel()
            await self._running
        if self._address.socket is not None:
            return self._address.text
        return self._address.with_port(listener.getsockname()[1])

    async def leave(self) -> None:
        """Connections are told to end with their next answer."""

    async def stop(self, _grace: float) -> None:
        """Take no new requests, and let the others end."""
        if self._running is None:
            return
        self._server.end()
        await self._running


class _Quiet(Server):
    """uvicorn's server without signals of its own; it says when it listens."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.begun = asyncio.Event()

    def end(self) -> None:
        """Stop listening; what is under way may end."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()


def own_names(address: ListenAddress, more: Sequence[str]) -> list[str] | None:
    """By which names a server on this machine is asked for; None: other addresses have any name."""
    if not address.is_local or address.socket is not None:
        return None
    return [*OWN_NAMES, address.host, *more]


def _config(app: Asgi, settings: ServeSettings) -> Config:
    config = Config(
        app,
        http=TimedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # what callers get wrong is told to them
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        ssl_ca_certs=settings.client_ca,
        ssl_cert_reqs=ssl.CERT_NONE if settings.client_ca is None else ssl.CERT_REQUIRED,
    )
    try:
        config.load()
    except OSError as error:  # an ssl.SSLError is one
        raise InvalidSetting(f"the certificate or its key cannot be used: {error}") from error
    if config.ssl is not None and settings.tls_cert is not None:
        _renew(config.ssl, settings.tls_cert, settings.tls_key)
    return config


def _renew(context: ssl.SSLContext, cert: str, key: str | None) -> None:
    """At each handshake: is there another certificate? The connections after it have it then."""
    certificate = Certificate(cert, key)

    def look(*_: object) -> None:
        if certificate.is_renewed():
            context.load_cert_chain(cert, key)

    context.set_servername_callback(look)
