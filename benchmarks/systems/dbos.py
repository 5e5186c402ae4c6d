"""DBOS: workflows started through one of its queues; the plain job is one without steps.

A fan-out is child workflows of a queue, as its guide has it; enqueued and awaited side by side,
which was faster than one after the other (61 and 46 steps a second, 38 and 43).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Any

import psycopg
import sqlalchemy
from dbos import DBOS, DBOSClient

from benchmarks.adapter import STEPS, Adapter, Payload, stopped
from benchmarks.probe import PROBE

QUEUE, PARTS, RELEASE = "bench", "parts", "1"
LEFT = "select count(*) from dbos.workflow_status where status <> 'SUCCESS'"
PER_TRANSACTION = 1_000
SOON = 0.02  # seconds between two looks for a result, instead of one
ORDINARY = 10  # without a priority a workflow goes first, with 1 next


@DBOS.workflow(name="noop")
async def noop(job: Payload) -> None:
    if job["act"]:
        await PROBE.act(job["number"], job["act"])
    else:
        PROBE.hit()


@DBOS.step(name="attempt", retries_allowed=True, max_attempts=3, interval_seconds=0.0)
async def attempt(number: int, act: int) -> None:
    await PROBE.act(number, act)


@DBOS.workflow(name="retried")
async def retried(job: Payload) -> None:
    """It tries steps again, not workflows."""
    await attempt(job["number"], job["act"])


@DBOS.step(name="step")
async def step(number: int) -> int:
    PROBE.hit()
    return number + 1


@DBOS.workflow(name="chain")
async def chain(job: Payload) -> int:
    number = job["number"]
    if job["act"]:
        PROBE.stamp(number, time.monotonic_ns())
    for _ in range(STEPS):
        number = await step(number)
    return number


@DBOS.workflow(name="part")
async def part(number: int) -> int:
    PROBE.hit()
    return number + 1


@DBOS.workflow(name="fan")
async def fan(width: int, number: int) -> int:
    made = [DBOS.enqueue_workflow_async(PARTS, part, n) for n in range(width)]
    handles = await asyncio.gather(*made)
    results = [handle.get_result(polling_interval_sec=SOON) for handle in handles]
    numbers = await asyncio.gather(*results)
    PROBE.stamp(number, time.monotonic_ns())
    PROBE.hit()
    return len(numbers)


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
        await self.client.enqueue_async(self.options(self.plain, priority, group), job)

    @property
    def plain(self) -> str:
        return "retried" if self.settings.get("retry") else "noop"

    def options(
        self, workflow: str, priority: int = 0, group: str | None = None
    ) -> dict[str, str | int]:
        made: dict[str, str | int] = {
            "queue_name": QUEUE,
            "workflow_name": workflow,
            "app_version": RELEASE,
            "priority": ORDINARY - priority,
        }
        return {**made, "queue_partition_key": group} if group else made

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        options = [self.options(self.plain, priority, group) for group in groups or [None]]
        await asyncio.to_thread(self.many_in_transactions, jobs, options)

    async def start_chains(self, jobs: Sequence[Payload]) -> None:
        if len(jobs) == 1:
            await self.client.enqueue_async(self.options("chain"), jobs[0])
        else:
            await asyncio.to_thread(self.many_in_transactions, jobs, [self.options("chain")])

    async def start_fan(self, width: int, number: int) -> None:
        await self.client.enqueue_async(self.options("fan"), width, number)

    def many_in_transactions(self, jobs: Sequence[Payload], options: list[Any]) -> None:
        """Each with its options, or all with the only ones."""
        engine = sqlalchemy.create_engine(self.url.replace("postgresql:", "postgresql+psycopg:"))
        for low in range(0, len(jobs), PER_TRANSACTION):
            with engine.begin() as connection:
                for i, job in enumerate(jobs[low : low + PER_TRANSACTION], low):
                    given = options[i % len(options)]
                    self.client.enqueue_in_transaction(connection, given, job)
        engine.dispose()

    async def remaining(self) -> int:
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            row = await (await connection.execute(LEFT)).fetchone()
        return int(row[0]) if row else 0

    async def work(self) -> None:
        def begin() -> None:
            self.launch(migrate=False)
            for queue in (QUEUE, PARTS) if self.settings.get("fan") else (QUEUE,):
                DBOS.register_queue(
                    queue,
                    worker_concurrency=self.settings["slots"],
                    partition_concurrency=1 if self.settings.get("one_per_group") else None,
                    polling_interval_sec=self.settings["poll"],
                    on_conflict="always_update",
                )

        await asyncio.to_thread(begin)
        await stopped()
        os._exit(0)  # its own end waits for running workflows
