"""PgQueuer on its asyncpg driver."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.errors import RetryRequested
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from benchmarks.adapter import Adapter, Payload
from benchmarks.probe import PROBE, FailedOnPurpose


class System(Adapter):
    connection: Any
    queries: Any

    async def migrate(self) -> None:
        await self.open()
        await self.queries.install()

    async def open(self) -> None:
        if self.settings.get("reconnect"):  # only a pool gets over a lost connection
            self.connection = await asyncpg.create_pool(self.url, min_size=2, max_size=4)
            self.queries = Queries(AsyncpgPoolDriver(self.connection))
            return
        self.connection = await asyncpg.connect(self.url)
        self.queries = Queries(AsyncpgDriver(self.connection))

    async def close(self) -> None:
        await self.connection.close()

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        await self.queries.enqueue("noop", json.dumps(job).encode(), priority)

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        n = len(jobs)
        texts = [json.dumps(job).encode() for job in jobs]
        await self.queries.enqueue(["noop"] * n, texts, [priority] * n)

    async def remaining(self) -> int:
        return int(await self.connection.fetchval("select count(*) from pgqueuer"))

    async def work(self) -> None:
        logging.disable(logging.WARNING)
        await self.open()
        manager = QueueManager(self.queries)

        @manager.entrypoint("noop")
        async def noop(job: Any) -> None:
            asked = json.loads(job.payload)
            if not asked["act"]:
                PROBE.hit()
                return
            try:
                await PROBE.act(asked["number"], asked["act"])
            except FailedOnPurpose as error:
                raise RetryRequested(delay=timedelta(0)) from error

        await manager.run(
            batch_size=self.settings["batch"],
            max_concurrent_tasks=self.settings.get("slots"),
            dequeue_timeout=timedelta(seconds=5),
        )
