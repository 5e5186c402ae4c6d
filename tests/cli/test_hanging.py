"""Runs that never end, on workers as the command line starts them: they stop nobody else."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.testing import wait_until

APP = """
    import asyncio, os, threading
    from pathlib import Path
    from mainspring import Mainspring, RetryPolicy
    app = Mainspring()
    never = threading.Event()

    def note():
        with open("runs", "a") as runs:
            runs.write(f"{os.getpid()}\\n")

    async def asleep() -> str:
        note()
        await asyncio.Event().wait()

    async def deaf() -> str:
        note()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass

    def blocked() -> str:
        note()
        while not never.wait(3600):
            pass

    def until_told() -> str:
        note()
        while not Path("go").exists():
            never.wait(0.01)
        return "late"

    steps = {"asleep": asleep, "deaf": deaf, "blocked": blocked, "until_told": until_told}
    hang = app.task(
        steps[os.environ["HANGS"]], name="hang", hold_after=0.05, work_timeout=1,
        accept=os.environ.get("ACCEPT", "first"),
    )
    timed = app.task(
        blocked, name="timed", timeout=0.2, hold_after=0.05,
        retry=RetryPolicy(attempts=1000, first=0.01, most=0.01),
    )

    @app.task
    async def short(n: int) -> int:
        return n

    @app.process
    def stuck():
        return hang()

    @app.process
    def quick(n: int):
        return short(n)
"""
SETTINGS = ("--lease", "1", "--log-json")


class Plant:
    """A worker process of three slots, and what is asked of it from here."""

    def __init__(self, spawn: Any, folder: Path, url: str, hangs: str, accept: str) -> None:
        self.folder, self.url = folder, url
        environment = {"HANGS": hangs, "ACCEPT": accept}
        self.app = Mainspring(url)
        self._spawn = lambda *more: spawn("worker", "plant:app", *SETTINGS, *more, **environment)
        self.lines: list[dict[str, Any]] = []

    def up(self, *, grace: float = 2.0, concurrency: int = 3) -> Any:
        process = self._spawn("--grace", str(grace), "--concurrency", str(concurrency))
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        return process

    def _read(self, process: Any) -> None:
        for line in process.stderr:
            self.lines.append(json.loads(line) if line.startswith("{") else {"event": line})

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == name]

    def runs(self) -> list[str]:
        path = self.folder / "runs"
        return path.read_text().split() if path.exists() else []

    async def begun(self, count: int) -> None:
        await wait_until(lambda: len(self.runs()) >= count, 60)

    def workers(self) -> int:
        with psycopg.connect(self.url) as connection:
            rows = connection.execute("select count(*) from mainspring.worker").fetchone()
        return rows[0] if rows else 0

    async def others_end(self) -> None:
        """Twelve short ones end, whatever hangs."""
        handles = [await self.process("quick", n) for n in range(12)]
        found = await asyncio.gather(*(handle.result(60) for handle in handles))
        assert found == list(range(12))

    async def process(self, name: str, *values: Any) -> Any:
        return await self.app.find_process(name).start(*values)


@pytest.fixture
def plant(module, spawn, tmp_path, database_url, monkeypatch):
    module("plant", APP)
    monkeypatch.chdir(tmp_path)

    def make(hangs: str, accept: str = "first") -> Plant:
        found = Plant(spawn, tmp_path, database_url, hangs, accept)
        monkeypatch.setenv("MAINSPRING_URL", database_url)
        monkeypatch.setenv("HANGS", hangs)
        monkeypatch.setenv("ACCEPT", accept)
        import plant  # type: ignore[import-not-found]

        found.app = plant.app
        return found

    return make


@pytest.mark.parametrize(
    ("hangs", "accept"),
    [
        ("asleep", "last"),
        ("deaf", "first"),
        ("blocked", "last"),
        pytest.param("asleep", "first", marks=pytest.mark.slow),
        pytest.param("deaf", "last", marks=pytest.mark.slow),
        pytest.param("blocked", "first", marks=pytest.mark.slow),
    ],
)
async def test_a_step_that_always_hangs_leaves_the_slots_to_others(
    plant, hangs: str, accept: str
) -> None:
    """P3, P4: overtaken more often than there are slots, and twelve other processes end."""
    works = plant(hangs, accept)
    async with works.app:
        await works.app.migrate()
        works.up()
        for _ in range(4):  # more than there are slots
            await works.process("stuck")
        await works.begun(7)
        await works.others_end()


async def test_a_task_whose_thread_outlives_its_timeout_leaves_the_slots_to_others(
    plant, monkeypatch
) -> None:
    """T13: a timeout ends the run; the thread that goes on is outside of the count."""
    works = plant("asleep")
    async with works.app:
        await works.app.migrate()
        works.up()
        await works.app.find_task("timed").enqueue()
        await works.begun(4)
        await works.others_end()
        ended = [e for e in works.events("run.ended") if e["queue"] == "timed"]
        assert "ran longer than its timeout of 0.2 s" in ended[0]["error"]


async def test_what_hangs_is_named_by_why_status_and_metrics(plant, cli) -> None:
    """P8, T14: an operator sees the runs that were overtaken and still hang."""
    works = plant("blocked")
    async with works.app:
        await works.app.migrate()
        works.up()
        handle = await works.process("stuck")
        await works.begun(3)
        [task] = [task for task in await _tasks(works) if task[0] == "hang"]

        async def named() -> bool:
            workers = (await works.app.operator.status()).workers
            return len(workers) == 1 and len(workers[0].hanging) >= 2

        await wait_until(named, 20)
        text = await works.app.metrics()
        asked = await works.app.operator.why("hang", task[1])
        of_process = await works.app.operator.processes.why(handle.id)
    shown = await asyncio.to_thread(cli, "status", "--url", works.url)
    [line] = [line for line in text.splitlines() if line.startswith("mainspring_runs_hanging{")]
    assert line.startswith('mainspring_runs_hanging{queue="hang"} ')
    causes = {cause.name: cause for cause in asked.causes}
    assert "were overtaken or stopped and still hang, the oldest in" in causes["hanging"].text
    assert "find what it waits for" in causes["hanging"].remedy
    assert of_process.causes[0].name == "hanging"
    flat = " ".join(shown.out.split())
    assert "runs hang in queue 'hang', overtaken or stopped and still under way in" in flat


async def test_a_worker_in_which_too_many_threads_hang_is_replaced_in_order(plant) -> None:
    """T10, P4: drained and left, no death of anybody; another process goes on, and results are kept."""
    works = plant("blocked")
    async with works.app:
        await works.app.migrate()
        works.up()
        for _ in range(4):
            await works.process("stuck")
        await works.others_end()
        await wait_until(lambda: bool(works.events("worker.process_replaced")), 90)
        await wait_until(lambda: len(works.events("worker.joined")) >= 2, 60)
        await works.others_end()
    assert works.events("worker.worn_out")[0]["queues"] == ["hang"]
    assert works.events("worker.stopped")
    assert not works.events("worker.process_died")
    with psycopg.connect(works.url) as connection:
        deaths = connection.execute(
            "select count(*) from mainspring.counter where name = 'worker_death'"
        ).fetchone()
    assert deaths == (0,)


async def test_a_worn_out_worker_waits_for_no_run_that_was_overtaken(plant) -> None:
    """T10, P3: what hangs will not end, so the grace is for the others; none of these, and it goes."""
    works = plant("blocked", "last")
    async with works.app:
        await works.app.migrate()
        works.up(grace=60, concurrency=20)
        for _ in range(6):  # there are always some of them that have only begun
            await works.process("stuck")
        await wait_until(lambda: bool(works.events("worker.process_replaced")), 90)
    assert works.events("worker.worn_out")
    assert works.events("worker.stopped")[0]["seconds"] < 30, "not its whole grace"


async def test_a_stop_waits_for_no_run_that_is_late_though_nobody_is_there_to_overtake_it(
    plant,
) -> None:
    """T10, P3: the only worker of its pool looks itself; a run that is in time has its whole grace."""
    works = plant("blocked")
    async with works.app:
        await works.app.migrate()
        process = works.up(grace=60)
        await works.process("stuck")
        await works.begun(1)
        process.terminate()
        await wait_until(lambda: bool(works.events("worker.stopped")), 30)
        assert len(works.runs()) == 1, "it was not begun again"


async def test_a_late_result_of_a_run_that_hung_is_taken(plant) -> None:
    """P4: accept="first": it was overtaken, gave its slot back, and its result is still the first."""
    works = plant("until_told")
    async with works.app:
        await works.app.migrate()
        works.up()
        handle = await works.process("stuck")
        await works.begun(4)
        await works.others_end()
        (works.folder / "go").touch()
        assert await handle.result(20) == "late"


async def _tasks(works: Plant) -> list[Any]:
    with psycopg.connect(works.url) as connection:
        return connection.execute("select queue, key from mainspring.visit").fetchall()
