"""A recut: the ownership of a pool's shards is written down in the bands that its living codes need.

One transaction, by any worker whose beat shows that it is time. It waits for nobody: what others have
locked is left to the next one. What bands.py decides is written here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from mainspring.db.literals import as_rows
from mainspring.kernel import clock, crash_points
from mainspring.kernel.lease.bands import (
    CLOSED,
    WHOLE,
    Band,
    Code,
    Piece,
    band_name,
    bands_for,
    code_of,
    recut,
)
from mainspring.kernel.lease.session import Session
from mainspring.kernel.visit import token

log = logging.getLogger("mainspring")

# So many shards are recut in one transaction: others wait for no longer than that takes.
AT_ONCE = 256

Ask = Callable[..., list[Any]]  # of a session: in a transaction that is open, or in one of its own
Cut = dict[int, frozenset[Piece]]  # the pieces of each shard


class Book:
    """What codes and bands mean, by their digests: read once each, for they never change."""

    def __init__(self, pool: str, mine: Code) -> None:
        self.pool = pool
        self.mine = mine
        self._codes = {mine.digest: mine}
        self._bands: dict[str, Band] = {pool: WHOLE}

    def codes(
        self, ask: Ask, workers: Iterable[tuple[UUID, str | None]]
    ) -> dict[UUID, Code | None]:
        """The code of each worker; none for the release before. One that is gone by now is left out."""
        listed = list(workers)
        unknown = {digest for _, digest in listed if digest is not None} - self._codes.keys()
        if unknown:
            rows = ask("read_codes", pool=self.pool, codes=list(unknown))
            self._codes |= {digest: code_of(queues, turns) for digest, queues, turns in rows}
        return {
            worker_id: None if digest is None else self._codes[digest]
            for worker_id, digest in listed
            if digest is None or digest in self._codes
        }

    def bands(self, ask: Ask, names: Iterable[str]) -> dict[str, Band]:
        """The band of each name. One that is no more by now is left out."""
        listed = set(names)
        if unknown := listed - self._bands.keys():
            rows = ask("read_bands", names=list(unknown))
            self._bands |= {name: frozenset(queues) for name, queues in rows}
        return {name: self._bands[name] for name in listed & self._bands.keys()}


def planned(cut: Cut, target: Sequence[Band], living: Mapping[UUID, Code | None]) -> Cut:
    """How these shards should be cut while these workers live; shards that are alike are judged once."""
    known: dict[frozenset[Piece], frozenset[Piece]] = {}
    for pieces in cut.values():
        if pieces not in known:
            known[pieces] = frozenset(recut(pieces, target, living))
    return {shard: known[pieces] for shard, pieces in cut.items()}


def carry_out(
    session: Session, book: Book, *, me: UUID, shards: Sequence[int], seconds: float
) -> bool:
    """Recut what of these shards can be locked, some at a time, until these seconds are over; answers
    whether any was. No rule crosses shards, so each part is whole in itself."""
    began, done = clock.local(), 0
    for first in range(0, len(shards), AT_ONCE):
        if first and clock.local() - began > seconds:
            break
        done += _carry_out(session, book, me=me, shards=shards[first : first + AT_ONCE])
    if done:
        with session.transaction():
            session.fetch("forget_bands", pool=book.pool)
            session.fetch("wake_all", pool=book.pool)
        log.info("pool.recut", extra={"pool": book.pool, "shards": done, "by": str(me)})
    return done > 0


def _carry_out(session: Session, book: Book, *, me: UUID, shards: Sequence[int]) -> int:
    with session.transaction():
        crash_points.passed("recut.locking")
        before = _lock(session, book, shards)
        # Only now: an owner of what is locked has joined before it took, so whoever has no row is dead.
        workers = session.fetch("lock_workers", pool=book.pool)
        living = book.codes(session.fetch, [(id, digest) for id, digest, _ in workers])
        crash_points.passed("recut.workers_read")
        # A death that is declared now may come to nothing, and who it is for goes on with all that it has.
        if me not in living or not all(is_kept for _, _, is_kept in workers):
            return 0
        after = planned(before, bands_for(set(living.values())), living)
        changed = {shard for shard, pieces in after.items() if pieces != before[shard]}
        if changed:
            was = {shard: before[shard] for shard in changed}
            _write(session, book.pool, was, {shard: after[shard] for shard in changed})
        crash_points.passed("recut.written")
    return len(changed)


def _lock(session: Session, book: Book, shards: Sequence[int]) -> Cut:
    """The pieces of those of these shards whose rows could all be locked."""
    whole = session.fetch("lock_shards", pool=book.pool, shards=list(shards))
    cut: Cut = {}
    closed: dict[int, set[Piece]] = {}
    for shard, worker_id, suspect_of in whole:
        if worker_id == CLOSED:
            closed[shard] = set()
        else:
            cut[shard] = frozenset({Piece(WHOLE, worker_id, suspect_of)})
    if not closed:
        return cut
    rows = session.fetch("lock_bands", pool=book.pool, shards=list(closed))
    bands = book.bands(session.fetch, {row[0] for row in rows})
    for name, shard, worker_id, suspect_of in rows:
        closed[shard].add(Piece(bands[name], worker_id, suspect_of))
    counts = dict(session.fetch("count_bands", pool=book.pool, shards=list(closed)))
    return cut | {s: frozenset(p) for s, p in closed.items() if len(p) == counts.get(s, 0)}


def _write(session: Session, pool: str, before: Cut, after: Cut) -> None:
    """Rows that stay as they are keep their epochs; all others are new to whoever has them."""
    made: list[tuple[str, int, UUID | None, UUID | None]] = []
    gone: dict[str, list[int]] = {}
    named = {band: band_name(pool, band) for band in _bands(before) | _bands(after)}
    for shard, pieces in after.items():
        bands = {piece.band for piece in pieces}
        for piece in pieces - before[shard]:
            made.append((named[piece.band], shard, piece.owner, piece.suspect_of))
        for piece in before[shard]:
            if piece.band is WHOLE and WHOLE not in bands:
                made.append((pool, shard, CLOSED, None))
            elif piece.band not in bands:
                gone.setdefault(named[piece.band], []).append(shard)
    kept = [{"name": named[b], "queues": sorted(b)} for b in _bands(after) if b is not None]
    if kept:
        session.fetch("keep_bands", pool=pool, bands=as_rows(kept))
    for name, shards in gone.items():
        session.fetch("drop_leases", pool=name, shards=shards)
    session.fetch(
        "write_leases",
        pools=[row[0] for row in made],
        shards=[row[1] for row in made],
        owners=[row[2] for row in made],
        suspects=[row[3] for row in made],
        epoch=token(),
    )


def _bands(cut: Cut) -> set[Band]:
    return {piece.band for pieces in cut.values() for piece in pieces}
