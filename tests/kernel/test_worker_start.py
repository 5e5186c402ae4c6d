"""The start of a worker: it waits for a database that is away, and says at once what cannot be."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.errors import MissingRights
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS
from visits import Visits


@contextmanager
def closed(url: str) -> Iterator[None]:
    """Nobody can connect to the database, and whoever was connected is cut off."""
    name = urlsplit(url).path[1:]
    with psycopg.connect(url, dbname="postgres", autocommit=True) as elsewhere:
        elsewhere.execute(f'alter database "{name}" allow_connections false')
        elsewhere.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
        )
        try:
            yield
        finally:
            elsewhere.execute(f'alter database "{name}" allow_connections true')


def waits(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record for record in caplog.records if record.msg == "worker.waiting"]
    return [str(record.__dict__["error"]) for record in found]


async def test_a_worker_starts_when_the_database_is_back(
    app: Mainspring, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """T1: its first connections are cut, and it goes on as one that runs does."""

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async def work() -> int:
        async with app.worker(**FAST_SETTINGS):
            handle = await add.enqueue(1, 2)
            return await handle.result(timeout=30)

    await app.pool()  # its address was found good once
    with closed(database_url):
        working = asyncio.create_task(work())
        await wait_until(lambda: waits(caplog))
        assert not working.done()

    assert await working == 3
    assert "not currently accepting connections" in waits(caplog)[0]


async def test_a_worker_that_waits_for_the_database_can_be_stopped(
    app: Mainspring, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """T10"""
    await app.pool()
    with closed(database_url):
        working = asyncio.create_task(app.run_worker())
        await wait_until(lambda: waits(caplog))
        os.kill(os.getpid(), signal.SIGTERM)
        await working


@pytest.fixture
def clerk(visits: Visits, database_url: str) -> Iterator[str]:
    """The address of the database for a role that may read, and nothing else."""
    role = f"clerk_{visits.connection.info.backend_pid}"
    visits.query(f"create role {role} login")
    visits.query(f"grant usage on schema mainspring to {role}")
    visits.query(f"grant select on all tables in schema mainspring to {role}")
    yield database_url.replace("postgres@", f"{role}@", 1)
    visits.query(f"drop owned by {role}")
    visits.query(f"drop role {role}")


async def test_missing_rights_are_said_at_once(clerk: str) -> None:
    """T11: what the database will go on refusing is no reason to wait."""
    async with Mainspring(clerk) as app:
        with pytest.raises(
            MissingRights, match=r"permission denied for .*; mainspring doctor names"
        ):
            await asyncio.wait_for(app.worker().__aenter__(), 10)
