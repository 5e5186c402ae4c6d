"""Fixtures of the tests of sinks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers import KafkaCluster, NatsServer, nats_server
from kafka_broker import KafkaBroker, classes
from mainspring import Mainspring
from stages import Stages


@pytest.fixture
def stages(database_url: str, app: Mainspring) -> Iterator[Stages]:
    found = Stages(database_url, app)
    yield found
    found.close()


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path / "nats") as server:
        yield server


@pytest.fixture(scope="session")
def real_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A real broker; each test uses topics of its own, and leaves it running."""
    lib, why = classes()
    if lib is None:
        pytest.skip(f"a real Kafka broker: {why}")
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(params=["mock", "real"])
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster | KafkaBroker]:
    """Both kinds of Kafka."""
    if request.param == "real":
        yield request.getfixturevalue("real_kafka")
        return
    cluster = KafkaCluster()
    yield cluster
    cluster.end()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test uses."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[:80]
