"""A recut: the ownership of a pool's shards is written down in the bands that its living codes need.

One transaction, by any worker whose beat shows that it is time. It waits for nobody: what others have
locked is left to the next one. What bands.py decides is written here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from mainspring.db.literals import rows as as_rows
from mainspring.kernel import steps
from mainspring.kernel.bands import (
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
from mainspring.kernel.session import Session
from mainspring.kernel.visit import token

log = logging.getLogger("mainspring")

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


def carry_out(session: Session, book: Book, *, me: UUID) -> int:
    """Recut what is to be and can be locked; answers how many shards were."""
    pool = book.pool
    with session.transaction():
        steps.reach("recut.locking")
        before = _lock(session, book)
        # Only now: an owner of what is locked has joined before it took, so whoever has no row is dead.
        living = book.codes(session.fetch, session.fetch("lock_workers", pool=pool))
        steps.reach("recut.workers_read")
        if me not in living:
            return 0
        after = planned(before, bands_for(set(living.values())), living)
        changed = {shard for shard, pieces in after.items() if pieces != before[shard]}
        if not changed:
            return 0
        _write(session, pool, {s: before[s] for s in changed}, {s: after[s] for s in changed})
        session.fetch("forget_bands", pool=pool)
        session.fetch("wake_all", pool=pool)
        steps.reach("recut.written")
    bands = {piece.band for pieces in after.values() for piece in pieces}
    facts = {"pool": pool, "shards": len(changed), "by": str(me)}
    if bands == {WHOLE}:
        log.info("pool.whole", extra=facts)
    else:
        log.info("pool.cut", extra={**facts, "bands": len(bands - {WHOLE})})
    return len(changed)


def _lock(session: Session, book: Book) -> Cut:
    """The pieces of every shard whose rows could all be locked."""
    whole = session.fetch("lock_shards", pool=book.pool)
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
    counts = dict(session.fetch("count_bands", pool=book.pool))
    return cut | {s: frozenset(p) for s, p in closed.items() if len(p) == counts.get(s, 0)}


def _write(session: Session, pool: str, before: Cut, after: Cut) -> None:
    """Rows that stay as they are keep their epochs; all others are new to whoever has them."""
    epoch = token()
    made: dict[Band, list[tuple[int, UUID | None, UUID | None]]] = {}
    gone: dict[Band, list[int]] = {}
    for shard, pieces in after.items():
        for piece in pieces - before[shard]:
            made.setdefault(piece.band, []).append((shard, piece.owner, piece.suspect_of))
        bands = {piece.band for piece in pieces}
        for piece in before[shard]:
            if piece.band is WHOLE and WHOLE not in bands:
                made.setdefault(WHOLE, []).append((shard, CLOSED, None))
            elif piece.band not in bands:
                gone.setdefault(piece.band, []).append(shard)
    new = sorted((band_name(pool, band), sorted(band)) for band in made if band is not None)
    listed = as_rows([{"name": name, "queues": queues} for name, queues in new])
    session.fetch("keep_bands", pool=pool, bands=listed)
    for band, shards in gone.items():
        session.fetch("drop_leases", pool=band_name(pool, band), shards=shards)
    for band, rows in made.items():
        session.fetch(
            "write_leases",
            pool=band_name(pool, band),
            shards=[row[0] for row in rows],
            owners=[row[1] for row in rows],
            suspects=[row[2] for row in rows],
            epoch=epoch,
        )
