"""Declaring a worker dead: its row goes, its shards are free, and what it had read is suspect.

Others declare a worker dead when its counter has stood still for a lease time. Whoever started its
process and saw it end knows at once.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from mainspring import crash_points
from mainspring.db.database import Database
from mainspring.db.session import Session
from mainspring.ids import token
from mainspring.kernel.statements import SQL

log = logging.getLogger("mainspring")


class DeadWorker(NamedTuple):
    beat_at: datetime


def declare_dead(
    session: Session,
    dead_id: UUID,
    *,
    pool: str,
    lease: float,
    beat: int | None = None,
    fenced: bool = False,
) -> int | None:
    """Declare a worker dead; returns how many shards it had. None: it has no row.

    With a `beat` its counter must still stand there.
    """
    with session.transaction():
        dead = session.first(SQL["declare_dead"], DeadWorker, dead_id=dead_id, beat=beat)
        if dead is None:
            return None
        noted = {"beat_at": dead.beat_at, "lease": lease, "fenced": fenced}
        session.run(SQL["note_death"], worker_id=dead_id, **noted)
        freed = free_leases(session, dead_id, pool=pool, fenced=fenced)
        session.run(SQL["wake_all"], pool=pool)
    crash_points.passed("dead.declared")
    return len(freed)


def free_leases(session: Session, worker_id: UUID | None, *, pool: str, fenced: bool) -> list[int]:
    """Free the shards of a worker that is gone; those of a dead one name it."""
    values = {"dead_id": worker_id, "pool": pool, "epoch": token(), "fenced": fenced}
    return session.rows(SQL["free_leases"], int, **values)


def deny_death(session: Session, worker_id: UUID | None) -> None:
    """A worker that was declared dead was only cut off: no run of its has killed it."""
    with session.transaction():
        session.run(SQL["deny_death"], worker_id=worker_id)
        freed = session.rows(SQL["take_back"], str, worker_id=worker_id)
    log.info("worker.lived", extra={"worker": str(worker_id), "visits": len(freed)})


def declare_ended(
    database: Database, *, pool: str, dead_id: UUID, lease: float, fenced: bool = False
) -> bool:
    """Declare a worker dead whose process has ended for certain. False: it had no row.

    `fenced`: it was ended for want of the database. Then no run of its is to blame, though others may
    have declared it dead meanwhile. What its connections still have on their way finds no row.
    """
    session = Session(database, "supervisor")
    try:
        shards = declare_dead(session, dead_id, pool=pool, lease=lease, fenced=fenced)
        if shards is None and fenced:
            deny_death(session, dead_id)
    finally:
        session.close()
    if shards is not None:
        log.warning("worker.buried", extra={"worker": str(dead_id), "shards": shards})
    return shards is not None
