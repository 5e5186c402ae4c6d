"""How a pool shares its shards: who is dead, what I take, what I give. Pure decisions.

A lease only saves work and keeps turns: if one goes wrong a visit may be run twice. That it is
settled once is the token's business (settle.sql), never the lease's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from mainspring.declaring import OWN
from mainspring.sharing.tuning import SHARING


class Peer(NamedTuple):
    """A worker of the pool as its row shows it."""

    id: UUID
    beat: int
    queues: frozenset[str]  # by its code, if it has one; the row names them only if not
    slots: int
    free: int
    started_at: datetime
    host: str
    process: int
    bundles: bool  # it finds what is in bundles of history
    code: str | None = None  # its digest; none: of the release before, which knows no bands

    def is_stranger(self, queues: Collection[str]) -> bool:
        """Whether it has no queue in common with these: it is of another application."""
        mine = {name for name in queues if not name.startswith(OWN)}
        theirs = {name for name in self.queues if not name.startswith(OWN)}
        return bool(mine and theirs) and mine.isdisjoint(theirs)


class Lease(NamedTuple):
    """The lease of a pool or a band in one shard, as its row shows it."""

    pool: str  # the name of the pool or of the band
    shard: int
    worker_id: UUID | None
    epoch: int
    offered_to: UUID | None
    suspect_of: UUID | None


class Gift(NamedTuple):
    """Shards that should go to another worker; to anyone, if it names none."""

    to: UUID | None
    shards: Sequence[int]


class Seen(NamedTuple):
    """A worker's counter, since when it stands there, and whether I have seen it move."""

    beat: int
    since: float
    moved: bool


class Watch:
    """Who has stopped beating, by my own clock alone.

    A worker is dead when its counter stood still for a lease time during which I beat without a gap.
    After a gap of my own I know nothing about the others.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._lease = lease_seconds
        self._seen: dict[UUID, Seen] = {}
        self._last = float("-inf")

    def look(
        self, peers: Sequence[Peer], *, me: UUID, now: float, read_at: float | None = None
    ) -> list[Peer]:
        """Note all beats; returns the dead.

        `now` is the local time at which the beats were asked for, `read_at` that of the answer. A counter
        that has moved may have done so just before the answer.
        """
        read_at = now if read_at is None else read_at
        before = self._seen if now - self._last <= self._lease * SHARING.gap else {}
        self._last, self._seen = now, {}
        for peer in peers:
            seen = before.get(peer.id, Seen(peer.beat, read_at, moved=False))
            if seen.beat != peer.beat:  # any change is movement
                seen = Seen(peer.beat, read_at, moved=True)
            self._seen[peer.id] = seen
        return [p for p in peers if p.id != me and now - self._seen[p.id].since >= self._lease]

    def saw_beat(self, peer: Peer) -> bool:
        """Whether it has beaten since I know it."""
        return peer.id in self._seen and self._seen[peer.id].moved


def shards_to_take(leases: Sequence[Lease], alive: Collection[UUID], *, me: UUID) -> int:
    """How many free shards I should take: my fair share, and whatever was freed for me."""
    mine = sum(lease.worker_id == me for lease in leases)
    offers = [lease.offered_to for lease in leases if lease.worker_id is None]
    for_me = offers.count(me)
    for_anyone = sum(to is None or to not in alive for to in offers)
    share = -(-len(leases) // max(1, len(alive)))
    return for_me + max(0, min(for_anyone, share - mine - for_me))


def surplus_gift(
    leases: Sequence[Lease], peers: Sequence[Peer], *, me: UUID, keep: Collection[int] = ()
) -> Gift | None:
    """Shards above my fair share, for the worker that is furthest below its own.

    The share is rounded down: 32 workers with 32 shards each must make room for a 33rd. Shards in
    `keep`, which came for their load, go last.
    """
    others = [peer.id for peer in peers if peer.id != me]
    if not others:
        return None
    owned = Counter(lease.worker_id or lease.offered_to for lease in leases)
    share = len(leases) // len(peers)
    poorest = min(others, key=lambda other: (owned[other], str(other)))
    mine = [lease.shard for lease in leases if lease.worker_id == me]
    going = min(owned[me] - share, share - owned[poorest])
    if going <= 0:
        return None
    return Gift(poorest, sorted(mine, key=lambda shard: (shard not in keep, shard))[-going:])


def load_gift(
    waiting: Mapping[int, int], peers: Sequence[Peer], *, me: UUID, keep: Collection[int]
) -> Gift | None:
    """Shards whose visits wait for a slot here while another worker has slots free.

    `waiting` says how many visits wait in each shard. Shards in `keep` came for their load themselves:
    they stay for a while, so that none goes to and fro.
    """
    idle = max((p for p in peers if p.id != me), key=lambda p: p.free, default=None)
    room = idle.free if idle is not None else 0
    shards: list[int] = []
    for shard in sorted(waiting.keys() - keep, key=lambda shard: (waiting[shard], shard)):
        if room <= 0:
            break
        shards.append(shard)
        room -= waiting[shard]
    return Gift(idle.id, shards) if idle is not None and shards else None
