"""Fixtures of the tests of sources: brokers, and an application with plain SQL beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainspring import Mainspring
from sinks.conftest import kafka, nats, real_kafka, topic
from sources.feeds import Feed, KafkaFeed, NatsFeed, Sources

__all__ = ["kafka", "nats", "real_kafka", "topic"]


@pytest.fixture
def sources(database_url: str, app: Mainspring) -> Iterator[Sources]:
    found = Sources(database_url, app)
    yield found
    found.close()


@pytest.fixture(params=["nats", "mock kafka", "real kafka"])
def feed(request: pytest.FixtureRequest, topic: str) -> Iterator[Feed]:
    """Each kind of broker, with something to read from."""
    if request.param == "nats":
        yield NatsFeed(request.getfixturevalue("nats"))
        return
    if request.param == "real kafka":
        yield KafkaFeed(request.getfixturevalue("real_kafka"), topic)
        return
    from brokers import KafkaCluster

    cluster = KafkaCluster()
    yield KafkaFeed(cluster, topic)
    cluster.end()
