"""Fixtures of the tests of sinks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers import KafkaCluster, NatsServer, nats_server
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


@pytest.fixture
def kafka() -> Iterator[KafkaCluster]:
    cluster = KafkaCluster()
    yield cluster
    cluster.end()
