"""Leases: which worker reads which shards. Pure decisions; the heart carries them out.

A lease only saves work and keeps turns: if one goes wrong a visit may be run twice. That it is
settled once is the token's business (settle.sql), never the lease's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from mainspring.kernel.settings import OWN


@dataclass(frozen=True, slots=True)
class Peer:
    """A worker of the pool as its row shows it."""

    id: UUID
    beat: int
    queues: frozenset[str]
    slots: int
    free: int
    started_at: datetime
    host: str
    process: int
    bundles: bool  # it finds what is in bundles of history
    code: str | None = (
        None  # the digest of its code; none: of the release before, which knows no bands
    )

    def is_stranger(self, queues: Collection[str]) -> bool:
        """Whether it has no queue in common with these: it is of another application."""
        mine = {name for name in queues if not name.startswith(OWN)}
        theirs = {name for name in self.queues if not name.startswith(OWN)}
        return bool(mine and theirs) and mine.isdisjoint(theirs)


@dataclass(frozen=True, slots=True)
class Lease:
    """A shard's lease, of the pool or of a band, as its row shows it."""

    shard: int
    worker_id: UUID | None
    epoch: int
    offered_to: UUID | None
    suspect_of: UUID | None


@dataclass(frozen=True, slots=True)
class Gift:
    """Shards that should go to another worker."""

    to: UUID
    shards: tuple[int, ...]


class Watch:
    """Who has stopped beating, by my own clock alone.

    A worker is dead when its counter stood still for a lease time during which I beat without a
    gap: if it was me who was away, I know nothing about the others.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._lease = lease_seconds
        self._seen: dict[UUID, tuple[int, float]] = {}
        self._moved: set[UUID] = set()  # I have seen their counter move: they lived, for certain
        self._last = float("-inf")

    def look(
        self, peers: Iterable[Peer], *, me: UUID, now: float, read_at: float | None = None
    ) -> list[Peer]:
        """Take note of all beats; answers the dead.

        `now`: the local time at which they were asked for, `read_at` that of the answer. A counter
        that moved may have done so just before the answer, and stood still when it was asked for.
        """
        read_at = now if read_at is None else read_at
        if now - self._last > self._lease / 2:
            self._seen.clear()  # a gap of my own
        self._last = now
        dead = []
        seen: dict[UUID, tuple[int, float]] = {}
        for peer in peers:
            if peer.id == me:
                continue
            beat, since = self._seen.get(peer.id, (peer.beat, read_at))
            if beat != peer.beat:  # any change is movement
                since = read_at
                self._moved.add(peer.id)
            seen[peer.id] = (peer.beat, since)
            if now - since >= self._lease:
                dead.append(peer)
        self._seen = seen
        self._moved &= seen.keys()
        return dead

    def saw_beat(self, peer: Peer) -> bool:
        """Whether it has beaten since I know it."""
        return peer.id in self._moved


def shards_to_take(leases: Sequence[Lease], alive: Collection[UUID], *, me: UUID) -> int:
    """How many free shards I should take: my fair share, and whatever was freed for me."""
    mine = sum(1 for lease in leases if lease.worker_id == me)
    for_me = sum(1 for lease in leases if lease.worker_id is None and lease.offered_to == me)
    free = sum(
        1
        for lease in leases
        if lease.worker_id is None and (lease.offered_to is None or lease.offered_to not in alive)
    )
    share = -(-len(leases) // max(1, len(alive)))
    return for_me + max(0, min(free, share - mine - for_me))


def surplus_gift(
    leases: Sequence[Lease], peers: Sequence[Peer], *, me: UUID, keep: Collection[int] = ()
) -> Gift | None:
    """Shards above my fair share, for the poorest worker that is below its own.

    Above the share rounded down: 32 workers with 32 shards each must make room for a 33rd. Those in
    `keep`, which came for their load, go last.
    """
    alive = [p for p in peers if p.id != me]
    if not alive:
        return None
    owned = Counter(lease.worker_id for lease in leases if lease.worker_id is not None)
    owned.update(
        lease.offered_to
        for lease in leases
        if lease.worker_id is None and lease.offered_to is not None
    )
    floor = len(leases) // len(peers)
    poorest = min(alive, key=lambda p: (owned[p.id], str(p.id)))
    excess = owned[me] - floor
    missing = floor - owned[poorest.id]
    if min(excess, missing) <= 0:
        return None
    mine = [lease.shard for lease in leases if lease.worker_id == me]
    mine.sort(key=lambda shard: (shard not in keep, shard))
    return Gift(poorest.id, tuple(mine[-min(excess, missing) :]))


def load_gift(
    waiting: Mapping[int, int], peers: Sequence[Peer], *, me: UUID, keep: Collection[int]
) -> Gift | None:
    """Shards whose visits wait for a slot here while another worker has slots free.

    `waiting` says how many visits wait in each shard; shards in `keep` came for their load themselves
    and stay for a while, so that none goes to and fro.
    """
    idle = max((p for p in peers if p.id != me), key=lambda p: p.free, default=None)
    if idle is None or idle.free <= 0:
        return None
    shards: list[int] = []
    room = idle.free
    for shard, count in sorted(waiting.items(), key=lambda item: item[1]):
        if shard in keep or room <= 0:
            continue
        shards.append(shard)
        room -= count
    return Gift(idle.id, tuple(shards)) if shards else None
