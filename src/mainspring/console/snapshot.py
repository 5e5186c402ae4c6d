"""The engine at a glance, read once for all who watch: twenty open pages ask the database what one asks.

Nobody watches, nothing is read. The last rates are kept in memory for the small lines beside the figures.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mainspring.jobs.operation import Operation
from mainspring.operate.doctor import Finding
from mainspring.operate.parked import ParkedGroup
from mainspring.operate.status import Status
from mainspring.reactive.operate.states import TaskState

if TYPE_CHECKING:
    from mainspring.app import Mainspring

FRESH_SECONDS = 1.0
# What takes longer to find out, and changes seldom.
SLOW_SECONDS = 15.0
KEPT = 90
# Nobody looks through more groups of parked visits than that; the largest come first.
MOST_GROUPS = 100


@dataclass(frozen=True, slots=True)
class Glance:
    """What one look has found."""

    at: datetime
    status: Status
    parked: list[ParkedGroup]
    operations: list[Operation]
    missed: list[TaskState]
    findings: list[Finding]
    parked_count: int


class Snapshot:
    """The last look, made again when somebody asks and it is old."""

    def __init__(self, app: Mainspring) -> None:
        self._app = app
        self._last: Glance | None = None
        self._looked = 0.0
        self.findings: list[Finding] = []
        self.examined_at: datetime | None = None
        self._examined = float("-inf")
        self._looking, self._examining = asyncio.Lock(), asyncio.Lock()
        self._ahead = timedelta()
        self.rates: deque[float] = deque(maxlen=KEPT)
        self.lags: deque[float] = deque(maxlen=KEPT)
        self.looks = 0

    def now(self) -> datetime:
        """The engine's time, by this clock and what was read last."""
        return datetime.now(UTC) + self._ahead

    async def look(self) -> Glance:
        """The engine, as it was a second ago at most."""
        async with self._looking:
            if self._last is None or time.monotonic() - self._looked > FRESH_SECONDS:
                self._last = await self._read()
                self._looked = time.monotonic()
            return self._last

    async def examine(self, *, now: bool = False) -> None:
        """Have the doctor look, unless he did lately or is at it. It takes him a second where tables are
        large, so no page waits for it: it is done once one has been sent."""
        if not now and (
            self._examining.locked() or time.monotonic() - self._examined < SLOW_SECONDS
        ):
            return
        async with self._examining:
            self.findings = await self._app.operator.doctor()
            self._examined, self.examined_at = time.monotonic(), self.now()

    async def _read(self) -> Glance:
        operator = self._app.operator
        status = await operator.status()
        self._ahead = status.at - datetime.now(UTC)
        parked = await operator.parked_groups(limit=MOST_GROUPS)
        if len(parked) < MOST_GROUPS:
            parked_count = sum(group.count for group in parked)
        else:
            parked_count = await operator.count_parked()
        sight = Glance(
            status.at,
            status,
            parked,
            await operator.operations(limit=10),
            await self._app.reactive.tasks(missed_only=True),
            self.findings,
            parked_count,
        )
        self.looks += 1
        self.rates.append(status.per_second)
        self.lags.append(status.lag_seconds)
        return sight
