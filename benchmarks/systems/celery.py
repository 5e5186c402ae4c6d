"""Celery on Redis, with plain functions, its fastest form; results are ignored."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import redis
from celery import Celery

from benchmarks.adapter import Adapter, Payload
from benchmarks.probe import PROBE

app = Celery("bench", broker=os.environ.get("BENCH_BROKER", "redis://127.0.0.1/0"))
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=64,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
)


@app.task(name="noop")
def noop(number: int, act: int, **rest: Any) -> None:
    if act:
        PROBE.act_in_thread(number, act)
    else:
        PROBE.hit()


class System(Adapter):
    store: Any

    async def open(self) -> None:
        app.conf.broker_url = self.url
        self.store = redis.Redis.from_url(self.url)

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        noop.apply_async(kwargs=job)

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        with app.producer_or_acquire() as producer:
            for job in jobs:
                noop.apply_async(kwargs=job, producer=producer)

    async def remaining(self) -> int:
        return int(self.store.llen("celery")) + int(self.store.hlen("unacked"))

    async def work(self) -> None:
        os.environ["BENCH_BROKER"] = self.url
        pool, slots = self.settings["pool"], str(self.settings["slots"])
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "CRITICAL"]
        name = f"worker-{os.getpid()}@here"
        command = [sys.executable, "-m", "celery", "-A", "benchmarks.systems.celery", "worker"]
        os.execv(sys.executable, [*command, "-P", pool, "-c", slots, "-n", name, *quiet])
