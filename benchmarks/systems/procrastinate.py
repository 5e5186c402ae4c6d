"""procrastinate on its asynchronous psycopg connector."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector, RetryStrategy

from benchmarks.adapter import Adapter, Payload
from benchmarks.probe import PROBE

LEFT = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"


class System(Adapter):
    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        pool = settings.get("pool", 10)
        self.app = App(connector=PsycopgConnector(conninfo=url, min_size=2, max_size=pool))
        retry = RetryStrategy(max_attempts=3, wait=0) if settings.get("retry") else False

        @self.app.task(name="noop", retry=retry)
        async def noop(number: int, act: int, **rest: Any) -> None:
            if act:
                await PROBE.act(number, act)
            else:
                PROBE.hit()

        self.task: Any = noop

    async def migrate(self) -> None:
        async with self.app.open_async():
            await self.app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await self.app.open_async()

    async def close(self) -> None:
        await self.app.close_async()

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        await self.task.configure(priority=priority, lock=group).defer_async(**job)

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        if groups is None:
            await self.task.configure(priority=priority).batch_defer_async(*jobs)
            return
        for name in sorted(set(groups)):
            mine = [job for job, group in zip(jobs, groups, strict=True) if group == name]
            await self.task.configure(lock=name).batch_defer_async(*mine)

    async def remaining(self) -> int:
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            row = await (await connection.execute(LEFT)).fetchone()
        return int(row[0]) if row else 0

    async def work(self) -> None:
        logging.disable(logging.ERROR)
        async with self.app.open_async():
            await self.app.run_worker_async(concurrency=self.settings["slots"])
