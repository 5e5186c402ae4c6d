"""The settler: every result is kept until the database has answered for it."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import psycopg
import pytest

from mainspring import RetryPolicy
from mainspring.kernel.outcome import Alone, Done
from mainspring.testing import wait_until, watch
from visits import Visits, locked, queue
from workers import Gate, Gauge, working

ONCE = RetryPolicy(attempts=1)
SETTLING = "select pid from pg_stat_activity where application_name like 'mainspring:settler:%%'"


def left(visits: Visits) -> int:
    return visits.value("select count(*) from mainspring.visit")


async def test_a_locked_visit_is_settled_when_the_lock_is_gone(
    visits: Visits, database_url: str
) -> None:
    """T2: one open transaction of a user's keeps only its own visit waiting."""
    gauge = Gauge(seconds=0)
    keys = [f"key {n}" for n in range(20)]
    visits.offer(*keys)
    with locked(database_url, "key 7") as user:
        async with working(database_url, queue(handler=gauge)):
            await wait_until(lambda: left(visits) == 1)
            assert visits.row("key 7") is not None

            user.rollback()
            await wait_until(lambda: left(visits) == 0)

    assert sorted(gauge.started) == sorted(keys)
    assert visits.value("select count(*) from mainspring.history") == 20


async def test_an_outcome_that_cannot_be_stored_settles_alone_as_failed(
    visits: Visits, database_url: str
) -> None:
    """One NUL or lone surrogate in an outcome must not fail the batch for ever."""

    async def handler(run):
        await asyncio.sleep(0.01)  # so that all of them are settled in one batch
        return Done(result='"\\u0000"' if run.visit.key == "key 7" else "1")

    visits.offer(*(f"key {n}" for n in range(20)))
    async with working(database_url, queue(handler=handler, retry=ONCE)):
        await wait_until(lambda: left(visits) == 1)
        await wait_until(lambda: visits.row("key 7")["parked_at"] is not None)

    [story] = visits.history("key 7")
    assert story["outcome"] == "parked"
    assert "UntranslatableCharacter" in story["error_type"]


async def test_where_all_fail_alike_it_is_the_server_and_all_are_kept(
    visits: Visits, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A user's trigger that raises: nothing is failed, all is settled when it is gone."""
    visits.query(
        "create function refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'not now'; end $$"
    )
    visits.query(
        "create trigger refuse before insert on mainspring.history_other"
        " for each row execute function refuse()"
    )
    partitions = visits.query(
        "select inhrelid::regclass::text as name from pg_inherits"
        " where inhparent = 'mainspring.history_run'::regclass and inhrelid::regclass::text !~ 'other'"
    )
    for row in partitions:
        visits.query(
            f"create trigger refuse before insert on {row['name']}"
            " for each row execute function refuse()"
        )
    gate = Gate()
    visits.offer(*(f"key {n}" for n in range(5)))
    async with working(database_url, queue(handler=gate, retry=ONCE)) as worker:
        await wait_until(lambda: len(gate.runs) == 5)
        gate.open.set()  # all end at once: one alone would be to blame
        await wait_until(lambda: "settle.waiting" in caplog.text)
        assert worker.settler.unsettled == 5
        assert left(visits) == 5

        visits.query("drop function refuse() cascade")
        await wait_until(lambda: left(visits) == 0, 10)

    assert visits.value("select count(*) from mainspring.history where outcome = 'done'") == 5


async def test_a_reply_that_was_lost_is_asked_for_again(visits: Visits, database_url: str) -> None:
    """T6: the statement was executed, the answer never came; sent again it changes nothing."""
    lost = []
    gauge = Gauge(seconds=0)
    visits.offer(*(f"key {n}" for n in range(10)))

    async with watch() as seen:

        def lose() -> None:
            if len(lost) < 3:
                lost.append(True)
                raise ConnectionError("the reply was lost")

        seen.at("settle.answered", lose)
        async with working(database_url, queue(handler=gauge)) as worker:
            await wait_until(lambda: len(lost) == 3 and worker.settler.unsettled == 0, 10)

    assert len(gauge.started) == 10
    assert visits.value("select count(*) from mainspring.history") == 10


async def test_results_wait_while_the_settler_cannot_connect(
    visits: Visits, database_url: str
) -> None:
    gauge = Gauge(seconds=0)
    visits.offer(*(f"key {n}" for n in range(10)))
    refused = []

    async with watch() as seen:

        def refuse() -> None:
            if len(refused) < 4:
                refused.append(True)
                raise psycopg.OperationalError("no database")

        seen.at("settle.sending", refuse)
        async with working(database_url, queue(handler=gauge)):
            await wait_until(lambda: left(visits) == 0, 10)

    assert len(refused) == 4
    assert len(gauge.started) == 10


async def test_an_outcome_s_own_writes_are_in_the_settle_s_transaction(
    visits: Visits, database_url: str
) -> None:
    """Layers above add their writes; not settled means none of them."""
    visits.query("create table noted (key text)")

    async def handler(run):
        async def write(connection):
            await connection.execute("insert into noted values ($1)", run.visit.key)
            if run.visit.key == "gone":
                visits.query("delete from mainspring.visit where key = 'gone'")

        return Done(writer=Alone(write))

    visits.offer("kept", "gone")
    async with working(database_url, queue(handler=handler)):
        await wait_until(lambda: left(visits) == 0)
        await wait_until(lambda: visits.value("select count(*) from noted") == 1)

    assert visits.value("select key from noted") == "kept"


async def test_a_visit_that_is_offered_during_its_run_is_run_again(
    visits: Visits, database_url: str
) -> None:
    """No offer is ever lost, whatever its time."""
    runs: list[str] = []

    async def handler(run):
        runs.append(run.visit.key)
        if len(runs) == 1:
            visits.offer("a", after=3600)
        return Done()

    visits.offer("a")
    async with working(database_url, queue(handler=handler)):
        await wait_until(lambda: len(runs) == 2)
        await wait_until(lambda: left(visits) == 0)

    assert [story["superseded"] for story in visits.history("a")] == [True, False]


@pytest.mark.parametrize(
    "trouble",
    [asyncpg.SerializationError("again"), OSError("no route"), ValueError("a bug"), "select 1/0"],
    ids=["transient", "foreign", "bug", "permanent"],
)
async def test_a_writer_that_fails_does_not_hold_up_plain_results(
    trouble: Exception | str, visits: Visits, database_url: str
) -> None:
    """B10: whatever its own trouble is, the others go on."""
    tries, healed = [], asyncio.Event()

    async def handler(run):
        async def write(connection):
            tries.append(run.visit.key)
            if isinstance(trouble, str):
                await connection.execute(trouble)
            elif not healed.is_set():
                raise trouble

        await asyncio.sleep(0.005)
        return Done(writer=Alone(write)) if run.visit.key.startswith("bad") else Done()

    visits.offer(*(f"bad {n}" for n in range(3)))
    visits.offer(*(f"good {n}" for n in range(30)))
    good = "select count(*) from mainspring.visit where key like 'good%%'"
    async with working(database_url, queue(handler=handler, retry=ONCE)) as worker:
        await wait_until(lambda: visits.value(good) == 0, 1.5)
        settling = {row["pid"] for row in visits.query(SETTLING)}
        await wait_until(lambda: len(tries) >= 3)
        visits.offer("good late")
        await wait_until(lambda: visits.value(good) == 0, 1.0)
        # No connection was lost over it.
        assert settling <= {row["pid"] for row in visits.query(SETTLING)}

        healed.set()
        await wait_until(lambda: worker.settler.unsettled == 0)

    done = "select count(*) from mainspring.history where outcome = 'done' and key like 'good%%'"
    assert visits.value(done) == 31


async def test_a_connection_that_is_cut_under_a_writer_is_no_failure_of_its_run(
    visits: Visits, database_url: str
) -> None:
    """asyncpg may meet it with an error of its own that has no SQLSTATE: the run must not be parked."""
    tries: list[Any] = []

    async def handler(run):
        async def write(connection):
            tries.append(connection)
            if len(tries) == 1:
                raise asyncpg.InternalClientError("cannot switch to state 11")

        return Done(writer=Alone(write))

    visits.offer("a")
    async with working(database_url, queue(handler=handler, retry=ONCE)):
        await wait_until(lambda: left(visits) == 0)

    assert len(tries) == 2
    assert tries[0] is not tries[1], "the connection was replaced"
    assert [story["outcome"] for story in visits.history("a")] == ["done"]


async def test_a_writer_whose_trouble_passes_is_settled(visits: Visits, database_url: str) -> None:
    tries = []

    async def handler(run):
        async def write(connection):
            tries.append(run.visit.key)
            if len(tries) < 3:
                raise asyncpg.SerializationError("again")

        return Done(writer=Alone(write))

    visits.offer("a")
    async with working(database_url, queue(handler=handler)):
        await wait_until(lambda: left(visits) == 0)

    assert len(tries) == 3
    assert [story["outcome"] for story in visits.history("a")] == ["done"]
