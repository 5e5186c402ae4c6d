"""chancy with its asynchronous executor; eager polling on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import psycopg
from chancy import Chancy, Queue, Worker, job
from chancy.plugins.retry import RetryPlugin

from benchmarks.adapter import Adapter, Payload, stopped
from benchmarks.probe import PROBE

QUEUE = "default"
LEFT = "select count(*) from chancy_jobs where state <> 'succeeded'"
AT_ONCE = {"backoff": 0, "backoff_jitter": [0, 0]}
LOG = logging.getLogger("benchmarks.chancy")
LOG.setLevel(logging.CRITICAL)


@job(queue=QUEUE)
async def noop(
    *, user_id: int, email: str, template: str, locale: str, number: int, act: int
) -> None:
    if act:
        await PROBE.act(number, act)
    else:
        PROBE.hit()


class System(Adapter):
    chancy: Any

    def connect(self) -> Any:
        return Chancy(self.url, log=LOG, plugins=[RetryPlugin()])

    def queue(self) -> Any:
        slots = self.settings["slots"]
        executor = Chancy.Executor.Async
        return Queue(QUEUE, concurrency=slots, executor=executor, eager_polling=True)

    def job(self, payload: Payload, priority: int) -> Any:
        made = noop.job.with_kwargs(**payload).with_priority(priority)
        if self.settings.get("retry"):
            made = made.with_max_attempts(3).with_meta({"retry_settings": AT_ONCE})
        return made

    async def migrate(self) -> None:
        async with self.connect() as chancy:
            await chancy.migrate()
            await chancy.declare(self.queue())

    async def open(self) -> None:
        self.chancy = await self.connect().__aenter__()

    async def close(self) -> None:
        await self.chancy.__aexit__(None, None, None)

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        await self.chancy.push(self.job(job, priority))

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        made = [self.job(job, priority) for job in jobs]
        async for _ in self.chancy.push_many(made, batch_size=len(made)):
            pass

    async def remaining(self) -> int:
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            row = await (await connection.execute(LEFT)).fetchone()
        return int(row[0]) if row else 0

    async def work(self) -> None:
        async with self.connect() as chancy:
            await chancy.declare(self.queue(), upsert=True)
            async with Worker(chancy):
                await stopped()
