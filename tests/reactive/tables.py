"""What the tables of reactive tasks say, and moments to set params to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.rows import dict_row

from mainspring import Mainspring
from mainspring.testing.idle import FAST_SETTINGS


def day(number: int, hour: int = 0) -> datetime:
    """A moment in March 2026."""
    return datetime(2026, 3, number, hour, tzinfo=UTC)


class Base:
    """What the tables say."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)

    def rows(self, text: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(text, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []

    def value(self, text: str, *values: Any) -> Any:
        return next(iter(self.rows(text, *values)[0].values()))

    def state(self, task: str) -> dict[str, Any]:
        return self.rows("select * from mainspring.reactive_task where task = %s", task)[0]

    def visits(self, queue: str = "mainspring.") -> list[tuple[str, str]]:
        rows = self.rows(
            "select queue, key from mainspring.visit"
            " where starts_with(queue, %s) and queue <> 'mainspring.audit' order by 1, 2",
            queue,
        )
        return [(row["queue"], row["key"]) for row in rows]


def history(base: Base, task: str) -> list[tuple[str, str | None]]:
    """Outcome and error of the runs of a task, oldest first."""
    rows = base.rows(
        "select outcome::text, error from mainspring.history"
        " where starts_with(queue, 'mainspring.run.') and key = %s order by started_at",
        task,
    )
    return [(row["outcome"], row["error"]) for row in rows]


class Worker:
    """A worker in the test's event loop, and a wait until it has nothing left to do."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    async def idle(self, timeout: float = 20.0) -> None:
        async with asyncio.timeout(timeout):
            await self.kernel.drained()


@asynccontextmanager
async def working(app: Mainspring, **settings: Any) -> AsyncIterator[Worker]:
    """A worker of the application that has registered everything and is idle."""
    # A busy machine must not fence it: runs would be counted as crashed.
    async with app.worker(**FAST_SETTINGS | {"lease": 5.0} | settings) as kernel:
        worker = Worker(kernel)
        await worker.idle()
        yield worker
