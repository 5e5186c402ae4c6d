"""Brokers that tests fill with records, and an application that reads them, with plain SQL beside it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Protocol

import nats
import psycopg
from confluent_kafka import Producer
from psycopg.rows import dict_row

from brokers import KafkaCluster, NatsServer
from kafka_broker import KafkaBroker
from mainspring import Mainspring
from mainspring.sources import Kafka, Nats, RecordBroker
from mainspring.testing import wait_until

QUICK = {"log_level": 0, "reconnect.backoff.max.ms": 200, "socket.timeout.ms": 3000}


class Feed(Protocol):
    """A broker with a topic or a stream."""

    def broker(self, address: str | None = None) -> RecordBroker: ...

    async def put(self, values: Sequence[object], *, part: int = 0) -> None:
        """Add records with these values, as JSON."""
        ...


class NatsFeed:
    def __init__(self, server: NatsServer) -> None:
        self.server = server

    def broker(self, address: str | None = None) -> Nats:
        return Nats(address or self.server.url, stream="ORDERS", subjects=["orders.0", "orders.1"])

    async def put(self, values: Sequence[object], *, part: int = 0) -> None:
        connection = await nats.connect(self.server.url)
        try:
            stream = connection.jetstream()
            await stream.add_stream(name="ORDERS", subjects=["orders.>"])
            for value in values:
                await stream.publish(f"orders.{part}", json.dumps(value).encode())
        finally:
            await connection.close()


class KafkaFeed:
    def __init__(self, cluster: KafkaCluster | KafkaBroker, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic

    def broker(self, address: str | None = None) -> Kafka:
        return Kafka(address or self.cluster.servers, topic=self.topic, settings=QUICK)

    async def put(self, values: Sequence[object], *, part: int = 0) -> None:
        await asyncio.to_thread(self._put, values, part)

    def _put(self, values: Sequence[object], part: int) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.servers, "log_level": 0})
        for value in values:
            producer.produce(self.topic, json.dumps(value).encode(), partition=part)
            producer.poll(0)
        assert producer.flush(30) == 0


class Sources:
    """An application on a database, and plain SQL on it."""

    def __init__(self, url: str, app: Mainspring) -> None:
        self.url = url
        self.app = app
        self.connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)

    def close(self) -> None:
        self.connection.close()

    def query(self, text: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(text, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []

    def value(self, text: str, *values: Any) -> Any:
        return next(iter(self.query(text, *values)[0].values()))

    def count(self, table: str) -> int:
        return int(self.value(f"select count(*) from {table}"))

    def offsets(self) -> dict[str, int]:
        rows = self.query(
            "select partition, next from mainspring.source_offset where start is null"
        )
        return {row["partition"]: row["next"] for row in rows}

    def visit(self, key: str) -> dict[str, Any]:
        found = self.query(
            "select * from mainspring.visit where queue like 'source/%%' and key = %s", key
        )
        return found[0] if found else {}

    async def parked(self, key: str, seconds: float = 30) -> dict[str, Any]:
        """The visit of a partition that has stopped."""
        await wait_until(lambda: self.visit(key).get("parked_at") is not None, seconds)
        return self.visit(key)
