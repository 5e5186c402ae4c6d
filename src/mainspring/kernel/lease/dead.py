"""Declaring a worker dead: a dead worker's row goes, its shards are free, and what it had read is suspect.

Others declare a worker dead when its counter has stood still for a lease time. Whoever started its
process and saw it end knows at once.
"""

from __future__ import annotations

import logging
from uuid import UUID

from mainspring.db.database import Database
from mainspring.kernel import crash_points
from mainspring.kernel.lease.session import Session
from mainspring.kernel.visit import token

log = logging.getLogger("mainspring")
# A beat that was sent before the end may still arrive, once.
TRIES = 3


def declare_dead(
    session: Session, *, pool: str, dead_id: UUID, beat: int, lease: float, fenced: bool = False
) -> int | None:
    """Declare a worker dead, if its counter still stands there; answers how many shards it had."""
    with session.transaction():
        gone = session.fetch("declare_dead", dead_id=dead_id, beat=beat)
        if not gone:
            return None
        beat_at = gone[0][1]
        session.fetch("note_death", worker_id=dead_id, beat_at=beat_at, lease=lease, fenced=fenced)
        freed = session.fetch(
            "free_leases", dead_id=dead_id, pool=pool, epoch=token(), fenced=fenced
        )
        session.fetch("wake_all", pool=pool)
    crash_points.passed("dead.declared")
    return len(freed)


def deny_death(session: Session, worker_id: UUID | None) -> None:
    """A worker that was declared dead was only cut off: no run of its has killed it."""
    with session.transaction():
        session.fetch("deny_death", worker_id=worker_id)
        freed = session.fetch("take_back", worker_id=worker_id)
    log.info("worker.lived", extra={"worker": str(worker_id), "visits": len(freed)})


def declare_ended(
    database: Database, *, pool: str, dead_id: UUID, lease: float, fenced: bool = False
) -> bool:
    """Declare a worker dead whose process has ended for certain. False: it had no row.

    `fenced`: it was ended for want of the database. Then no run of its is to blame, though others have
    declared it dead meanwhile.

    What its connections may still have on their way is refused like that of any dead worker: its row
    is gone, and with it whatever compares it.
    """
    session = Session(database, "supervisor")
    try:
        for _ in range(TRIES):
            beats = {row[0]: row[1] for row in session.call("read_workers", pool=pool)}
            if dead_id not in beats:
                if fenced:
                    deny_death(session, dead_id)
                return False
            shards = declare_dead(
                session, pool=pool, dead_id=dead_id, beat=beats[dead_id], lease=lease, fenced=fenced
            )
            if shards is not None:
                log.warning("worker.buried", extra={"worker": str(dead_id), "shards": shards})
                return True
        return True  # it beats: left to the others, who will see its counter stand still
    finally:
        session.close()
