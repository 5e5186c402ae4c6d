"""The bare loop: no engine, only the statements any queue of this shape must run.

Two asyncpg connections; the claim of the next batch overlaps the delete-and-history of the
batch before. Each job is one asyncio task and one JSON decode, as an engine would have it.
There are no retries, no wake-up and nobody to rescue what a dead worker has claimed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import asyncpg
import msgspec

from benchmarks.adapter import Adapter, Payload
from benchmarks.probe import PROBE

SCHEMA = """
create table job (
  id bigint generated always as identity primary key,
  claimed_by integer,
  claimed_at timestamptz,
  created_at timestamptz not null default now(),
  payload jsonb not null
);
create index job_ready on job (id) where claimed_by is null;
create table job_history (
  id bigint not null,
  created_at timestamptz not null,
  done_at timestamptz not null default now(),
  payload jsonb not null
);
"""
CLAIM = """
update job set claimed_by = pg_backend_pid(), claimed_at = now()
where id = any(array(
  select id from job where claimed_by is null order by id limit $1 for update skip locked
))
returning id, payload
"""
FINISH = """
with gone as (
  delete from job where id = any($1::bigint[]) returning id, created_at, payload
)
insert into job_history (id, created_at, payload) select id, created_at, payload from gone
"""
INSERT = "insert into job (payload) values ($1)"


class System(Adapter):
    chunk = 50_000
    connection: Any

    async def migrate(self) -> None:
        await self.open()
        await self.connection.execute(SCHEMA)

    async def open(self) -> None:
        self.connection = await asyncpg.connect(self.url)

    async def close(self) -> None:
        await self.connection.close()

    async def one(self, job: Payload, *, priority: int = 0, group: str | None = None) -> None:
        await self.connection.execute(INSERT, encode(job))

    async def many(
        self, jobs: Sequence[Payload], *, priority: int = 0, groups: Sequence[str] | None = None
    ) -> None:
        rows = [(encode(job),) for job in jobs]
        await self.connection.copy_records_to_table("job", records=rows, columns=["payload"])

    async def remaining(self) -> int:
        return int(await self.connection.fetchval("select count(*) from job"))

    async def work(self) -> None:
        batch = self.settings["batch"]
        claims, ends = await asyncpg.connect(self.url), await asyncpg.connect(self.url)
        claim, finish = await claims.prepare(CLAIM), await ends.prepare(FINISH)
        ending: asyncio.Task[Any] | None = None
        coming = asyncio.create_task(claim.fetch(batch))
        while True:
            rows = await coming
            coming = asyncio.create_task(claim.fetch(batch))
            if not rows:
                await asyncio.sleep(0.005)  # nobody wakes the bare loop
                continue
            await asyncio.gather(*[asyncio.create_task(run(row["payload"])) for row in rows])
            if ending:
                await ending
            ending = asyncio.create_task(finish.fetch([row["id"] for row in rows]))


def encode(job: Payload) -> str:
    return msgspec.json.encode(job).decode()


async def run(text: str) -> None:
    job = json.loads(text)
    if job["act"]:
        await PROBE.act(job["number"], job["act"])
    else:
        PROBE.hit()
