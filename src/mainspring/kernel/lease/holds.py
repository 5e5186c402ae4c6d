"""Holds: the marks in visits' rows that a certain run has them.

Written for runs that last, recovered when their holder is dead or their work timeout passed, and
cleared when this worker holds a visit for a run that it no longer has.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from mainspring import clock, crash_points
from mainspring.db.session import Session
from mainspring.db.sql import numbers
from mainspring.kernel.layer import HeldVisit, NewlyParked
from mainspring.kernel.lease.loop_port import LoopPort
from mainspring.kernel.owned import Owned
from mainspring.kernel.run import run_log
from mainspring.kernel.settle.batches import find_values
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import Run

log = logging.getLogger("mainspring")
Timed: TypeAlias = tuple[Run, float | None]  # a run with its work timeout


class OwnHold(NamedTuple):
    run: int
    overdue: bool
    called_off: bool


class Released(NamedTuple):
    """A visit that was given back; one that was called off is over then."""

    shard: int
    key: str
    queue: str
    called_off: bool


class LostRun(NamedTuple):
    """A run that does not have its visit any more, and whether that is gone, changed or overtaken; or one
    that has it and was called off."""

    run: int
    what: str


class Recovered(NamedTuple):
    """A visit that was freed from a run that is dead or overdue."""

    shard: int
    key: str
    queue: str
    crashes: int
    orphaned: bool
    parked: bool
    payload: str | None  # if it is parked
    called_off: bool
    hints: int


class Holds:
    """The heart's work on holds."""

    def __init__(
        self, session: Session, owned: Owned, loop_port: LoopPort, *, retry_after: float
    ) -> None:
        self._session = session
        self._owned = owned
        self._loop_port = loop_port
        self._retry_after = retry_after
        self._overdue: set[int] = set()  # runs whose work timeout had passed at the last look
        self._lost: Collection[int] = ()  # runs of mine without their visits at the last look
        self.any_held = True  # by whomever, in my shards or by me, at the last look

    def _unheld(self) -> Iterator[tuple[float, Run, float | None]]:
        """Runs without a hold: when each is to be held, and its work timeout."""
        for run in self._owned.snapshot():
            if not (run.held or run.settled or run.outcome is not None):
                after, work_timeout = self._loop_port.hold_after(run)
                yield max(run.hold_at, run.began + after), run, work_timeout

    def next_in(self, now: float) -> float:
        """Seconds until the next run has lasted long enough to be held."""
        return min((at for at, *_ in self._unheld()), default=float("inf")) - now

    def write_due(self) -> None:
        """Mark the runs that last: from here on they are seen, and survive one by one."""
        now, me = clock.local(), self._owned.worker_id
        due = [(run, work_timeout) for at, run, work_timeout in self._unheld() if at <= now]
        if not due:
            return
        for run, _ in due:
            run.hold_at = now + self._retry_after
        crash_points.passed("hold.writing")
        run_log.held(mark_held(due, hold(self._session, due, me)), str(me))
        crash_points.passed("hold.written")

    def look(self) -> None:
        """Free what nobody runs any more, and stop runs of mine whose visits are gone.

        Nobody runs what a dead worker holds, what I hold without a run, and what was overdue at two
        looks running.
        """
        me, shards = self._owned.worker_id, list(self._owned.shards)
        own = self._session.rows(SQL["read_own_holds"], OwnHold, worker_id=me)
        self._clear_lost(own)
        self._loop_port.called_off({hold.run for hold in own if hold.called_off})
        self._let_go_of_lost({hold.run for hold in own})
        held = read_held(self._session, shards) if shards else []
        self.any_held = bool(own or held or not shards)
        late = {hold.run for hold in own if hold.overdue}
        late |= {visit.run for visit in held if visit.overdue}
        overdue, self._overdue = late & self._overdue, late
        if self._owned.closed:
            # A worker that stops has given its shards away, perhaps to nobody yet. It need not wait for
            # runs that are overdue.
            runs = [run for run in self._owned.active() if run.token in overdue]
            self._loop_port.lost_hold(runs, void=False)
        if shards:
            self._look_at_held(shards, held, overdue)

    def _look_at_held(self, shards: list[int], held: list[HeldVisit], overdue: set[int]) -> None:
        orphaned = [visit.run for visit in held if visit.orphaned]
        overdue = overdue & {visit.run for visit in held}
        if overdue:
            overdue -= self._loop_port.overdue([v for v in held if v.run in overdue])
        if overdue or orphaned:
            self._recover(shards, orphaned, list(overdue))
            held = read_held(self._session, shards)
            self._loop_port.shards_changed()
        self._loop_port.held_read(held)

    def _recover(self, shards: list[int], orphaned: list[int], overdue: list[int]) -> None:
        """What a layer does about a visit that is parked is committed with it, or neither is."""
        with self._session.transaction():
            freed = self._session.rows(
                SQL["recover"], Recovered, shards=shards, orphaned=orphaned, overdue=overdue
            )
            parked = [NewlyParked(v.queue, v.key, v.payload or "") for v in freed if v.parked]
            if parked:
                self._session.follow(self._loop_port.parked(parked))
            end_called_off(self._session, freed)
        crash_points.passed("visits.recovered")
        for visit in freed:
            facts = {"queue": visit.queue, "key": visit.key, "crashes": visit.crashes}
            facts |= {"parked": visit.parked, "orphaned": visit.orphaned}
            log.warning("visit.recovered", extra=facts)

    def _clear_lost(self, own: Sequence[OwnHold]) -> None:
        """Clear holds that arrived after their runs were given up: nobody else would."""
        # A run is in hand before its hold is sent, so what is not in hand now has ended.
        lost = [hold.run for hold in own if hold.run not in self._owned.runs]
        if lost:
            with self._session.transaction():
                release(self._session, self._owned.worker_id, lost)
            self._loop_port.shards_changed()

    def _let_go_of_lost(self, held: set[int]) -> None:
        """Stop runs whose visits were deleted, and let go of those that were overtaken.

        Another worker may have done that, whose word was lost. Two looks must agree: a run that has just
        settled itself is not to be stopped.
        """
        doubtful = [
            run
            for run in [*self._owned.active(), *self._loop_port.runner.hanging.hopeful()]
            if not run.settled and run.token not in held and (run.held or run.hold_at)
        ]
        lost: dict[int, str] = {}
        if doubtful:
            found = self._session.rows(SQL["find_gone"], LostRun, **gone_arguments(doubtful))
            lost = lost_of(doubtful, found)
        lost = {run: what for run, what in lost.items() if what != "called_off"}  # it has its hold
        twice = [run for run in doubtful if run.token in lost and run.token in self._lost]
        for void in (True, False):
            runs = [run for run in twice if (lost[run.token] != "overtaken") == void]
            self._loop_port.lost_hold(runs, void=void)
        self._lost = lost.keys()


def read_held(session: Session, shards: Collection[int]) -> list[HeldVisit]:
    """What runs hold in these shards."""
    return session.rows(SQL["read_held"], HeldVisit, shards=numbers(list(shards)))


def hold(session: Session, runs: Sequence[Timed], worker_id: UUID | None) -> set[int]:
    """Hold the visits of these runs; returns the tokens of those that have theirs."""
    if not runs:
        return set()
    return set(session.rows(SQL["hold"], int, **hold_arguments(runs, worker_id)))


def release(session: Session, worker_id: UUID | None, runs: Sequence[int] | None) -> None:
    """Give back what these runs hold (None: all runs of the worker), in the session's transaction."""
    freed = session.rows(SQL["release_holds"], Released, worker_id=worker_id, runs=runs)
    end_called_off(session, freed)


def end_called_off(session: Session, freed: Sequence[Released | Recovered]) -> None:
    """End those of visits that were freed which had been called off: nobody shall start them again."""
    if ended := [visit for visit in freed if visit.called_off]:
        session.run(SQL["end_called_off"], **places(ended))


def places(visits: Sequence[Released | Recovered]) -> dict[str, object]:
    """The arguments of end_called_off.sql."""
    return {
        "shards": [visit.shard for visit in visits],
        "keys": [visit.key for visit in visits],
        "queues": [visit.queue for visit in visits],
    }


def mark_held(runs: Sequence[Timed], held: Collection[int]) -> list[Run]:
    """The runs that have their holds know it from here on, and are returned."""
    found = [run for run, _ in runs if run.token in held]
    for run in found:
        run.hold()
    return found


def gone_arguments(runs: Sequence[Run]) -> dict[str, object]:
    """The arguments of find_gone.sql."""
    return find_values(runs) | {
        "ids": [run.visit.id for run in runs],
        "versions": [run.visit.version for run in runs],
        "runs": [run.token for run in runs],
    }


def lost_of(runs: Sequence[Run], found: Sequence[LostRun]) -> dict[int, str]:
    """What find_gone.sql says of runs, by token.

    A run that never had a hold has lost only a visit that is gone. Else the visit was offered meanwhile.
    """
    had_hold = {run.token for run in runs if run.held}
    return {run: what for run, what in found if what in ("gone", "called_off") or run in had_hold}


def hold_arguments(runs: Sequence[Timed], worker_id: UUID | None) -> dict[str, object]:
    """The arguments of hold.sql."""
    return find_values([run for run, _ in runs]) | {
        "versions": [run.visit.version for run, _ in runs],
        "runs": [run.token for run, _ in runs],
        "started": [run.started for run, _ in runs],
        "work_timeouts": [timeout for _, timeout in runs],
        "worker_id": worker_id,
    }
