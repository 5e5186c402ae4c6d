"""A kind over a table of its own, workers on it, and questions to the database: for the tests of stages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
from psycopg.rows import dict_row

from mainspring import Mainspring
from mainspring.entities.kind import Kind
from mainspring.entities.offers import CRAWL_PRIORITY
from mainspring.entities.runtime import KindRuntime, Runtime
from mainspring.kernel.visit import DEFAULT_PRIORITY
from mainspring.kernel.worker import Worker
from mainspring.testing import wait_until
from mainspring.testing.idle import FAST_SETTINGS

TABLE = """
create table listing (
  id bigint primary key, title text not null default '', price integer not null default 0,
  rank integer not null default 0, hits integer not null default 0, note text,
  version bigint not null default 1
)
"""


# A save that met a second conflict is tried again after some 50 ms.
_SOON = (
    "select count(*) from mainspring.visit where parked_at is null and due_at > mainspring.now() "
    "and due_at <= mainspring.now() + interval '0.25 seconds'"
)


class Stages:
    """One database with a table `listing`, the application on it, and plain SQL beside it."""

    def __init__(self, url: str, app: Mainspring, table: str = TABLE) -> None:
        self.url = url
        self.app = app
        self.connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)
        self.query(table)

    @classmethod
    def of(cls, other: Stages, url: str) -> Stages:
        """The same database with an application of its own, which connects by another address."""
        found = cls.__new__(cls)
        found.url, found.app, found.connection = url, Mainspring(url), other.connection
        return found

    def close(self) -> None:
        self.connection.close()

    def kind(self, name: str = "listing", **settings: Any) -> Kind:
        """The kind over the table; declare its stages, then `install` or run a worker."""
        return self.app.entities(name, **{"table": "public.listing", "key": "id"} | settings)

    async def install(self) -> None:
        """Register the kinds and install their triggers."""
        await self.app.migrate()

    @asynccontextmanager
    async def next_release(self) -> AsyncIterator[None]:
        """Within the block the application is another one, of newer code, on the same database."""
        before, self.app = self.app, Mainspring(self.url)
        try:
            async with self.app:
                yield
        finally:
            self.app = before

    # -- plain SQL, as a user or an outsider writes it

    def query(self, text: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(text, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []

    def value(self, text: str, *values: Any) -> Any:
        return next(iter(self.query(text, *values)[0].values()))

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Another session with an open transaction."""
        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            yield connection

    def add(self, *ids: int, **columns: Any) -> None:
        for id in ids:
            names = ", ".join(("id", *columns))
            marks = ", ".join(["%s"] * (1 + len(columns)))
            self.query(f"insert into listing ({names}) values ({marks})", id, *columns.values())

    def change(self, id: int = 1, **columns: Any) -> None:
        sets = ", ".join(f"{name} = %s" for name in columns)
        self.query(f"update listing set {sets} where id = %s", *columns.values(), id)

    def listing(self, id: int = 1) -> dict[str, Any]:
        return self.query("select * from listing where id = %s", id)[0]

    # -- the engine's tables

    def visit(self, queue: str, key: int | str = 1) -> dict[str, Any] | None:
        rows = self.query(
            "select * from mainspring.visit where queue = %s and key = %s", queue, str(key)
        )
        return rows[0] if rows else None

    def queues(self, key: int | str = 1) -> list[str]:
        rows = self.query(
            "select queue from mainspring.visit where key = %s order by queue", str(key)
        )
        return [row["queue"] for row in rows]

    def state(self, stage: str, key: int | str = 1, kind: str = "listing") -> dict[str, Any] | None:
        rows = self.query(
            "select * from mainspring.state where kind = %s and stage = %s and key = %s",
            kind,
            stage,
            str(key),
        )
        return rows[0] if rows else None

    def events(self, key: int | str = 1) -> list[dict[str, Any]]:
        return self.query("select * from mainspring.event where key = %s order by number", str(key))

    def history(self, queue: str, key: int | str = 1) -> list[dict[str, Any]]:
        return self.query(
            "select * from mainspring.history where queue = %s and key = %s order by ended_at, run",
            queue,
            str(key),
        )

    def offer(self, queue: str, key: int | str = 1, payload: dict[str, Any] | None = None) -> None:
        """An offer as the engine's own SQL makes it."""
        self.query(
            "insert into mainspring.visit as v (shard, key, queue, priority, id, version, payload) "
            "select mainspring.shard(%s, shard_count), %s, %s, %s, mainspring.uuid7(), "
            "mainspring.token(), %s::jsonb from mainspring.install "
            "on conflict (shard, key, queue) do update set version = excluded.version, "
            "due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) "
            "end, payload = v.payload || excluded.payload",
            str(key),
            str(key),
            queue,
            CRAWL_PRIORITY if queue.endswith("~") else DEFAULT_PRIORITY,
            json.dumps(payload or {}),
        )

    def due(self) -> int:
        """Visits that are due and not parked."""
        return int(
            self.value(
                "select count(*) from mainspring.visit "
                "where due_at <= mainspring.now() and parked_at is null"
            )
        )

    # -- running

    @asynccontextmanager
    async def working(self, **settings: Any) -> AsyncIterator[Worker]:
        """A worker that has its shards and reads."""
        # A busy machine must not fence it: what is tested here are stages, not leases.
        async with self.app.worker(**FAST_SETTINGS | {"lease": 5.0} | settings) as worker:
            async with asyncio.timeout(30):
                await worker.ready()
            yield worker

    async def rest(self, worker: Worker, timeout: float = 30.0) -> None:
        """Wait until nothing is due, nothing is under way and nothing pauses for a conflict."""
        async with asyncio.timeout(timeout):
            await worker.drained()
            for _ in range(100):  # a clock that a test has stopped brings nothing nearer
                if not self.value(_SOON):
                    return
                await asyncio.sleep(0.02)
                await worker.drained()

    async def run(self, **settings: Any) -> None:
        """Run a worker until nothing is due."""
        async with self.working(**settings) as worker:
            await self.rest(worker)


__all__ = ["KindRuntime", "Runtime", "Stages", "wait_until"]
