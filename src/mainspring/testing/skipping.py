"""Time that is skipped: retries, delays and timers come at once, one after the other, as in their time.

Schedules, reactive triggers and the engine's own looks go on for ever, so they are left alone: a test
that means one moves the clock itself.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from mainspring.app import Mainspring
from mainspring.kernel.worker import Worker
from mainspring.operate.keys import user_key
from mainspring.phrases import counted, instant
from mainspring.testing.clock import Clock

SHOWN = 5

# What waits for a time: not of paused queues, not of the engine's own but for the timers of processes, the
# starts by a schedule and the retries of reactive tasks.
_NEXT = """
select v.queue, v.key, v.grp, v.due_at, mainspring.clock() as now
from mainspring.visit v join mainspring.queue q on q.name = v.queue
where v.parked_at is null and v.pass is null and v.due_at > mainspring.now() and q.paused_at is null
  and v.queue = any($1::text[]) and q.kind <> 'remote'
  and (not starts_with(v.queue, 'mainspring.') or starts_with(v.queue, 'mainspring.start')
    or starts_with(v.queue, 'mainspring.run.')
    or starts_with(v.queue, 'mainspring.process') and v.key !~ '^(look|prune)/')
order by v.due_at, v.queue, v.key
limit 1
"""


class NextVisit(NamedTuple):
    """What is due next, and the time now."""

    queue: str
    key: str
    group: str | None
    due_at: datetime
    now: datetime


class Skipping:
    """The clock moved to what is due next, again and again."""

    def __init__(self, app: Mainspring, worker: Worker, most: int) -> None:
        self._app = app
        self._worker = worker
        self._most = most
        self._seen: Counter[tuple[str, str]] = Counter()

    async def run(self) -> None:
        """Until nothing waits for a time."""
        clock = Clock((await self._app.database()).url)
        pool = await self._app.pool()
        for _ in range(self._most + 1):
            await self._worker.drained()
            async with pool.connection() as connection:
                row = await connection.fetchrow(_NEXT, list(self._worker.buffer.queues))
            if row is None:
                return
            found = NextVisit(*row)
            self._seen[found.queue, found.key] += 1
            await clock.advance(found.due_at - found.now)
        raise TimeoutError(
            f"after {counted(self._most, 'move')} of the clock, to {instant(found.due_at)}, something "
            f"still waits for a later time{self.told}. What goes on for ever is tested without "
            "skip_time: move the clock as far as you mean (or give most_moves=)"
        )

    @property
    def told(self) -> str:
        """What came most often, if anything did."""
        queues = Counter[str]()
        keys: dict[str, set[str]] = {}
        for (queue, key), times in self._seen.items():
            queues[queue] += times
            keys.setdefault(queue, set()).add(key)
        again = []
        for queue, times in queues.most_common(SHOWN):
            key, *others = keys[queue]
            named = repr(queue) if others else f"{queue!r} {user_key(key)!r}"
            again.append(f"{named} ({counted(times, 'time')})")
        return f"; these came most often: {', '.join(again)}" if again else ""
