"""The state of the engine at a glance: workers, pools, queues, lag, throughput."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.declaring import check_page
from mainspring.kernel import read_now
from mainspring.operate.breakers import OpenBreaker, list_breakers
from mainspring.operate.queues import QueueLoad, list_queues
from mainspring.operate.statements import SQL
from mainspring.phrases import counted, instant

THROUGHPUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class HangingRun:
    """A run that hangs."""

    queue: str
    key: str
    started_at: datetime
    reason: str  # 'overtaken', or why it was told to end


@dataclass(frozen=True, slots=True)
class AwayEndpoint:
    """Somebody elsewhere whom queues of a worker need, and whom it finds away or coming back."""

    endpoint: str
    queues: list[str]
    since: datetime
    reason: str | None  # why it is away; None: it is coming back
    at_once: int | None  # runs that may go at once while it is coming back

    @property
    def text(self) -> str:
        since = instant(self.since)
        if self.reason is None:
            runs = counted(self.at_once or 1, "run")
            return f"{self.endpoint} was away since {since} and is coming back, {runs} at once"
        return f"{self.endpoint} is away since {since}: {self.reason}"


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
    # Whom its queues need and it finds away, as of its last beat.
    away: list[AwayEndpoint]


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
class MinuteRuns:
    """Runs that ended in a minute; those that failed are retried, or parked."""

    minute: datetime
    count: int
    failed: int
    mean_ms: float


@dataclass(frozen=True, slots=True)
class Status:
    """Everything `mainspring status` shows."""

    at: datetime
    workers: list[WorkerStatus]
    pools: list[PoolStatus]
    queues: list[QueueLoad]
    throughput: list[Throughput]
    breakers: list[OpenBreaker] = field(default_factory=list)  # that are not closed

    @property
    def lag_seconds(self) -> float:
        """How long the oldest visit that could run has been due; paused queues do not count."""
        return max((q.lag_seconds for q in self.queues if q.paused_at is None), default=0.0)

    @property
    def away(self) -> list[tuple[AwayEndpoint, int]]:
        """Each endpoint that some worker finds away or coming back, as the first that found it says, and
        how many workers find so."""
        found: dict[str, list[AwayEndpoint]] = {}
        for each in sorted(
            (each for worker in self.workers for each in worker.away),
            key=lambda each: (each.reason is None, each.since),
        ):
            found.setdefault(each.endpoint, []).append(each)
        return [(all[0], len(all)) for all in found.values()]

    @property
    def unserved(self) -> list[QueueLoad]:
        """Queues in which visits wait and that no living worker knows."""
        return [queue for queue in self.queues if queue.unserved]

    @property
    def whom_unserved_lack(self) -> str:
        """Why nobody serves them, as the end of a sentence."""
        return ", which no worker knows" if self.workers else ", and no worker is running"

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
    away: str


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
        breakers=await list_breakers(tx),
    )


async def read_throughput(database: Database, tx: Tx, seconds: float) -> list[Throughput]:
    """Runs that ended in the last so many seconds, by queue and outcome."""
    return await tx.rows(SQL["read_throughput"], Throughput, seconds=seconds)


async def read_minutes(
    database: Database, tx: Tx, *, minutes: int = 60, queue: str | None = None
) -> list[MinuteRuns]:
    """Runs that ended in each of the last minutes, the oldest first."""
    most = check_page(minutes)
    return await tx.rows(SQL["read_minutes"], MinuteRuns, minutes=most, queue=queue)


async def list_workers(database: Database, tx: Tx) -> list[WorkerStatus]:
    """All workers."""
    rows = await tx.rows(SQL["list_workers"], WorkerRow)
    return [WorkerStatus(*row[:-2], _hanging(row.hanging), read_away(row.away)) for row in rows]


_hanging = msgspec.json.Decoder(list[HangingRun]).decode
read_away = msgspec.json.Decoder(list[AwayEndpoint]).decode


class HangingElsewhere(msgspec.Struct):
    """A run of the visit that hangs outside of its worker's slots."""

    host: str
    process: int
    since: datetime


_elsewhere = msgspec.json.Decoder(list[HangingElsewhere] | None).decode


def read_hanging(told: str | None) -> list[HangingElsewhere]:
    """The runs of one visit that hang, as explain_visit.sql tells of them."""
    return _elsewhere(told or "null") or []
