"""absurd: one task without steps; several clients in one process, each with its connection."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import absurdctl
import psycopg
from absurd_sdk import AsyncAbsurd
from psycopg.types.json import Jsonb

from benchmarks.adapter import Adapter, Payload, stopped
from benchmarks.probe import PROBE

QUEUE = "default"
LEFT = "select count(*) from absurd.t_default where state <> 'completed'"
SPAWN = """
select count(*)
from jsonb_array_elements(%s) as job,
lateral absurd.spawn_task('default', 'noop', job, '{"max_attempts": 3}'::jsonb)
"""


class System(Adapter):
    absurd: Any
    connection: Any

    def made(self) -> Any:
        absurd = AsyncAbsurd(self.url)

        @absurd.register_task("noop")
        async def noop(job: Payload, context: Any) -> None:
            if job["act"]:
                await PROBE.act(job["number"], job["act"])
            else:
                PROBE.hit()

        return absurd

    async def migrate(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self.url, autocommit=True)
        await connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        await connection.execute("select absurd.create_queue('default')")
        await connection.close()

    async def open(self) -> None:
        self.absurd = self.made()
        self.connection = await psycopg.AsyncConnection.connect(self.url, autocommit=True)

    async def close(self) -> None:
        await self.absurd.close()
        await self.connection.close()

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        await self.absurd.spawn("noop", job)

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        await self.connection.execute(SPAWN, [Jsonb(list(jobs))])

    async def remaining(self) -> int:
        row = await (await self.connection.execute(LEFT)).fetchone()
        return int(row[0])

    async def work(self) -> None:
        workers = [
            self.made().start_worker(
                worker_id=f"{os.getpid()}-{i}",
                concurrency=self.settings["slots"],
                poll_interval=self.settings.get("poll", 0.25),
            )
            for i in range(self.settings["clients"])
        ]
        running = asyncio.gather(*workers)
        await asyncio.wait(
            [asyncio.ensure_future(running), asyncio.create_task(stopped())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        if running.done():
            await running
        os._exit(0)
