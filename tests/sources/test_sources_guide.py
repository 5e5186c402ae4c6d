"""The guide of sources runs as it stands, on brokers that are there."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import nats as nats_client
from confluent_kafka import Producer

from brokers import KafkaCluster, NatsServer
from mainspring.sources import Kafka, Nats
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS
from sources.feeds import QUICK, Sources

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "events-from-brokers.md"


async def test_the_guide_s_program_takes_orders_and_payments(
    sources: Sources, nats: NatsServer, monkeypatch: Any
) -> None:
    monkeypatch.setenv("MAINSPRING_URL", sources.url)
    guide = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", guide)
    names: dict[str, Any] = vars(guide)
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL):
        exec(block, names)
    app, cluster = names["app"], KafkaCluster()
    brokers = {
        "orders": Kafka(cluster.servers, topic="orders", settings=QUICK),
        "payments": Nats(nats.url, stream="PAYMENTS", subjects=["payments.card", "payments.cash"]),
    }
    for name, broker in brokers.items():
        app.sources[name] = dataclasses.replace(app.sources[name], broker=broker)
    producer = Producer({"bootstrap.servers": cluster.servers, "log_level": 0})
    for n in (1, 2):
        producer.produce("orders", json.dumps({"id": n, "total": 9.5}), str(n))
    producer.produce("orders", None, "2")
    assert producer.flush(30) == 0

    def stored() -> list[Any]:
        rows = sources.query("select key, body from mainspring.document order by key")
        return [(row["key"], row["body"].get("paid")) for row in rows]

    connection = await nats_client.connect(nats.url)
    stream = connection.jetstream()
    await stream.add_stream(name="PAYMENTS", subjects=["payments.>"])
    async with app:
        await app.migrate()
        async with app.worker(**FAST_SETTINGS):
            await wait_until(lambda: stored() == [("1", None)], 30)
            assert sources.value("select num from mainspring.param") > 0
            await stream.publish("payments.card", json.dumps({"order": 1}).encode())
            await stream.publish("payments.cash", json.dumps({"order": 2}).encode())
            await wait_until(lambda: stored() == [("1", True)], 30)
            await wait_until(lambda: sources.count("mainspring.source_reject") == 1, 30)
            [rejected] = await app.operator.sources.rejects("payments")
            assert "mainspring.errors.NotFound" in rejected.error
    await connection.close()
    cluster.end()
