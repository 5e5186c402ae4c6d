"""Uniqueness from Python: what is declared, what a call says of itself, what the handle tells (T13)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest

from mainspring import AlreadyEnqueued, Mainspring, Unique
from mainspring.errors import InvalidSetting, InvalidTask, InvalidTime
from mainspring.testing import run_until_idle, wait_until


@pytest.fixture
def seen(app: Mainspring) -> list[int]:
    """What the task `note` was called with; it waits for the event `app.go`."""
    found: list[int] = []
    app.go = asyncio.Event()  # type: ignore[attr-defined]

    @app.task
    async def note(n: int = 0, user: int = 7) -> int:
        found.append(n)
        await app.go.wait()  # type: ignore[attr-defined]
        return n

    return found


async def test_a_call_during_a_run_has_its_own_result(app, seen) -> None:
    """T13: the change that asked for it is seen."""
    keyed = app.tasks["note"].options(key="k")
    first = await keyed.enqueue(n=1)
    async with app.worker():
        await wait_until(lambda: seen == [1])

        second, third = await keyed.enqueue(n=2), await keyed.enqueue(n=3)
        assert (second.outcome, second.is_new) == ("after", True)
        assert (third.outcome, third.is_new, third.id) == ("existing", False, second.id)
        assert await second.status() == "waiting"
        app.go.set()

        assert [await h.result(timeout=10) for h in (first, second, third)] == [1, 2, 2]
    assert seen == [1, 2]


async def test_a_task_declares_how_its_calls_are_unique(app, seen, database_url) -> None:
    """T13: by arguments, in Python and in SQL alike."""

    @app.task(unique=Unique("replace", by=["user"]))
    async def sync(user: int = 7, n: int = 0) -> None:
        """Its calls are unique by the user."""

    await app.migrate()
    first = await sync.enqueue(n=1)
    assert first.outcome == "new"
    again = await sync.enqueue(user=7, n=2)  # the default is a value like any other
    assert (again.outcome, again.id) == ("replaced", first.id)
    assert (await sync.enqueue(user=8)).outcome == "new"
    assert (await sync.options(unique="existing").enqueue(n=3)).outcome == "existing"

    with psycopg.connect(database_url, autocommit=True) as connection:
        select = "select mainspring.enqueue('sync', '{\"n\": 4}')"
        assert str(connection.execute(select).fetchone()[0]) == first.id
        payload = "select payload from mainspring.visit where id = %s"
        assert connection.execute(payload, (first.id,)).fetchone() == ({"n": 4},)


async def test_a_rejected_call_is_an_error_that_names_the_other(app, seen) -> None:
    keyed = app.tasks["note"].options(key="k", unique="reject")
    first = await keyed.enqueue(n=1)

    with pytest.raises(AlreadyEnqueued, match="has a call under the key 'k' already") as raised:
        await keyed.enqueue(n=2)

    assert (raised.value.id, raised.value.key) == (first.id, "k")


async def test_of_many_none_is_enqueued_where_one_is_rejected(app, seen, database_url) -> None:
    """T13: and the caller's transaction goes on."""
    note = app.tasks["note"]
    await note.options(key="b").enqueue(n=1)

    mine = note.options(unique="reject")
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        with pytest.raises(AlreadyEnqueued, match="none of the 3 calls was enqueued"):
            await app.enqueue_many(
                [mine.options(key=key).bind(n=2) for key in "abc"], on=connection
            )
        found = await connection.execute("select count(*) from mainspring.visit")
        assert await found.fetchone() == (1,)


async def test_a_debounced_task_runs_once_when_it_is_quiet(app, seen, clock) -> None:
    note = app.tasks["note"].options(key="k", unique=Unique("debounce", debounce_max=60))
    app.go.set()
    for n in range(5):
        handle = await note.options(delay=20).enqueue(n=n)
        await clock.advance(timedelta(seconds=10))
        await run_until_idle(app)
        assert handle.outcome == ("debounced" if n else "new")
        assert seen == []

    await clock.advance(timedelta(seconds=10))
    await run_until_idle(app)

    assert seen == [4]


async def test_what_was_done_within_a_time_is_not_done_again(app, seen, clock) -> None:
    note = app.tasks["note"].options(
        key="k", unique=Unique("existing", done_within=timedelta(hours=1))
    )
    app.go.set()
    first = await note.enqueue(n=1)
    await run_until_idle(app)

    again = await note.enqueue(n=2)
    assert (again.outcome, again.id, await again.result()) == ("done", first.id, 1)
    await clock.advance(timedelta(hours=2))
    assert (await note.enqueue(n=3)).is_new


async def test_each_of_a_batch_has_its_answer(app, seen) -> None:
    note = app.tasks["note"]
    taken = await note.options(key="b").enqueue(n=1)

    handles = await app.enqueue_many(
        [
            note.options(key="a").bind(n=2),
            note.bind(n=3),
            note.options(key="b", unique="replace").bind(n=4),
            note.options(key="a").bind(n=5),
        ]
    )

    assert [handle.outcome for handle in handles] == ["new", "new", "replaced", "existing"]
    assert handles[2].id == taken.id
    assert handles[3].id == handles[0].id


def test_mistakes_are_named(app: Mainspring) -> None:
    """T13: with the remedy."""

    @app.task
    async def note(n: int = 0) -> None:
        """Does nothing."""

    with pytest.raises(
        InvalidSetting, match=r"unique must be one of 'again', .*got 'repalce'; did you"
    ):
        note.options(unique="repalce")
    with pytest.raises(InvalidSetting, match="on_parked must be one of 'restart', 'return'"):
        Unique(on_parked="drop")  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="by must be a list of names"):
        Unique(by="user")
    with pytest.raises(InvalidSetting, match="done_within must be more than 0 seconds"):
        Unique(done_within=0)
    with pytest.raises(InvalidSetting, match=r'debounce_max is for Unique\("debounce"\)'):
        Unique(debounce_max=3)
    with pytest.raises(InvalidTask, match="names 'user', which is not one of its arguments"):
        note.options(unique=Unique(by=["user"]))
    with pytest.raises(InvalidTime, match="puts a call off by its delay, and there is none"):
        note.options(key="k", unique="debounce").enqueue_sync()
