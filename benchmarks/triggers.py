"""Reactive tasks under load: the worker and the loader of the workloads `triggers` and `burst`.

A worker process has all tasks; a loader advances params, each batch one transaction on a server that
flushes to disk. Every run notes its task, the value it was started on and when.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.stage import Failed
from mainspring import Mainspring
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.triggers import Delta
from mainspring.reactive.model.values import Param
from mainspring.reactive.schedule import check

READY_SECONDS = 300.0
EVERY = 10  # of a steady load every so many-th task fires on each advance of its param
NEVER = 1_000_000  # the others wait for so much
FLUSHES = 50  # transactions a second: what a disk's flush allows


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker process declares."""

    tasks: int
    params: int
    cap: int | None = None  # with one, every task fires, has a priority and takes a moment
    run_seconds: float = 0.0

    def least(self, n: int) -> int:
        return 1 if self.cap is not None or n % EVERY == 0 else NEVER

    def priority(self, n: int) -> int:
        return n % 10 if self.cap is not None else 5


def make(url: str, plan: Plan, starts: list[Any]) -> tuple[Mainspring, list[Param]]:
    """The application; its tasks note when they started and on which value."""
    app = Mainspring(url)
    known = [app.data("bench.table").param(f"p{n}", kind="integer") for n in range(plan.params)]

    def declare(n: int) -> None:
        param = known[n % plan.params]

        async def work(run: ReactiveRun) -> None:
            began = time.time()
            if plan.run_seconds:
                await asyncio.sleep(plan.run_seconds)
            starts.append((n, run.current[param], began, time.time()))

        app.task(
            name=f"task{n}",
            when=Delta(param, plan.least(n)),
            first_run="baseline",
            priority=plan.priority(n),
        )(work)

    for n in range(plan.tasks):
        declare(n)
    if plan.cap is not None:
        app.reactive_pool("default", cap=plan.cap)
    return app, known


def serve(url: str, plan: Plan, ready: Any, stop: Any, output: str) -> None:
    """A worker process, until it is told to stop."""
    starts: list[Any] = []
    app, _ = make(url, plan, starts)
    evaluations = count_calls()

    async def main() -> int:
        async with app, app.worker(concurrency=500) as worker:
            await worker.drained()
            before = evaluations()
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.5)
            await worker.drained()
            return evaluations() - before

    counted = asyncio.run(main())
    Path(output).write_text(json.dumps([starts, counted]))


def count_calls() -> Callable[[], int]:
    """Counts how often a trigger is evaluated in this process."""
    evaluate, count = check.decide, 0

    def counting(*given: Any) -> Any:
        nonlocal count
        count += 1
        return evaluate(*given)

    check.decide = counting
    return lambda: count


class Worker:
    """A worker process, seen from outside."""

    def __init__(self, process: Any, stop: Any, output: str) -> None:
        self.pid: int = process.pid
        self.starts: list[tuple[int, int, float, float]] = []  # task, value, began, ended
        self.evaluations = 0
        self._process, self._stop, self._output = process, stop, output

    def finish(self) -> None:
        """Let it do what is left, and read what it noted."""
        self._stop.set()
        self._process.join(READY_SECONDS)
        if self._process.exitcode != 0:
            raise Failed(f"the worker ended with code {self._process.exitcode}")
        self.starts, self.evaluations = json.loads(Path(self._output).read_text())


@contextmanager
def worker(url: str, plan: Plan) -> Iterator[tuple[Worker, Mainspring, list[Param]]]:
    """A worker that has registered everything, every param at 0; and an application to set them."""
    app, known = make(url, plan, [])
    app.migrate_sync()
    for start in range(0, plan.params, 500):
        app.advance_many_sync((p, 0) for p in known[start : start + 500])
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    with tempfile.NamedTemporaryFile(prefix="triggers-") as output:
        process = context.Process(target=serve, args=(url, plan, ready, stop, output.name))
        process.start()
        try:
            if not ready.wait(READY_SECONDS):
                raise Failed("the worker did not become ready")
            yield Worker(process, stop, output.name), app, known
        finally:
            app.close_sync()
            if process.is_alive():
                process.kill()
                process.join(10)


def load(
    url: str,
    app: Mainspring,
    params: Sequence[Param],
    *,
    rate: int,
    seconds: float,
    above: int = 0,
) -> tuple[dict[tuple[int, int], float], float]:
    """Advance params round robin at a rate; answers when each value was committed, and the rate."""
    committed: dict[tuple[int, int], float] = {}
    size, number = max(1, rate // FLUSHES), 0
    with psycopg.connect(url, autocommit=True) as connection:
        begin = time.perf_counter()
        while (passed := time.perf_counter() - begin) < seconds:
            behind = begin + number / rate - time.perf_counter()
            if behind > 0:
                time.sleep(behind)
            batch = [
                ((number + n) % len(params), above + (number + n) // len(params) + 1)
                for n in range(size)
            ]
            app.advance_many_sync(((params[p], value) for p, value in batch), on=connection)
            committed |= dict.fromkeys(batch, time.time())
            number += size
    return committed, number / passed


def left(url: str, plan: Plan) -> int:
    """Tasks that should have run and did not: the check that nothing was lost."""
    firing = [f"task{n}" for n in range(plan.tasks) if plan.least(n) == 1]
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select count(*) from mainspring.reactive_task t join mainspring.uses u using (task)"
            " join mainspring.param p on p.name = u.param"
            " where t.firing is not null"
            "  or (t.task = any(%s) and p.num > (t.seen -> p.name ->> 0)::bigint)",
            [firing],
        ).fetchone()
    assert row is not None
    return int(row[0])
