"""Breakers of tasks: declared, changed at run time, opened and closed by hand, and told of."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Breaker, Context, Mainspring, RetryAfter, RetryPolicy
from mainspring.errors import InvalidSetting, InvalidTask, NotFound
from mainspring.metrics import render
from mainspring.operate.doctor import judge_status
from mainspring.testing import Clock, wait_until

SOON = RetryPolicy(attempts=100, first=0.0, most=0.0)


async def test_a_task_whose_service_is_down_is_stopped_and_says_so(
    app: Mainspring, clock: Clock
) -> None:
    """T13: why, status, doctor and metrics tell it; when the service is back all of it is done."""
    calls = 0
    down = True

    @app.task(breaker=Breaker(failures=3, pause=timedelta(hours=1)), retry=SOON)
    async def charge(n: int) -> int:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        if down:
            raise ConnectionError("refused")
        return n

    handles = await charge.enqueue_many([{"n": n} for n in range(20)])
    async with app.worker(concurrency=1):
        await wait_until(lambda: app.operator.breakers())
        assert calls == 3
        [breaker] = await app.operator.breakers(queue="charge")
        assert (breaker.queue, breaker.group, breaker.failures) == ("charge", None, 3)
        assert breaker.text.startswith("the breaker of queue 'charge' is open since 20")
        assert "nothing of it starts until 20" in breaker.text
        assert breaker.text.endswith(": ConnectionError: refused (3 in a row)")

        why = await app.operator.why("charge", handles[-1].id)
        [cause] = [c for c in why.causes if c.name == "breaker_open"]
        assert cause.text == breaker.text
        status = await app.operator.status()
        [finding] = [f for f in judge_status(status) if f.name == "breaker"]
        assert (finding.level, finding.text) == ("warn", breaker.text)
        assert 'mainspring_breakers_open{queue="charge"} 1' in render(status, [], [], [])

        down = False
        await clock.advance(3601)
        assert [await handle.result(30) for handle in handles] == list(range(20))
        await wait_until(lambda: _none(app))
    assert "breakers_open{" not in render(await app.operator.status(), [], [], [])


async def _none(app: Mainspring) -> bool:
    return not await app.operator.breakers()


async def test_a_breaker_is_opened_and_closed_by_hand(app: Mainspring) -> None:
    """T13: of a task, and of one of its groups; each order is in the audit."""

    @app.task
    async def charge(ctx: Context) -> str | None:
        return ctx.group

    async with app.worker() as worker:
        until = await app.operator.now() + timedelta(hours=1)
        await app.operator.open_breaker("charge", group="a", until=until, reason="they asked us")
        await wait_until(lambda: bool(worker.buffer.queues["charge"].groups.shut))
        a, b = [await charge.options(group=group).enqueue() for group in "ab"]
        assert await b.result(30) == "b"
        [cause] = [
            c for c in (await app.operator.why("charge", a.id)).causes if c.name == "breaker_open"
        ]
        assert "the breaker of group 'a' of queue 'charge' is open" in cause.text
        assert cause.text.endswith(": they asked us")
        await app.operator.close_breaker("charge", group="a")
        assert await a.result(30) == "a"

        await app.operator.open_breaker("charge", until=until)
        await wait_until(lambda: worker.buffer.queues["charge"].paused)
        late = await charge.enqueue()
        assert (await app.operator.why("charge", late.id)).causes[0].name == "breaker_open"
        await app.operator.close_breaker("charge")
        await late.result(30)

        with pytest.raises(NotFound, match="the breaker of queue 'charge' is not open"):
            await app.operator.close_breaker("charge")
        with pytest.raises(NotFound, match="no queue is named 'change'; did you mean 'charge'"):
            await app.operator.open_breaker("change", until=until)
        with pytest.raises(InvalidSetting, match="a breaker's opening must end in the future"):
            await app.operator.open_breaker("charge", until=until - timedelta(hours=2))
    actions = [order.action for order in await app.operator.orders()]
    assert actions == ["breakers.close", "breakers.open"] * 2


async def test_a_breaker_is_changed_at_run_time_like_a_limit(app: Mainspring) -> None:
    """T13: also where the code declares none."""
    calls = 0

    @app.task(retry=SOON)
    async def charge() -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.001)
        if calls > 5:
            raise ConnectionError("refused")

    async with app.worker(concurrency=1) as worker:
        for _ in range(5):
            await (await charge.enqueue()).result(30)
        await app.operator.limit("charge", breaker_failures=2, breaker_pause=3600.0)
        [load] = await app.operator.queues(name="charge")
        assert (load.breaker_failures, load.breaker_pause) == (2, 3600)
        await wait_until(lambda: worker.buffer.queues["charge"].judged)
        await charge.enqueue()
        await wait_until(lambda: app.operator.breakers())
        assert calls == 7
        [breaker] = await app.operator.breakers()
        assert breaker.until - breaker.opened_at == timedelta(hours=1)
        with pytest.raises(InvalidSetting, match="breaker_failures must be a whole number of 1"):
            await app.operator.limit("charge", breaker_failures=0)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"failures": 0}, "a breaker's failures must be a whole number of 1 to 1000000, got 0"),
        ({"pause": 0}, r"a breaker's pause must be more than 0 seconds .*, got 0"),
        ({"within": "soon"}, r"a breaker's within must be more than 0 seconds .*, got 'soon'"),
        ({"per": "tenant"}, "a breaker is per 'queue' or per 'group', got 'tenant'"),
        (
            {"on": ConnectionError},
            r"a breaker's on must be a tuple of exception classes, got .*comma",
        ),
    ],
)
def test_a_breaker_that_makes_no_sense_is_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidSetting, match=text):
        Breaker(**settings)


def test_what_is_no_breaker_and_a_remote_task_with_one_are_refused(app: Mainspring) -> None:
    with pytest.raises(InvalidSetting, match="breaker must be a Breaker, got 5"):

        @app.task(breaker=5)  # type: ignore[call-overload]
        async def charge() -> None: ...

    with pytest.raises(InvalidTask, match="a breaker counts runs of workers"):

        @app.task(breaker=Breaker(), remote=True)
        async def pay() -> None: ...

    with pytest.raises(
        InvalidSetting, match="RetryAfter pauses the 'queue' or the 'group', got 'task'"
    ):
        RetryAfter(3, pauses="task")  # type: ignore[arg-type]
