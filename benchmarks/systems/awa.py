"""awa-pg on its queue storage: a Rust core with Python handlers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import awa

from benchmarks.adapter import Adapter, Payload, stopped
from benchmarks.probe import PROBE, FailedOnPurpose

QUEUE = "default"
HIGHEST, ORDINARY = 1, 2  # awa's own scale
# Its `queue_stats` tells the same, but now and then the planner joins thousands by thousands for it,
# and it has no answer after two minutes.
LEFT = """
select (select count(distinct job_id) from awa.ready_entries)
  + (select count(*) from awa.deferred_jobs)
  - (select coalesce(sum(completed_count), 0) from awa.receipt_completion_batches)
  - (select count(*) from awa.done_entries) as n
"""


@dataclass
class Noop:
    user_id: int
    email: str
    template: str
    locale: str
    number: int
    act: int


def address(url: str) -> str:
    """The same server as its driver wants it: a host name, and the socket in the query."""
    parts = urlsplit(url)
    socket = quote(parse_qs(parts.query)["host"][0], safe="")
    return f"postgres://postgres@localhost{parts.path}?host={socket}&sslmode=disable"


class System(Adapter):
    client: Any

    async def migrate(self) -> None:
        client = awa.AsyncClient(address(self.url))
        await client.migrate()
        await client.install_queue_storage()
        await client.close()

    async def open(self) -> None:
        self.client = awa.AsyncClient(address(self.url))

    async def close(self) -> None:
        await self.client.close()

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        rank = HIGHEST if priority else ORDINARY
        await self.client.insert(Noop(**job), queue=QUEUE, priority=rank)

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        await self.client.enqueue_many_copy([Noop(**job) for job in jobs], queue=QUEUE)

    async def remaining(self) -> int:
        async with await self.client.transaction() as transaction:
            return int((await transaction.fetch_one(LEFT))["n"])

    async def work(self) -> None:
        client = awa.AsyncClient(address(self.url), self.settings.get("connections", 10))

        @client.task(Noop, queue=QUEUE)
        async def noop(job: Any) -> Any:
            asked = job.args
            if not asked.act:
                PROBE.hit()
                return None
            try:
                await PROBE.act(asked.number, asked.act)
            except FailedOnPurpose:
                return awa.RetryAfter(0)
            return None

        queue = {"name": QUEUE, "max_workers": self.settings["slots"]}
        if self.settings.get("claim"):
            queue["claim_batch_size"] = self.settings["claim"]
        await client.start([queue])
        await stopped()
        await client.shutdown(1500)
