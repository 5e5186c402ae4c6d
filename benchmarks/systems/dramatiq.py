"""Dramatiq on Redis, with plain functions in threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.errors import Retry

from benchmarks.adapter import Adapter, Payload
from benchmarks.probe import PROBE, FailedOnPurpose

# The adapter is given the address; dramatiq's own command, which the worker becomes, has it from the
# environment.
GIVEN = [word for word in sys.argv if word.startswith("redis://")]
URL = GIVEN[0] if GIVEN else os.environ["BENCH_BROKER"]
dramatiq.set_broker(RedisBroker(url=URL))
KEYS = ("dramatiq:default", "dramatiq:default.DQ")  # what waits now, and what waits for its time
VARIABLES = {"prefetch": "dramatiq_queue_prefetch", "timeout": "dramatiq_worker_timeout"}


@dramatiq.actor(actor_name="noop", max_retries=3)
def noop(job: Payload) -> None:
    if not job["act"]:
        PROBE.hit()
        return
    try:
        PROBE.act_in_thread(job["number"], job["act"])
    except FailedOnPurpose as error:
        raise Retry(delay=0) from error


class System(Adapter):
    store: Any

    async def open(self) -> None:
        self.store = redis.Redis.from_url(self.url)

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        noop.send(job)

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        for job in jobs:
            noop.send(job)

    async def remaining(self) -> int:
        taken = self.store.scan_iter("dramatiq:__acks__.*")
        waiting = sum(self.store.llen(key) for key in KEYS)
        return int(waiting + sum(self.store.scard(key) for key in taken))

    async def work(self) -> None:
        os.environ["BENCH_BROKER"] = self.url
        for name, variable in VARIABLES.items():
            if name in self.settings:
                os.environ[variable] = str(self.settings[name])
        slots = str(self.settings["slots"])
        command = [sys.executable, "-m", "dramatiq", "benchmarks.systems.dramatiq"]
        os.execv(sys.executable, [*command, "-p", "1", "-t", slots, "--skip-logging"])
