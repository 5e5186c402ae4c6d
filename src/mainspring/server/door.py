"""One server process: what it serves, over which transports, its beginning and its end in order.

async with app, Door(app, ServeSettings(http="127.0.0.1:7410")):
    ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from mainspring.server.access.local import local_token
from mainspring.server.extra import needing_serve
from mainspring.server.settings import ServeSettings

with needing_serve():  # whoever mounts it is told the extra, too
    from mainspring.server.access.callers import Callers
    from mainspring.server.console import CarriedConsole
    from mainspring.server.counts import CallCounts
    from mainspring.server.grpc.server import GrpcServer
    from mainspring.server.handlers.methods import Services
    from mainspring.server.handlers.store import Store
    from mainspring.server.http.app import HttpApp
    from mainspring.server.http.places import Places
    from mainspring.server.http.request import Asgi, Event, Receive, Send
    from mainspring.server.http.server import HttpServer, own_names
    from mainspring.server.readiness import Readiness
    from mainspring.server.reception import Reception

if TYPE_CHECKING:
    from mainspring.app import Mainspring

GRACE_SECONDS = 10.0


def with_console(calls: Asgi, console: CarriedConsole) -> Asgi:
    """What a browser asks for is the console's, all else are calls."""

    async def carried(scope: Event, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and console.has(scope["path"])
        await (console if is_page else calls)(scope, receive, send)

    return carried


class Transport(Protocol):
    """What listens at one address."""

    async def start(self) -> str: ...

    async def leave(self) -> None: ...

    async def stop(self, grace: float) -> None: ...


class Door:
    """One server process. `start` returns when it listens, `stop` when all calls have ended."""

    def __init__(self, app: Mainspring, settings: ServeSettings) -> None:
        token = None if settings.token_file is None else local_token(Path(settings.token_file))
        store = Store(app)
        self._services = services = Services(store)
        self._readiness = readiness = Readiness(store)
        callers = Callers(store, local_token=token, open_to_all=settings.no_auth)
        self._reception = reception = Reception(callers)
        self._counts = counts = CallCounts()
        self._places = Places(store, reception, readiness, counts)
        self._transports: dict[str, Transport] = {}
        self._console: CarriedConsole | None = None
        if (address := settings.grpc_address) is not None:
            self._transports["gRPC"] = GrpcServer(
                services, reception, readiness, counts, settings, address
            )
        if (address := settings.http_address) is not None:
            hosts = own_names(address, settings.hosts)
            self._console = CarriedConsole(
                app,
                callers,
                local_token=token,
                code=settings.console_code,
                hosts=hosts,
                open_to_all=settings.no_auth,
            )
            carried = with_console(self.asgi(hosts), self._console)
            self._transports["HTTP"] = HttpServer(carried, settings, address)

    def asgi(self, hosts: Sequence[str] | None = None) -> HttpApp:
        """What HTTP serves, to be mounted in an application of yours; the door must have started.

        `hosts`: by which names it may be asked for. None: whoever carries it looks after that.
        """
        methods = self._services.by_path()
        return HttpApp(methods, self._reception, self._counts, self._places, hosts)

    @property
    def console_path(self) -> str | None:
        """Where the console is, below the address of HTTP."""
        return None if self._console is None else self._console.path

    async def start(self) -> dict[str, str]:
        """Listen; returns the address of each transport, with the port where 0 was asked for."""
        await self._readiness.start()
        try:
            return {name: await transport.start() for name, transport in self._transports.items()}
        except BaseException:
            await self.stop()  # of two addresses one may be taken
            raise

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Say that it leaves, take no new calls, answer those who wait, let the others end."""
        await self._readiness.leave()
        for transport in self._transports.values():
            await transport.leave()
        stops = [asyncio.create_task(each.stop(grace)) for each in self._transports.values()]
        await self._services.close()
        await asyncio.gather(*stops)

    async def __aenter__(self) -> dict[str, str]:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()
