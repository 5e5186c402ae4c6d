"""Batch tasks: one call of a function for many calls of its task, each with an end of its own (T13)."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest

from mainspring import Context, Mainspring, Promise, RetryAfter, RetryPolicy, TaskFailed
from mainspring.errors import DuplicateTask, InvalidSetting, InvalidTask
from mainspring.operate.history import HistoryFilter
from mainspring.testing import run_until_idle, wait_until
from mainspring.testing.idle import FAST_SETTINGS

ONE_TRY = RetryPolicy(attempts=1)


@dataclass
class Page:
    number: int
    text: str = ""


def work(app: Mainspring, **settings: Any) -> Any:
    return app.worker(**(FAST_SETTINGS | settings))


async def outcomes_of(app: Mainspring, handles: list[Any]) -> list[list[str]]:
    return [
        [run.outcome for run in await app.operator.history(HistoryFilter(key=handle.key))]
        for handle in handles
    ]


async def test_many_calls_are_few_runs_of_the_function(app) -> None:
    """T13: never more than the size; each call has its own result."""
    sizes: list[int] = []

    @app.batch_task(size=100)
    async def index(pages: list[Page]) -> list[int]:
        sizes.append(len(pages))
        return [10 * page.number for page in pages]

    handles = await index.enqueue_many([{"item": {"number": n, "text": "x"}} for n in range(450)])
    one = await index.enqueue(Page(7))
    await run_until_idle(app)

    assert [await handle.result(timeout=5) for handle in handles] == [10 * n for n in range(450)]
    assert await one.result(timeout=5) == 70
    assert max(sizes) <= 100
    assert sum(sizes) == 451
    assert len(sizes) < 45


async def test_an_exception_in_the_list_is_the_failure_of_its_item(app) -> None:
    """T13: one bad item does not fail the others."""

    @app.batch_task(size=10, retry=ONE_TRY)
    async def index(pages: list[Page]) -> list[int | Exception]:
        return [ValueError(f"page {p.number}") if p.number == 3 else p.number for p in pages]

    handles = await index.enqueue_many([{"item": Page(n)} for n in range(5)])
    await run_until_idle(app)

    with pytest.raises(TaskFailed, match="ValueError: page 3"):
        await handles[3].result(timeout=5)
    assert await outcomes_of(app, handles) == [["parked" if n == 3 else "done"] for n in range(5)]


async def test_a_function_that_raises_is_called_for_halves_until_the_bad_one_is_found(app) -> None:
    """T13: the others lose no attempt."""
    calls: list[list[int]] = []

    @app.batch_task(size=8, wait=5, retry=ONE_TRY)
    def index(pages: list[Page]) -> None:
        calls.append([page.number for page in pages])
        if any(page.number == 5 for page in pages):
            raise ValueError("page 5 is bad")

    async with work(app):
        handles = await index.enqueue_many([{"item": Page(n)} for n in range(8)])
        ends = [end async for end in app.results(handles, timeout=20)]

    assert {end.handle.id for end in ends if not end.ok} == {handles[5].id}
    assert calls[0] == list(range(8))
    assert len(calls) == 7
    assert await outcomes_of(app, handles) == [["parked" if n == 5 else "done"] for n in range(8)]


async def test_a_half_that_is_cancelled_from_within_leaves_no_item_without_an_end(app) -> None:
    """T13: also those of the other half, which the function was not called for."""
    calls: list[list[int]] = []

    @app.batch_task(size=4, wait=5, retry=ONE_TRY)
    async def index(pages: list[int]) -> None:
        calls.append(pages)
        if len(pages) > 2:
            raise ValueError("too many")
        raise asyncio.CancelledError

    async with work(app):
        handles = await index.enqueue_many([{"item": n} for n in range(4)])
        ends = [end async for end in app.results(handles, timeout=20)]

    assert [end.ok for end in ends] == [False] * 4
    assert calls == [[0, 1, 2, 3], [0, 1]]


async def test_one_that_is_to_come_later_comes_later_as_a_whole(app) -> None:
    tries: list[int] = []

    @app.batch_task(size=10)
    async def index(pages: list[int]) -> None:
        tries.append(len(pages))
        if len(tries) == 1:
            raise RetryAfter(0.01, "busy")

    handles = await index.enqueue_many([{"item": n} for n in range(3)])
    await _until_done(app, handles)
    assert await outcomes_of(app, handles) == [["done"]] * 3


async def _until_done(app: Mainspring, handles: list[Any]) -> None:
    async with work(app):
        assert all([end.ok async for end in app.results(handles, timeout=20)])


async def test_contexts_of_the_items(app) -> None:
    """T13: idempotency keys, attempts, progress and cancel are those of each call."""

    @app.batch_task(size=10)
    def index(pages: list[int], contexts: list[Context]) -> list[str]:
        contexts[0].progress(1, "indexed")
        return [
            f"{page} {ctx.idempotency_key} {ctx.attempt}"
            for page, ctx in zip(pages, contexts, strict=True)
        ]

    handles = [await index.options(group=f"g{n}").enqueue(n) for n in range(2)]
    await run_until_idle(app)
    found = [await handle.result(timeout=5) for handle in handles]
    assert found == [f"{n} {handle.id} 1" for n, handle in enumerate(handles)]


async def test_a_cancelled_item_ends_and_the_others_go_on(app) -> None:
    """T13: when all were cancelled, the function is."""
    began, go, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.batch_task(size=2, wait=5, hold_after=0)
    async def index(pages: list[int]) -> list[int]:
        began.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return pages

    async with work(app):
        first, second = await index.enqueue_many([{"item": 1}, {"item": 2}])
        await began.wait()
        assert await first.cancel(wait=10) == "cancelled"
        go.set()
        assert await second.result(timeout=10) == 2
        began.clear()
        go.clear()
        third, fourth = await index.enqueue_many([{"item": 3}, {"item": 4}])
        await began.wait()
        assert await third.cancel(wait=10) == "cancelled"
        assert not cancelled.is_set()
        assert await fourth.cancel(wait=10) == "cancelled"
        await asyncio.wait_for(cancelled.wait(), 10)


@pytest.mark.parametrize("hears", [True, False])
async def test_a_plain_function_whose_time_is_over_is_stopped_and_called_again(app, hears) -> None:
    """T13: each attempt calls it; one that hears nothing is left after its grace."""
    go = threading.Event()
    calls: list[str] = []

    @app.batch_task(
        size=2, timeout=0.5, grace=20 if hears else 0.1, retry=RetryPolicy(attempts=9, first=0.01)
    )
    def index(pages: list[int]) -> None:
        calls.append("began")
        if calls.count("began") > 1:
            return
        try:
            _spin(go) if hears else go.wait(60)
        finally:
            calls.append("ended")

    async with work(app):
        handle = await index.enqueue(1)
        await handle.result(timeout=20)
        go.set()
    assert calls[:3] == (["began", "ended", "began"] if hears else ["began", "began", "ended"])
    (past,) = await outcomes_of(app, [handle])
    assert past[0] == "done"
    assert set(past[1:]) == {"retry"}


def _spin(until: threading.Event) -> None:
    deadline = time.monotonic() + 60
    while not until.is_set() and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize("how", ["cancelled", "fenced"])
async def test_a_plain_function_that_no_item_wants_is_stopped(app, how: str) -> None:
    """T13: also when a fenced worker's loop does not come to it: another worker has its items."""
    never, began, ended = threading.Event(), threading.Event(), threading.Event()

    @app.batch_task(size=1, hold_after=0, grace=20)
    def index(pages: list[int]) -> None:
        began.set()
        try:
            _spin(never)
        finally:
            ended.set()

    async with work(app) as worker:
        handle = await index.enqueue(1)
        await wait_until(began.is_set, 20)
        if how == "fenced":
            worker.loop_port.interrupt(worker.owned.snapshot())
            assert ended.wait(20)
        assert await handle.cancel(wait=20) in ("cancelled", "done")
        await wait_until(ended.is_set, 20)


async def test_no_time_passes_for_an_item_that_waits_for_another_batch(app) -> None:
    """T13: a timeout begins with the batch, and so does the deadline."""
    deadlines: list[float] = []

    @app.batch_task(size=1, timeout=2.5, retry=ONE_TRY)
    async def index(pages: list[int], contexts: list[Context]) -> None:
        assert contexts[0].deadline is not None
        deadlines.append(contexts[0].deadline.timestamp())
        await asyncio.sleep(1.4)

    async with work(app):
        handles = await index.enqueue_many([{"item": 1}, {"item": 2}])
        assert all([end.ok async for end in app.results(handles, timeout=20)])
    assert deadlines[1] - deadlines[0] > 1.3


async def test_a_payload_that_does_not_fit_fails_alone(app) -> None:
    seen: list[int] = []

    @app.batch_task(size=10, retry=ONE_TRY)
    async def index(pages: list[int]) -> None:
        seen.extend(pages)

    await app.migrate()
    await app.operator.enqueue("index", {"item": "text"})
    good = await index.enqueue(1)
    await run_until_idle(app)
    assert await good.result(timeout=5) is None
    assert seen == [1]


async def test_a_batch_does_not_take_the_worker_s_slots(app) -> None:
    go = threading.Event()
    began: list[int] = []

    @app.batch_task(size=20)
    def index(pages: list[int]) -> None:
        began.append(len(pages))
        go.wait(20)

    @app.task
    async def light() -> str:
        return "done"

    async with work(app, concurrency=1):
        handles = await index.enqueue_many([{"item": n} for n in range(20)])
        await wait_until(lambda: bool(began), 20)
        assert await (await light.enqueue()).result(timeout=20) == "done"
        go.set()
        assert all([end.ok async for end in app.results(handles, timeout=20)])


async def test_a_batch_task_is_a_step_of_a_process_too(app) -> None:
    @app.batch_task(size=10)
    async def double(numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]

    @app.process
    def four_times(number: int) -> Promise[int]:
        return double(double(number))

    async with work(app):
        handle = await four_times.start(3)
        assert await handle.result(timeout=20) == 12


async def test_a_wrong_number_of_results_is_said(app) -> None:
    @app.batch_task(size=10, retry=ONE_TRY)
    async def index(pages: list[int]) -> list[int]:
        return [*pages, 7]

    handle = await index.enqueue(1)
    await run_until_idle(app)
    with pytest.raises(
        TaskFailed, match="a list with a result for each of its 1 items, or None, got 2"
    ):
        await handle.result(timeout=5)


def test_what_is_no_batch_is_refused(app: Mainspring) -> None:
    def single(page: int) -> None: ...
    def two(pages: list[int], more: list[int]) -> None: ...
    def good(pages: list[int]) -> None: ...
    def text(pages: list[int]) -> str: ...

    for function in (single, two):
        with pytest.raises(
            InvalidTask, match="must take a list of items, and may take their contexts"
        ):
            app.batch_task()(function)  # type: ignore[call-overload]
    with pytest.raises(
        InvalidTask, match="must return a list with a result for each item, or None"
    ):
        app.batch_task()(text)
    with pytest.raises(InvalidSetting, match="size must be 1 to 5000, got 0"):
        app.batch_task(size=0)(good)
    with pytest.raises(InvalidTask, match="has no setting 'executer'"):
        app.batch_task(executer="process")(good)  # type: ignore[call-arg]
    app.batch_task(name="again")(good)
    with pytest.raises(DuplicateTask, match="'again' is declared twice"):
        app.batch_task(name="again")(single_list)


def single_list(pages: list[int]) -> None: ...
