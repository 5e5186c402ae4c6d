"""A recut: the ownership of a pool's shards is written down in the bands that its living codes need.

One transaction, by any worker whose beat shows that it is time. It waits for nobody: what others have
locked is left to the next one. What sharing/bands.py decides is written here.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from mainspring import clock, crash_points
from mainspring.db.sql import as_rows
from mainspring.ids import token
from mainspring.kernel.lease.pool_view import PoolView
from mainspring.kernel.statements import SQL
from mainspring.kernel.tuning import LEASE
from mainspring.sharing.bands import CLOSED, WHOLE, Cut, Piece, band_name, bands_for, planned
from mainspring.sharing.shares import Lease

log = logging.getLogger("mainspring")


class PoolMember(NamedTuple):
    id: UUID
    code: str | None
    is_kept: bool


def carry_out(view: PoolView, shards: Sequence[int], *, me: UUID, seconds: float) -> bool:
    """Recut those of these shards that can be locked, until these seconds are over; whether any was.

    Some at a time: no rule crosses shards, so each part is whole in itself.
    """
    began, done, at_once = clock.local(), 0, LEASE.recut_at_once
    for first in range(0, len(shards), at_once):
        if first and clock.local() - began > seconds:
            break
        done += _carry_out(view, shards[first : first + at_once], me)
    if done:
        with view.session.transaction():
            view.session.run(SQL["forget_bands"], pool=view.pool)
            view.session.run(SQL["wake_all"], pool=view.pool)
        log.info("pool.recut", extra={"pool": view.pool, "shards": done, "by": str(me)})
    return done > 0


def _carry_out(view: PoolView, shards: Sequence[int], me: UUID) -> int:
    with view.session.transaction():
        crash_points.passed("recut.locking")
        before = _lock(view, shards)
        # Only now: an owner of what is locked has joined before it took, so whoever has no row is dead.
        workers = view.session.rows(SQL["lock_workers"], PoolMember, pool=view.pool)
        living = view.codes_of({worker.id: worker.code for worker in workers})
        crash_points.passed("recut.workers_read")
        # A death that is declared now may come to nothing, and who it is for goes on with all that it has.
        if me not in living or not all(worker.is_kept for worker in workers):
            return 0
        plan = planned(before, bands_for(set(living.values())), living)
        changed = {shard: pieces for shard, pieces in plan.items() if pieces != before[shard]}
        if changed:
            _write(view, before, changed)
        crash_points.passed("recut.written")
    return len(changed)


def _lock(view: PoolView, shards: Sequence[int]) -> Cut:
    """The pieces of those of these shards whose rows could all be locked."""
    whole = {"pool": view.pool, "shards": list(shards)}
    cut: dict[int, set[Piece]] = {}
    for lease in view.session.rows(SQL["lock_shards"], Lease, **whole):
        is_closed = lease.worker_id == CLOSED
        piece = Piece(WHOLE, lease.worker_id, lease.suspect_of)
        cut[lease.shard] = set() if is_closed else {piece}
    if closed := {shard for shard, pieces in cut.items() if not pieces}:
        bands = {"pool": view.pool, "shards": list(closed)}
        leases = view.session.rows(SQL["lock_bands"], Lease, **bands)
        view.know_bands(lease.pool for lease in leases)
        for lease in leases:
            piece = Piece(view.bands[lease.pool], lease.worker_id, lease.suspect_of)
            cut[lease.shard].add(piece)
        counts = Counter(view.session.rows(SQL["list_bands"], int, **bands))
        cut = {s: p for s, p in cut.items() if s not in closed or len(p) == counts[s]}
    return {shard: frozenset(pieces) for shard, pieces in cut.items()}


def _write(view: PoolView, before: Cut, after: Cut) -> None:
    """Rows that stay as they are keep their epochs; all others are new to whoever has them."""
    session, pool = view.session, view.pool
    made: list[tuple[int, Piece]] = []
    gone: dict[str, list[int]] = {}
    bands = {piece.band for shard in after for piece in before[shard] | after[shard]}
    named = {band: band_name(pool, band) for band in bands}
    for shard, pieces in after.items():
        made += [(shard, piece) for piece in pieces - before[shard]]
        for band in {p.band for p in before[shard]} - {p.band for p in pieces}:
            if band is WHOLE:
                made.append((shard, Piece(WHOLE, CLOSED)))
            else:
                gone.setdefault(named[band], []).append(shard)
    kept = {piece.band for pieces in after.values() for piece in pieces} - {WHOLE}
    if kept:
        rows = [{"name": named[band], "queues": sorted(band or ())} for band in kept]
        session.run(SQL["keep_bands"], pool=pool, bands=as_rows(rows))
    for name, shards in gone.items():
        session.run(SQL["drop_leases"], pool=name, shards=shards)
    session.run(
        SQL["write_leases"],
        pools=[named[piece.band] for _, piece in made],
        shards=[shard for shard, _ in made],
        owners=[piece.owner for _, piece in made],
        suspects=[piece.suspect_of for _, piece in made],
        epoch=token(),
    )
