"""Addresses of several hosts: each is tried for itself, and one that can be written to is found."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from mainspring import Mainspring
from mainspring.db.connect import hosts
from mainspring.db.connect.address import asyncpg_url
from mainspring.db.database import Database, probe
from mainspring.embedded.server import PORT, ROLE, EmbeddedServer
from mainspring.errors import DatabaseUnavailable, InvalidUrl
from mainspring.testing import wait_until

_NUMBER = "select current_setting('cluster_name')"
TINY = {"max_connections": "4", "superuser_reserved_connections": "0", "max_wal_senders": "0"}


async def by_asyncpg(database: Database) -> str:
    connection = await database.connect("reader")
    try:
        return await connection.fetchval(_NUMBER)  # type: ignore[no-any-return]
    finally:
        await connection.close()


async def by_psycopg(database: Database) -> str:
    with database.connect_sync("heart") as connection:
        return connection.execute(_NUMBER).fetchone()[0]  # type: ignore[index]


async def by_a_task(database: Database) -> str:
    async with await database.connect_task() as connection:
        return (await (await connection.execute(_NUMBER)).fetchone())[0]  # type: ignore[index]


async def by_a_plain_task(database: Database) -> str:
    with database.connect_task_sync() as connection:
        return connection.execute(_NUMBER).fetchone()[0]  # type: ignore[index]


async def by_probe(database: Database) -> str:
    return await by_asyncpg(await probe(database.url))


EVERY_WAY = (by_asyncpg, by_psycopg, by_a_task, by_a_plain_task, by_probe)
every_way = pytest.mark.parametrize("reach", EVERY_WAY)


@pytest.fixture(autouse=True)
def nothing_worked_yet() -> Iterator[None]:
    hosts._worked_last.clear()
    yield
    hosts._worked_last.clear()


class Pair:
    """Two servers under one address, told apart by their names."""

    def __init__(self, directory: Path) -> None:
        chosen = os.environ.get("MAINSPRING_TEST_BIN")
        bin_dir = Path(chosen) if chosen else None
        self.servers = [
            EmbeddedServer(
                directory / name,
                bin_dir=bin_dir,
                settings={"fsync": "off", "shared_buffers": "16MB", "cluster_name": name, **more},
            )
            for name, more in (("first", TINY), ("second", {}))
        ]
        for server in self.servers:
            server.start()

    @property
    def url(self) -> str:
        places = ",".join(str(server.socket_dir) for server in self.servers)
        return f"postgresql://{ROLE}@/postgres?host={places}&port={PORT}"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("pair"))
    yield pair
    for server in pair.servers:
        server.stop(fast_seconds=2)


@every_way
async def test_the_first_that_lets_us_in_is_taken(pair: Pair, reach: Any) -> None:
    assert await reach(Database(pair.url)) == "first"


@every_way
async def test_a_full_host_is_passed_and_the_next_remembered(pair: Pair, reach: Any) -> None:
    """T13: 53300."""
    database = Database(pair.url)
    with ExitStack() as stack:
        with suppress(psycopg.OperationalError):
            while True:
                stack.enter_context(psycopg.connect(pair.servers[0].url("postgres")))
        assert await reach(database) == "second"
    assert await reach(database) == "second"


@every_way
async def test_a_host_that_shuts_down_is_passed(pair: Pair, reach: Any) -> None:
    """T13: 57P03, while it waits for those who are there to go."""
    first = pair.servers[0]
    with psycopg.connect(first.url("postgres")):
        pid = first.pid
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        await wait_until(lambda: _refuses(first.url("postgres")))

        assert await reach(Database(pair.url)) == "second"
    await wait_until(lambda: not first.running)
    first.start()


def _refuses(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return True
    return False


@every_way
@pytest.mark.parametrize(
    "said", ["", "&target_session_attrs=read-write"], ids=["by default", "said"]
)
async def test_a_host_that_cannot_be_written_to_is_passed(
    pair: Pair, reach: Any, said: str
) -> None:
    """T1: after a failover the first host is a standby; a worker that stayed there would read nothing."""
    read_only = "alter system set default_transaction_read_only = {}"
    with psycopg.connect(pair.servers[0].url("postgres"), autocommit=True) as first:
        first.execute(read_only.format("on"))
        first.execute("select pg_reload_conf()")
        try:
            await wait_until(lambda: _is_read_only(pair.servers[0]))
            assert await reach(Database(pair.url + said)) == "second"
        finally:
            first.execute("set default_transaction_read_only = off")
            first.execute(read_only.format("off"))
            first.execute("select pg_reload_conf()")
    await wait_until(lambda: not _is_read_only(pair.servers[0]))


def _is_read_only(server: EmbeddedServer) -> bool:
    with psycopg.connect(server.url("postgres")) as connection:
        row = connection.execute("show default_transaction_read_only").fetchone()
    return row == ("on",)


async def test_no_connection_goes_to_a_server_that_cannot_be_written_to(database_url: str) -> None:
    """T1."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        name = connection.info.dbname
        text = f"alter database {name} set default_transaction_read_only = on"
        connection.execute(text.encode())
    database = Database(make_conninfo(database_url, target_session_attrs="read-write"))

    with pytest.raises(DatabaseUnavailable, match="cannot connect"):
        database.connect_sync("heart")
    with pytest.raises(DatabaseUnavailable, match="cannot connect"):
        await database.connect("reader")


async def test_an_error_names_every_host_with_its_reason() -> None:
    database = Database("postgresql://ann:secret@127.0.0.1:1,127.0.0.1:2/shop")

    with pytest.raises(DatabaseUnavailable) as failed:
        await database.connect("reader")
    with pytest.raises(DatabaseUnavailable) as failed_sync:
        database.connect_sync("heart")

    for error in (failed.value, failed_sync.value):
        assert "127.0.0.1:1: " in str(error)
        assert "127.0.0.1:2: " in str(error)
        assert "secret" not in str(error)


def test_each_host_keeps_what_the_address_says_of_all() -> None:
    url = (
        "postgresql://ann:pw@h1:5432,h2:5433/shop?sslmode=verify-full&target_session_attrs=primary"
    )
    first, second = (asyncpg_url(host.url) for host in hosts.to_try(url))

    assert "host=h1&port=5432" in first
    assert "host=h2&port=5433" in second
    for one in (first, second):
        assert one.startswith("postgresql://ann:pw@/shop?sslmode=verify-full&")
        assert "target_session_attrs=primary" in one


def test_an_address_says_how_long_each_host_is_waited_for() -> None:
    both = "postgresql://h1,h2/shop"

    assert [host.patience for host in hosts.to_try(both)] == [3.0, 3.0]
    assert [host.patience for host in hosts.to_try(f"{both}?connect_timeout=7")] == [7.0, 7.0]
    assert [host.patience for host in hosts.to_try("postgresql://h1/shop")] == [10.0]


def test_hosts_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "h1,h2")
    monkeypatch.setenv("PGPORT", "5432,5433")

    assert [host.name for host in hosts.to_try("postgresql:///shop")] == ["h1:5432", "h2:5433"]


def test_as_many_ports_as_hosts_or_one() -> None:
    with pytest.raises(InvalidUrl, match="cannot read the database address"):
        Mainspring("postgresql://h1,h2,h3/shop?port=5432,5433")
