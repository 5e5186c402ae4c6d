"""Admitting firings to a pool with a cap: one decision at a time, in the order of importance (R8, R9)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from mainspring.db.database import Connection
from mainspring.db.tx import Tx
from mainspring.ids import new_ids, token
from mainspring.kernel import Again, Done, Outcome
from mainspring.reactive.decide.decide import facts_of
from mainspring.reactive.decide.evaluate import evaluate
from mainspring.reactive.queues import Offered, nobody, run_queue
from mainspring.reactive.schedule.check import Definitions, TaskRow, read_tasks, view_of
from mainspring.reactive.schedule.reserve import LINGER, Admission, Awaited, PoolFiring, admit
from mainspring.reactive.statements import SQL

LOCKED_SECONDS = 0.05  # a state row was locked


class AdmissionRow(NamedTuple):
    """A pool, and one of its firings; without any the columns of the firing are null."""

    cap: int | None
    reserve_max: timedelta
    now: datetime
    due_at: datetime
    task: str | None
    priority: int
    firing: int
    admitted: bool
    kept_back_at: datetime | None


class AwaitedRow(NamedTuple):
    """A task that uses what a producer brings."""

    producer: str
    param: str
    task: str
    priority: int
    ended_at: datetime | None


class AdmittedFiring(NamedTuple):
    """A firing that has a slot now."""

    task: str
    hints: int


class Admit:
    """Serves the admit visits of a worker, one pool after another."""

    def __init__(self, definitions: Definitions, *, offered: Offered = nobody) -> None:
        self._definitions = definitions
        self._offered = offered

    async def __call__(self, connection: Connection, pools: Sequence[str]) -> list[Outcome]:
        found = {pool: await self._admit(connection, pool) for pool in sorted(set(pools))}
        return [found[pool] for pool in pools]

    async def _admit(self, connection: Connection, pool: str) -> Outcome:
        """Lock the pool's row, look at its firings, admit those that may start."""
        async with connection.atomic():
            await connection.run(SQL["lock_pool"], pool=pool)
            rows = await connection.rows(SQL["read_admission"], AdmissionRow, pool=pool)
            firings = [
                PoolFiring(row.task, row.priority, row.firing, row.admitted, row.kept_back_at)
                for row in rows
                if row.task is not None
            ]
            waiting = [f for f in firings if not f.admitted]
            if not waiting:
                return Done()
            found = rows[0]
            awaited = [] if found.cap is None else await self._awaited(connection, pool, firings)
            decision = admit(
                found.cap, firings, awaited, now=found.now, reserve_max=found.reserve_max
            )
            outcome = await self._write(connection, decision)
        if decision.admitted:
            self._offered(run_queue(pool), found.due_at)
        return outcome

    async def _write(self, tx: Tx, decision: Admission) -> Outcome:
        chosen = decision.admitted
        if decision.kept_by:
            await tx.run(SQL["keep_back"], tasks=list(decision.kept_by))
        if chosen:
            admitted = await tx.rows(
                SQL["admit_firings"],
                AdmittedFiring,
                tasks=[f.task for f in chosen],
                firings=[f.firing for f in chosen],
                ids=new_ids(len(chosen)),
                token=token() >> 1,
            )
            if len(admitted) < len(chosen):
                return Again(after=LOCKED_SECONDS)
        if decision.again_at is not None:
            return Again(at=decision.again_at)
        return Done()

    async def _awaited(self, tx: Tx, pool: str, firings: Sequence[PoolFiring]) -> list[Awaited]:
        """Tasks more important than the least important candidate that only lack what others bring."""
        pairs = await tx.rows(
            SQL["read_awaited"],
            AwaitedRow,
            pool=pool,
            producers=[f.task for f in firings],
            above=min(f.priority for f in firings if not f.admitted),
            linger=LINGER.total_seconds(),
        )
        if not pairs:
            return []
        rows = await read_tasks(tx, {pair.task for pair in pairs})
        await self._definitions.load(tx, [row.fingerprint for row in rows])
        near = {row.task: row for row in rows if not row.in_flight}
        brought: dict[str, set[str]] = {}
        for pair in pairs:
            brought.setdefault(pair.task, set()).add(pair.param)
        states = {t: self._state(near[t], params) for t, params in brought.items() if t in near}
        return [
            Awaited(pair.task, pair.priority, pair.producer, pair.ended_at)
            for pair in pairs
            if states.get(pair.task) == "near"
            or (states.get(pair.task) == "true" and pair.ended_at is not None)
        ]

    def _state(self, row: TaskRow, brought: set[str]) -> str:
        """'near': its trigger would be true once what is brought has come; 'true': it is already."""
        definition = self._definitions.get(row.fingerprint)
        if isinstance(definition, str) or row.request is not None:
            return "unknown"
        if row.retry_at is not None and row.retry_at > row.now:
            return "waiting"
        facts = facts_of(definition, view_of(row))
        if evaluate(definition.trigger, facts, row.now).true:
            return "true"
        assumed = evaluate(definition.trigger, facts, row.now, assume=frozenset(brought))
        return "near" if assumed.true else "false"
