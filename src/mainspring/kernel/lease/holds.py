"""Holds: the marks in visits' rows that a certain run has them.

Written for runs that last, recovered when their holder is dead or their work timeout passed, and
cleared when this worker holds a visit for a run that it no longer has.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from mainspring.db.literals import numbers
from mainspring.kernel import clock, crash_points
from mainspring.kernel.layer import BlamedVisit
from mainspring.kernel.lease.loop_port import LoopPort
from mainspring.kernel.lease.session import Session
from mainspring.kernel.owned import Owned
from mainspring.kernel.run import run_log
from mainspring.kernel.visit import Run

log = logging.getLogger("mainspring")


class Holds:
    """The heart's work on holds."""

    def __init__(
        self, session: Session, owned: Owned, loop_port: LoopPort, *, retry_after: float
    ) -> None:
        self._session = session
        self._owned = owned
        self._loop_port = loop_port
        self._retry_after = retry_after
        self._overdue: set[int] = set()  # passes whose work timeout had passed at the last look
        self._late: set[int] = set()  # of these, my own
        # Runs of mine whose visit was gone or another's at the last look, and which of these.
        self._lost: dict[int, str] = {}
        self._listed: list[
            dict[str, Any]
        ] = []  # the runs that hang, as the worker's row names them
        self._listed_by: UUID | None = None

    def next_in(self, now: float) -> float:
        """Seconds until the next run has lasted long enough to be held."""
        times = [
            max(run.hold_at, run.began + self._loop_port.hold_after(run)[0])
            for run in self._owned.snapshot()
            if not run.held and not run.settled and run.outcome is None
        ]
        return min(times, default=float("inf")) - now

    def write_due(self) -> None:
        """Mark the runs that last: from here on they are seen, and survive one by one."""
        now = clock.local()
        due: list[tuple[Run, float | None]] = []
        for run in self._owned.snapshot():
            if run.held or run.outcome is not None or run.settled:
                continue
            after, work_timeout = self._loop_port.hold_after(run)
            if now >= max(run.hold_at, run.began + after):
                run.hold_at = now + self._retry_after
                due.append((run, work_timeout))
        if not due:
            return
        crash_points.passed("hold.writing")
        rows = self._session.call("hold", **hold_arguments(due, self._owned.worker_id))
        held = {row[0] for row in rows}
        for run, _ in due:
            run.held = run.held or run.token in held
        told = [run for run, _ in due if run.token in held]
        run_log.held(told, str(self._owned.worker_id))
        crash_points.passed("hold.written")

    def look(self) -> None:
        """Free what nobody runs any more: a dead worker's holds, those whose work timeout had passed
        at two looks running, and my own for runs that I no longer have. And stop runs of mine whose
        visits are gone."""
        self._let_go_of_lost(self._release_lost())
        self._list_hanging()
        if not self._owned.shards:
            return
        shards = list(self._owned.shards)
        rows = self._session.call("read_held", shards=numbers(shards))
        late = {row[4] for row in rows if row[6]}
        overdue, self._overdue = late & self._overdue, late
        orphaned = [row[4] for row in rows if row[7]]
        if overdue:
            overdue -= self._loop_port.overdue([row for row in rows if row[4] in overdue])
        if overdue or orphaned:
            self._recover(shards, orphaned, list(overdue))
            rows = self._session.call("read_held", shards=numbers(shards))
            self._loop_port.shards_changed()
        self._loop_port.held_read(rows)

    def _recover(self, shards: list[int], orphaned: list[int], overdue: list[int]) -> None:
        """What a layer does about a visit that is parked is committed with it, or neither is."""
        with self._session.transaction():
            freed = self._session.fetch(
                "recover", shards=shards, orphaned=orphaned, overdue=overdue
            )
            if parked := [BlamedVisit(row[2], row[1], row[6]) for row in freed if row[5]]:
                self._session.walk(self._loop_port.parked(parked))
        crash_points.passed("visits.recovered")
        for _, key, queue, crashes, was_orphaned, is_parked, *_ in freed:
            facts = {"queue": queue, "key": key, "crashes": crashes, "parked": is_parked}
            log.warning("visit.recovered", extra={**facts, "orphaned": was_orphaned})

    def _release_lost(self) -> set[int]:
        """A hold may arrive after its run was given up: then nobody would ever clear it. Answers what
        I hold."""
        me = self._owned.worker_id
        rows = self._session.call("read_own_holds", worker_id=me)
        held = [row[1] for row in rows]
        self._let_go_of_late({row[1] for row in rows if row[2]})
        # A run is in hand before its hold is sent, so what is not in hand now has ended.
        lost = [run for run in held if run not in self._owned.runs]
        if lost:
            self._session.call("release_holds", worker_id=me, runs=lost)
            self._loop_port.shards_changed()
        return set(held)

    def _let_go_of_late(self, late: set[int]) -> None:
        """A worker that stops has given its shards away, perhaps to nobody yet: it looks itself which of
        its runs are late at two looks running. It need not wait for those."""
        twice, self._late = late & self._late, late
        runs = [run for run in self._owned.active() if run.token in twice]
        if runs and self._owned.closed:
            self._loop_port.lost_hold(runs, void=False)

    def _let_go_of_lost(self, held: set[int]) -> None:
        """Runs whose visits were deleted (by their hold, or because no hold could be had), and those that
        were overtaken: another worker may have done that, whose word was lost.

        At two looks running, for one that has just settled itself is not to be stopped.
        """
        doubtful = [
            run
            for run in [*self._owned.active(), *self._loop_port.hanging_runs()]
            if not run.settled and run.token not in held and (run.held or run.hold_at)
        ]
        lost: dict[int, str] = {}
        if doubtful:
            rows = self._session.call("find_gone", **gone_arguments(doubtful))
            lost = lost_of(doubtful, rows)
        for void in (True, False):
            words = ("gone", "changed") if void else ("overtaken",)
            runs = [r for r in doubtful if lost.get(r.token) in words and r.token in self._lost]
            if runs:
                self._loop_port.lost_hold(runs, void=void)
        self._lost = lost

    def _list_hanging(self) -> None:
        """Name the runs that hang in my row, for operators."""
        listed, me = self._loop_port.hanging(), self._owned.worker_id
        if self._listed_by != me:  # a new row, which names none
            self._listed, self._listed_by = [], me
        if listed != self._listed:
            text = msgspec.json.encode(listed).decode()
            self._session.call("list_hanging", worker_id=me, hanging=text)
            self._listed = listed


def gone_arguments(runs: Sequence[Run]) -> dict[str, Any]:
    """The arguments of find_gone.sql."""
    return {
        "shards": [run.visit.shard for run in runs],
        "keys": [run.visit.key for run in runs],
        "queues": [run.visit.queue for run in runs],
        "ids": [run.visit.id for run in runs],
        "versions": [run.visit.version for run in runs],
        "runs": [run.token for run in runs],
    }


def lost_of(runs: Sequence[Run], rows: Sequence[Any]) -> dict[int, str]:
    """What find_gone.sql says of runs, by token. One that never had a hold has lost nothing but a visit
    that is gone: it was offered meanwhile."""
    had_hold = {run.token for run in runs if run.held}
    return {token: what for token, what in rows if what == "gone" or token in had_hold}


def hold_arguments(
    runs: Sequence[tuple[Run, float | None]], worker_id: UUID | None
) -> dict[str, Any]:
    """The arguments of hold.sql: runs, each with its work timeout."""
    return {
        "shards": [run.visit.shard for run, _ in runs],
        "keys": [run.visit.key for run, _ in runs],
        "queues": [run.visit.queue for run, _ in runs],
        "versions": [run.visit.version for run, _ in runs],
        "runs": [run.token for run, _ in runs],
        "started": [run.started for run, _ in runs],
        "work_timeouts": [timeout for _, timeout in runs],
        "worker_id": worker_id,
    }
