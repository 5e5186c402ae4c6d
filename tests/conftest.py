"""Fixtures of our own tests: the shipped ones under short names, and a check for what is left."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID

import hypothesis
import psycopg
import pytest

from mainspring import Mainspring
from mainspring.testing import Clock, TestServer
from visits import Visits, queue

# How long drawing takes is the machine's business, not the property's.
hypothesis.settings.register_profile(
    "ours", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("ours")

LEAVE_SECONDS = 3.0  # a backend ends some time after its client has hung up

_CONNECTIONS = """
select application_name, state, query from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""
_LOCKS = """
select relation::regclass, mode, pid from pg_locks
where database = (select oid from pg_database where datname = current_database())
  and pid <> pg_backend_pid()
"""


def pytest_report_header() -> str:
    return f"server: {TestServer.from_environment().version()}"


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """After the test: no task, thread, connection or lock of ours, and no broken invariant."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        request.getfixturevalue("no_task_is_left")
    url = None
    if "mainspring_url" in request.fixturenames:
        url = request.getfixturevalue("mainspring_url")
    yield
    hearts = [t for t in threading.enumerate() if t.name == "mainspring.heart"]
    assert not hearts, "a worker's heart still beats"
    if url is not None:
        with psycopg.connect(url, autocommit=True) as connection:
            assert not _left(connection, _CONNECTIONS), "a connection is left open"
            assert not _left(connection, _LOCKS), "a lock is left"
            assert connection.execute("select * from mainspring.violation").fetchall() == []


def _left(connection: psycopg.Connection[Any], query: str) -> list[Any]:
    deadline = time.monotonic() + LEAVE_SECONDS
    while (rows := connection.execute(query).fetchall()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return rows


@pytest.fixture
async def no_task_is_left() -> AsyncIterator[None]:
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, "an asyncio task is left"


@pytest.fixture
def database_url(mainspring_url: str) -> str:
    return mainspring_url


@pytest.fixture
async def app(mainspring_app: Mainspring) -> Mainspring:
    return mainspring_app


@pytest.fixture
def clock(mainspring_clock: Clock) -> Clock:
    return mainspring_clock


@pytest.fixture
def visits(mainspring_url: str) -> Iterator[Visits]:
    """The protocol's statements on a fresh database that knows one queue."""
    found = Visits(mainspring_url)
    found.register(queue())
    yield found
    # The simulated workers end as they are; what they leave is no leak.
    found.query("delete from mainspring.worker")
    found.query("update mainspring.lease set worker_id = null")
    found.query("delete from mainspring.visit where pass is not null")
    found.close()


@pytest.fixture
def me(visits: Visits) -> UUID:
    """A worker that has joined and owns all shards."""
    worker_id = visits.join()
    visits.take(worker_id)
    return worker_id
