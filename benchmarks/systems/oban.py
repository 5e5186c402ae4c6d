"""oban-py, the open-source one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import psycopg
from oban import Oban, worker
from oban.schema import install_sql

from benchmarks.adapter import Adapter, Payload, stopped
from benchmarks.probe import PROBE

LEFT = "select count(*) from oban_jobs where state <> 'completed'"
LOWEST = 9  # in Oban 0 is the most urgent


@worker(queue="default")
class Noop:
    async def process(self, job: Any) -> None:
        asked = job.args
        if asked["act"]:
            await PROBE.act(asked["number"], asked["act"])
        else:
            PROBE.hit()

    def backoff(self, job: Any) -> int:
        return 0


class System(Adapter):
    pool: Any
    oban: Any

    async def migrate(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self.url, autocommit=True)
        await connection.execute(install_sql())
        await connection.close()

    async def open(self) -> None:
        await self.begin(queues={})

    async def begin(self, queues: dict[str, Any]) -> None:
        self.pool = await Oban.create_pool(self.url, min_size=2, max_size=10)
        # Jobs to be tried again are looked for once a second, where one does not say otherwise.
        stager = {"interval": 0.1} if self.settings.get("retry") else {}
        self.oban = Oban(pool=self.pool, queues=queues, stager=stager)
        await self.oban.start()

    async def close(self) -> None:
        await self.oban.stop()
        await self.pool.close()

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        await self.oban.enqueue(Noop.new(job, priority=LOWEST - priority))

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        await self.oban.enqueue_many([Noop.new(job, priority=LOWEST - priority) for job in jobs])

    async def remaining(self) -> int:
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            row = await (await connection.execute(LEFT)).fetchone()
        return int(row[0]) if row else 0

    async def work(self) -> None:
        logging.disable(logging.ERROR)
        await self.begin(queues={"default": {"limit": self.settings["slots"]}})
        await stopped()
        await self.close()
