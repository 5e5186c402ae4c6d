"""Bulk enqueue from an iterable: lazily, a chunk at a time (T13)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from mainspring import InvalidArguments, Mainspring
from mainspring.errors import InvalidSetting
from mainspring.testing import run_until_idle


async def test_calls_are_taken_a_chunk_at_a_time(app) -> None:
    """T13: the iterable is asked for no more than is enqueued next; progress is told after each chunk."""
    asked: list[int] = []
    told: list[tuple[int, int]] = []

    @app.task
    async def load(n: int) -> None: ...

    def calls() -> Iterator[dict[str, object]]:
        for n in range(250):
            asked.append(n)
            yield {"n": n}

    count = await load.enqueue_from(
        calls(), chunk=100, progress=lambda done: told.append((done, len(asked)))
    )
    assert count == 250
    assert told == [(100, 100), (200, 200), (250, 250)]
    assert len(await app.operator.visits(queue="load", limit=500)) == 250


async def test_an_async_iterable_and_the_task_s_options(app) -> None:
    @app.task
    async def load(n: int) -> None: ...

    async def calls() -> AsyncIterator[dict[str, object]]:
        for n in range(3):
            yield {"n": n}

    assert await load.options(group="a").enqueue_from(calls(), chunk=2) == 3
    assert {visit.group for visit in await app.operator.visits(queue="load")} == {"a"}
    await run_until_idle(app)


async def test_an_error_leaves_whole_chunks_in_and_says_how_many(app) -> None:
    """T13: a chunk is all or none."""

    @app.task
    async def load(n: int) -> None: ...

    rows: list[dict[str, object]] = [{"n": n} for n in range(5)] + [{"n": "text"}]
    with pytest.raises(
        InvalidArguments, match="call 5 of enqueue_many: arguments of task 'load'"
    ) as bad:
        await load.enqueue_from(iter(rows), chunk=4)
    assert bad.value.__notes__ == ["4 calls were enqueued before that"]
    assert len(await app.operator.visits(queue="load")) == 4


async def test_what_is_no_iterable_is_refused(app: Mainspring) -> None:
    @app.task
    async def load(n: int) -> None: ...

    with pytest.raises(InvalidArguments, match="calls must be an iterable of dicts, got int"):
        await load.enqueue_from(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="chunk must be 1 to 100000, got 0"):
        await load.enqueue_from([], chunk=0)
