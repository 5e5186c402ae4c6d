"""DBOS: a workflow without steps, started through one of its queues."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import psycopg
import sqlalchemy
from dbos import DBOS, DBOSClient

from benchmarks.adapter import Adapter, Payload, stopped
from benchmarks.probe import PROBE

QUEUE, RELEASE = "bench", "1"
LEFT = "select count(*) from dbos.workflow_status where status <> 'SUCCESS'"
PER_TRANSACTION = 1_000


@DBOS.workflow(name="noop")
async def noop(job: Payload) -> None:
    if job["act"]:
        await PROBE.act(job["number"], job["act"])
    else:
        PROBE.hit()


class System(Adapter):
    client: Any

    def launch(self, *, migrate: bool) -> None:
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self.url,
                "log_level": "CRITICAL",
                "console_log_level": "CRITICAL",
                "sys_db_pool_size": 20,
                "max_executor_threads": 64,
                "application_version": RELEASE,
                "executor_id": f"worker-{os.getpid()}",
                "run_migrations": migrate,
            }
        )
        DBOS.launch()

    async def migrate(self) -> None:
        await asyncio.to_thread(self.launch, migrate=True)
        await asyncio.to_thread(DBOS.destroy)

    async def open(self) -> None:
        self.client = DBOSClient(system_database_url=self.url)

    async def close(self) -> None:
        self.client.destroy()

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        await self.client.enqueue_async(self.options(), job)

    def options(self) -> dict[str, str]:
        return {"queue_name": QUEUE, "workflow_name": "noop", "app_version": RELEASE}

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        await asyncio.to_thread(self.many_in_transactions, jobs)

    def many_in_transactions(self, jobs: Sequence[Payload]) -> None:
        engine = sqlalchemy.create_engine(self.url.replace("postgresql:", "postgresql+psycopg:"))
        for low in range(0, len(jobs), PER_TRANSACTION):
            with engine.begin() as connection:
                for job in jobs[low : low + PER_TRANSACTION]:
                    self.client.enqueue_in_transaction(connection, self.options(), job)
        engine.dispose()

    async def remaining(self) -> int:
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            row = await (await connection.execute(LEFT)).fetchone()
        return int(row[0]) if row else 0

    async def work(self) -> None:
        def begin() -> None:
            self.launch(migrate=False)
            DBOS.register_queue(
                QUEUE,
                worker_concurrency=self.settings["slots"],
                polling_interval_sec=self.settings["poll"],
                on_conflict="always_update",
            )

        await asyncio.to_thread(begin)
        await stopped()
        os._exit(0)  # its own end waits for running workflows
