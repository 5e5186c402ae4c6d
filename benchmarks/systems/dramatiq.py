"""Dramatiq on Redis, with plain functions in threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker

from benchmarks.adapter import Adapter, Payload
from benchmarks.probe import PROBE

# The adapter is given the address; dramatiq's own command, which the worker becomes, has it from the
# environment.
GIVEN = [word for word in sys.argv if word.startswith("redis://")]
URL = GIVEN[0] if GIVEN else os.environ["BENCH_BROKER"]
dramatiq.set_broker(RedisBroker(url=URL))


@dramatiq.actor(actor_name="noop")
def noop(job: Payload) -> None:
    if job["act"]:
        PROBE.act_in_thread(job["number"], job["act"])
    else:
        PROBE.hit()


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
        return int(self.store.llen("dramatiq:default")) + sum(self.store.scard(k) for k in taken)

    async def work(self) -> None:
        os.environ["BENCH_BROKER"] = self.url
        slots = str(self.settings["slots"])
        command = [sys.executable, "-m", "dramatiq", "benchmarks.systems.dramatiq"]
        os.execv(sys.executable, [*command, "-p", "1", "-t", slots, "--skip-logging"])
