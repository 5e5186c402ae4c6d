"""absurd: several clients in one process, each with its connection; the plain job has no steps.

A fan-out is tasks of a second queue, for it refuses to wait for those of the same one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any

import absurdctl
import psycopg
from absurd_sdk import AsyncAbsurd
from psycopg.types.json import Jsonb

from benchmarks.adapter import STEPS, Adapter, Payload, stopped
from benchmarks.probe import PROBE

QUEUE, PARTS = "default", "parts"
LEFT = "select count(*) from absurd.t_default where state <> 'completed'"
SPAWN = """
select count(*)
from jsonb_array_elements(%s) as job,
lateral absurd.spawn_task('default', %s, job, '{"max_attempts": 3}'::jsonb)
"""
SPAWN_PARTS = """
select task_id from generate_series(1, %s) n,
lateral absurd.spawn_task('parts', 'part', jsonb_build_object('number', n), '{"max_attempts": 3}'::jsonb)
"""


class System(Adapter):
    absurd: Any
    connection: Any

    def made(self, queue: str = QUEUE) -> Any:
        absurd = AsyncAbsurd(self.url, queue_name=queue)

        @absurd.register_task("noop")
        async def noop(job: Payload, context: Any) -> None:
            if job["act"]:
                await PROBE.act(job["number"], job["act"])
            else:
                PROBE.hit()

        @absurd.register_task("chain")
        async def chain(job: Payload, context: Any) -> int:
            if job["act"]:
                PROBE.stamp(job["number"], time.monotonic_ns())

            async def step() -> int:
                PROBE.hit()
                return 1

            return sum([await context.step(f"step-{n}", step) for n in range(STEPS)])

        @absurd.register_task("part", queue=PARTS)
        async def part(job: Payload, context: Any) -> int:
            PROBE.hit()
            return int(job["number"])

        @absurd.register_task("fan")
        async def fan(job: Payload, context: Any) -> int:
            async with await psycopg.AsyncConnection.connect(self.url) as connection:
                cursor = await connection.execute(SPAWN_PARTS, [job["width"]])
                parts = await cursor.fetchall()
            for (task,) in parts:
                await context.await_task_result(str(task), queue_name=PARTS)
            PROBE.stamp(job["number"], time.monotonic_ns())
            PROBE.hit()
            return len(parts)

        return absurd

    async def migrate(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self.url, autocommit=True)
        await connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        for queue in (QUEUE, PARTS):
            await connection.execute("select absurd.create_queue(%s)", [queue])
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
        await self.connection.execute(SPAWN, [Jsonb(list(jobs)), "noop"])

    async def start_chains(self, jobs: Sequence[Payload]) -> None:
        if len(jobs) == 1:
            await self.absurd.spawn("chain", jobs[0])
        else:
            await self.connection.execute(SPAWN, [Jsonb(list(jobs)), "chain"])

    async def start_fan(self, width: int, number: int) -> None:
        await self.absurd.spawn("fan", {"width": width, "number": number})

    async def remaining(self) -> int:
        row = await (await self.connection.execute(LEFT)).fetchone()
        return int(row[0])

    async def work(self) -> None:
        workers = [
            self.made(PARTS if i and self.settings.get("fan") else QUEUE).start_worker(
                worker_id=f"{os.getpid()}-{i}",
                concurrency=self.settings["slots"],
                poll_interval=self.settings.get("poll", 0.05),
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
