"""Reactive tasks under load: `python -m benchmarks.triggers`. Mainspring alone: its peers have none.

10,000 tasks over 5,000 integer params, two tasks a param. A worker process first idles (its CPU is
measured), then a loader advances params in batches, each one transaction on a server that flushes to
disk. Every advance concerns two tasks and so costs two checks; every tenth task fires on each advance
of its param, the others wait for more than comes. The latency of a run is from the loader's commit to
the first line of the task. At the end every task must have seen what it should: nothing is left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.workloads.workload import percentile
from mainspring import Mainspring
from mainspring.db.embedded import EmbeddedServer
from mainspring.reactive.context import ReactiveRun
from mainspring.reactive.triggers import Delta
from mainspring.reactive.values import Param

EVERY = 10  # every so many-th task fires on each advance of its param
NEVER = 1_000_000  # the others wait for so much
WARM_SECONDS = 5.0
IDLE_SECONDS = 10.0


def make(url: str, tasks: int, params: int, starts: list[Any]) -> tuple[Mainspring, list[Param]]:
    """The application; its tasks note when they started and on which value."""
    app = Mainspring(url)
    known = [app.data("bench.table").param(f"p{n}", kind="integer") for n in range(params)]

    def declare(n: int) -> None:
        param = known[n % params]

        async def work(run: ReactiveRun) -> None:
            starts.append((n % params, run.current[param], time.time()))

        least = 1 if n % EVERY == 0 else NEVER
        app.task(name=f"task{n}", when=Delta(param, least), first_run="baseline")(work)

    for n in range(tasks):
        declare(n)
    return app, known


def serve(url: str, tasks: int, params: int, ready: Any, stop: Any, output: str) -> None:
    """A worker process, until it is told to stop."""
    starts: list[Any] = []
    app, _ = make(url, tasks, params, starts)

    async def main() -> None:
        async with app, app.worker(concurrency=500) as worker:
            await worker.drained()
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.5)
            await worker.drained()

    asyncio.run(main())
    Path(output).write_text(json.dumps(starts))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(
    url: str, params: Sequence[Param], *, rate: int, seconds: float
) -> tuple[dict[tuple[int, int], float], float]:
    """Advance params round robin at a rate; answers when each value was committed, and the rate."""
    app = Mainspring(url)
    committed: dict[tuple[int, int], float] = {}
    size = max(1, rate // 50)  # 50 transactions a second: what a disk's flush allows
    number = 0
    with psycopg.connect(url, autocommit=True) as connection:
        begin = time.perf_counter()
        while (passed := time.perf_counter() - begin) < seconds:
            behind = begin + number / rate - time.perf_counter()
            if behind > 0:
                time.sleep(behind)
            batch = [
                ((number + n) % len(params), (number + n) // len(params) + 1) for n in range(size)
            ]
            app.advance_many_sync(((params[p], value) for p, value in batch), on=connection)
            at = time.time()
            committed |= dict.fromkeys(batch, at)
            number += size
    app.close_sync()
    return committed, number / passed


def measure(url: str, *, tasks: int, params: int, rate: int, seconds: float) -> dict[str, Any]:
    """One run of the whole story."""
    app, known = make(url, tasks, params, [])
    app.migrate_sync()
    began = time.perf_counter()
    for start in range(0, params, 500):
        app.advance_many_sync((p, 0) for p in known[start : start + 500])
    app.close_sync()
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    output = tempfile.mktemp(prefix="triggers-")
    process = context.Process(target=serve, args=(url, tasks, params, ready, stop, output))
    process.start()
    assert process.pid is not None
    assert ready.wait(300), "the worker did not become ready"
    found: dict[str, Any] = {"register_seconds": round(time.perf_counter() - began, 1)}
    time.sleep(WARM_SECONDS)
    before = cpu_seconds(process.pid)
    time.sleep(IDLE_SECONDS)
    found["idle_cpu_percent"] = round(100 * (cpu_seconds(process.pid) - before) / IDLE_SECONDS, 2)
    committed, found["advances_per_second"] = load(url, known, rate=rate, seconds=seconds)
    end = time.perf_counter()
    stop.set()
    process.join(300)
    found["drain_seconds"] = round(time.perf_counter() - end, 2)
    starts = json.loads(Path(output).read_text())
    delays = sorted(1000 * (at - committed[p, v]) for p, v, at in starts if (p, v) in committed)
    found["runs"] = len(starts)
    if delays:
        for percent in (50, 90, 99):
            found[f"p{percent}_ms"] = round(percentile(delays, percent), 1)
        found["max_ms"] = round(delays[-1], 1)
    found["left"] = _left(url)
    Path(output).unlink(missing_ok=True)
    return found


def _left(url: str) -> int:
    """Tasks that should have run and did not: the check that nothing was lost."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select count(*) from mainspring.reactive_task t join mainspring.uses u using (task)"
            " join mainspring.param p on p.name = u.param"
            " where t.firing is not null or (p.num > (t.seen -> p.name ->> 0)::bigint"
            "  and right(t.task, 1) = '0')"
        ).fetchone()
    assert row is not None
    return int(row[0])


def main() -> None:
    """Measure on a private server with a real disk, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--params", type=int, default=5_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="mainspring-triggers-", dir="/tmp"))
    server = EmbeddedServer(directory / "m")
    server.start()
    try:
        server.create_database("triggers")
        found = measure(
            server.url("triggers"),
            tasks=given.tasks,
            params=given.params,
            rate=given.rate,
            seconds=given.seconds,
        )
    finally:
        server.stop(fast_seconds=2)
        shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps({**vars(given), "load_average": os.getloadavg()[0], **found}, indent=2))


if __name__ == "__main__":
    main()
