"""Workers of different code in one pool: a deploy, a canary and two services, with real processes.

Whatever is killed when: nothing is lost or done twice, groups and limits are kept, and the pool is whole
again when one code is left.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mixed_app
import pytest
from mixed_app import NEW, OLD
from scene import Scene, stop
from test_upgrade import git, unpacked

from draws import fast_first
from warm import WorkerProcess

LEASE = 5.0
MIGRATION = "src/mainspring/db/migrations/0015_bands.sql"  # where it was added
BANDS = "select count(distinct pool) from mainspring.lease where strpos(pool, chr(31)) > 0"


class Ran(NamedTuple):
    """A run that began and ended; one that was killed has no end."""

    task: str
    n: int
    group: str
    pid: int
    began: float
    ended: float


class MixedScene(Scene):
    place = "mixed_app:app"

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, folder)
        self.app.close_sync()
        self.app = mixed_app.make(url)

    def of(
        self, code: tuple[str, ...], *, source: Path | None = None, **options: object
    ) -> WorkerProcess:
        """A worker with these tasks; `source`: of the engine, if it is not ours."""
        environment = {"MIXED_CODE": " ".join(code)}
        if source is not None:
            environment["PYTHONPATH"] = str(source)
        return self.worker(environment=environment, lease=LEASE, **options)  # type: ignore[arg-type]

    def wait(self, condition: Callable[[], Any], what: str, timeout: float = 60.0) -> None:
        """Patient: on a busy machine a process takes its time to start."""
        super().wait(condition, what, max(timeout, 60.0))

    def bands(self) -> int:
        return int(self.sql(BANDS)[0][0])

    def load(self, tasks: tuple[str, ...], numbers: range) -> None:
        """Calls of each task, in some groups where it has a limit for these."""
        for name in tasks:
            task = self.app.tasks[name]
            for n in numbers:
                grouped = task.options(group=f"g{n % 5}") if name == "serial" else task
                self.handles.append(grouped.enqueue_sync(n=n))

    def ran(self) -> list[Ran]:
        begun: dict[tuple[str, str, str], float] = {}
        found = []
        lines = (self.folder / "runs").read_text().splitlines()
        for task, n, group, pid, what, at in map(str.split, lines):
            if what == "begin":
                begun[task, n, pid] = float(at)
            else:
                began = begun.pop((task, n, pid))
                found.append(Ran(task, int(n), group, int(pid), began, float(at)))
        return found

    def unserved(self, task: str) -> int:
        return int(self.sql("select count(*) from mainspring.visit where queue = %s", task)[0][0])


@pytest.fixture
def mixed(mainspring_url: str, tmp_path: Path) -> Iterator[MixedScene]:
    with MixedScene(mainspring_url, tmp_path) as scene:
        yield scene


def assert_limits(runs: list[Ran]) -> None:
    """At no moment two runs of a group of `serial`, nor three of `limited`."""
    for one in runs:
        at_once = [r for r in runs if r.task == one.task and r.began <= one.began < r.ended]
        if one.task == "serial":
            assert [r for r in at_once if r.group == one.group] == [one]
        if one.task == "limited":
            assert len(at_once) <= 2


def assert_ran_once(runs: list[Ran]) -> None:
    calls = [(r.task, r.n) for r in runs]
    assert sorted(calls) == sorted(set(calls))


def test_two_services_that_share_a_task_leave_nothing_standing(mixed: MixedScene) -> None:
    """T2: 100 calls of each task, while both live."""
    one, two = mixed.of(("common", "removed")), mixed.of(("common", "added"))
    mixed.joined(one, two)

    mixed.load(("common", "removed", "added"), range(100))

    mixed.check()
    runs = mixed.ran()
    assert_ran_once(runs)
    assert {r.pid for r in runs if r.task == "removed"} == {one.process.pid}
    assert {r.pid for r in runs if r.task == "added"} == {two.process.pid}


def test_a_canary_s_new_task_runs_at_once_and_it_leaves_no_trace(mixed: MixedScene) -> None:
    """T2: a queue of one worker among several; its end makes the pool whole again."""
    old = [mixed.of(OLD) for _ in range(2)]
    mixed.joined(*old)
    canary = mixed.of((*OLD, "added"))
    mixed.load(("added",), range(100))
    mixed.load(("common", "serial"), range(100))
    mixed.wait(lambda: not mixed.unserved("added"), "all of the new task ran")

    stop(canary)

    mixed.wait(lambda: mixed.bands() == 0, "the pool is whole")
    mixed.load(("common",), range(100, 150))
    mixed.check()
    assert_ran_once(mixed.ran())
    assert_limits(mixed.ran())


def test_a_rolling_deploy_under_load_keeps_every_limit(mixed: MixedScene) -> None:
    """T2: a task is added and one removed; one worker after the other is replaced."""
    old = [mixed.of(OLD) for _ in range(2)]
    mixed.joined(*old)
    mixed.load(OLD, range(60))
    new = [mixed.of(NEW)]
    mixed.load(NEW, range(60, 120))
    mixed.wait(lambda: not mixed.unserved("removed"), "the old task is done")
    mixed.joined(*new)
    stop(old[0])
    new.append(mixed.of(NEW))
    mixed.load(NEW, range(120, 180))
    stop(old[1])

    mixed.check()
    mixed.wait(lambda: mixed.bands() == 0, "the pool is whole")
    mixed.wait(lambda: sum(mixed.shards().values()) == 1024, "all shards have an owner")
    runs = mixed.ran()
    assert_ran_once(runs)
    assert_limits(runs)


@pytest.mark.parametrize(
    "step", fast_first(["recut.written", "recut.locking", "recut.workers_read"], 1)
)
def test_a_worker_killed_amid_a_recut_loses_nothing(mixed: MixedScene, step: str) -> None:
    """T2: before it locks, after it read who lives, before it commits; then another one does it."""
    old = [mixed.of(OLD) for _ in range(2)]
    mixed.joined(*old)
    mixed.load(OLD, range(40))
    victim = mixed.of(NEW, die_at=step, gate="victim")
    heir = mixed.of(NEW, gate="heir")
    for worker in old:
        worker.send(signal.SIGSTOP)  # so that it is the victim that cuts
    mixed.open("victim")
    victim.wait_dead(60)
    for worker in old:
        worker.send(signal.SIGCONT)
    mixed.load(NEW, range(40, 80))
    mixed.open("heir")
    mixed.wait(lambda: not mixed.unserved("removed"), "the old task is done")

    for worker in old:
        stop(worker)

    mixed.check()
    mixed.wait(lambda: mixed.bands() == 0, "the pool is whole")
    mixed.wait(lambda: mixed.shards() == {heir.process.pid: 1024}, "the heir has all of it")
    runs = mixed.ran()
    assert_ran_once(runs)
    assert_limits(runs)


@pytest.fixture
def release_before(tmp_path: Path) -> Path:
    """The engine's sources before it knew bands."""
    added = git("log", "--diff-filter=A", "--format=%H", "-1", "--", MIGRATION).decode().strip()
    if not added:
        pytest.skip("the history does not reach back to the release before")
    return unpacked(f"{added}^", tmp_path / "before")


def test_the_release_before_joins_a_cut_pool_works_and_leaves(
    mixed: MixedScene, release_before: Path
) -> None:
    """T2: the pool is whole while it lives, what all have is shared; then it is cut again."""
    services = [mixed.of(("common", "removed")), mixed.of(("common", "added"))]
    mixed.joined(*services)
    mixed.wait(lambda: mixed.bands() > 0, "the pool is cut")

    before = mixed.of(("common",), source=release_before)
    mixed.joined(before)
    assert mixed.bands() == 0
    mixed.wait(lambda: min(mixed.shards().values()) >= 341, "three share")
    mixed.load(("common",), range(60))
    mixed.wait(lambda: not mixed.unserved("common"), "all of it ran")
    assert before.process.pid in {r.pid for r in mixed.ran()}

    stop(before)

    mixed.wait(lambda: mixed.bands() > 0, "the pool is cut again")
    mixed.load(("common", "removed", "added"), range(100, 150))
    mixed.check()
    assert_ran_once(mixed.ran())
