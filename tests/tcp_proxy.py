"""A TCP proxy between two real peers that cuts, stalls and half-closes what goes through it, when told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")
CHUNK = 65536


class Pipe:
    """One connection that goes through."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client, self.server = client, server
        self.ended: set[str] = set()  # directions; what comes for them is dropped

    def cut(self) -> None:
        """Both sides see a reset."""
        for writer in (self.client, self.server):
            writer.transport.abort()


class TcpProxy:
    """Forwards a port of the loopback to `target`. Its methods may be called by any thread."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.port = 0
        self.connections = 0  # that were made so far
        self.bytes_to_server = self.bytes_to_client = 0
        self._pipes: set[Pipe] = set()
        self._refusing = False
        self._flow: dict[str, asyncio.Event] = {}
        self._cut_when: Callable[[str, bytes], bool] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    # -- what a test says

    def cut(self) -> None:
        """Reset every connection. New ones are accepted."""

        async def cut() -> None:
            for pipe in list(self._pipes):
                pipe.cut()

        self._do(cut())

    def refuse(self) -> None:
        """Reset every connection, and each new one at once."""
        self._refusing = True
        self.cut()

    def accept(self) -> None:
        """Let new connections through again."""
        self._refusing = False

    def stall(self, *directions: str) -> None:
        """Hold back all bytes `to_server`, `to_client` or both; connections stay open."""

        async def stall() -> None:
            for direction in directions or ("to_server", "to_client"):
                self._flow[direction].clear()

        self._do(stall())

    def resume(self) -> None:
        """Let held bytes go on."""

        async def resume() -> None:
            for flow in self._flow.values():
                flow.set()

        self._do(resume())

    def half_close(self, direction: str) -> None:
        """End one direction of every connection; the other goes on."""

        async def half_close() -> None:
            for pipe in list(self._pipes):
                pipe.ended.add(direction)
                with suppress(OSError):
                    (pipe.server if direction == "to_server" else pipe.client).write_eof()

        self._do(half_close())

    def cut_when(self, matches: Callable[[str, bytes], bool] | None) -> None:
        """Reset a connection as soon as `matches(direction, bytes)`; these bytes are not forwarded."""
        self._cut_when = matches

    # -- the proxy

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        try:
            there_reader, there_writer = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        self.connections += 1
        pipe = Pipe(writer, there_writer)
        self._pipes.add(pipe)
        try:
            await asyncio.gather(
                self._forward(pipe, "to_server", reader, there_writer),
                self._forward(pipe, "to_client", there_reader, writer),
            )
        finally:
            self._pipes.discard(pipe)
            for side in (writer, there_writer):
                side.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self.target
        if host.startswith("/"):  # the folder of a PostgreSQL's socket
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)

    async def _forward(
        self,
        pipe: Pipe,
        direction: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._flow[direction].wait()
                if self._cut_when is not None and self._cut_when(direction, data):
                    pipe.cut()
                    return
                if direction in pipe.ended:
                    continue
                writer.write(data)
                await writer.drain()
                if direction == "to_server":
                    self.bytes_to_server += len(data)
                else:
                    self.bytes_to_client += len(data)
            if direction not in pipe.ended:
                writer.write_eof()

    async def _start(self) -> asyncio.Server:
        for direction in ("to_server", "to_client"):
            self._flow[direction] = asyncio.Event()
            self._flow[direction].set()
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def start(self) -> None:
        self._thread.start()
        self._server = self._do(self._start())

    def close(self) -> None:
        async def close() -> None:
            self._server.close()
            for pipe in list(self._pipes):
                pipe.cut()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self._do(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@contextmanager
def tcp_proxy(host: str, port: int) -> Iterator[TcpProxy]:
    """A proxy in front of a server at this address."""
    proxy = TcpProxy((host, port))
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()
