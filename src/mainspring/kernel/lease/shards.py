"""Shards: which of them this worker has, takes, and gives away.

Carries out what mainspring/sharing decides. Mine is what memory and the lease table agree on. Memory
lets go before a give is sent, and adopts only what was read back: under a new epoch where an answer was
lost. A lease is of the pool, or of one of its bands while the pool is cut; its name tells which.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple
from uuid import UUID

from mainspring import clock, crash_points
from mainspring.db.session import Session
from mainspring.declaring import OWN
from mainspring.errors import MixedPool
from mainspring.ids import token
from mainspring.kernel.lease import recut
from mainspring.kernel.lease.dead import declare_dead
from mainspring.kernel.lease.holds import hold, mark_held, read_held
from mainspring.kernel.lease.loop_port import LoopPort
from mainspring.kernel.lease.pool_view import Held, LeaseRow, PoolView
from mainspring.kernel.owned import Owned
from mainspring.kernel.settings import WorkerSettings
from mainspring.kernel.statements import SQL
from mainspring.kernel.tuning import LEASE
from mainspring.kernel.visit import LAST_KEY, Position
from mainspring.sharing.bands import Code, Piece, must_yield, turns_of
from mainspring.sharing.shares import (
    Gift,
    Lease,
    Peer,
    Watch,
    load_gift,
    shards_to_take,
    surplus_gift,
)

log = logging.getLogger("mainspring")


class Reach(NamedTuple):
    """How far a worker had read a level."""

    worker_id: UUID
    queue: str
    priority: int
    due_at: datetime
    key: str | None


class Shards:
    """The heart's work on leases."""

    def __init__(
        self,
        session: Session,
        owned: Owned,
        loop_port: LoopPort,
        settings: WorkerSettings,
        code: Code,
    ) -> None:
        self._session = session
        self._owned = owned
        self._loop_port = loop_port
        self._settings = settings
        self._queues = code.queues
        self._view = PoolView(session, settings.pool, code)
        self._watch = Watch(settings.lease)
        self._epochs: dict[Held, int] = {}  # of the leases that are mine, as memory knows them
        self._given: dict[Held, float] = {}  # what came for its load, and when
        self._said_waiting = False
        self._trimmed_at = -1.0

    @property
    def is_shared(self) -> bool:
        """Whether the pool has other workers."""
        return len(self._view.peers) > 1

    @property
    def _me(self) -> UUID:
        assert self._owned.worker_id is not None
        return self._owned.worker_id

    def seen(self, peers: Sequence[Peer], leases: Sequence[LeaseRow]) -> None:
        """What a beat has read.

        Where memory and table differ, an answer was lost or a recut was made. Then what the table says is
        adopted under a new epoch: a late give of mine comes to nothing.
        """
        self.read_peers(peers)
        self._view.read_leases(leases)
        mine = {held: lease.epoch for held, lease in self._view.leases_of(self._me).items()}
        if mine == self._epochs and {shard for _, shard in mine} == self._owned.shards:
            return
        values = {"pool": self._settings.pool, "worker_id": self._me, "epoch": token()}
        rows = self._session.rows(SQL["renew_leases"], Lease, **values)
        self._view.know_bands(lease.pool for lease in rows)
        self._adopt(self._view.note(row for row in rows if row.pool in self._view.bands))

    def read_peers(self, peers: Sequence[Peer]) -> None:
        if self._view.read_peers(peers):
            self._loop_port.turns_known(turns_of(self._view.codes.values()))
        self._owned.set_bundles(all(peer.bundles for peer in self._view.peers))

    def _adopt(self, mine: dict[Held, Lease]) -> None:
        """Make these leases, and only these, mine: load what is held there before anything starts."""
        new = mine.keys() - self._epochs.keys()
        if new:
            self._loop_port.held_read(read_held(self._session, {shard for _, shard in mine}))
            self._load_suspects([mine[held] for held in new])
        self._epochs = {held: lease.epoch for held, lease in mine.items()}
        self._own()
        self._loop_port.shards_changed()

    def _own(self) -> None:
        """What memory has is mine to read and start."""
        shards = {shard for _, shard in self._epochs}
        self._owned.own(shards, count=self._view.count, by_queue=self._by_queue())

    def _by_queue(self) -> dict[str, frozenset[int]]:
        """The shards of each queue; none while what is mine is whole."""
        of, bands = _by_name(self._epochs), self._view.bands
        if of.keys() <= {self._settings.pool}:
            return {}

        @cache  # one set for all queues that have the same leases
        def united(names: tuple[str, ...]) -> frozenset[int]:
            return frozenset(shard for name in names for shard in of[name])

        return {
            queue: united(tuple(n for n in of if (band := bands[n]) is None or queue in band))
            for queue in self._queues
        }

    def _load_suspects(self, leases: Sequence[Lease]) -> None:
        """How far the dead owners of these leases had read: up to there, visits are suspects."""
        dead = {lease.suspect_of for lease in leases} - {None}
        if not dead:
            return
        reach: dict[UUID, dict[tuple[str, int], Position]] = {}
        for note in self._session.rows(SQL["read_reach"], Reach, worker_ids=list(dead)):
            reached = (note.due_at.timestamp(), LAST_KEY if note.key is None else note.key)
            reach.setdefault(note.worker_id, {})[note.queue, note.priority] = reached
        for lease in leases:
            # One that had read nothing is noted too: else its name would stay for ever.
            if lease.suspect_of is not None:
                band, read = self._view.bands[lease.pool], reach.get(lease.suspect_of, {})
                levels = {k: v for k, v in read.items() if band is None or k[0] in band}
                self._owned.suspect(lease.shard, levels, beside_others=band is not None)

    def declare_dead(self, beat_at: float, read_at: float) -> bool:
        """Declare dead who stood still for a lease time, and free its shards; whether any was."""
        pool, lease, died = self._settings.pool, self._settings.lease, False
        for peer in self._watch.look(self._view.peers, me=self._me, now=beat_at, read_at=read_at):
            freed = declare_dead(self._session, peer.id, pool=pool, lease=lease, beat=peer.beat)
            if freed is not None:
                facts = {"worker": str(peer.id), "shards": freed, "by": str(self._me)}
                log.warning("worker.dead", extra=facts)
                died = True
        return died

    def recut(self) -> bool:
        """Whether the pool's bands were written anew, as far as its living codes need others."""
        wrong, seconds = self._view.badly_cut(), self._settings.beat_every * LEASE.recut_part
        return bool(wrong) and recut.carry_out(self._view, wrong, me=self._me, seconds=seconds)

    # -- take

    def take(self) -> None:
        """Take free shards up to a fair share, and those freed for me."""
        if strangers := self._view.older_strangers(self._me):
            self._give_way(strangers)
        else:
            for name in self._view.wanted():
                self._take(name)
        if not (self._owned.shards or self._said_waiting):
            # Others have the shards, alive or not yet known dead.
            self._said_waiting = True
            holders = {lease.worker_id for some in self._view.leases.values() for lease in some}
            facts = {"holders": len(holders - {None}), "lease_seconds": self._settings.lease}
            log.info("worker.waiting_for_shards", extra=facts)

    def _take(self, name: str) -> None:
        me, leases = self._me, self._view.leases[name]
        staying = {peer.id for peer in self._view.members(name)}
        if self._view.bands[name] is not None and me not in staying:
            return
        most = shards_to_take(leases, staying, me=me)
        if most <= 0:
            return
        gifts = {lease.shard for lease in leases if lease.offered_to == me}
        values = {"pool": name, "worker_id": me, "most": most, "epoch": token()}
        taken = self._view.note(self._session.rows(SQL["take_leases"], Lease, **values))
        if not taken:
            return
        crash_points.passed("leases.taken")
        mine = sum(lease.worker_id == me for lease in leases)
        # What only fills my fair share was not given for its load, and may go for that at once.
        if mine + len(taken) > len(leases) // max(1, len(staying)):
            self._given |= {held: clock.local() for held in taken if held[1] in gifts}
        self._adopt(self._view.leases_of(me))

    def _give_way(self, strangers: Sequence[Peer]) -> None:
        """One that beats is there to stay; one that does not will be declared dead."""
        for peer in strangers:
            if self._watch.saw_beat(peer):
                place = f"process {peer.process} on {peer.host}"
                mine, theirs = _of_users(self._queues), _of_users(peer.queues)
                self._loop_port.turned_away(MixedPool(self._settings.pool, mine, theirs, place))
                return

    # -- give

    def share(self, *, look: bool = False) -> None:
        """Give away what is above my share, or what waits here while another worker is idle."""
        if look:
            peers = self._session.rows(SQL["read_workers"], Peer, pool=self._settings.pool)
            self.read_peers(peers)
        for name in self._view.wanted():
            if (gift := self._gift(name)) is not None:
                self._give(name, gift.shards, gift.to)
        if not look:
            self._let_bands_meet()

    def _gift(self, name: str) -> Gift | None:
        me, leases, staying = self._me, self._view.leases[name], self._view.members(name)
        band = self._view.bands[name]
        if all(peer.id != me for peer in staying):
            # I have a part of a band only, and those who have all of it are enough: it is theirs.
            mine = _by_name(self._epochs).get(name)
            return Gift(None, mine) if band is not None and staying and mine else None
        recent = clock.local() - self._settings.lease
        keep = {shard for (n, shard), at in self._given.items() if at > recent and n == name}
        gift = surplus_gift(leases, staying, me=me, keep=keep)
        if gift is None and self._loop_port.free_slots() == 0:
            # What waits is only for who can run all of it.
            queues = self._queues if band is None else self._queues & band
            serving = [p for p in staying if p.id == me or p.queues >= queues]
            gift = load_gift(self._loop_port.waiting_by_shard(queues), serving, me=me, keep=keep)
        return gift

    def _let_bands_meet(self) -> None:
        """Free pieces of mine that stand in the way of a band with one owner."""
        view = self._view
        if all(view.bands[name] in view.target for name in view.leases):
            return
        staying = {peer.id: view.codes[peer.id] for peer in view.peers if peer.slots}
        going = [
            (lease.pool, lease.shard)
            for lease in view.leases_of(self._me).values()
            for mine in [Piece(view.bands[lease.pool], self._me, lease.suspect_of)]
            if must_yield(mine, view.pieces.get(lease.shard, ()), view.target, staying)
        ]
        self._give_each(going)

    def give_all(self) -> None:
        """Free everything, for anyone."""
        self._give_each(self._epochs)

    def _give_each(self, going: Iterable[Held]) -> None:
        for name, shards in _by_name(going).items():
            self._give(name, shards, None)

    def _give(self, name: str, shards: Sequence[int], to: UUID | None) -> None:
        """Free shards, with every run in them held; a shard with a run that cannot be held stays.

        After an error none of them is mine until a beat has read the leases.
        """
        going = {s: self._epochs.pop((name, s)) for s in shards if (name, s) in self._epochs}
        let_go = self._owned.let_go(going, self._view.bands[name])
        runs = [(run, self._loop_port.hold_after(run)[1]) for run in let_go if not run.held]
        try:
            with self._session.transaction():
                crash_points.passed("shards.giving")
                held = hold(self._session, runs, self._me)
                stay = {run.visit.shard for run, _ in runs if run.token not in held}
                given = {shard: epoch for shard, epoch in going.items() if shard not in stay}
                self._session.run(
                    SQL["give_leases"],
                    pool=name,
                    worker_id=self._me,
                    shards=list(given),
                    epochs=list(given.values()),
                    offered_to=to,
                    epoch=token(),
                )
                self._session.run(SQL["wake_all"], pool=self._settings.pool)
            mark_held(runs, held)
            # No longer mine to give, whatever the leases said at the last beat.
            leases = [x for x in self._view.leases.get(name, ()) if x.shard in given]
            self._view.note(x._replace(worker_id=None, offered_to=to) for x in leases)
            for shard in given:
                self._given.pop((name, shard), None)
            if stay:
                self._epochs |= {(name, shard): going[shard] for shard in stay}
                self._own()
            crash_points.passed("shards.given")
        finally:
            self._loop_port.shards_changed()

    def tidy(self) -> None:
        """Forget notes that newer ones have replaced, and suspects that were all looked at."""
        if self._owned.started_at > self._trimmed_at:  # else there are no newer ones
            self._trimmed_at = clock.local()
            self._session.run(SQL["trim_reach"], worker_id=self._me)
        suspects = self._owned.suspects
        if suspects and self._loop_port.suspects_done():
            known = self._queues
            self._session.run(
                SQL["clear_suspects"],
                pool=self._settings.pool,
                worker_id=self._me,
                shards=list(suspects),
                others=[
                    s for s, found in suspects.items() if any(q not in known for q, _ in found)
                ],
                epochs=list(set(self._epochs.values())),
            )
            self._owned.clear_suspects()


def _by_name(leases: Iterable[Held]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, shard in leases:
        found.setdefault(name, []).append(shard)
    return found


def _of_users(queues: Collection[str]) -> list[str]:
    """The queues that tell applications apart; every one has those of the engine."""
    return sorted(name for name in queues if not name.startswith(OWN)) or sorted(queues)
