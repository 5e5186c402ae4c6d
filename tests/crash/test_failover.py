"""Failover: the primary is killed, its standby promoted, workers and clients follow by themselves.

A ledger outside of the database has every call that was acknowledged. At the end each of them was done,
and settled once; what a client was told is `NotDone` or `OutcomeUnknown`, never anything else.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import failover_app
import psycopg
import pytest
from cluster import Cluster, ask, wait

from mainspring import Mainspring, NotDone, OutcomeUnknown
from mainspring.testing import wait_until
from warm import WorkerProcess

HERE = Path(__file__).parent
PRODUCERS = 4
LEASE = 3.0


class Ledger:
    """What clients know of their calls, by number."""

    def __init__(self, app: Mainspring) -> None:
        self._tasks = [app.tasks["note"], app.tasks["book"]]
        self._next = 0
        self.acknowledged: dict[int, str] = {}  # the id of each
        self.unknown: set[int] = set()  # sent, and never heard of again
        self.ending = False

    async def produce(self) -> None:
        """Enqueue one call after the other until told to end; what was not done is sent again."""
        while not self.ending:
            n, self._next = self._next, self._next + 1
            while True:
                try:
                    handle = await self._tasks[n % 2].enqueue(n=n)
                except NotDone:
                    await asyncio.sleep(0.05)
                except OutcomeUnknown:
                    self.unknown.add(n)
                    break
                else:
                    self.acknowledged[n] = handle.id
                    break

    async def more(self, count: int) -> None:
        """Wait until so many more calls were acknowledged."""
        wanted = len(self.acknowledged) + count
        await wait_until(lambda: len(self.acknowledged) >= wanted, 60)


class Scene:
    def __init__(self, cluster: Cluster, folder: Path, stack: ExitStack) -> None:
        self.cluster = cluster
        self.app = failover_app.make(cluster.url)
        self._folder = folder
        self._stack = stack

    def start_workers(self) -> None:
        for number in range(2):
            output = self._stack.enter_context((self._folder / f"worker-{number}").open("wb"))
            worker = WorkerProcess(
                "failover_app:app",
                self.cluster.url,
                path=HERE,
                output=output,
                lease=LEASE,
                poll=0.1,
            )
            self._stack.enter_context(worker)

    def sql(self, query: str) -> list[Any]:
        return ask_in(self.cluster, query)

    async def drained(self) -> None:
        await wait_until(
            lambda: self.sql("select count(*) from mainspring.visit") == [(0,)], 90, every=0.1
        )

    def check(self, ledger: Ledger, lost: set[int] | None = None) -> None:
        """Every acknowledged call was done and settled once, but those that may be `lost`."""
        runs = self.sql(
            "select (payload ->> 'n')::int, id::text from mainspring.history where outcome = 'done'"
        )
        settled = Counter(n for n, _ in runs)
        assert [n for n, times in settled.items() if times > 1] == []
        missing = {n for n, id in ledger.acknowledged.items() if (n, id) not in set(runs)}
        assert missing <= (lost or set())
        booked = Counter(n for (n,) in self.sql("select n from effect"))
        assert booked == Counter(n for n in settled if n % 2)
        assert settled.keys() - ledger.acknowledged.keys() <= ledger.unknown
        assert self.sql("select * from mainspring.violation") == []


def ask_in(cluster: Cluster, query: str) -> list[Any]:
    with psycopg.connect(cluster.primary.url("mainspring"), autocommit=True) as connection:
        cursor = connection.execute(query)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


@contextmanager
def opened(folder: Path, *, synchronous: bool) -> Iterator[Scene]:
    with Cluster(synchronous=synchronous) as cluster, ExitStack() as stack:
        scene = Scene(cluster, folder, stack)
        scene.app.migrate_sync()
        scene.sql("create table effect (n integer not null)")
        try:
            yield scene
        finally:
            stack.close()
            for log in sorted(folder.glob("worker-*")):
                print(f"-- {log.name}\n{log.read_text()[-4000:]}")


async def fail_over_under_load(scene: Scene, times: int, calls: int) -> None:
    scene.start_workers()
    ledger = Ledger(scene.app)
    async with scene.app:
        producers = [asyncio.create_task(ledger.produce()) for _ in range(PRODUCERS)]
        try:
            for _ in range(times):
                await ledger.more(calls)
                await asyncio.to_thread(scene.cluster.fail_over)
                await asyncio.to_thread(scene.cluster.build_standby)
                await ledger.more(calls)
        finally:
            ledger.ending = True
            await asyncio.gather(*producers)
        await scene.drained()
        scene.check(ledger)


@pytest.mark.timeout(300)
async def test_a_synchronous_failover_loses_nothing(tmp_path: Path) -> None:
    """T1, T13."""
    with opened(tmp_path, synchronous=True) as scene:
        await fail_over_under_load(scene, 1, 100)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_three_synchronous_failovers_in_a_row_lose_nothing(tmp_path: Path) -> None:
    """T1, T13."""
    with opened(tmp_path, synchronous=True) as scene:
        await fail_over_under_load(scene, 3, 1000)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_an_asynchronous_failover_loses_only_what_the_standby_had_not_heard_of(
    tmp_path: Path,
) -> None:
    """T1: what was acknowledged before the standby fell behind is done; runs whose end was lost are
    made again, and settled once."""
    with opened(tmp_path, synchronous=False) as scene:
        scene.start_workers()
        ledger = Ledger(scene.app)
        async with scene.app:
            producers = [asyncio.create_task(ledger.produce()) for _ in range(PRODUCERS)]
            try:
                await ledger.more(200)
                safe = set(ledger.acknowledged)
                await asyncio.to_thread(scene.cluster.wait_in_step)
                await asyncio.to_thread(_wait_replayed, scene.cluster)
                await asyncio.to_thread(scene.cluster.part)
                await ledger.more(200)
                await asyncio.to_thread(scene.cluster.fail_over)
                before = set(ledger.acknowledged)
                await ledger.more(200)
            finally:
                ledger.ending = True
                await asyncio.gather(*producers)
            await scene.drained()
            runs = {
                n for (n,) in scene.sql("select (payload ->> 'n')::int from mainspring.history")
            }
            lost = before - runs

            assert lost, "the standby had all: the test shows nothing"
            assert not lost & safe
            scene.check(ledger, lost)


def _wait_replayed(cluster: Cluster) -> None:
    [(sent,)] = ask(cluster.primary, "select pg_current_wal_flush_lsn()::text")
    query = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
    wait(lambda: ask(cluster.standby, query, sent) == [(True,)])
