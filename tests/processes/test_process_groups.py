"""A group: calls of tasks, and a callback when all of them have ended (T13)."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql

from mainspring import Context, Mainspring, Outcome, Promise, RetryPolicy
from mainspring.encryption import AesGcm
from mainspring.errors import InvalidArguments, InvalidProcess
from mainspring.processes.declare import group
from mainspring.processes.operate.bulk import TaskFilter
from mainspring.testing import run_until_idle


class Loads:
    """A task that is bad for one number until it is mended, one for words, and callbacks."""

    def __init__(self, app: Mainspring) -> None:
        self.told: list[list[str]] = []
        self.mended = False

        @app.task(retry=RetryPolicy(attempts=1))
        async def load(number: int) -> int:
            if number == 2 and not self.mended:
                raise ValueError("two is bad")
            return 10 * number

        @app.task
        async def shout(word: str) -> str:
            return word.upper()

        @app.task
        async def report(ends: list[Outcome[Any]], night: int = 0) -> str:
            self.told.append([str(e.failure) if e.failed else str(e.value) for e in ends])
            return f"night {night}: {sum(not e.failed for e in ends)} of {len(ends)}"

        @app.task
        async def total(loaded: list[int]) -> int:
            return sum(loaded)

        self.load, self.shout, self.report, self.total = load, shout, report, total


@pytest.fixture
def loads(app) -> Loads:
    return Loads(app)


async def test_the_callback_of_a_group_is_called_once_with_every_end_in_order(app, loads) -> None:
    """T13: of any tasks, done, failed or called off; started again by its id, it is the same group."""
    nightly = app.group(then=loads.report)
    later = loads.shout.options(delay=3600, group="g").bind("never")
    calls = [loads.load.bind(1), loads.load.bind(2), later, loads.shout.bind("null \\u0000")]

    handle = await nightly.options(id="night").start(calls, night=7)
    again = await nightly.options(id="night").start(calls, night=7)
    await run_until_idle(app)
    assert loads.told == []
    await handle.cancel(task="shout", why="not wanted")
    await run_until_idle(app)

    assert await handle.result(timeout=20) == "night 7: 2 of 4"
    cancelled = "mainspring.errors.Cancelled: not wanted"
    assert loads.told == [["10", "ValueError: two is bad", cancelled, "NULL \\U0000"]]
    assert again.id == handle.id


async def test_the_log_tells_each_step_that_failed_for_good(
    app, loads, caplog: pytest.LogCaptureFixture
) -> None:
    """T12: an error where it parked, a warning where somebody is told of the failure."""
    await app.group(then=loads.report).start([loads.load.bind(2)])
    held = await app.group(then=loads.total).start([loads.load.bind(1), loads.load.bind(2)])
    await run_until_idle(app)

    [told] = [record for record in caplog.records if record.msg == "step.failed"]
    [parked] = [record for record in caplog.records if record.msg == "step.parked"]
    assert (told.levelname, told.queue, told.attempt) == ("WARNING", "load", 1)
    assert told.error == "ValueError: two is bad"
    assert (parked.levelname, parked.process_id) == ("ERROR", held.id)
    assert parked.error.startswith("ValueError: two is bad\n  File ")


async def test_a_group_of_none_calls_its_callback_at_once(app, loads) -> None:
    handle = await app.group(then=loads.report).start([])
    await run_until_idle(app)

    assert await handle.result(timeout=20) == "night 0: 0 of 0"


async def test_a_parked_member_holds_a_group_of_values_until_it_was_restarted(app, loads) -> None:
    """T13: and why says how many are missing, also where the calls are made in parts."""
    totals = app.group(then=loads.total, name="totals")
    handle = await totals.start([loads.load.bind(n) for n in range(10)])
    await run_until_idle(app)

    why = await app.operator.processes.why(handle.id)
    assert [str(waiting) for waiting in why.waiting] == ["'total' waits for 1 of 10 calls"]
    assert why.causes[-1].text == "'load' is parked: ValueError: two is bad"
    loads.mended = True
    await app.operator.processes.restart_tasks(TaskFilter(actor="load"), everything=True)
    await run_until_idle(app)

    assert await handle.result(timeout=20) == 450
    assert (await app.operator.processes.why(handle.id)).waiting == []


@pytest.mark.parametrize("callback", ["total", "report"])
async def test_a_wide_group_is_made_in_parts(
    app, loads, callback: str, monkeypatch, database_url: str
) -> None:
    """T13: no transaction makes more than a part; the ends are in order all the same."""
    monkeypatch.setattr(group, "PART", 4)
    wide = app.group(then=getattr(loads, callback))
    handle = await wide.start([loads.load.bind(n) for n in range(10)])
    await run_until_idle(app)

    if callback == "total":
        why = await app.operator.processes.why(handle.id)
        assert [str(waiting) for waiting in why.waiting] == ["'total' waits for 1 of 10 calls"]
        assert await handle.status() == "open"
    else:
        assert await handle.result(timeout=20) == "night 0: 9 of 10"
        bad = "ValueError: two is bad"
        assert loads.told == [[bad if n == 2 else str(10 * n) for n in range(10)]]
    with psycopg.connect(database_url, autocommit=True) as connection:
        rows = connection.execute("select count(*) from mainspring.task group by created_by")
        assert max(count for (count,) in rows) <= 4 + 1


async def test_a_group_is_started_in_the_callers_transaction(app, loads, database_url: str) -> None:
    """T8: a rollback leaves nothing of it."""
    nightly = app.group(then=loads.report)
    with psycopg.connect(database_url) as own:
        nightly.options(on=own).start_sync([loads.load.bind(1)])
        own.rollback()
        handle = nightly.options(on=own).start_sync([loads.load.bind(3)])
    await run_until_idle(app)

    assert loads.told == [["30"]]
    assert await handle.result(timeout=20) == "night 0: 1 of 1"


async def test_a_group_of_an_application_with_a_cipher_stores_nothing_in_the_clear(
    database_url: str,
) -> None:
    app = Mainspring(database_url, cipher=AesGcm({"k": b"1" * 32}, use="k"))
    loads = Loads(app)
    async with app:
        calls = [loads.shout.bind("canary"), loads.shout.options(delay=3600).bind("canary")]
        handle = await app.group(then=loads.report).start(calls)
        await run_until_idle(app)
        with psycopg.connect(database_url, autocommit=True) as connection:
            for table in ("task", "visit", "history"):
                rows = connection.execute(
                    sql.SQL("select t::text from mainspring.{} t").format(sql.Identifier(table))
                )
                assert not [row for (row,) in rows if "canary" in row.lower()]
        await handle.cancel(task="shout")
        await run_until_idle(app)
        assert await handle.result(timeout=20) == "night 0: 1 of 2"
        assert loads.told[0][0] == "CANARY"


async def test_a_group_says_what_it_cannot_be_of(app, loads) -> None:
    @app.task
    async def single(end: int) -> None: ...

    with pytest.raises(
        InvalidProcess, match=r"'single' of a group must take the ends .* as a list"
    ):
        app.group(then=single)
    with pytest.raises(InvalidProcess, match=r"then= must be a task or a process, got <function"):
        app.group(then=lambda ends: None)
    nightly = app.group(then=loads.report)
    with pytest.raises(InvalidArguments, match=r"call 1 of group 'report.group' must be made by"):
        await nightly.start([loads.load.bind(1), loads.load])
    with pytest.raises(InvalidArguments, match=r"one call of 'load': put it into a list"):
        await nightly.start(loads.load.bind(1))
    with pytest.raises(InvalidArguments, match=r"options\(key=...\) does not apply"):
        await nightly.start([loads.load.options(key="k").bind(1)])
    with pytest.raises(InvalidArguments, match=r"'report' has no parameter 'nigth'"):
        await nightly.start([], nigth=3)
    with pytest.raises(InvalidArguments, match=r"argument 'night' of 'report' does not fit"):
        await nightly.start([], night="three")


async def test_a_decider_may_end_with_one_promise_of_a_list_of_outcomes(app, loads) -> None:
    """A callback of values that are outcomes themselves, as a group's parts bring them."""

    @app.task
    async def ends() -> list[Outcome[int]]:
        return [Outcome(ok=1), Outcome(ok=2)]

    @app.process
    def pass_on(ctx: Context) -> Promise[str]:
        return loads.report(ends())

    handle = await pass_on.start()
    await run_until_idle(app)

    assert await handle.result(timeout=20) == "night 0: 2 of 2"
