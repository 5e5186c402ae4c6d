"""Two servers over gRPC, a worker and a database, in an event loop of their own, driven by plain code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg

from mainspring import Mainspring, Promise, RetryPolicy
from mainspring.client import AsyncClient
from mainspring.server.door import Door
from mainspring.server.settings import ServeSettings
from mainspring.testing import Clock
from mainspring.testing.idle import wait_until

T = TypeVar("T")
ACTORS = ("till.first", "till.last")  # by whose answer counts
WORK_TIMEOUT = 60.0
FAST = {"lease": 1.0, "poll": 0.05, "grace": 1.0}
ROWS = """
select key, payload ->> '@' as process, pass, held_until, attempt, crashes, parked_at is not null as parked
from mainspring.visit where queue like 'till.%'
"""
DONE = """
select key, count(*) from mainspring.history_run where queue like 'till.%' and outcome = 'done' group by key
"""
OVERDUE = "select from mainspring.visit where held_until < mainspring.now()"


class Row(NamedTuple):
    """A visit of an actor elsewhere, as it stands."""

    key: str
    process: str | None
    held: int | None
    held_until: Any
    attempt: int
    crashes: int
    parked: bool


def application(url: str) -> Mainspring:
    """Two actors elsewhere, and a process of one step for each."""
    app = Mainspring(url)
    retry = RetryPolicy(attempts=1000, first=0.0, most=0.0)

    @app.task(name="till.first", remote=True, retry=retry, work_timeout=WORK_TIMEOUT)
    def first(order: int) -> str:
        raise AssertionError("it is run elsewhere")

    @app.task(name="till.last", remote=True, retry=retry, work_timeout=WORK_TIMEOUT, accept="last")
    def last(order: int) -> str:
        raise AssertionError("it is run elsewhere")

    @app.process(name="shop.first")
    def shop_first(order: int) -> Promise[str]:
        return first(order)

    @app.process(name="shop.last")
    def shop_last(order: int) -> Promise[str]:
        return last(order)

    return app


class Place:
    """One server, which may be stopped and started again at another port."""

    def __init__(self, url: str, token: Path) -> None:
        self._url, self._token = url, token

    async def start(self) -> None:
        self._app = application(self._url)
        self._door = Door(self._app, ServeSettings(grpc="127.0.0.1:0", token_file=str(self._token)))
        address = (await self._door.start())["gRPC"]
        self.client = AsyncClient(address, token=self._token.read_text().strip(), timeout=60)

    async def stop(self) -> None:
        await self.client.close()
        await self._door.stop(grace=0)
        await self._app.close()


class ActorsScene:
    """All of it. Its methods are called by the test's thread."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._app = application(url)
        self.places = [Place(url, folder / "token") for _ in range(2)]

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def together(self, *work: Coroutine[Any, Any, T]) -> list[T]:
        async def all_of_it() -> list[T]:
            return list(await asyncio.gather(*work))

        return self.do(all_of_it())

    def start(self) -> None:
        self._app.migrate_sync()
        self._clock = Clock(self._url)
        self._connection = psycopg.connect(self._url, autocommit=True)
        self._thread.start()
        self.do(self._start())

    async def _start(self) -> None:
        self._working = self._app.worker(**FAST)
        await (await self._working.__aenter__()).ready()
        for place in self.places:
            await place.start()

    def close(self) -> None:
        async def close() -> None:
            for place in self.places:
                await place.stop()
            await self._working.__aexit__(None, None, None)
            await self._app.close()

        self.do(close())
        self._connection.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def client(self, place: int) -> AsyncClient:
        return self.places[place].client

    def restart(self, place: int) -> None:
        self.do(self.places[place].stop())
        self.do(self.places[place].start())

    def rows(self) -> list[Row]:
        return [Row(*row) for row in self._connection.execute(ROWS).fetchall()]

    def done(self) -> dict[str, int]:
        return dict(self._connection.execute(DONE).fetchall())

    def wait_for_step(self, process: str) -> None:
        """Until the worker has made the step of a process."""
        self.do(wait_until(lambda: any(row.process == process for row in self.rows()), 30))

    def advance(self, seconds: float) -> Any:
        """Time passes, and the worker recovers what is overdue. Returns the time that it is."""
        self._clock.advance_sync(seconds)
        now = self._clock.now_sync()

        def nothing_is_overdue() -> bool:
            return self._connection.execute(OVERDUE).rowcount == 0

        self.do(wait_until(nothing_is_overdue, 30))
        return now

    def clear(self) -> None:
        """What is left of an example is taken away, so that the next has its orders to itself."""
        for table in ("visit", "task", "process"):
            self._connection.execute(f"delete from mainspring.{table}")  # type: ignore[arg-type]
