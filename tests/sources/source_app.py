"""The application of workers that are killed: its broker and database come from the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from mainspring import Mainspring
from mainspring.sources import Advance, Enqueue, Kafka, Nats, Put, Record, RecordBroker

app = Mainspring()
loaded = app.data("dwh").param("loaded", kind="integer")
drafts = app.documents("draft")


@app.task(pool="nobody")
async def charge(order: int) -> None: ...


def to(record: Record) -> Sequence[Any]:
    n = record.json()
    return Enqueue(charge.bind(n)), Advance(loaded, n), Put(drafts, n % 100, {"n": n})


def broker() -> RecordBroker:
    address = os.environ["TEST_BROKER"]
    if address.startswith("nats:"):
        return Nats(address, stream="ORDERS", subjects=["orders.0", "orders.1"])
    settings = {"log_level": 0, "reconnect.backoff.max.ms": 200, "socket.timeout.ms": 3000}
    return Kafka(address, topic=os.environ["TEST_TOPIC"], settings=settings)


app.source("orders", broker(), to=to)
