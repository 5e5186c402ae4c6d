"""Real networks for the tests: namespaces of the test's own, with servers behind a router that can fail.

One namespace is for workers, one for each host, and a router stands between them. `cut` makes the router
drop every packet to and from a host without a word, as a lost route or a machine without power does; no
end learns of it. `slow` puts a process between that delays each byte. The test itself reaches a server
by its Unix socket, which no cut concerns.

Where namespaces are forbidden (no root, no CAP_SYS_ADMIN, no `ip`) `reason()` says so, to skip by.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql

import servers
from mainspring import Mainspring
from mainspring.embedded.server import PORT, ROLE, EmbeddedServer

CLONE_NEWNET = 0x40000000
SLOW_PORT = 6000  # in the workers' namespace, the first host's


@cache
def reason() -> str | None:
    """Why there can be no namespaces here; None if there can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces are for root"
    if (program := _ip_program()) is None:
        return "there is no `ip` (iproute2), and no apt to bring it"
    name = f"ms{os.getpid()}-try"
    made = subprocess.run([program, "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces are forbidden: {made.stderr.strip()}"
    try:
        pair = ["link", "add", "try0", "type", "veth", "peer", "name", "try1"]
        linked = subprocess.run([program, "-n", name, *pair], capture_output=True, text=True)
        return f"no veth pairs: {linked.stderr.strip()}" if linked.returncode else None
    finally:
        subprocess.run([program, "netns", "del", name], check=False)


@cache
def _ip_program() -> str | None:
    found = shutil.which("ip", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    return found or servers.ip_path()


def _ip(*words: str) -> None:
    subprocess.run([str(_ip_program()), *words], check=True, capture_output=True, text=True)


class TcpServer(EmbeddedServer):
    """A server that listens on TCP too, for the namespace that it is started in."""

    listens_on = "*"

    def let_in(self) -> None:
        """Every address of the namespaces may log in."""
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write(
                "host all all 10.77.0.0/16 trust\nhost replication all 10.77.0.0/16 trust\n"
            )
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute("select pg_reload_conf()")


class Network:
    """Namespaces for the time of a `with` block: workers, a router, and `hosts` hosts behind it."""

    def __init__(self, hosts: int = 1) -> None:
        self.hosts = hosts
        self._tag = f"ms{os.getpid()}-{os.urandom(2).hex()}"
        self._stack = ExitStack()
        self._workers = f"{self._tag}-w"
        self._router = f"{self._tag}-r"

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _make(self) -> None:
        self._namespace(self._router)
        self._write(self._router, "net/ipv4/ip_forward", "1")
        self._namespace(self._workers)
        self._link(self._workers, 1)
        for host in range(self.hosts):
            self._namespace(self._host(host))
            self._link(self._host(host), 2 + host)

    def _namespace(self, name: str) -> None:
        _ip("netns", "add", name)
        self._stack.callback(_ip, "netns", "del", name)
        _ip("-n", name, "link", "set", "lo", "up")

    def _link(self, name: str, net: int) -> None:
        """A cable from a namespace to the router, which is its way to all others."""
        port = f"n{net}"
        _ip(
            "-n",
            self._router,
            "link",
            "add",
            port,
            "type",
            "veth",
            "peer",
            "name",
            "eth",
            "netns",
            name,
        )
        _ip("-n", self._router, "addr", "add", f"10.77.{net}.1/24", "dev", port)
        _ip("-n", name, "addr", "add", f"10.77.{net}.2/24", "dev", "eth")
        _ip("-n", self._router, "link", "set", port, "up")
        _ip("-n", name, "link", "set", "eth", "up")
        _ip("-n", name, "route", "add", "default", "via", f"10.77.{net}.1")

    def _host(self, host: int) -> str:
        return f"{self._tag}-h{host}"

    def address(self, host: int = 0) -> str:
        return f"10.77.{2 + host}.2"

    def _write(self, namespace: str, setting: str, value: str) -> None:
        with _inside(namespace):
            Path("/proc/sys", setting).write_text(value)  # of the thread that writes

    # -- who is where

    @contextmanager
    def in_workers(self) -> Iterator[None]:
        """What is started (or connects) here, in this thread, is in the workers' namespace."""
        with _inside(self._workers):
            yield

    @contextmanager
    def in_host(self, host: int = 0) -> Iterator[None]:
        with _inside(self._host(host)):
            yield

    def server(self, host: int = 0, settings: Mapping[str, str] | None = None) -> TcpServer:
        """A PostgreSQL on a host, with a migrated database `template`; it ends with the network."""
        chosen = os.environ.get("MAINSPRING_TEST_BIN")
        folder = Path(tempfile.mkdtemp(prefix="mainspring-net-", dir="/tmp"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = TcpServer(
            folder / "m",
            bin_dir=Path(chosen) if chosen else None,
            settings={"fsync": "off", "shared_buffers": "32MB", **(settings or {})},
        )
        with self.in_host(host):
            server.start()
        self._stack.callback(server.stop, fast_seconds=2)
        server.let_in()
        server.create_database("template")
        app = Mainspring(server.url("template"))
        app.migrate_sync()
        app.close_sync()
        return server

    @staticmethod
    def database(server: TcpServer, name: str) -> None:
        """A fresh, migrated database on a server."""
        with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
            new = sql.SQL("create database {} template template").format(sql.Identifier(name))
            connection.execute(new)

    def url(self, database: str, *hosts: int) -> str:
        """How workers reach a database: by the network, on one host or several."""
        places = ",".join(f"{self.address(host)}:{PORT}" for host in hosts or (0,))
        return f"postgresql://{ROLE}@{places}/{database}"

    # -- faults

    def cut(self, host: int = 0) -> None:
        """No packet passes to or from this host any more, and nobody is told."""
        _ip("-n", self._router, "route", "replace", "blackhole", f"{self.address(host)}/32")
        self._write(self._router, f"net/ipv4/conf/n{2 + host}/forwarding", "0")

    def heal(self, host: int = 0) -> None:
        with suppress(subprocess.CalledProcessError):  # it was not cut
            _ip("-n", self._router, "route", "del", "blackhole", f"{self.address(host)}/32")
        self._write(self._router, f"net/ipv4/conf/n{2 + host}/forwarding", "1")

    @contextmanager
    def slow(self, database: str, round_trip: float, host: int = 0) -> Iterator[str]:
        """An address in the workers' namespace by which every round trip lasts so long (seconds)."""
        port = SLOW_PORT + host
        command = [sys.executable, __file__, str(port), self.address(host), str(PORT)]
        with (
            self.in_workers(),
            subprocess.Popen([*command, str(round_trip / 2)], stdout=subprocess.PIPE) as proxy,
        ):
            try:
                assert proxy.stdout is not None
                assert proxy.stdout.readline() == b"ready\n"
                yield f"postgresql://{ROLE}@127.0.0.1:{port}/{database}"
            finally:
                proxy.kill()


@contextmanager
def _inside(namespace: str) -> Iterator[None]:
    """This thread in another network namespace; processes it starts stay there."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(fd: int) -> None:
        if libc.setns(fd, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns to {namespace}")

    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(there)
        try:
            yield
        finally:
            enter(home)
    finally:
        os.close(home)
        os.close(there)


# -- the process that delays: `python netns.py PORT HOST HOST_PORT SECONDS`, each way


async def _delay(source: asyncio.StreamReader, sink: asyncio.StreamWriter, seconds: float) -> None:
    loop, last = asyncio.get_running_loop(), None
    while data := await source.read(65536):
        last = loop.call_later(seconds, sink.write, data)
    if last is not None:
        await asyncio.sleep(max(0.0, last.when() - loop.time()))
    sink.close()


async def _proxy(port: int, host: str, host_port: int, seconds: float) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(host, host_port)
        except OSError:
            writer.close()
            return
        with suppress(OSError):
            await asyncio.gather(
                _delay(reader, there_writer, seconds), _delay(there_reader, writer, seconds)
            )

    async with await asyncio.start_server(serve, "127.0.0.1", port) as server:
        print("ready", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_proxy(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
