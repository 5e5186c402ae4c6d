"""Threads of plain functions: a stop reaches its own run, and only that one."""

from __future__ import annotations

import asyncio
import functools
import gc
import io
import itertools
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from mainspring import RetryPolicy
from mainspring.db.connect.attempt import Attempt
from mainspring.errors import Fenced
from mainspring.kernel.visit import Run
from mainspring.operate.history import HistoryFilter
from mainspring.tasks.run import execute
from mainspring.tasks.run.connections import Connections
from mainspring.tasks.run.execute import Executor
from mainspring.testing import run_until_idle, wait_until
from mainspring.testing.idle import FAST_SETTINGS

ONCE = RetryPolicy(attempts=1)
THREADS = 4


@pytest.fixture
async def executor() -> AsyncIterator[Executor]:
    executor = Executor(cast("Connections", None), threads=THREADS)
    yield executor
    executor.close()


def run(token: int = 1) -> Run:
    return Run(cast("Any", None), token, 0.0, 0.0)


async def test_a_stop_is_not_swallowed_by_a_task_s_except(app) -> None:
    swallowed = []

    @app.task(timeout=0.05, retry=ONCE)
    def stubborn() -> None:
        while True:
            try:
                sum(range(1000))
            except Exception as error:
                swallowed.append(error)

    handle = await stubborn.enqueue()
    await run_until_idle(app, timeout=5)

    assert swallowed == []
    assert await handle.status() == "parked"


async def test_a_stop_that_comes_while_a_run_leaves_is_its_own(executor: Executor) -> None:
    """The thread waits at the gate; the stop is raised in it before it gets through."""
    first, ended = run(), threading.Event()
    with executor._gate:
        call = asyncio.ensure_future(executor.call_in_thread(first, ended.set, {}))
        await asyncio.to_thread(ended.wait)
        execute._raise_in(executor._running.pop(first.token), execute._Stop)

    with pytest.raises(Fenced):
        await asyncio.wait_for(call, 5)
    assert executor._running == {}
    others = (executor.call_in_thread(run(n), lambda n: n, {"n": n}) for n in range(THREADS))
    assert await asyncio.gather(*others) == list(range(THREADS))


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns after microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
async def test_stops_hit_their_own_runs_only_and_every_run_ends(executor: Executor) -> None:
    """Stops at random moments: each run ends with its own result or by its own stop."""
    numbers, stopped, over = itertools.count(), set(), threading.Event()

    def work(n: int) -> int:
        for _ in range(50):
            sum(range(20))
        return n

    def stop_some() -> None:
        while not over.is_set():
            for token in list(executor._running):
                if token % 3 == 0:
                    stopped.add(token)
                    executor.interrupt([run(token)])

    async def call_some() -> None:
        while (n := next(numbers)) < 1500 or not stopped:  # on a busy machine none may be
            try:
                assert await executor.call_in_thread(run(n), work, {"n": n}) == n
            except Fenced:
                assert n in stopped

    stopper = threading.Thread(target=stop_some)
    stopper.start()
    try:
        async with asyncio.timeout(20):
            await asyncio.gather(*(call_some() for _ in range(2 * THREADS)))
    finally:
        over.set()
        stopper.join()

    assert stopped
    assert executor._running == {}
    assert all(thread.is_alive() for thread in executor._threads._threads)


async def test_the_exception_of_a_stopped_function_is_not_complained_of(
    executor: Executor,
) -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, found: complaints.append(found))

    def endless() -> None:
        while True:
            sum(range(1000))

    call = asyncio.ensure_future(executor.call_in_thread(run(), endless, {}))
    await wait_until(lambda: bool(executor._running))
    call.cancel()
    await asyncio.wait({call})
    assert call.cancelled()
    del call  # its traceback keeps the thread's future alive, which complains when it goes
    await asyncio.sleep(0)
    gc.collect()

    assert complaints == []


async def test_a_stop_ends_no_thread_that_its_run_is_starting(executor: Executor) -> None:
    """Until it runs, Python knows a new thread by the number of the one that starts it."""

    def connect_for_ever() -> None:
        begun.set()
        while True:
            Attempt(io.StringIO).wait()

    for token in range(200):
        begun = threading.Event()
        busy = run(token)
        call = asyncio.create_task(executor.call_in_thread(busy, connect_for_ever, {}))
        await asyncio.to_thread(begun.wait)
        executor.interrupt([busy])
        with pytest.raises(Fenced):
            async with asyncio.timeout(10):
                await call


async def test_a_fenced_run_counts_no_attempt_though_its_thread_ends_first(app) -> None:
    """The heart's thread interrupts; the loop must know the run as stopped when the thread has ended."""
    running, again = threading.Event(), threading.Event()

    @app.task
    def busy() -> int:
        if running.is_set():
            again.set()
            return 1
        running.set()
        while True:
            sum(range(1000))

    handle = await busy.enqueue()
    async with app.worker(**FAST_SETTINGS) as worker:
        await wait_until(running.is_set)
        interrupt = worker.loop_port.interrupt

        def slowly(runs: Any) -> None:
            interrupt(runs)
            time.sleep(0.3)  # the heart's thread is not scheduled for a while

        worker.loop_port.interrupt = slowly
        await asyncio.to_thread(worker.loop_port.fenced)
        worker.loop_port.interrupt = interrupt
        assert await handle.result(5) == 1
        runs = await app.operator.history(HistoryFilter(queue="busy"))

    assert [(run.outcome, run.attempt) for run in runs] == [("done", 1)]


def by_name(function: Any) -> Any:
    """A decorator as many have: it shows the signature of what it wraps, and takes arguments by name."""

    @functools.wraps(function)
    async def wrapper(**named: Any) -> Any:
        return await function(**named)

    return wrapper


async def test_a_decorated_task_is_called_by_name(app) -> None:
    @app.task
    @by_name
    async def decorated(n: int, m: int = 2) -> int:
        return n * m

    handle = await decorated.enqueue(5)
    async with app.worker():
        assert await handle.result(timeout=10) == 10


async def test_a_task_is_called_with_its_own_arguments_however_they_were_given(app) -> None:
    """By position where the function allows it, with what was left out at its default."""

    @app.task
    async def plain(a: int, b: list[int], c: str = "c") -> list[object]:
        return [a, b, c]

    handles = [
        await plain.enqueue(1, [2]),
        await plain.enqueue(c="x", b=[], a=1),
        await plain.enqueue(1, b=[3], c="y"),
    ]
    async with app.worker():
        results = [await handle.result(timeout=10) for handle in handles]
    assert results == [[1, [2], "c"], [1, [], "x"], [1, [3], "y"]]
