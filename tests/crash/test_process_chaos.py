"""Processes under everything at once: wild actors, workers killed at random, a server that crashes."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import chaos_app
import psycopg
import pytest
from psycopg import sql

from mainspring import Mainspring
from mainspring.embedded.server import EmbeddedServer
from warm import WorkerProcess

PLACE = "chaos_app:app"
LEASE = 1.0


@pytest.fixture
def chaos_url(own_server: EmbeddedServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database on a server that the test may kill."""
    own_server.start()
    name = f"chaos_{abs(hash(request.node.nodeid)):x}"
    with psycopg.connect(own_server.url("postgres"), autocommit=True) as connection:
        create = sql.SQL("create database {} template template").format(sql.Identifier(name))
        connection.execute(create)
    return own_server.url(name)


def start(url: str, count: int) -> None:
    app = Mainspring(url)
    mixed = app.process(chaos_app.mixed.function)

    async def begin() -> None:
        async with app:
            for first in range(0, count, 100):
                batch = range(first, min(first + 100, count))
                await asyncio.gather(*[mixed.options(id=str(n)).start(n) for n in batch])

    asyncio.run(begin())


def ask(url: str, query: str) -> list[Any]:
    """Rows; asked again while the server is away."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                return connection.execute(query.encode()).fetchall()
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, "the server does not come back"
            time.sleep(0.05)


def open_processes(url: str) -> int:
    return int(ask(url, "select count(*) from mainspring.process where state = 'open'")[0][0])


class Crew:
    """Two workers; whoever is killed is replaced."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self._url, self._folder, self._stack = url, folder, stack
        self._workers: list[WorkerProcess] = []
        self._count = 0

    def fill(self) -> None:
        self._workers = [w for w in self._workers if w.process.poll() is None]
        while len(self._workers) < 2:
            self._count += 1
            log = self._stack.enter_context((self._folder / f"worker-{self._count}").open("wb"))
            worker = WorkerProcess(
                PLACE, self._url, path=Path(__file__).parent, output=log, lease=LEASE, poll=0.1
            )
            self._workers.append(self._stack.enter_context(worker))

    def kill_all(self) -> None:
        for worker in self._workers:
            worker.send(signal.SIGKILL)
            worker.wait(60)

    def kill_one(self) -> None:
        victim = random.choice(self._workers)
        victim.send(signal.SIGKILL)
        victim.wait(60)


def check(url: str, count: int) -> None:
    rows = ask(
        url,
        "select p.key::integer, p.state::text, r.result from mainspring.process p"
        " join mainspring.task r on r.process_id = p.id and r.id = p.root order by 1",
    )
    assert rows == [(n, "finished", chaos_app.right(n)) for n in range(count)]
    # I6: of no generation of a task were two results settled.
    twice = ask(
        url,
        "select key from mainspring.history where outcome = 'done' and not superseded"
        " and queue not like 'mainspring.%' group by key, id having count(*) > 1",
    )
    assert twice == []
    assert ask(url, "select * from mainspring.process_violation") == []
    assert ask(url, "select * from mainspring.process_orphan") == []
    assert ask(url, "select * from mainspring.repair") == [], "recovery is no repair"


def chaos(
    url: str, server: EmbeddedServer, folder: Path, count: int, seconds: float, kills: int = 7
) -> None:
    """Kill workers as they work, and the server now and then, until all have finished."""
    start(url, count)
    with ExitStack() as stack:
        crew = Crew(url, folder, stack)
        crew.fill()
        began = time.monotonic()
        left, killed = count, 0
        while left:
            assert time.monotonic() < began + seconds, f"{left} processes are open"
            before, left = left, open_processes(url)
            step = max(count // (kills + 1), 1)
            if left and (count - left) // step > (count - before) // step:
                killed += 1
                crew.kill_one()
                if killed % 3 == 0:
                    server.kill()
                    server.start()
            crew.fill()
            time.sleep(0.05)
    assert killed >= 3
    check(url, count)


@pytest.mark.timeout(300)
def test_processes_finish_once_whatever_dies(
    chaos_url: str, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """P7: actors that lose tasks, answer late, fail and hang; workers killed; the server restarted."""
    chaos(chaos_url, own_server, tmp_path, 80, 250)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_thousand_processes_finish_once_whatever_dies(
    chaos_url: str, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """P7: the long form."""
    chaos(chaos_url, own_server, tmp_path, 20_000, 3400, kills=60)


def finish(url: str, folder: Path, *, left: int = 0) -> None:
    """Work until so many processes are open; then the workers die."""
    folder.mkdir()
    with ExitStack() as stack:
        crew = Crew(url, folder, stack)
        crew.fill()
        deadline = time.monotonic() + 120
        while open_processes(url) > left:
            assert time.monotonic() < deadline, f"{open_processes(url)} processes are open"
            time.sleep(0.02)
        crew.kill_all()


def backup(server: EmbeddedServer, url: str) -> str:
    """The database as it is now, under another name."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    copy = f"{name}_restored"
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        # The server has yet to see that the clients are dead.
        end = "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s"
        connection.execute(end, [name])
        create = sql.SQL("create database {} template {}")
        connection.execute(create.format(sql.Identifier(copy), sql.Identifier(str(name))))
    return server.url(copy)


@pytest.mark.timeout(300)
def test_a_restored_database_goes_on_from_its_moment(
    chaos_url: str, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """P10: what was in work is queued again without an order; each process finishes once."""
    start(chaos_url, 30)
    finish(chaos_url, tmp_path / "before", left=20)
    restored = backup(own_server, chaos_url)
    finish(chaos_url, tmp_path / "lost")
    check(chaos_url, 30)

    assert open_processes(restored) > 0
    finish(restored, tmp_path / "after")
    check(restored, 30)
