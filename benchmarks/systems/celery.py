"""Celery on Redis, with plain functions, its fastest form; results are ignored."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import redis
from celery import Celery

from benchmarks.adapter import Adapter, Payload
from benchmarks.probe import PROBE, FailedOnPurpose

LATE = "BENCH_LATE" in os.environ
ORDINARY = 9
LISTS = ("celery", f"celery\x06\x16{ORDINARY}")
app = Celery("bench", broker=os.environ.get("BENCH_BROKER", "redis://127.0.0.1/0"))
app.conf.update(
    # As its guide has it for priorities on Redis: a list for each, the most urgent (0) first.
    broker_transport_options={"priority_steps": [0, ORDINARY], "queue_order_strategy": "priority"},
    task_ignore_result=True,
    # For long tasks, as its guide has it: no worker takes more than it can run at once.
    worker_prefetch_multiplier=1 if LATE else 64,
    task_acks_late=LATE,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
)


@app.task(name="noop", bind=True, max_retries=3)
def noop(self: Any, number: int, act: int, **rest: Any) -> None:
    if not act:
        PROBE.hit()
        return
    try:
        PROBE.act_in_thread(number, act)
    except FailedOnPurpose as error:
        raise self.retry(exc=error, countdown=0) from error


class System(Adapter):
    store: Any

    async def open(self) -> None:
        app.conf.broker_url = self.url
        self.store = redis.Redis.from_url(self.url)

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        noop.apply_async(kwargs=job, priority=ORDINARY - priority)

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        with app.producer_or_acquire() as producer:
            for job in jobs:
                noop.apply_async(kwargs=job, producer=producer, priority=ORDINARY - priority)

    async def remaining(self) -> int:
        return sum(int(self.store.llen(name)) for name in LISTS) + int(self.store.hlen("unacked"))

    async def work(self) -> None:
        os.environ["BENCH_BROKER"] = self.url
        if self.settings.get("late"):
            os.environ["BENCH_LATE"] = "1"
        pool, slots = self.settings["pool"], str(self.settings["slots"])
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "CRITICAL"]
        name = f"worker-{os.getpid()}@here"
        command = [sys.executable, "-m", "celery", "-A", "benchmarks.systems.celery", "worker"]
        os.execv(sys.executable, [*command, "-P", pool, "-c", slots, "-n", name, *quiet])
