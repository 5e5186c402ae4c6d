"""Many processes started at once (T13)."""

from __future__ import annotations

import pytest

from mainspring import InvalidArguments, Mainspring, Promise
from mainspring.errors import IdInUse
from mainspring.testing import run_until_idle


def declare(app: Mainspring):
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.process
    def job(n: int) -> Promise[int]:
        return double(n)

    return job


async def test_all_are_started_and_run(app) -> None:
    """T13: in one transaction, with ids of one's own or without."""
    job = declare(app)
    nameless = await job.start_many({"n": n} for n in range(30))
    named = await job.start_many([{"n": 7}, {"n": 8}], ids=["seven", "eight"])
    again = await job.start_many([{"n": 8}, {"n": 9}], ids=["eight", "nine"])
    assert [handle.is_new for handle in (*named, *again)] == [True, True, False, True]
    await run_until_idle(app)
    assert [await handle.result(timeout=20) for handle in nameless] == [2 * n for n in range(30)]
    assert await again[1].result(timeout=20) == 18


async def test_all_or_none(app) -> None:
    """T13: one that is refused leaves none of the others."""
    job = declare(app)
    await job.options(id="b").start(1)
    with pytest.raises(IdInUse, match="was started before with other arguments"):
        await job.start_many([{"n": 1}, {"n": 2}], ids=["a", "b"])
    with pytest.raises(InvalidArguments, match="start 1 of start_many: arguments of process 'job'"):
        await job.start_many([{"n": 1}, {"n": "text"}])
    with pytest.raises(InvalidArguments, match="start_many has 2 calls and 1 ids"):
        await job.start_many([{"n": 1}, {"n": 2}], ids=["a"])
    with pytest.raises(InvalidArguments, match="has the id 'x' of a single one"):
        await job.options(id="x").start_many([{"n": 1}])
    assert (await job.options(id="a").start(5)).is_new
    await run_until_idle(app)


def test_plain_code_starts_many(app: Mainspring) -> None:
    job = declare(app)
    handles = job.start_many_sync([{"n": 1}, {"n": 2}])
    assert [handle.is_new for handle in handles] == [True, True]
