"""Mainspring as an application uses it: history and fencing on, nothing declared searchable."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import psycopg

from benchmarks.adapter import STEPS, Adapter, Payload
from benchmarks.probe import PROBE
from mainspring import Mainspring, RetryPolicy


class System(Adapter):
    chunk = 50_000

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        self.app = Mainspring(url)

        retry = RetryPolicy(attempts=3, first=0.0) if settings.get("retry") else None

        @self.app.task(
            retry=retry,
            group_concurrency=1 if settings.get("one_per_group") else None,
            group_rate=settings.get("group_rate"),
        )
        async def noop(
            user_id: int, email: str, template: str, locale: str, number: int, act: int
        ) -> None:
            if act:
                await PROBE.act(number, act)
            else:
                PROBE.hit()

        self.task = noop

        @self.app.task
        async def step(number: int) -> int:
            PROBE.hit()
            return number + 1

        @self.app.process
        async def chain(number: int, act: int) -> int:
            if act:
                PROBE.stamp(number, time.monotonic_ns())
            promise = step(number)
            for _ in range(STEPS - 1):
                promise = step(promise)
            return promise

        @self.app.task
        async def join(numbers: list[int], number: int) -> int:
            PROBE.stamp(number, time.monotonic_ns())
            PROBE.hit()
            return len(numbers)

        @self.app.process
        async def fan(width: int, number: int) -> int:
            return join(step.map(range(width)), number)

        self.chain, self.fan = chain, fan

    async def migrate(self) -> None:
        await self.app.migrate()

    async def open(self) -> None:
        await self.app.__aenter__()

    async def close(self) -> None:
        await self.app.__aexit__(None, None, None)

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        if priority or group:
            await self.task.options(priority=priority, group=group).enqueue(**job)
        else:
            await self.task.enqueue(**job)

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        task = self.task.options(priority=priority) if priority else self.task
        if groups is None:
            await task.enqueue_many(jobs)
            return
        pairs = zip(jobs, groups, strict=True)
        await self.app.enqueue_many(
            [self.task.options(group=group).bind(**job) for job, group in pairs]
        )

    async def start_chains(self, jobs: Sequence[Payload]) -> None:
        if len(jobs) == 1:
            await self.chain.start(jobs[0]["number"], jobs[0]["act"])
            return
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            for job in jobs:
                await self.chain.options(on=connection).start(job["number"], job["act"])

    async def start_fan(self, width: int, number: int) -> None:
        await self.fan.start(width, number)

    async def remaining(self) -> int:
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            cursor = await connection.execute("select count(*) from mainspring.visit")
            row = await cursor.fetchone()
        return int(row[0]) if row else 0

    async def work(self) -> None:
        given = {name: self.settings[name] for name in ("lease", "page") if name in self.settings}
        async with self.app:
            await self.app.run_worker(concurrency=self.settings["slots"], **given)
