"""Enqueueing: one, many, later, by priority, in a group, with a key, on anyone's connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import psycopg
import pytest

from mainspring import Mainspring, RetryPolicy, TaskFailed, Unique
from mainspring.errors import InvalidArguments, InvalidSetting, UnknownTask
from mainspring.ids import shard_of
from mainspring.testing import run_until_idle


@pytest.fixture
def order(app: Mainspring) -> list[int]:
    """What the task `note` was called with, in order."""
    called: list[int] = []

    @app.task
    async def note(n: int = 0) -> None:
        called.append(n)

    return called


def rows(url: str, where: str = "true") -> list[dict]:
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
        found = connection.execute(
            f"select * from mainspring.visit where {where} order by created_at, key"
        ).fetchall()
    return [{**row, "id": str(row["id"])} for row in found]


async def test_an_enqueued_task_is_a_row_before_the_caller_is_answered(
    app, order, database_url
) -> None:
    """T1."""
    handle = await app.tasks["note"].enqueue(n=1)

    [row] = rows(database_url)
    assert (row["id"], row["queue"], row["payload"]) == (handle.id, "note", {"n": 1})
    assert handle.is_new
    assert row["created_at"] <= row["changed_at"]


async def test_a_task_runs_with_its_arguments(app, order) -> None:
    await app.tasks["note"].enqueue(n=7)
    await app.tasks["note"].enqueue(8)

    await run_until_idle(app)

    assert sorted(order) == [7, 8]


@pytest.mark.parametrize("count", [2, 49, 50, 700])
async def test_many_calls_are_enqueued_at_once(app, order, database_url, count: int) -> None:
    """T13: by an insert of arrays, from 50 on by COPY."""
    handles = await app.tasks["note"].enqueue_many({"n": n} for n in range(count))

    found = {row["id"]: row["payload"] for row in rows(database_url)}
    assert [found[handle.id]["n"] for handle in handles] == list(range(count))
    await run_until_idle(app)
    assert sorted(order) == list(range(count))


@pytest.mark.parametrize("count", [3, 60])
async def test_many_calls_may_come_in_one_object_that_changes(
    app, order, database_url, count
) -> None:
    """T13: a reader of rows that fills the same mapping again and again."""

    def read() -> Iterator[dict[str, int]]:
        row: dict[str, int] = {}
        for row["n"] in range(count):
            yield row

    await app.tasks["note"].enqueue_many(read())

    assert [row["payload"]["n"] for row in rows(database_url)] == list(range(count))


@pytest.mark.parametrize("count", [3, 60, 1700])
async def test_of_many_calls_all_or_none_are_enqueued(app, order, database_url, count) -> None:
    """Also when thousands were on their way to the server as the bad one was met."""
    note, calls = app.tasks["note"], [{"n": n} for n in range(count)] + [{"n": "no number"}]

    with pytest.raises(InvalidArguments, match="do not fit its signature"):
        await note.enqueue_many(calls)
    with pytest.raises(InvalidArguments, match="do not fit its signature"):
        await asyncio.to_thread(note.enqueue_many_sync, calls)

    assert rows(database_url) == []
    await note.enqueue_many(calls[:-1])
    assert [row["payload"]["n"] for row in rows(database_url)] == list(range(count))


async def test_no_calls_are_enqueued_as_nothing(app, order) -> None:
    assert await app.tasks["note"].enqueue_many([]) == []
    assert app.tasks["note"].enqueue_many_sync([]) == []


async def test_calls_of_different_tasks_are_enqueued_together(app, order, database_url) -> None:
    @app.task
    async def other() -> None: ...

    note = app.tasks["note"]
    handles = await app.enqueue_many([note.bind(1), other.bind(), note.options(priority=9).bind(2)])

    assert [handle.task for handle in handles] == ["note", "other", "note"]
    assert [row["priority"] for row in rows(database_url, "payload = '{\"n\": 2}'")] == [9]


@pytest.mark.parametrize("count", [1, 2, 60])
async def test_a_delayed_task_runs_when_its_time_has_come(app, order, clock, count) -> None:
    """T4."""
    later = app.tasks["note"].options(delay=timedelta(hours=1))
    handles = await later.enqueue_many({"n": n} for n in range(count))
    await run_until_idle(app)
    assert await handles[0].status() == "scheduled"
    assert order == []

    await clock.advance(timedelta(hours=1))
    await run_until_idle(app)

    assert sorted(order) == list(range(count))


async def test_a_task_at_a_past_time_runs_now(app, order) -> None:
    await app.tasks["note"].options(at=datetime(2001, 1, 1, tzinfo=UTC)).enqueue()

    await run_until_idle(app)

    assert order == [0]


@pytest.mark.parametrize("count", [1, 2, 60])
async def test_a_past_time_is_now_by_the_database_s_clock(
    app, order, clock, database_url, count
) -> None:
    """Its clock is mainspring.now(), which may be ahead of the server's."""
    await clock.advance(timedelta(days=3))
    now = await clock.now()
    past = app.tasks["note"].options(at=now - timedelta(days=1))

    await past.enqueue_many({"n": n} for n in range(count))

    assert all(row["due_at"] >= now for row in rows(database_url))


async def test_of_many_calls_each_has_its_own_time(app, order, clock, database_url) -> None:
    await clock.advance(timedelta(days=3))
    now = await clock.now()
    later, note = now + timedelta(days=1), app.tasks["note"]

    await app.enqueue_many([note.options(at=later).bind(1)] + [note.bind(2)] * 60)

    assert [row["due_at"] for row in rows(database_url, "payload = '{\"n\": 1}'")] == [later]
    others = rows(database_url, "payload = '{\"n\": 2}'")
    assert all(now <= row["due_at"] < now + timedelta(minutes=1) for row in others)


@pytest.mark.parametrize("way", ["ours", "async", "sync"])
async def test_what_is_copied_in_is_what_one_call_would_have_stored(
    app, database_url, way: str
) -> None:
    """T13: times, groups and texts of every kind, whatever the form in which they travel."""

    @app.task(priority=3)
    async def write(text: str, before: int = 0) -> None: ...

    texts = [
        "plain",
        'back\\slash "quoted"',
        "tab\tline\nreturn\r",
        "\\N",
        "h\u00e9llo \N{SNOWMAN}",
    ]
    zone = timezone(timedelta(hours=-3, minutes=-30))
    calls = [
        write.options(
            group=None if n % 4 == 0 else f"{text}-{n % 3}",
            priority=None if n % 2 else 7,
            at=datetime(2150, 2, 3, 4, 5, 6, 7 + n, zone) if n % 3 else None,
            expires_at=datetime(2199, 12, 31, 23, 59, 59, 999_999 - n, UTC) if n % 5 else None,
        ).bind(before=n, text=text)
        for n in range(60)
        for text in [texts[n % len(texts)]]
    ]

    if way == "ours":
        copied = await app.enqueue_many(calls)
    elif way == "async":
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            copied = await app.enqueue_many(calls, on=connection)
    else:
        copied = await asyncio.to_thread(app._enqueuer.enqueue_calls_sync, calls, None)
    single = [await app._enqueuer.enqueue_call(call, None) for call in calls]

    def stored(handles: list) -> list[dict]:
        by_id = {row["id"]: row for row in rows(database_url)}
        return [
            {
                **by_id[handle.id],
                **dict.fromkeys(["id", "key", "version", "created_at", "changed_at", "shard"]),
                "due_at": None if n % 3 == 0 else by_id[handle.id]["due_at"],
                "key is id": handle.key == by_id[handle.id]["key"] == handle.id,
                "at home": by_id[handle.id]["shard"]
                == shard_of(by_id[handle.id]["grp"] or handle.key, 1024),
                "route": by_id[handle.id]["shard"] if by_id[handle.id]["grp"] else None,
            }
            for n, handle in enumerate(handles)
        ]

    assert stored(copied) == stored(single)
    assert all(row["key is id"] and row["at home"] for row in stored(copied))
    assert [row["payload"]["text"] for row in stored(copied)] == [texts[n % 5] for n in range(60)]


async def test_a_time_in_another_zone_is_the_same_moment(app, order, database_url) -> None:
    from zoneinfo import ZoneInfo

    at = datetime(2040, 7, 1, 12, tzinfo=ZoneInfo("Europe/Paris"))

    await app.tasks["note"].options(at=at).enqueue()

    assert rows(database_url)[0]["due_at"] == datetime(2040, 7, 1, 10, tzinfo=UTC)


async def test_a_greater_priority_goes_first(app, order) -> None:
    """T13."""
    note = app.tasks["note"]
    for n, priority in ((1, 1), (5, 5), (9, 9)):
        await note.options(priority=priority).enqueue(n=n)

    await run_until_idle(app, concurrency=1)

    assert order == [9, 5, 1]


async def test_within_a_priority_the_oldest_goes_first(app, order) -> None:
    """T4."""
    for n in range(20):
        await app.tasks["note"].enqueue(n=n)

    await run_until_idle(app, concurrency=1)

    assert order == list(range(20))


async def test_a_key_that_is_taken_answers_the_task_that_has_it(app, order, database_url) -> None:
    """T13: it is offered again, and nothing else happens."""
    keyed = app.tasks["note"].options(key="k")
    first = await keyed.enqueue(n=1)
    [before] = rows(database_url)

    second = await keyed.enqueue(n=2)

    assert (second.id, second.outcome, second.is_new) == (first.id, "existing", False)
    [after] = rows(database_url)
    assert after["version"] != before["version"]
    same = dict.fromkeys(["version", "changed_at"])
    assert {**after, **same} == {**before, **same}


async def test_a_key_is_free_again_when_its_task_has_ended(app, order) -> None:
    keyed = app.tasks["note"].options(key="k")
    first = await keyed.enqueue(n=1)
    await run_until_idle(app)

    second = await keyed.enqueue(n=2)
    await run_until_idle(app)

    assert second.is_new
    assert second.id != first.id
    assert order == [1, 2]


async def test_a_key_of_a_parked_task_is_taken_over(app) -> None:
    """T13: one failure does not swallow what is asked for later."""

    @app.task(retry=RetryPolicy(attempts=1))
    async def fails() -> None:
        raise ValueError("no")

    first = await fails.options(key="k").enqueue()
    await run_until_idle(app)

    told = await fails.options(key="k", unique=Unique(on_parked="return")).enqueue()
    assert (told.id, told.outcome, told.is_new) == (first.id, "parked", False)
    second = await fails.options(key="k").enqueue()
    assert (second.outcome, second.is_new) == ("restarted", True)
    with pytest.raises(TaskFailed, match=f"gave way to call {second.id} under its key"):
        await first.result()


async def test_a_key_holds_within_its_group(app, order) -> None:
    keyed = app.tasks["note"].options(key="k")
    handles = [
        await keyed.enqueue(n=0),
        await keyed.options(group="a").enqueue(n=1),
        await keyed.options(group="b").enqueue(n=2),
        await keyed.options(group="a").enqueue(n=3),
    ]

    assert [handle.is_new for handle in handles] == [True, True, True, False]
    await run_until_idle(app)
    assert sorted(order) == [0, 1, 2]


async def test_two_groups_and_keys_that_look_alike_never_merge(app, order) -> None:
    note = app.tasks["note"]
    first = await note.options(group="a:b", key="c").enqueue(n=1)
    second = await note.options(group="a", key="b:c").enqueue(n=2)
    third = await note.options(key="1:a:b:c").enqueue(n=3)

    assert len({first.key, second.key, third.key}) == 3


async def test_one_key_in_two_tasks_is_two_tasks(app, order) -> None:
    @app.task
    async def other() -> None: ...

    await app.tasks["note"].options(key="k").enqueue()

    assert (await other.options(key="k").enqueue()).is_new


async def test_a_batch_with_taken_keys_answers_each_in_its_place(app, order) -> None:
    note = app.tasks["note"]
    taken = await note.options(key="b").enqueue(n=1)

    handles = await app.enqueue_many([note.options(key=k).bind(n=2) for k in ("a", "b", "c", "a")])

    assert [handle.is_new for handle in handles[:3]] == [True, False, True]
    assert handles[1].id == taken.id
    assert handles[3].id == handles[0].id


async def test_two_that_race_for_a_key_get_one_task(app, order) -> None:
    keyed = app.tasks["note"].options(key="k")

    handles = await asyncio.gather(*(keyed.enqueue(n=n) for n in range(8)))

    assert len({handle.id for handle in handles}) == 1
    assert sum(handle.is_new for handle in handles) == 1


async def test_a_group_runs_on_one_shard(app, order, database_url) -> None:
    await app.tasks["note"].options(group="g").enqueue_many({"n": n} for n in range(10))

    assert len({row["shard"] for row in rows(database_url)}) == 1


class TestOnTheCallersConnection:
    """T8: the task is part of the caller's own transaction."""

    async def test_an_async_transaction_that_commits_enqueues(self, app, order, database_url):
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            handle = await app.tasks["note"].options(on=connection).enqueue(n=1)
            assert rows(database_url) == []

        assert [row["id"] for row in rows(database_url)] == [handle.id]

    async def test_an_async_transaction_that_rolls_back_enqueues_nothing(
        self, app, order, database_url
    ):
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            await app.tasks["note"].options(on=connection).enqueue(n=1)
            await app.tasks["note"].options(on=connection).enqueue_many({"n": n} for n in range(60))
            await connection.rollback()

        assert rows(database_url) == []

    def test_a_sync_transaction_that_commits_enqueues(self, app, order, database_url) -> None:
        with psycopg.connect(database_url) as connection:
            handle = app.tasks["note"].options(on=connection).enqueue_sync(n=1)
            many = app.tasks["note"].options(on=connection).enqueue_many_sync([{"n": 2}] * 60)
            assert rows(database_url) == []

        assert {row["id"] for row in rows(database_url)} == {handle.id, *(h.id for h in many)}

    @pytest.mark.parametrize("count", [1, 3, 60])
    def test_a_caller_s_encoding_changes_no_text(self, app, database_url, count) -> None:
        @app.task
        async def spell(word: str) -> None: ...

        with psycopg.connect(database_url, client_encoding="latin1") as connection:
            calls = [{"word": "\u00e9"}] * count
            spell.options(group="g\u00fc", on=connection).enqueue_many_sync(calls)

        found = {(row["grp"], row["payload"]["word"]) for row in rows(database_url)}
        assert found == {("g\u00fc", "\u00e9")}

    def test_a_sync_transaction_that_rolls_back_enqueues_nothing(
        self, app, order, database_url
    ) -> None:
        with psycopg.connect(database_url) as connection:
            app.tasks["note"].options(on=connection).enqueue_sync(n=1)
            connection.rollback()

        assert rows(database_url) == []

    def test_a_savepoint_of_the_caller_s_is_respected(self, app, order, database_url) -> None:
        note = app.tasks["note"]
        with psycopg.connect(database_url) as connection:
            kept = note.options(on=connection).enqueue_sync(n=1)
            with connection.transaction(force_rollback=True):
                note.options(on=connection).enqueue_sync(n=2)

        assert [row["id"] for row in rows(database_url)] == [kept.id]

    def test_bad_arguments_leave_the_caller_s_transaction_usable(
        self, app, order, database_url
    ) -> None:
        note = app.tasks["note"]
        with psycopg.connect(database_url) as connection:
            with pytest.raises(TypeError):
                note.options(on=connection).enqueue_sync(n="no number")
            with pytest.raises(TypeError):
                note.options(on=connection).enqueue_many_sync([{"n": 1}] * 60 + [{"n": "none"}])
            note.options(on=connection).enqueue_sync(n=1)

        assert len(rows(database_url)) == 1

    def test_a_repeatable_read_transaction_enqueues(self, app, order, database_url) -> None:
        note = app.tasks["note"]
        taken = note.options(key="k").enqueue_sync(n=1)
        with psycopg.connect(database_url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            note.options(on=connection).enqueue_sync(n=2)
            same = note.options(on=connection, key="k").enqueue_sync(n=3)

        assert (same.id, same.is_new) == (taken.id, False)
        assert len(rows(database_url)) == 2

    def test_a_key_that_was_taken_after_a_repeatable_read_began_is_a_serialization_failure(
        self, app, order, database_url
    ) -> None:
        """It cannot see the task that has the key, and must not wait for ever."""
        note = app.tasks["note"]
        with psycopg.connect(database_url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("select count(*) from mainspring.visit")
            note.options(key="k").enqueue_sync(n=1)
            connection.execute("set local statement_timeout = '2s'")

            with pytest.raises(psycopg.errors.SerializationFailure):
                note.options(on=connection, key="k").enqueue_sync(n=2)
            connection.rollback()

        assert len(rows(database_url)) == 1

    async def test_a_sync_connection_in_an_async_enqueue_is_refused(self, app, order, database_url):
        with (
            psycopg.connect(database_url) as connection,
            pytest.raises(InvalidSetting, match="enqueue_sync"),
        ):
            await app.tasks["note"].options(on=connection).enqueue()

    async def test_an_async_connection_in_a_sync_enqueue_is_refused(self, app, order, database_url):
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            with pytest.raises(InvalidSetting, match="await enqueue"):
                app.tasks["note"].options(on=connection).enqueue_sync()

    async def test_a_connection_with_another_row_factory_enqueues(self, app, order, database_url):
        async with await psycopg.AsyncConnection.connect(
            database_url, row_factory=psycopg.rows.namedtuple_row
        ) as connection:
            await app.tasks["note"].options(on=connection, key="k").enqueue(n=1)
            again = await app.tasks["note"].options(on=connection, key="k").enqueue(n=1)

        assert not again.is_new


class TestFromPlainCode:
    """T8."""

    def test_enqueue_sync_is_committed_when_it_returns(self, app, order, database_url) -> None:
        handle = app.tasks["note"].enqueue_sync(n=1)

        assert [row["id"] for row in rows(database_url)] == [handle.id]

    async def test_enqueue_sync_works_inside_an_event_loop(self, app, order, database_url) -> None:
        app.tasks["note"].enqueue_sync(n=1)

        assert len(rows(database_url)) == 1

    def test_many_calls_from_plain_code(self, app, order, database_url) -> None:
        app.tasks["note"].enqueue_many_sync({"n": n} for n in range(200))

        assert len(rows(database_url)) == 200

    async def test_an_unknown_task_name_suggests_the_nearest(self, app, order) -> None:
        with pytest.raises(UnknownTask, match=r"'nota'.*did you mean 'note'"):
            await app.enqueue("nota", {})
        with pytest.raises(UnknownTask) as far:
            await app.enqueue("zzz", {})
        assert str(far.value) == "no task is named 'zzz'; declare it with @app.task"

    async def test_a_task_is_enqueued_by_its_name(self, app, order) -> None:
        await app.enqueue("note", {"n": 3})

        await run_until_idle(app)

        assert order == [3]

    async def test_calling_a_task_runs_the_function_here(self, app, order) -> None:
        await app.tasks["note"](n=4)

        assert order == [4]


async def test_a_large_payload_is_accepted_with_a_warning(
    app: Mainspring, caplog: pytest.LogCaptureFixture
) -> None:
    """T13: from 256 kB on; small ones say nothing."""

    @app.task
    async def store(text: str) -> None: ...

    small = await store.enqueue("x" * 200_000)
    large = await store.enqueue("x" * 300_000)

    warned = [record for record in caplog.records if record.msg == "payload.large"]
    assert [str(record.__dict__["id"]) for record in warned] == [str(large.id)]
    assert small.id != large.id
