"""Limits of a queue and of its groups, while workers are killed: never more at once, and well used."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import limits_app
import pytest
from scene import HERE, LEASE, Scene

import warm
from warm import WorkerProcess


class LimitScene(Scene):
    place = "limits_app:app"

    def __init__(self, url: str, folder: Any) -> None:
        super().__init__(url, folder)
        self.app.close_sync()
        self.app = limits_app.make(url)
        self.deaths: dict[int, float] = {}  # of a process: when it had ended

    def enqueue_calls(self, calls: list[Any]) -> None:
        async def enqueue() -> None:
            async with limits_app.make(self.url) as app:
                await app.enqueue_many(calls)

        asyncio.run(enqueue())

    def kill(self, worker: WorkerProcess) -> None:
        worker.send(signal.SIGKILL)
        worker.wait_dead()
        self.deaths[worker.process.pid] = time.monotonic()

    def supervise(self, processes: int, **environment: str) -> subprocess.Popen[bytes]:
        """`mainspring worker`, with its default lease."""
        log = self._stack.enter_context((self.folder / "worker-supervised").open("wb"))
        words = ["worker", "limits_app:app", "--processes", str(processes), "--concurrency", "150"]
        self.supervisor = warm.Popen(
            [sys.executable, "-m", "mainspring", *words],
            env=os.environ
            | {"MAINSPRING_URL": self.url, "CRASH_FOLDER": str(self.folder)}
            | {"PYTHONPATH": str(HERE), **environment},
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        self._stack.callback(self._end_supervised)
        return self.supervisor

    def _end_supervised(self) -> None:
        self.supervisor.kill()
        self.supervisor.wait()
        for process, *_ in self.living():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def living(self) -> list[tuple[int, int]]:
        """Processes of workers that have shards, the oldest first, each with its permits."""
        return self.sql(
            "select w.process, coalesce((select p.size from mainspring.part p"
            " where p.worker_id = w.id and p.queue = 'limited'), 0) from mainspring.worker w"
            " where exists (select from mainspring.lease l where l.worker_id = w.id)"
            " order by w.started_at, w.id"
        )

    def kill_process(self, process: int, permits: int) -> float:
        """A child of the supervisor; it may have died by now. Answers the permit-seconds that nobody could
        use: those it had, until the supervisor has told the database."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        self.wait(lambda: not _lives(process), "a killed process has ended")
        self.deaths[process] = died = time.monotonic()
        there = "select 1 from mainspring.worker where process = %s"
        self.wait(lambda: not self.sql(there, process), "the supervisor has told of the death")
        return permits * (time.monotonic() - died)

    def spans(self, task: str, until: float) -> list[Span]:
        """All runs that have begun, each with its end: its own word, or that of its process."""
        begun: dict[tuple[str, int], tuple[str, float]] = {}
        found = []
        for line in (self.folder / "ledger").read_text().splitlines():
            name, group, run, pid, what, at = line.split()
            if name != task:
                continue
            key = (run, int(pid))
            if what == "begin":
                begun[key] = (group, float(at))
            else:
                found.append(Span(*begun.pop(key), float(at)))
        left = [
            Span(group, at, self.deaths.get(pid, until)) for (_, pid), (group, at) in begun.items()
        ]
        return [*found, *left]


def _lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


class Span(NamedTuple):
    group: str
    begin: float
    end: float


def most_at_once(spans: list[Span]) -> int:
    """How many were under way together at most."""
    events = sorted([(s.end, -1) for s in spans] + [(s.begin, 1) for s in spans])
    most = now = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most


def use(spans: list[Span], limit: int, begin: float, end: float) -> float:
    """Which part of what the limit allows was used between two moments."""
    busy = sum(max(0.0, min(s.end, end) - max(s.begin, begin)) for s in spans)
    return busy / (limit * (end - begin))


@pytest.fixture
def limits(mainspring_url: str, tmp_path: Any) -> Any:
    with LimitScene(mainspring_url, tmp_path) as scene:
        yield scene


@pytest.mark.parametrize(
    ("seconds", "kills", "groups", "lasts"),
    [(5.0, 1, 40, 1.0), pytest.param(30.0, 3, 200, 3.0, marks=pytest.mark.slow)],
)
def test_limits_hold_while_workers_are_killed(
    limits: LimitScene, seconds: float, kills: int, groups: int, lasts: float
) -> None:
    """T13: four workers, three of them killed at random: never more than 10 and 2 at once, 90 % used.

    A dead worker's part is lent to others when its lease has ended: what it could have run until then
    is not to be had, and is left out of what could be used.
    """
    tasks = limits.app.tasks
    tasks["limited"].enqueue_many_sync([{"seconds": 0.8}] * int(seconds * 30))
    calls = [
        tasks["grouped"].options(group=f"g{n % groups}").bind(seconds=lasts)
        for n in range(int(groups * limits_app.GROUP_LIMIT * (seconds / lasts + 10)))
    ]
    limits.enqueue_calls(calls)
    workers = [limits.worker(concurrency=150) for _ in range(4)]
    limits.joined(*workers)
    limits.wait(lambda: (limits.folder / "ledger").exists(), "work has begun")
    limits.wait(
        lambda: most_at_once(limits.spans("limited", time.monotonic())) == limits_app.LIMIT,
        "the limit is reached",
    )
    chance = random.Random(19)
    begin = time.monotonic()
    moments = sorted(begin + chance.uniform(0.1, 0.8) * seconds for _ in range(kills))
    lost = 0.0
    for victim, moment in zip(workers, moments, strict=False):
        limits.wait(lambda moment=moment: time.monotonic() >= moment, "the moment to kill")
        ((size,),) = limits.sql(
            "select coalesce(sum(p.size), 0) from mainspring.part p join mainspring.worker w"
            " on w.id = p.worker_id where p.queue = 'limited' and w.process = %s",
            victim.process.pid,
        )
        limits.kill(victim)
        lost += size * LEASE
        limits.worker(concurrency=150)
    limits.wait(lambda: time.monotonic() >= begin + seconds, "the end")
    end = time.monotonic()

    spans = limits.spans("limited", end)
    by_group: dict[str, list[Span]] = defaultdict(list)
    for span in limits.spans("grouped", end):
        by_group[span.group].append(span)
    most = max(map(most_at_once, by_group.values()))
    used = use(spans, limits_app.LIMIT, begin, end)
    could = 1 - lost / (limits_app.LIMIT * (end - begin))
    print(
        f"limited: at most {most_at_once(spans)} at once, {used:.1%} used ({used / could:.1%} of what could"
        f" be); {len(by_group)} groups: at most {most} at once, {sum(map(len, by_group.values()))} runs"
    )
    assert most_at_once(spans) == limits_app.LIMIT
    assert most == limits_app.GROUP_LIMIT
    assert len(by_group) == groups
    assert used / could >= 0.9


@pytest.mark.parametrize(
    ("seconds", "every"),
    [(6.0, 1.5), pytest.param(30.0, 3.0, marks=pytest.mark.slow)],
)
def test_limits_are_kept_and_used_while_a_supervisor_s_workers_are_killed(
    limits: LimitScene, seconds: float, every: float
) -> None:
    """T13: four workers, three of them killed at random again and again: never more than 10 of the queue
    and 2 of each of 200 groups at once, and 90 % of the queue's limit is used.

    The supervisor sees each death, so no lease is waited for; until it has told the database of it, which
    takes some tenths of a second on a busy machine, the dead worker's permits are nobody's.
    """
    tasks = limits.app.tasks
    tasks["limited"].enqueue_many_sync([{"seconds": 0.8}] * int(seconds * 30))
    limits.enqueue_calls(
        [
            tasks["grouped"].options(group=f"g{n % 200}").bind(seconds=1.5)
            for n in range(int(200 * limits_app.GROUP_LIMIT * (seconds / 1.5 + 4)))
        ]
    )
    limits.supervise(4)
    limits.wait(lambda: len(limits.living()) == 4, "all workers have shards")
    limits.wait(
        lambda: most_at_once(limits.spans("limited", time.monotonic())) == limits_app.LIMIT,
        "the limit is reached",
    )
    spared = limits.living()[0][0]
    chance = random.Random(19)
    begin, lost = time.monotonic(), 0.0
    while (moment := time.monotonic() + every * chance.uniform(0.7, 1.3)) < begin + seconds:
        limits.wait(lambda moment=moment: time.monotonic() >= moment, "the moment to kill")
        if victims := [(process, n) for process, n in limits.living() if process != spared]:
            lost += limits.kill_process(*chance.choice(victims))
    limits.wait(lambda: time.monotonic() >= begin + seconds, "the end")
    end = time.monotonic()

    spans = limits.spans("limited", end)
    by_group: dict[str, list[Span]] = defaultdict(list)
    for span in limits.spans("grouped", end):
        by_group[span.group].append(span)
    most = max(map(most_at_once, by_group.values()))
    used = use(spans, limits_app.LIMIT, begin, end)
    could = 1 - lost / (limits_app.LIMIT * (end - begin))
    print(
        f"{len(limits.deaths)} deaths; limited: at most {most_at_once(spans)} at once, {used:.1%} used"
        f" ({used / could:.1%} of what could be);"
        f" {len(by_group)} groups: at most {most} at once"
    )
    assert len(limits.deaths) >= 2
    assert most_at_once(spans) == limits_app.LIMIT
    assert most == limits_app.GROUP_LIMIT
    assert used / could >= 0.9
