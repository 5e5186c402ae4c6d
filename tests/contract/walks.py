"""How many modules one thing goes through, from a user's call to the row that says it is done.

A reader follows these walks, so each has a bound. A profile hook, in all threads, sees the calls that
really happen. It takes each with all functions of ours that led to it. A module counts if a function of it
runs because of the walk, which is to say:

- it was called in this way in each of several walks: a chore that falls into one by chance does not count;
- it is not called in this way while the same worker has nothing to do for as long: beats do not count.
  Polls would, so the worker has none. A clock that beats read counts if the walk reads it too.

The first walk is not counted: it opens connections and fills caches. `__init__`, `errors`,
`statements` (names of SQL files) and `ids` (an id, a token, a shard, as their names say) are no stops for a
reader, and `testing` is the test's own.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import TypeAlias

import psycopg

import mainspring
from mainspring import Mainspring, Promise, Saved, Update
from mainspring.kernel.worker import Worker
from mainspring.reactive import Delta, ReactiveRun
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS
from stages import Stages

SOURCE = str(Path(mainspring.__file__).parent)
NOT_COUNTED = {"__init__", "errors", "statements"}
NO_STOP = "ids"  # mainspring/ids.py, not those of entities
WALKS = 5  # that are counted
BEATS = 1  # of the worker, while it has nothing to do

# The most modules that a walk may go through. A lower number is welcome; then lower the bound.
TASK = 20  # enqueue, run, row of history
SAVED = 40  # change of a row, stage, save, event, `saved`
PROCESS = 45  # start, three steps, end
SEEN = 36  # advance of a param, check, run, `seen`

Stack: TypeAlias = tuple[str, ...]  # functions as module:name, the called one last
Walk: TypeAlias = Callable[[int], Awaitable[None]]
Ended: TypeAlias = Callable[[int], bool]


class Calls:
    """Calls of functions of ours, as the profile hook sees them."""

    def __init__(self) -> None:
        self.on = False
        self.seen: set[Stack] = set()

    def hook(self, frame: FrameType, event: str, _: object) -> None:
        if self.on and event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            self.seen.add(_stack(frame))

    @contextmanager
    def recorded(self) -> Iterator[set[Stack]]:
        """What is called within the block."""
        found: set[Stack] = set()
        self.seen, self.on = found, True
        try:
            yield found
        finally:
            self.on = False


def _stack(frame: FrameType | None) -> Stack:
    found = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(SOURCE):
            module = code.co_filename.removeprefix(SOURCE + "/").removesuffix(".py")
            found.append(f"{module}:{code.co_qualname}")
        frame = frame.f_back
    return tuple(reversed(found))


@contextmanager
def profiled() -> Iterator[Calls]:
    """A hook in this thread and in those that start within the block."""
    calls = Calls()
    threading.setprofile(calls.hook)
    sys.setprofile(calls.hook)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


@asynccontextmanager
async def walking(app: Mainspring) -> AsyncIterator[tuple[Calls, Worker]]:
    """A profiled worker that has its shards and reads."""
    with profiled() as calls:
        # On a loaded machine a walk must not last as long as a beat's time: whoever has work beats in
        # another way than who rests, and that is no part of the walk. It is told of visits, so it need not
        # poll.
        async with app.worker(**FAST_SETTINGS | {"lease": 20.0, "poll": 60.0}) as worker:
            async with asyncio.timeout(30):
                await worker.ready()
            yield calls, worker


async def modules_of(calls: Calls, worker: Worker, url: str, walk: Walk, ended: Ended) -> set[str]:
    """The modules that a walk goes through. `walk` takes a number that differs each time."""

    async def once(number: int) -> None:
        await walk(number)
        await wait_until(lambda: ended(number), 30)
        await worker.drained()

    await once(0)
    walks, began = [], time.monotonic()
    for number in range(1, WALKS + 1):
        with calls.recorded() as seen:
            await once(number)
        walks.append(seen)
    idle = await _idle(calls, worker, url, seconds=time.monotonic() - began)
    called = set.intersection(*walks) - idle
    modules = {stack[-1].partition(":")[0] for stack in called}
    return {module for module in modules if _is_counted(module)}


def _is_counted(module: str) -> bool:
    if module == NO_STOP or module.startswith("testing/"):
        return False
    return module.rpartition("/")[2] not in NOT_COUNTED


async def _idle(calls: Calls, worker: Worker, url: str, *, seconds: float) -> set[Stack]:
    """What is called while there is nothing to do, for as long as the walks took and some beats."""
    with psycopg.connect(url, autocommit=True) as connection:

        def beats() -> int:
            return _number(connection, "select beat from mainspring.worker")

        last, until = beats() + BEATS, time.monotonic() + seconds
        with calls.recorded() as seen:
            await wait_until(lambda: beats() >= last and time.monotonic() >= until, 60)
            await worker.drained()
    return seen


def _number(connection: psycopg.Connection[tuple[int]], query: str, *values: object) -> int:
    found = connection.execute(query, values).fetchone()  # type: ignore[arg-type]
    assert found is not None
    return found[0]


def check(modules: set[str], most: int) -> None:
    """Fail with the modules by package if there are more than a walk may have."""
    rooms: dict[str, list[str]] = {}
    for module in sorted(modules):
        room, _, name = module.rpartition("/")
        rooms.setdefault(room or "mainspring", []).append(name)
    listed = "\n".join(
        f"  {room} ({len(names)}): {', '.join(names)}" for room, names in rooms.items()
    )
    assert len(modules) <= most, f"{len(modules)} modules, {most} at most:\n{listed}"


@dataclass
class Listing:
    id: int
    title: str
    price: int
    version: int


async def test_walk_task(app: Mainspring, database_url: str) -> None:
    @app.task
    async def greet(number: int) -> str:
        return f"hello {number}"

    async def enqueue(number: int) -> None:
        await greet.enqueue(number)

    with psycopg.connect(database_url, autocommit=True) as connection:

        def ended(number: int) -> bool:
            text = "select count(*) from mainspring.history where queue = 'greet'"
            return _number(connection, text) == number + 1

        async with walking(app) as (calls, worker):
            found = await modules_of(calls, worker, database_url, enqueue, ended)
    check(found, TASK)


async def test_walk_saved(app: Mainspring, database_url: str) -> None:
    stages = Stages(database_url, app)
    listing = stages.kind(model=Listing)
    told: list[int] = []

    @listing.stage
    class Price:
        async def process(self, found: Listing) -> Update:
            return Update(price=len(found.title))

        async def saved(self, event: Saved) -> None:
            told.append(event.number)

    await stages.install()
    stages.add(1, title="")

    async def change(number: int) -> None:
        await asyncio.to_thread(stages.change, 1, title="x" * (number + 1))

    async with walking(app) as (calls, worker):
        await wait_until(lambda: not stages.due(), 30)
        before = len(told)
        found = await modules_of(
            calls, worker, database_url, change, lambda number: len(told) > before + number
        )
    stages.close()
    check(found, SAVED)


async def test_walk_process(app: Mainspring, database_url: str) -> None:
    @app.task
    async def load(number: int) -> int:
        return number + 1

    @app.task
    async def add(one: int, other: int) -> int:
        return one + other

    @app.process
    def sum_up(number: int) -> Promise[int]:
        return add(load(number), load(number + 1))

    async def start(number: int) -> None:
        await sum_up.options(id=str(number)).start(number)

    with psycopg.connect(database_url, autocommit=True) as connection:

        def ended(number: int) -> bool:
            text = "select count(*) from mainspring.process where key = %s and ended_at is not null"
            return _number(connection, text, str(number)) == 1

        async with walking(app) as (calls, worker):
            found = await modules_of(calls, worker, database_url, start, ended)
    check(found, PROCESS)


async def test_walk_seen(app: Mainspring, database_url: str) -> None:
    orders = app.data("dwh.orders").param("loaded_to")
    built = app.data("mart.daily").param("built_to")

    @app.task(when=Delta(orders), produces=[built])
    async def daily(run: ReactiveRun) -> None:
        run.advance(built, run.current[orders])

    async with app:
        began = await app.operator.now()

    async def advance(number: int) -> None:
        await app.advance(orders, began + timedelta(seconds=number))

    with psycopg.connect(database_url, autocommit=True) as connection:

        def ended(number: int) -> bool:
            text = (
                "select count(*) from mainspring.reactive_task where firing is null and"
                " (seen -> 'dwh.orders.loaded_to' ->> 0)::bigint = %s"
            )
            micros = round((began + timedelta(seconds=number)).timestamp() * 1_000_000)
            return _number(connection, text, micros) == 1

        async with walking(app) as (calls, worker):
            found = await modules_of(calls, worker, database_url, advance, ended)
    check(found, SEEN)
