"""The state of the engine at a glance: workers, pools, queues, lag, throughput."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.kernel import read_now
from mainspring.operate.queues import QueueLoad, list_queues
from mainspring.operate.statements import SQL

THROUGHPUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class HangingRun:
    """A run that hangs."""

    queue: str
    key: str
    started_at: datetime
    reason: str  # 'overtaken', or why it was told to end


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker's row: it lives, or has died less than a lease time ago."""

    id: UUID
    pool: str
    queues: list[str]
    slots: int
    free: int
    asleep: bool
    host: str
    process: int
    started_at: datetime
    beat: int
    silent_seconds: float  # since its last beat; it beats five times a lease time
    shards: int
    holds: int
    # Runs that were overtaken, or told to end, and are still under way outside of its slots.
    hanging: list[HangingRun]


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """A pool: how many of its shards have an owner."""

    pool: str
    shards: int
    owned: int
    workers: int
    bands: int  # into which it is cut while its workers have different code; none: it is whole


@dataclass(frozen=True, slots=True)
class Throughput:
    """Runs of a queue that ended in the last minute, by outcome."""

    queue: str
    outcome: str
    count: int
    mean_ms: float


@dataclass(frozen=True, slots=True)
class Status:
    """Everything `mainspring status` shows."""

    at: datetime
    workers: list[WorkerStatus]
    pools: list[PoolStatus]
    queues: list[QueueLoad]
    throughput: list[Throughput]

    @property
    def lag_seconds(self) -> float:
        """How long the oldest visit that could run has been due; paused queues do not count."""
        return max((q.lag_seconds for q in self.queues if q.paused_at is None), default=0.0)

    @property
    def unserved(self) -> list[QueueLoad]:
        """Queues in which visits wait and that no living worker knows."""
        return [queue for queue in self.queues if queue.unserved]

    @property
    def per_second(self) -> float:
        return sum(t.count for t in self.throughput) / THROUGHPUT_SECONDS


class WorkerRow(NamedTuple):
    """A worker's row as it is read; what hangs is JSON."""

    id: UUID
    pool: str
    queues: list[str]
    slots: int
    free: int
    asleep: bool
    host: str
    process: int
    started_at: datetime
    beat: int
    silent_seconds: float
    shards: int
    holds: int
    hanging: str


async def read_status(database: Database, tx: Tx, *, exact: bool = False) -> Status:
    """Look once at all of it; `exact` counts every visit, however many."""
    seconds = THROUGHPUT_SECONDS
    throughput = await tx.rows(SQL["read_throughput"], Throughput, seconds=seconds)
    return Status(
        at=await read_now(tx),
        workers=await list_workers(database, tx),
        pools=await tx.rows(SQL["list_pools"], PoolStatus),
        queues=await list_queues(database, tx, exact=exact),
        throughput=throughput,
    )


async def list_workers(database: Database, tx: Tx) -> list[WorkerStatus]:
    """All workers."""
    rows = await tx.rows(SQL["list_workers"], WorkerRow)
    return [WorkerStatus(*row[:-1], _hanging(row.hanging)) for row in rows]


_hanging = msgspec.json.Decoder(list[HangingRun]).decode
