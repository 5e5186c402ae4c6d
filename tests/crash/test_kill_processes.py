"""kill -9 of a worker that runs processes: a heir finishes each of them once, with the right result."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from draws import fast_first
from mainspring import Mainspring
from warm import WorkerProcess

PLACE = "process_app:app"
COUNT = 20
N = 6
RIGHT = sum(n * n for n in range(N)) ** 2 + 1


def start(url: str) -> list[str]:
    """Start the processes; answers their ids."""
    import process_app

    app = Mainspring(url)
    sums = app.process(process_app.sums.function)

    async def begin() -> list[str]:
        async with app:
            return [(await sums.start(N)).id for _ in range(COUNT)]

    return asyncio.run(begin())


def finish(url: str) -> None:
    """A heir works until nothing is due."""
    with WorkerProcess(PLACE, url, path=Path(__file__).parent, drain=True) as heir:
        assert heir.wait(60) == 0


def check(url: str, ids: list[str], *, right: int | None = RIGHT) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "select p.id::text, p.state::text, r.result from mainspring.process p"
            " join mainspring.task r on r.process_id = p.id and r.id = p.root"
        ).fetchall()
        assert sorted(rows) == sorted((id, "finished", right) for id in ids)
        # Each task is done once: no generation of it has two ends.
        twice = connection.execute(
            "select key from mainspring.history where outcome = 'done' and queue not like 'mainspring.%'"
            " group by key, id having count(*) > 1"
        ).fetchall()
        assert twice == []
        assert connection.execute("select * from mainspring.process_violation").fetchall() == []
        assert connection.execute("select * from mainspring.process_orphan").fetchall() == []


@pytest.mark.parametrize(
    "step",
    fast_first(
        ["settle.answered:2", "run.started:9", "run.ended:30", "settle.sending:2", "page.read:2"], 2
    ),
)
def test_a_worker_killed_in_the_middle_of_processes_loses_none(
    mainspring_url: str, step: str
) -> None:
    """P7: an actor that took a task and brought no result; every process finishes exactly once."""
    ids = start(mainspring_url)

    with WorkerProcess(PLACE, mainspring_url, path=Path(__file__).parent, die_at=step) as victim:
        victim.wait_dead()
    finish(mainspring_url)

    check(mainspring_url, ids)


@pytest.mark.parametrize(
    "step",
    fast_first(["settle.answered:2", "run.started:9", "run.ended:20", "settle.sending:2"], 1),
)
def test_a_group_whose_worker_is_killed_calls_its_callback_once(
    mainspring_url: str, step: str
) -> None:
    """T13: between the calls and the callback, and in them."""
    import process_app

    app = Mainspring(mainspring_url)
    square, add = (app.task(f.function) for f in (process_app.square, process_app.add))
    squares = app.group(then=add, name="squares")

    async def begin() -> list[str]:
        async with app:
            groups = [[square.bind(n) for n in range(N)] for _ in range(COUNT)]
            return [(await squares.start(calls)).id for calls in groups]

    ids = asyncio.run(begin())
    with WorkerProcess(PLACE, mainspring_url, path=Path(__file__).parent, die_at=step) as victim:
        victim.wait_dead()
    finish(mainspring_url)

    check(mainspring_url, ids, right=sum(n * n for n in range(N)))
    with psycopg.connect(mainspring_url, autocommit=True) as connection:
        counted = connection.execute(
            "select count(*) from mainspring.task where actor = 'add'"
        ).fetchone()
        assert counted == (COUNT,)


@pytest.mark.parametrize(
    "step", fast_first(["settle.answered:3", "run.started:3", "run.ended:14"], 1)
)
def test_a_worker_killed_in_the_middle_of_a_cancel_undoes_all_the_same(
    mainspring_url: str, step: str
) -> None:
    """P7, P15: whether the cancel was written or not, each step is undone, newest first, and once."""
    import process_app

    app = Mainspring(mainspring_url)
    app.task(process_app.book.function)
    app.task(process_app.free.function)
    trip = app.process(process_app.trip.function)

    async def begin() -> list[str]:
        async with app:
            return [(await trip.start(n)).id for n in range(5)]

    async def cancel(ids: list[str]) -> None:
        async with Mainspring(mainspring_url) as other:
            other.process(process_app.trip.function)
            for id in ids:
                await other.process_handle("trip", id).cancel()

    ids = asyncio.run(begin())
    finish(mainspring_url)
    asyncio.run(cancel(ids))
    with WorkerProcess(PLACE, mainspring_url, path=Path(__file__).parent, die_at=step) as victim:
        victim.wait_dead()
    finish(mainspring_url)

    with psycopg.connect(mainspring_url, autocommit=True) as connection:
        states = connection.execute("select state::text from mainspring.process").fetchall()
        assert states == [("cancelled",)] * 5
        freed = connection.execute(
            "select args ->> 'what' from mainspring.task where actor = 'free' and state = 'done'"
            " order by array_position(%s, process_id::text), done_no",
            [ids],  # two that were started in one millisecond have ids in any order
        ).fetchall()
        assert freed == [(f"{what} {n}",) for n in range(5) for what in ("car", "hotel")]
        assert connection.execute("select * from mainspring.process_violation").fetchall() == []
        left = "select key from mainspring.visit where payload ? '@'"
        assert connection.execute(left).fetchall() == []


@pytest.mark.parametrize(
    "step",
    fast_first(["settle.answered:3", "run.started:12", "run.ended:25", "settle.sending:4"], 2),
)
def test_a_worker_killed_beside_locks_lets_nobody_in_twice_and_leaves_none_held(
    mainspring_url: str, step: str
) -> None:
    """P15: a lock follows from its scope; no worker's death releases one, or keeps one."""
    import process_app

    with psycopg.connect(mainspring_url, autocommit=True) as connection:
        connection.execute("create table lock_log (no serial, name text, who int, what text)")
    app = Mainspring(mainspring_url)
    guarded = app.process(process_app.guarded.function)

    async def begin() -> list[str]:
        async with app:
            return [(await guarded.start(f"door {n % 2}", n)).id for n in range(COUNT)]

    ids = asyncio.run(begin())
    with WorkerProcess(PLACE, mainspring_url, path=Path(__file__).parent, die_at=step) as victim:
        victim.wait_dead()
    finish(mainspring_url)

    check(mainspring_url, ids, right=None)
    with psycopg.connect(mainspring_url) as connection:
        log = connection.execute("select name, who, what from lock_log order by no").fetchall()
        assert connection.execute("select * from mainspring.process_lock").fetchall() == []
    for name in ("door 0", "door 1"):
        said = [(who, what) for where, who, what in log if where == name]
        assert len(said) == COUNT
        begins, ends = said[::2], said[1::2]
        assert [(who, "ends") for who, _ in begins] == ends
        assert {what for _, what in begins} == {"begins"}
