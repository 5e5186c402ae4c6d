"""The pool as the last beat has read it: its workers with their code, its leases and their bands.

Memory only, but for what codes and bands mean: that is read once each, for it never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from mainspring.db.session import Session
from mainspring.kernel.statements import SQL
from mainspring.sharing.bands import (
    CLOSED,
    WHOLE,
    Band,
    Code,
    Cut,
    Piece,
    bands_for,
    code_of,
    members,
    planned,
)
from mainspring.sharing.shares import Lease, Peer

Held: TypeAlias = tuple[str, int]  # the name of a lease (of the pool, or of a band) and its shard


class LeaseRow(NamedTuple):
    """The leases of a pool or a band that are alike."""

    pool: str
    shards: str  # numbers with commas
    worker_id: UUID | None
    epoch: int
    offered_to: UUID | None
    suspect_of: UUID | None


class CodeRow(NamedTuple):
    code: str
    queues: list[str]
    turns: list[str]


class BandRow(NamedTuple):
    name: str
    queues: list[str]


class PoolView:
    """Workers and leases of one pool. Lists are never changed, only replaced."""

    def __init__(self, session: Session, pool: str, mine: Code) -> None:
        self.session = session
        self.pool = pool
        self.queues = mine.queues
        self.peers: list[Peer] = []
        self.codes: dict[UUID, Code | None] = {}  # of the workers that there are
        self.target: list[Band] = [WHOLE]  # the bands that the pool should have
        self.leases: dict[str, list[Lease]] = {}  # by name
        self.count = 0  # of the pool's shards
        self.bands: dict[str, Band] = {pool: WHOLE}  # by name, of all leases ever seen
        self.pieces: Cut = {}  # the leases by shard, while there are bands
        self._known_codes = {mine.digest: mine}
        # The rows of the last read, and the leases that they mean: they rarely change, and a thousand
        # new objects a beat are work for the collector too.
        self._read: tuple[Sequence[LeaseRow], dict[str, list[Lease]]] = ([], {})

    def read_peers(self, peers: Sequence[Peer]) -> bool:
        """Whether the pool's codes have changed."""
        codes = self.codes_of({peer.id: peer.code for peer in peers})
        self.peers = [
            peer._replace(queues=frozenset(peer.queues) if code is None else code.queues)
            for peer in peers
            if peer.id in codes
            for code in (codes[peer.id],)
        ]
        if codes == self.codes:
            return False
        self.codes, self.target = codes, bands_for(set(codes.values()))
        return True

    def codes_of(self, digests: Mapping[UUID, str | None]) -> dict[UUID, Code | None]:
        """The code of each worker; none for the release before. A worker that is gone is left out."""
        known = self._known_codes
        if unknown := set(digests.values()) - known.keys() - {None}:
            rows = self.session.rows(
                SQL["read_codes"], CodeRow, pool=self.pool, codes=list(unknown)
            )
            known |= {row.code: code_of(row.queues, row.turns) for row in rows}
        return {
            worker_id: None if digest is None else known[digest]
            for worker_id, digest in digests.items()
            if digest is None or digest in known
        }

    def read_leases(self, rows: Sequence[LeaseRow]) -> None:
        if rows != self._read[0]:
            self.know_bands(row.pool for row in rows)
            leases: dict[str, list[Lease]] = {self.pool: []}
            self.count = 0
            for row in rows:
                shards = row.shards.split(",")
                self.count += len(shards) if row.pool == self.pool else 0
                if row.worker_id != CLOSED and row.pool in self.bands:
                    some = [Lease(row.pool, int(shard), *row[2:]) for shard in shards]
                    leases.setdefault(row.pool, []).extend(some)
            self._read = (rows, leases)
        self.leases = self._read[1]

    def know_bands(self, names: Iterable[str]) -> None:
        """Read the bands of these names. A name whose band is no more stays unknown."""
        if unknown := set(names) - self.bands.keys():
            rows = self.session.rows(SQL["read_bands"], BandRow, names=list(unknown))
            self.bands |= {row.name: frozenset(row.queues) for row in rows}

    def note(self, leases: Iterable[Lease]) -> dict[Held, Lease]:
        """These leases are so from here on, whatever the last beat read."""
        changed = {(lease.pool, lease.shard): lease for lease in leases}
        self.leases = {
            name: [changed.get((name, lease.shard), lease) for lease in leases]
            for name, leases in self.leases.items()
        }
        return changed

    def leases_of(self, worker_id: UUID) -> dict[Held, Lease]:
        return {
            (name, lease.shard): lease
            for name, leases in self.leases.items()
            for lease in leases
            if lease.worker_id == worker_id
        }

    def badly_cut(self) -> list[int]:
        """Shards whose leases are not of the bands that the living codes need."""
        if len(self.leases) == 1 and len(set(self.codes.values())) == 1:
            return []
        cut: dict[int, set[Piece]] = {}
        for name, leases in self.leases.items():
            for lease in leases:
                piece = Piece(self.bands[name], lease.worker_id, lease.suspect_of)
                cut.setdefault(lease.shard, set()).add(piece)
        self.pieces = {shard: frozenset(some) for shard, some in cut.items()}
        plan = planned(self.pieces, self.target, self.codes)
        return [n for n in range(self.count) if n not in plan or plan[n] != self.pieces[n]]

    def wanted(self) -> list[str]:
        """The names of leases that are taken and shared: those that are no mere pieces of a band."""
        return [name for name in self.leases if self.bands[name] in self.target]

    def members(self, name: str) -> list[Peer]:
        """Who shares these leases and means to stay."""
        staying = [peer for peer in self.peers if peer.slots and not self._is_stranger(peer)]
        return members(self.bands[name], staying, self.codes)

    def older_strangers(self, me: UUID) -> list[Peer]:
        """Workers of another application that know no bands, mean to stay and came before me.

        Of two strangers one is the older, whatever each has seen of the other. That one works; the
        other takes nothing until the older is gone.
        """
        order = {peer.id: (peer.started_at, peer.id) for peer in self.peers}
        strangers = [peer for peer in self.peers if peer.slots and self._is_stranger(peer)]
        return [peer for peer in strangers if me in order and order[peer.id] < order[me]]

    def _is_stranger(self, peer: Peer) -> bool:
        return peer.code is None and peer.is_stranger(self.queues)
