"""Waiting for many calls at once (T13)."""

from __future__ import annotations

import asyncio

import pytest

from mainspring import Mainspring, ResultTimeout, RetryPolicy, TaskFailed
from mainspring.encryption import AesGcm
from mainspring.errors import NotFound, UnknownCipherKey
from mainspring.testing import run_until_idle
from mainspring.testing.idle import FAST_SETTINGS


async def test_each_call_is_told_as_it_ends(app) -> None:
    """T13: in the order of their ends, with the types of their results."""
    gates = [asyncio.Event() for _ in range(3)]

    @app.task
    async def step(n: int) -> tuple[int, str]:
        await gates[n].wait()
        return n, "done"

    async with app.worker(**FAST_SETTINGS):
        handles = await step.enqueue_many([{"n": n} for n in range(3)])
        gates[2].set()
        found = []
        async for end in app.results(handles, timeout=20):
            found.append(end.result())
            if len(found) < 3:
                gates[2 - len(found)].set()
    assert found == [(2, "done"), (1, "done"), (0, "done")]


async def test_failures_are_told_and_do_not_stop_the_others(app) -> None:
    @app.task(retry=RetryPolicy(attempts=1))
    def step(n: int) -> int:
        if n == 1:
            raise ValueError("no")
        return n

    handles = await step.enqueue_many([{"n": n} for n in range(3)])
    later = await step.options(delay=3600).enqueue(9)
    await later.cancel(reason="not needed")
    gone = app.task_handle("step", "01890000-0000-7000-8000-000000000000")
    await run_until_idle(app)

    ends = {end.handle.id: end async for end in app.results([*handles, later, gone])}
    assert [ends[handle.id].state for handle in handles] == ["done", "parked", "done"]
    assert [ends[handle.id].value for handle in handles] == [0, None, 2]
    with pytest.raises(TaskFailed, match="was parked: ValueError: no"):
        ends[handles[1].id].result()
    with pytest.raises(TaskFailed, match="was cancelled: not needed"):
        ends[later.id].result()
    with pytest.raises(NotFound, match="neither waiting nor in history"):
        ends[gone.id].result()


async def test_a_handle_under_a_former_name_is_told(database_url: str) -> None:
    """T13: as its status and its result are."""
    async with Mainspring(database_url) as old, Mainspring(database_url) as new:

        def charge(n: int) -> int:
            return n

        new.task(name="bill", was=["charge"])(charge)
        handle = await old.task(charge).enqueue(3)
        await run_until_idle(old)

        found = new.task_handle("charge", handle.id)
        assert [end.result() async for end in new.results([found], timeout=5)] == [3]


async def test_a_result_that_cannot_be_read_here_does_not_stop_the_others(
    database_url: str,
) -> None:
    """T13: its key is known to others only."""
    ours, theirs = AesGcm({"a": b"a" * 32}, use="a"), AesGcm({"b": b"b" * 32}, use="b")
    async with (
        Mainspring(database_url, cipher=ours) as app,
        Mainspring(database_url, cipher=theirs) as other,
    ):

        def step(n: int) -> int:
            return n

        handles = []
        for one in (other, app):
            handles.append(await one.task(step).enqueue(len(handles)))
            await run_until_idle(one)

        ends = {end.handle.id: end async for end in app.results(handles, timeout=5)}
        sealed, readable = (ends[handle.id] for handle in handles)
        assert (readable.result(), readable.fault) == (1, None)
        assert (sealed.state, sealed.value) == ("done", None)
        with pytest.raises(UnknownCipherKey, match=r"the result of task 'step' is .* key 'b'"):
            sealed.result()


async def test_thousands_are_waited_for_by_a_few_statements(app) -> None:
    @app.task
    async def step(n: int) -> int:
        return n

    handles = await step.enqueue_many([{"n": n} for n in range(2500)])
    await run_until_idle(app)
    assert sum([end.result() async for end in app.results(handles)]) == sum(range(2500))


def test_plain_code_waits_too(app: Mainspring) -> None:
    @app.task
    def step(n: int) -> int:
        return n

    handles = step.enqueue_many_sync([{"n": n} for n in range(3)])
    asyncio.run(run_until_idle(app))
    assert sorted(end.result() for end in app.results_sync(handles, timeout=20)) == [0, 1, 2]
    with pytest.raises(
        ResultTimeout,
        match=r"1 calls have not ended, and none did for 0\.01 s; the first .* why step",
    ):
        list(app.results_sync([step.options(delay=60).enqueue_sync(1)], timeout=0.01))
