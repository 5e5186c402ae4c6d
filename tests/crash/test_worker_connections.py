"""T9: a worker with all layers keeps to its connections, idle and busy, and through the loss of each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import layers_app
import psycopg
import pytest

from mainspring.embedded.server import EmbeddedServer
from warm import WorkerProcess

HERE = Path(__file__).parent
# Those of tasks' own SQL and of the application itself are not the worker's.
OWN = """
select application_name, pid from pg_stat_activity
where application_name like 'mainspring:%%:' || %s and split_part(application_name, ':', 2) not in ('client', 'task')
"""  # noqa: E501
LEFT = "select count(*) from mainspring.visit where queue <> 'mainspring.audit'"
TRANSACTIONS = "select xact_commit + xact_rollback from pg_stat_database where datname = %s"
RAW = "raw.orders.n"
WINDOW_SECONDS = 10.0
ROLES = ["listener", "heart", "reader", "settler", "side", "loader"]


class LayersScene:
    """One worker process of the application with all layers."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._folder = folder
        self._stack = ExitStack()
        connection = psycopg.connect(url, autocommit=True)
        self._connection = self._stack.enter_context(connection)
        self.sql(layers_app.TABLE)
        self.app = layers_app.make(url)
        self.app.migrate_sync()
        self._round = 0

    def worker(self, **settings: Any) -> WorkerProcess:
        output = self._stack.enter_context((self._folder / "worker").open("wb"))
        worker = WorkerProcess(
            "layers_app:app", self.url, path=HERE, output=output, **{"lease": 2.0} | settings
        )
        self._stack.enter_context(worker)
        self.wait(lambda: self.sql("select 1 from mainspring.worker"), "it has joined")
        return worker

    def close(self) -> None:
        self._stack.close()
        self.app.close_sync()

    def sql(self, text: str, *values: Any) -> list[Any]:
        cursor = self._connection.execute(text, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []

    def reconnect(self) -> None:
        """After a restart of the server."""
        self._connection.close()
        self._connection = psycopg.connect(self.url, autocommit=True)
        self._stack.callback(self._connection.close)

    def own(self, worker: WorkerProcess) -> list[tuple[str, int]]:
        """The roles and backends of the worker's own connections."""
        rows = self.sql(OWN, worker.process.pid)
        return [(name.split(":")[1], pid) for name, pid in rows]

    def feed(self, tasks: int = 300) -> None:
        """Something for every layer."""
        self._round += 1
        n = self._round
        self.app.tasks["square"].enqueue_many_sync({"n": i} for i in range(tasks))
        self.app.tasks["booked"].enqueue_many_sync({"n": i} for i in range(2))
        self.sql(
            "insert into listing (id, title) select %s + g, 'abc' from generate_series(1, 50) g",
            100 * n,
        )
        for _ in range(3):
            self.app.registry.types["sums"].start_sync(4)
        self.app.advance_sync(self.app.params[RAW], n)

    def is_done(self) -> bool:
        if self.sql(LEFT) != [(0,)] or self.sql("select 1 from listing where price <> 3 limit 1"):
            return False
        seen = self.sql("select num from mainspring.param where name = 'mart.orders.n'")
        return bool(seen == [(self._round,)])

    def wait(self, condition: Any, what: str, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            left = self.sql("select queue, count(*) from mainspring.visit group by 1")
            assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}; {left}"
            time.sleep(0.01)


@pytest.fixture
def scene(database_url: str, tmp_path: Path) -> Iterator[LayersScene]:
    found = LayersScene(database_url, tmp_path)
    yield found
    found.close()
    print((tmp_path / "worker").read_text()[-3000:])


def test_an_idle_worker_has_three_connections_and_sends_little(scene: LayersScene) -> None:
    """Once it has come to rest after being busy. Looked at from another database, whose statements are not
    counted; what was sent is known to the server's statistics some seconds later."""
    worker = scene.worker(lease=10.0, poll=1.0)
    scene.feed()
    scene.wait(scene.is_done, "all is done")
    name = scene.sql("select current_database()")[0][0]
    with psycopg.connect(scene.url, dbname="postgres", autocommit=True) as other:

        def roles() -> list[str]:
            rows = other.execute(OWN, (worker.process.pid,)).fetchall()
            return sorted(row[0].split(":")[1] for row in rows)

        def sent() -> int:
            return int(other.execute(TRANSACTIONS, (name,)).fetchone()[0])  # type: ignore[index]

        def rates() -> Iterator[float]:
            for _ in range(5):
                before, began = sent(), time.monotonic()
                while time.monotonic() < began + WINDOW_SECONDS:
                    assert len(roles()) == 3, roles()
                    time.sleep(0.05)
                yield (sent() - before) / WINDOW_SECONDS

        scene.wait(lambda: len(roles()) == 3, "it rests")
        assert roles()[:2] == ["heart", "listener"]
        assert any(rate <= 3.0 for rate in rates())


@pytest.mark.parametrize("most", [6, 4, 3])
def test_a_busy_worker_has_no_more_connections_than_it_may(scene: LayersScene, most: int) -> None:
    """With the least, too, everything is done: nobody waits for what another has and waits with."""
    worker = scene.worker(connections=most)
    seen = set()

    def is_done() -> bool:
        own = scene.own(worker)
        assert len(own) <= most, own
        seen.add(len(own))
        return scene.is_done()

    for _ in range(8):
        scene.feed()
        is_done()
    scene.wait(is_done, "all is done")
    assert max(seen) == most


def test_a_connection_of_each_kind_may_be_lost(scene: LayersScene) -> None:
    worker = scene.worker()
    lost = set()
    for role in ROLES:
        scene.feed()

        def kill(role: str = role) -> bool:
            pids = [pid for name, pid in scene.own(worker) if name == role]
            if not pids:
                scene.feed(tasks=20)
            for pid in pids:
                scene.sql("select pg_terminate_backend(%s)", pid)
            lost.update(pids)
            return bool(pids)

        scene.wait(kill, f"there is a {role}")
        scene.wait(scene.is_done, f"all is done without the {role}")
    assert not lost & {pid for _, pid in scene.own(worker)}
    assert worker.process.poll() is None


def test_all_layers_go_on_after_a_restart_of_the_database(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    own_server.start()
    with psycopg.connect(own_server.url("postgres"), autocommit=True) as connection:
        connection.execute("create database layers template template")
    scene = LayersScene(own_server.url("layers"), tmp_path)
    try:
        worker = scene.worker()
        scene.feed()
        scene.wait(scene.is_done, "all is done")
        own_server.stop(fast_seconds=2)
        own_server.start()
        scene.reconnect()
        scene.feed()
        scene.wait(scene.is_done, "all is done again")
        scene.wait(lambda: 3 <= len(scene.own(worker)) <= 6, "it has its connections")
    finally:
        scene.close()
