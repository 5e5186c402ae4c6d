"""T13: the test kit itself: what applications use must do what it says."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path

import psycopg
import pytest

from mainspring import Context, Mainspring
from mainspring.testing import Clock, WorkerProcess, run_until_idle, wait_until, watch

APPLICATION = """
from mainspring import Mainspring
app = Mainspring()

@app.task
async def double(n: int) -> int:
    return 2 * n
"""


class TestClock:
    async def test_every_connection_sees_the_moved_time(self, clock: Clock, database_url) -> None:
        before = await clock.now()

        await clock.advance(timedelta(days=2))
        clock.advance_sync(60)

        assert timedelta(days=2) <= clock.now_sync() - before < timedelta(days=2, minutes=2)
        with psycopg.connect(database_url) as connection:
            row = connection.execute("select mainspring.now() - now()").fetchone()
        assert row == (timedelta(days=2, seconds=60),)

    async def test_it_moves_back_too(self, clock: Clock) -> None:
        before = await clock.now()

        await clock.advance(-3600)

        assert await clock.now() < before

    def test_two_clocks_of_one_database_are_one(self, clock: Clock, database_url: str) -> None:
        clock.advance_sync(3600)

        assert abs(Clock(database_url).now_sync() - clock.now_sync()) < timedelta(seconds=5)


class TestIdle:
    async def test_its_worker_outlives_a_beat_that_is_late_by_a_second(
        self, app: Mainspring, database_url: str
    ) -> None:
        """As on a starved machine: no run is stopped and made again."""
        attempts = []
        held = psycopg.connect(database_url)

        @app.task
        async def slow(ctx: Context) -> None:
            attempts.append(ctx.attempt)
            held.execute("select from mainspring.worker for update")
            await wait_until(late, timeout=20)
            held.rollback()

        def late() -> bool:
            row = held.execute(
                "select mainspring.clock() - max(beat_at) > interval '1.5 s' from mainspring.worker"
            ).fetchone()
            return row == (True,)

        await slow.enqueue()
        await run_until_idle(app)

        held.close()
        assert attempts == [1]

    async def test_it_runs_what_tasks_enqueue(self, app: Mainspring) -> None:
        seen = []

        @app.task
        async def count(n: int) -> None:
            seen.append(n)
            if n:
                await count.enqueue(n - 1)

        await count.enqueue(5)
        await run_until_idle(app)

        assert seen == [5, 4, 3, 2, 1, 0]

    async def test_what_does_not_end_is_a_timeout(self, app: Mainspring) -> None:
        @app.task
        async def endless() -> None:
            await asyncio.sleep(60)

        await endless.enqueue()

        with pytest.raises(TimeoutError, match="still due or running"):
            await run_until_idle(app, timeout=0.3, grace=0)

    async def test_waiting_says_what_did_not_hold(self) -> None:
        with pytest.raises(TimeoutError, match="1 == 2"):
            await wait_until(lambda: 1 == 2, 0.01)


class TestSteps:
    async def test_a_step_can_be_waited_for(self, app: Mainspring) -> None:
        app.task(_nothing)
        async with watch() as seen, app.worker(lease=1.0, poll=0.05):
            await seen.wait("pool.joined")
            await seen.wait("page.read", times=2)

            assert seen.count("page.read") >= 2
            assert seen.all[0] == "pool.joined"

    async def test_a_step_that_does_not_come_is_a_timeout(self) -> None:
        async with watch() as seen:
            with pytest.raises(TimeoutError, match=r"'page\.read' was reached 0 times"):
                await seen.wait("page.read", timeout=0.01)

    async def test_an_unknown_step_is_refused(self) -> None:
        async with watch() as seen:
            with pytest.raises(ValueError, match="no step is named 'page'"):
                await seen.wait("page")


async def _nothing() -> None: ...


class TestProcesses:
    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        (tmp_path / "shop.py").write_text(APPLICATION)
        return tmp_path

    async def test_a_worker_process_runs_and_drains(self, app, place, database_url) -> None:
        @app.task
        async def double(n: int) -> int: ...

        handle = await double.enqueue(n=21)
        with WorkerProcess("shop:app", database_url, path=place, drain=True) as worker:
            assert await asyncio.to_thread(worker.wait) == 0

        assert await handle.result(timeout=1) == 42

    async def test_a_worker_process_dies_at_a_step(self, app, place, database_url) -> None:
        @app.task
        async def double(n: int) -> int: ...

        handle = await double.enqueue(n=21)
        with WorkerProcess("shop:app", database_url, path=place, die_at="settle.sending") as worker:
            await asyncio.to_thread(worker.wait_dead)
        assert await handle.status() == "waiting"

        with WorkerProcess("shop:app", database_url, path=place) as worker:
            assert await handle.result(timeout=20) == 42
            worker.process.terminate()
            assert await asyncio.to_thread(worker.wait) == 0


def test_a_start_of_pytest_does_not_import_mainspring() -> None:
    """Its plugin is loaded by every pytest of the environment, whatever is tested."""
    (plugin,) = (p for p in entry_points(group="pytest11") if p.name == "mainspring")
    program = f"import sys, {plugin.module}; print('mainspring' in sys.modules)"

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert said.stdout == "False\n"
