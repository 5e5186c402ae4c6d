"""Hosts and clients that go without a word, on real networks: packets vanish, nobody is told."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import netns
from mainspring import Mainspring
from mainspring.db.connect import hosts, keepalive
from mainspring.db.database import Database, probe
from mainspring.errors import DatabaseUnavailable
from mainspring.testing import WorkerProcess, wait_until
from netns import Network, TcpServer

pytestmark = pytest.mark.skipif(netns.reason() is not None, reason=str(netns.reason()))

APPS = Path(__file__).parents[2] / "crash"
_LEFT = """
select count(*) from pg_stat_activity where application_name like 'mainspring:%'
"""


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network(hosts=2) as network:
        network.cut(0)  # the first host never answers
        yield network


@pytest.fixture(scope="module")
def server(network: Network) -> TcpServer:
    return network.server(1)


@pytest.fixture
def url(network: Network, server: TcpServer) -> Iterator[str]:
    hosts._worked_last.clear()
    network.heal(1)
    yield network.url("template", 0, 1)
    hosts._worked_last.clear()


async def by_asyncpg(database: Database) -> None:
    await (await database.connect("reader")).close()


async def by_psycopg(database: Database) -> None:
    database.connect_sync("heart").close()


async def by_a_task(database: Database) -> None:
    await (await database.connect_task()).close()


async def by_a_plain_task(database: Database) -> None:
    database.connect_task_sync().close()


async def by_probe(database: Database) -> None:
    await probe(database.url)


@pytest.mark.parametrize("reach", [by_asyncpg, by_psycopg, by_a_task, by_a_plain_task, by_probe])
async def test_a_silent_first_host_is_passed_and_not_waited_for_again(
    network: Network, url: str, reach: Any
) -> None:
    """T13: power off, or a dropped route; it once took all the time there was, again and again."""
    database = Database(url)
    with network.in_workers():
        began = time.monotonic()
        await reach(database)
        first = time.monotonic() - began
        began = time.monotonic()
        await reach(database)
        second = time.monotonic() - began

    assert first + 0.01 >= hosts.EACH_SECONDS
    assert first < 2 * hosts.EACH_SECONDS
    assert second < hosts.EACH_SECONDS


async def test_a_worker_process_works_though_the_first_host_is_silent(
    network: Network, server: TcpServer, url: str, tmp_path: Path
) -> None:
    """T13: it looks, joins, reads, runs and settles by the second."""
    network.database(server, "silent")
    app = Mainspring(server.url("silent"))

    @app.task(name="note")
    async def note(n: int) -> int:
        return n

    handle = await note.enqueue(n=1)
    places = network.url("silent", 0, 1)
    with (tmp_path / "log").open("wb") as output, network.in_workers():
        worker = WorkerProcess("failover_app:app", places, path=APPS, output=output, lease=10.0)
        with worker:
            assert await handle.result(timeout=40) == 1
    await app.close()


async def test_who_is_in_a_hurry_gives_each_host_less(network: Network, url: str) -> None:
    """T2: the heart must have reached the next host long before its lease ends."""
    with network.in_workers():
        began = time.monotonic()
        Database(url).connect_sync("heart", timeout=0.3).close()
        await (await Database(url).connect("reader", timeout=0.3)).close()
        assert time.monotonic() - began < hosts.EACH_SECONDS

        hosts._worked_last.clear()
        with pytest.raises(DatabaseUnavailable, match="database template: timed out"):
            Database(network.url("template", 0)).connect_sync("heart", timeout=0.3)


async def test_both_ends_of_every_connection_notice_the_other_s_death(
    network: Network, url: str
) -> None:
    asked = ", ".join(
        f"current_setting('{name}')" for name in (*keepalive.SERVER, *keepalive.SERVER_LOOKS)
    )
    there = ("20", "5", "3", "60000", "10s")
    with network.in_workers():
        database = await probe(url)
        plain = await database.connect("reader")
        heart, task = database.connect_sync("heart"), await database.connect_task()
        line = plain._transport.get_extra_info("socket")
        found = [tuple(await plain.fetchrow(f"select {asked}"))]
        found.append(heart.execute(f"select {asked}").fetchone())  # type: ignore[arg-type]
        found.append(await (await task.execute(f"select {asked}")).fetchone())  # type: ignore[arg-type]
        lines = [line.fileno(), heart.fileno(), task.fileno()]
        here = [_options_of(fd) for fd in lines]
        await plain.close()
        heart.close()
        await task.close()

    assert found == [there] * 3
    assert here == [(1, 20, 5, 3, 30_000)] * 3


def _options_of(fd: int) -> tuple[int, ...]:
    line = socket.socket(fileno=fd)
    tcp = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
    found = [line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)]
    found += [line.getsockopt(socket.IPPROTO_TCP, option) for option in tcp]
    line.detach()
    return tuple(found)


# Opens connections of every kind, says so, and is killed while the network is cut: no FIN arrives.
_CLIENT = """
import asyncio, sys
from mainspring.db.database import probe
from dataclasses import replace

async def main():
    database = await probe(sys.argv[1])
    quick = {"tcp_keepalives_idle": "1s", "tcp_keepalives_interval": "1s", "tcp_user_timeout": "2s"}
    if sys.argv[2] == "quick":
        database = replace(database, settings=quick | {"client_connection_check_interval": "1s"})
    kept = [await database.connect("reader"), database.connect_sync("heart")]
    kept += [await database.connect_task(), database.connect_task_sync()]
    busy = await database.connect("busy", client=True, settings={"statement_timeout": "0"})
    statement = asyncio.create_task(busy.execute("select pg_sleep(3600)"))
    await asyncio.sleep(0)
    print("ready", flush=True)
    await statement

asyncio.run(main())
"""


def _vanish(network: Network, url: str, how: str) -> None:
    with (
        network.in_workers(),
        subprocess.Popen(
            [sys.executable, "-c", _CLIENT, url, how], stdout=subprocess.PIPE
        ) as client,
    ):
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        network.cut(1)
        client.kill()


async def _cut_off(network: Network, server: TcpServer, url: str, how: str, within: float) -> None:
    _vanish(network, url, how)
    with psycopg.connect(server.url("template"), autocommit=True) as inside:

        def left() -> int:
            return inside.execute(_LEFT).fetchone()[0]  # type: ignore[index, no-any-return]

        assert left() == 5  # half open: the server knows nothing
        await wait_until(lambda: left() == 0, within, every=0.1)
    network.heal(1)


async def test_the_backends_of_a_client_that_vanished_end(
    network: Network, server: TcpServer, url: str
) -> None:
    """T13: else they stay for hours, and a few cuts end in "too many clients". With shorter times."""
    await _cut_off(network, server, url, "quick", 20)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_backends_stay_bounded_over_three_cuts(
    network: Network, server: TcpServer, url: str
) -> None:
    for _ in range(3):
        await _cut_off(network, server, url, "as it is", 90)
