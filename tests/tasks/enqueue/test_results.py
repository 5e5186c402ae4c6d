"""Results and handles: what became of a call."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from mainspring import Mainspring, RetryPolicy
from mainspring.errors import (
    InvalidArguments,
    InvalidKey,
    NotFound,
    ResultTimeout,
    TaskFailed,
    UnknownTask,
)
from mainspring.testing import run_until_idle, wait_until


@dataclass
class Receipt:
    number: int
    at: datetime


async def test_a_result_comes_back_as_the_return_type(app) -> None:
    """T13."""

    @app.task
    async def pay() -> Receipt:
        return Receipt(7, datetime(2030, 1, 1, tzinfo=UTC))

    handle = await pay.enqueue()
    await run_until_idle(app)

    assert await handle.result(timeout=1) == Receipt(7, datetime(2030, 1, 1, tzinfo=UTC))
    assert handle.result_sync(timeout=1) == Receipt(7, datetime(2030, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("value", [None, 0, "", False, [], {}, {"a": [1]}])
async def test_empty_results_are_results(app, value) -> None:
    @app.task
    async def answer():
        return value

    handle = await answer.enqueue()
    await run_until_idle(app)

    assert await handle.result(timeout=1) == value
    assert await handle.status() == "done"


async def test_a_result_can_be_awaited_while_a_worker_runs(app) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app.worker(lease=1.0, poll=0.05):
        handle = await add.enqueue(1, 2)

        assert await handle.result(timeout=5) == 3


async def test_the_states_of_a_task_s_life(app, clock) -> None:
    """T4: scheduled, waiting, running, done."""
    import asyncio

    go = asyncio.Event()

    @app.task(hold_after=0)
    async def slow() -> None:
        await go.wait()

    handle = await slow.options(delay=timedelta(hours=1)).enqueue()
    seen = [await handle.status()]
    await clock.advance(3600)
    seen.append(await handle.status())
    async with app.worker(lease=1.0, poll=0.05):

        async def runs() -> bool:
            return await handle.status() == "running"

        await wait_until(runs)
        go.set()
        await handle.result(timeout=5)
        seen.append(await handle.status())

    assert seen == ["scheduled", "waiting", "done"]


async def test_the_database_refuses_an_unknown_state(app, database_url) -> None:
    """T4."""
    with (
        psycopg.connect(database_url) as connection,
        pytest.raises(psycopg.errors.InvalidTextRepresentation),
    ):
        connection.execute("select 'sleeping'::mainspring.visit_state")


async def test_a_task_that_has_not_ended_in_time_is_a_timeout(app) -> None:
    @app.task
    async def never() -> None: ...

    handle = await never.enqueue()

    with pytest.raises(ResultTimeout) as late:
        await handle.result(timeout=0)
    assert str(late.value) == (
        f"task 'never' {handle.id} is still waiting after 0 s; ask `mainspring why never {handle.id}`"
    )
    with pytest.raises(TimeoutError, match=r"after 0\.001 s"):
        handle.result_sync(timeout=timedelta(milliseconds=1))


async def test_a_timeout_tells_why_the_last_run_failed(app) -> None:
    @app.task
    async def fails() -> None:
        raise ValueError("no money")

    handle = await fails.enqueue()
    await run_until_idle(app)

    with pytest.raises(
        ResultTimeout, match="after 0 s, its last run failed with ValueError: no money; "
    ):
        await handle.result(timeout=0)


async def test_a_parked_task_raises_its_error(app) -> None:
    @app.task(retry=RetryPolicy(attempts=1))
    async def fails() -> None:
        raise ValueError("no such order")

    handle = await fails.enqueue()
    await run_until_idle(app)

    with pytest.raises(TaskFailed, match=r"parked.*no such order") as caught:
        await handle.result(timeout=1)
    assert caught.value.outcome == "parked"
    assert "ValueError" in caught.value.error


async def test_an_expired_task_says_so(app, clock) -> None:
    @app.task
    async def offer() -> None: ...

    expires_at = await clock.now() + timedelta(minutes=1)
    handle = await offer.options(expires_at=expires_at).enqueue()
    await clock.advance(120)
    await run_until_idle(app)

    assert await handle.status() == "expired"
    with pytest.raises(TaskFailed, match="expired"):
        await handle.result(timeout=1)


async def test_a_call_that_was_rolled_back_is_not_found(app, database_url) -> None:
    @app.task
    async def note() -> None: ...

    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        handle = await note.options(on=connection).enqueue()
        await connection.rollback()

    assert await handle.status() == "unknown"
    with pytest.raises(NotFound):
        await handle.result(timeout=1)


async def test_a_result_that_cannot_be_written_fails_the_run(app) -> None:
    @app.task(retry=RetryPolicy(attempts=1))
    async def odd() -> object:
        return object()

    @app.task
    async def fine() -> int:
        return 1

    handle, neighbour = await odd.enqueue(), await fine.enqueue()
    await run_until_idle(app)

    with pytest.raises(TaskFailed, match="cannot be written as JSON"):
        await handle.result(timeout=1)
    assert await neighbour.result(timeout=1) == 1


async def test_a_stored_result_of_another_type_is_named(app, database_url) -> None:
    """The function's return type was changed since."""

    @app.task
    async def count() -> int:
        return 1

    handle = await count.enqueue()
    await run_until_idle(app)
    with psycopg.connect(database_url) as connection:
        connection.execute("update mainspring.history_run set result = '\"one\"'")

    with pytest.raises(InvalidArguments, match=r"result of task 'count'.*Expected `int`"):
        await handle.result(timeout=1)


@pytest.mark.parametrize("result", ["a\x00b", "x" * 3_000_000], ids=["nul", "3 MB"])
async def test_a_result_that_cannot_be_stored_fails_its_run_alone(app, result: str) -> None:
    @app.task(retry=RetryPolicy(attempts=1))
    async def odd() -> str:
        return result

    @app.task
    async def fine() -> int:
        return 1

    handle = await odd.enqueue()
    neighbours = await fine.enqueue_many([{}] * 20)
    await run_until_idle(app)

    assert [await n.result(timeout=1) for n in neighbours] == [1] * 20
    with pytest.raises(TaskFailed):
        await handle.result(timeout=1)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (["a\x00b"], "contains the character NUL, which PostgreSQL cannot store"),
        ({"mean": float("nan")}, "contains NaN or an infinity, which JSON cannot say"),
    ],
)
async def test_a_result_that_would_be_another_when_it_is_read_is_refused(
    app, result: object, said: str
) -> None:
    @app.task(retry=RetryPolicy(attempts=1))
    async def odd() -> object:
        return result

    handle = await odd.enqueue()
    await run_until_idle(app)

    with pytest.raises(TaskFailed, match=f"the result of task 'odd' {said}"):
        await handle.result(timeout=1)


async def test_a_handle_of_an_older_call_with_the_key_keeps_its_own_result(app) -> None:
    @app.task
    async def echo(n: int) -> int:
        return n

    first = await echo.options(key="k").enqueue(n=1)
    await run_until_idle(app)
    second = await echo.options(key="k").enqueue(n=2)

    assert await first.result(timeout=1) == 1
    assert await second.status() == "waiting"


async def test_history_keeps_everything_of_a_run(app, database_url) -> None:
    """T7."""

    @app.task(searchable=["user"])
    async def pay(user: str) -> int:
        return 7

    handle = await pay.options(group="g", priority=6).enqueue(user="ann")
    await run_until_idle(app)

    with psycopg.connect(database_url, row_factory=psycopg.rows.dict_row) as connection:
        [row] = connection.execute("select * from mainspring.history").fetchall()
    assert str(row["id"]) == handle.id
    assert (row["queue"], row["grp"], row["priority"], row["attempt"]) == ("pay", "g", 6, 1)
    assert (row["outcome"], row["payload"], row["result"]) == ("done", {"user": "ann"}, 7)
    assert row["searchable"] == ["user=ann"]
    assert row["created_at"] <= row["started_at"] <= row["ended_at"]
    assert row["duration_ms"] >= 0


async def test_a_call_is_found_by_its_id_alone(app: Mainspring) -> None:
    """T13: another process was handed the id, as a web application does."""

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task(retry=RetryPolicy(attempts=1))
    async def fail() -> None:
        raise OSError("no")

    plain = await double.enqueue(4)
    grouped = await double.options(group="acme").enqueue(5)
    keyed = await double.options(group="acme", key="six").enqueue(6)
    failing = await fail.options(group="acme").enqueue()
    later = await double.options(delay=3600).enqueue(7)
    async with app.worker():
        for handle, result in ((plain, 8), (grouped, 10)):
            assert await app.task_handle("double", handle.id).result(timeout=10) == result
        there = app.task_handle("double", keyed.id, key="six", group="acme")
        assert await there.result(timeout=10) == 12
        with pytest.raises(TaskFailed):
            await app.task_handle("fail", failing.id).result(timeout=10)
    assert await app.task_handle("double", later.id).status() == "scheduled"
    assert await app.task_handle("fail", failing.id).status() == "parked"
    assert await asyncio.to_thread(app.task_handle("double", plain.id).status_sync) == "done"
    assert await app.task_handle("double", plain.id.upper().replace("-", "")).status() == "done"
    with pytest.raises(InvalidKey, match="'six' is no id of a call of 'double', which is a UUID"):
        app.task_handle("double", "six")
    with pytest.raises(UnknownTask, match="double"):
        app.task_handle("doubel", plain.id)
