"""What a worker owns: its shards, its runs and its lease, shared by its event loop and its heart's thread.

The gate is held for moments only: to start a run under a lease that is in force, and to let go of
shards. So no run starts in a shard after the heart has decided to give it away.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from mainspring import clock
from mainspring.kernel.visit import Position, Run, Visit


class DatabaseTime:
    """The database's time between two looks at it: the last one plus what passed here since."""

    def __init__(self) -> None:
        self._offset = time.time() - clock.local()

    def seen(self, epoch: float, *, sent: float, received: float) -> float:
        """Take note of the database's time; answers by how many seconds it jumped.

        It was read at some moment between the two: only what no such moment explains is a jump. A slow
        answer says little, and is no reason to change what is known.
        """
        offset = min(max(self._offset, epoch - received), epoch - sent)
        jump = offset - self._offset
        self._offset = offset
        return jump

    def at(self, moment: float) -> float:
        """The database's time (seconds since 1970) at a local moment."""
        return moment + self._offset


class Owned:
    """Shards, runs and the lease's end."""

    def __init__(self) -> None:
        self.gate = threading.Lock()
        self.worker_id: UUID | None = None
        # Mine by the table and by memory. Replaced as a whole, never changed in place.
        self.shards: frozenset[int] = frozenset()
        self.all_shards = False  # the reader need not filter
        # While the pool is cut: the shards of each queue of mine. Empty: each queue has all of `shards`.
        self.by_queue: Mapping[str, frozenset[int]] = {}
        # Let go since the loop last looked: what it has of them is stale, even if they came back.
        self.let_go_of: set[int] = set()
        self.changes = 0  # of shards; a page that was sent before the last one is not taken in
        # Started and not settled yet, by token.
        self.runs: dict[int, Run] = {}
        self.started_at = 0.0  # the local moment of the last start
        self.good_until = 0.0  # no run starts, and none goes on, after this local moment
        self.closed = False  # stopping: nothing new starts
        # By shard: how far its dead owner had read in each level.
        self.suspects: dict[int, dict[tuple[str, int], Position]] = {}
        self.bundles = False  # all workers of the pool find what is in bundles of history
        self.time = DatabaseTime()

    def join(self, worker_id: UUID) -> None:
        """The worker is in its pool, under this id."""
        self.worker_id = worker_id

    def close(self) -> None:
        """The worker stops: nothing new starts."""
        self.closed = True

    def lease_until(self, moment: float) -> None:
        """The lease is in force until this local moment."""
        self.good_until = moment

    def set_bundles(self, bundles: bool) -> None:
        """Whether all workers of the pool find what is in bundles of history."""
        self.bundles = bundles

    def start(self, run: Run) -> bool:
        """Enter a run, if its shard is mine and the lease in force."""
        with self.gate:
            shard = run.visit.shard
            if shard not in self.shards or shard in self.let_go_of:
                return False
            if self.by_queue and shard not in self.by_queue[run.visit.queue]:
                return False
            if self.closed or run.began > self.good_until:
                return False
            self.runs[run.token] = run
            self.started_at = run.began
            return True

    def end(self, runs: Iterable[Run]) -> None:
        """They are settled, or count for nothing."""
        under_way = self.runs
        for run in runs:
            under_way.pop(run.token, None)

    def shards_of(self, queue: str) -> frozenset[int]:
        """The shards in which a queue is mine."""
        cut = self.by_queue
        return cut.get(queue, frozenset()) if cut else self.shards

    def by_shards(
        self, queues: Sequence[str], count: int
    ) -> list[tuple[frozenset[int] | None, list[int]]]:
        """The places of these queues in the list, by the shards in which they are mine; None: in all. One
        statement reads each of these: one in a whole pool, about one a band in a pool that is cut."""
        if not self.by_queue:
            return [(None if self.all_shards else self.shards, list(range(len(queues))))]
        places: dict[frozenset[int], list[int]] = {}
        for n, queue in enumerate(queues):
            places.setdefault(self.shards_of(queue), []).append(n)
        return [(None if len(s) == count else s, some) for s, some in places.items() if s]

    def own_of(self, visits: Iterable[Visit]) -> Iterable[Visit]:
        """Those of visits in my shards whose queue is mine there; all of them while the pool is whole."""
        cut = self.by_queue
        return [v for v in visits if v.shard in cut[v.queue]] if cut else visits

    def own(
        self,
        shards: Iterable[int],
        *,
        count: int,
        by_queue: Mapping[str, frozenset[int]] | None = None,
    ) -> None:
        with self.gate:
            self.shards = frozenset(shards)
            self.by_queue = by_queue or {}
            self.all_shards = len(self.shards) == count and not self.by_queue
            self.changes += 1

    def let_go(self, shards: Iterable[int], queues: Collection[str] | None = None) -> list[Run]:
        """Shards are no longer mine, as far as these queues are concerned (None: all of them); answers the
        runs that are under way or unsettled in them. What the loop has of these shards is stale, whatever
        its queue."""
        going = frozenset(shards)
        with self.gate:
            if queues is None:
                self.shards = self.shards - going
            self.by_queue = {
                queue: mine - going if queues is None or queue in queues else mine
                for queue, mine in self.by_queue.items()
            }
            if self.by_queue:
                self.shards = frozenset[int]().union(*self.by_queue.values())
            self.all_shards = False
            self.let_go_of |= going
            self.changes += 1
            return [
                run
                for run in list(self.runs.values())
                if run.visit.shard in going and (queues is None or run.visit.queue in queues)
            ]

    def loop_looked(self, dropped: frozenset[int]) -> None:
        """The loop has dropped what it had of these shards."""
        with self.gate:
            self.let_go_of -= dropped

    def snapshot(self) -> list[Run]:
        with self.gate:
            return list(self.runs.values())

    def active(self) -> list[Run]:
        """Runs that are under way."""
        return [run for run in self.snapshot() if run.outcome is None]

    def suspect(
        self, shard: int, levels: Mapping[tuple[str, int], Position], *, beside_others: bool
    ) -> None:
        """How far a dead owner of this shard had read; beside that of others, if it owned a part of it."""
        before = self.suspects.get(shard, {}) if beside_others else {}
        self.suspects[shard] = {**before, **levels}

    def clear_suspects(self) -> None:
        """All of them were looked at."""
        self.suspects = {}

    def is_suspect(self, visit: Visit) -> bool:
        """Whether a dead worker may have been running it, or it was there at a death before."""
        if visit.crashes:
            return True
        levels = self.suspects.get(visit.shard)
        if levels is None:
            return False
        reached = levels.get((visit.queue, visit.priority))
        return reached is not None and visit.position <= reached
