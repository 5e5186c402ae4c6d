"""Shards: which of them this worker has, takes, and gives away.

Carries out what lease.py decides. Mine is what memory and the lease table agree on: memory lets go
before a give is sent and adopts only what was read back, under a new epoch where an answer was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from mainspring.db.literals import numbers
from mainspring.errors import MixedPool
from mainspring.kernel import moment, steps
from mainspring.kernel.burial import bury
from mainspring.kernel.config import OWN, WorkerSettings
from mainspring.kernel.hand import Hand
from mainspring.kernel.holds import hold_arguments
from mainspring.kernel.lease import Lease, Peer, Watch, load_gift, shards_to_take, surplus_gift
from mainspring.kernel.mind import Mind
from mainspring.kernel.session import Session
from mainspring.kernel.visit import LAST_KEY, Position, token

log = logging.getLogger("mainspring")


class Shards:
    """The heart's work on leases."""

    def __init__(
        self,
        session: Session,
        hand: Hand,
        mind: Mind,
        settings: WorkerSettings,
        queues: Iterable[str],
    ) -> None:
        self._session = session
        self._hand = hand
        self._mind = mind
        self._settings = settings
        self._queues = frozenset(queues)
        self._watch = Watch(settings.lease)
        self._leases: list[Lease] = []
        # The rows of the last read, and the leases that they mean: they rarely change, and a thousand
        # new objects a beat are work for the collector too.
        self._read: tuple[Sequence[Any], list[Lease]] = ([], [])
        self._epochs: dict[int, int] = {}  # of the shards that are mine, as memory knows them
        self._given: dict[int, float] = {}  # shards that came for their load, and when
        self._said_waiting = False
        self._strangers: set[UUID] = set()  # workers that were warned of
        self.peers: list[Peer] = []

    @property
    def _me(self) -> UUID:
        assert self._hand.worker_id is not None
        return self._hand.worker_id

    def seen(self, peers: Sequence[Any], leases: Sequence[Any]) -> None:
        """What a beat has read. Where memory and table differ an answer was lost, so what the table
        says is adopted under a new epoch: a late give of mine then comes to nothing."""
        self._read_peers(peers)
        self._warn_of_strangers()
        self._leases = self._leases_of(leases)
        mine = {lease.shard: lease for lease in self._leases if lease.worker_id == self._me}
        agreed = mine.keys() == self._hand.shards and all(
            self._epochs.get(shard) == lease.epoch for shard, lease in mine.items()
        )
        if agreed:
            return
        rows = self._session.call(
            "renew_leases", pool=self._settings.pool, worker_id=self._me, epoch=token()
        )
        renewed = {row[0]: Lease(*row) for row in rows}
        self._leases = [renewed.get(lease.shard, lease) for lease in self._leases]
        self._adopt(renewed.values())

    def _leases_of(self, rows: Sequence[Any]) -> list[Lease]:
        """What rows of read_leases mean. A list that is never changed, only replaced."""
        if rows != self._read[0]:
            leases = [
                Lease(int(shard), *rest) for group, *rest in rows for shard in group.split(",")
            ]
            self._read = (rows, leases)
        return self._read[1]

    def _warn_of_strangers(self) -> None:
        """Workers of a pool should serve the same queues: one cannot run what only the other knows.

        That is so for a while in a rolling deploy; hence a word of warning and no more.
        """
        for peer in self.peers:
            unknown, missing = peer.queues - self._queues, self._queues - peer.queues
            if unknown and missing and peer.id not in self._strangers:
                self._strangers.add(peer.id)
                facts = {"pool": self._settings.pool, "worker": str(peer.id)}
                log.warning(
                    "pool.mixed",
                    extra={
                        **facts,
                        "only_there": sorted(unknown),
                        "only_here": sorted(missing),
                        "remedy": "give the tasks of each application a pool of their own",
                    },
                )

    def _read_peers(self, rows: Sequence[Any]) -> None:
        self.peers = [Peer(row[0], row[1], frozenset(row[2]), *row[3:]) for row in rows]
        self._hand.bundles = all(peer.bundles for peer in self.peers)

    def _adopt(self, leases: Iterable[Lease]) -> None:
        """Make these leases, and only these, mine: load what is held there before anything starts."""
        mine = {lease.shard: lease for lease in leases}
        new = set(mine) - self._hand.shards
        if new:
            self._mind.held_read(self._session.call("read_held", shards=numbers(list(mine))))
            self._load_suspects({shard: mine[shard].suspect_of for shard in new})
        self._epochs = {shard: lease.epoch for shard, lease in mine.items()}
        self._hand.own(mine, count=len(self._leases))
        self._mind.shards_changed()

    def _load_suspects(self, of: dict[int, UUID | None]) -> None:
        """How far the dead owners of these shards had read: up to there, visits are suspects."""
        dead = list({worker_id for worker_id in of.values() if worker_id is not None})
        if not dead:
            return
        reach: dict[UUID, dict[tuple[str, int], Position]] = {}
        rows = self._session.call("read_reach", worker_ids=dead)
        for worker_id, queue, priority, due_at, key in rows:
            reached = (due_at.timestamp(), LAST_KEY if key is None else key)
            reach.setdefault(worker_id, {})[queue, priority] = reached
        for shard, owner in of.items():
            if owner is not None and owner in reach:
                self._hand.suspects[shard] = reach[owner]

    def bury(self, beat_at: float, read_at: float) -> None:
        """Declare dead who stood still for a lease time, and free its shards."""
        pool = self._settings.pool
        for peer in self._watch.look(self.peers, me=self._me, now=beat_at, read_at=read_at):
            freed = bury(
                self._session,
                pool=pool,
                dead_id=peer.id,
                beat=peer.beat,
                lease=self._settings.lease,
            )
            if freed is None:
                continue
            facts = {"worker": str(peer.id), "shards": freed, "by": str(self._me)}
            log.warning("worker.dead", extra=facts)
            self._leases = self._leases_of(self._session.call("read_leases", pool=pool))
            self.peers = [p for p in self.peers if p.id != peer.id]

    def take(self) -> None:
        """Take free shards up to a fair share, and those freed for me."""
        me = self._me
        if strangers := self._older_strangers():
            self._give_way(strangers)
            return
        staying = {peer.id for peer in self.peers if peer.slots}
        most = shards_to_take(self._leases, staying, me=me)
        if most <= 0:
            self._say_waiting()
            return
        gifts = {lease.shard for lease in self._leases if lease.offered_to == me}
        rows = self._session.call(
            "take_leases", pool=self._settings.pool, worker_id=me, most=most, epoch=token()
        )
        if not rows:
            return
        steps.reach("leases.taken")
        taken = {row[0]: Lease(row[0], me, row[1], None, row[2]) for row in rows}
        mine = sum(1 for lease in self._leases if lease.worker_id == me)
        # What only fills my fair share was not given for its load, and may go for that at once.
        if mine + len(taken) > len(self._leases) // max(1, len(staying)):
            self._given.update(dict.fromkeys(gifts & taken.keys(), moment.local()))
        self._leases = [taken.get(lease.shard, lease) for lease in self._leases]
        self._adopt([lease for lease in self._leases if lease.worker_id == me])

    def _older_strangers(self) -> list[Peer]:
        """Workers of another application that were in this pool before me and mean to stay.

        Of two that are strangers one is the older, whatever each has seen of the other: that one
        works, the other takes nothing until the older is gone.
        """
        mine = next((p for p in self.peers if p.id == self._me), None)
        return [
            peer
            for peer in self.peers
            if mine is not None
            and peer.slots
            and peer.is_stranger(self._queues)
            and (peer.started_at, peer.id) < (mine.started_at, mine.id)
        ]

    def _give_way(self, strangers: Sequence[Peer]) -> None:
        """One that beats is there to stay; one that does not will be declared dead."""
        for peer in strangers:
            if self._watch.saw_beat(peer):
                place = f"process {peer.process} on {peer.host}"
                mine, theirs = _of_users(self._queues), _of_users(peer.queues)
                self._mind.turned_away(MixedPool(self._settings.pool, mine, theirs, place))
                return
        self._say_waiting()

    def _say_waiting(self) -> None:
        """A worker that has nothing says once why: others have the shards, alive or not yet known dead."""
        if self._hand.shards or self._said_waiting:
            return
        self._said_waiting = True
        holders = {lease.worker_id for lease in self._leases if lease.worker_id is not None}
        facts = {"holders": len(holders), "lease_seconds": self._settings.lease}
        log.info("worker.waiting_for_shards", extra=facts)

    def share(self, *, look: bool = False) -> None:
        """Give away what is above my share, or what waits here while another worker is idle."""
        me = self._me
        if look:
            self._read_peers(self._session.call("read_workers", pool=self._settings.pool))
        # A fair share for all versions of an application; what waits only for who can run all of it.
        staying = [p for p in self.peers if p.slots and not p.is_stranger(self._queues)]
        serving = [p for p in staying if p.id == me or p.queues >= self._queues]
        recent = moment.local() - self._settings.lease
        keep = {shard for shard, at in self._given.items() if at > recent}
        gift = surplus_gift(self._leases, staying, me=me, keep=keep)
        if gift is None and self._mind.free_slots() == 0:
            gift = load_gift(self._mind.waiting_by_shard(), serving, me=me, keep=keep)
        if gift is not None:
            self._give(gift.shards, gift.to)

    def give_all(self) -> bool:
        """Free everything, for anyone; whether nothing is left."""
        if self._hand.shards:
            self._give(tuple(self._hand.shards), None)
        return not self._hand.shards

    def _give(self, shards: Sequence[int], to: UUID | None) -> None:
        """Free shards, with every run in them held; a shard with a run that cannot be held stays."""
        going = [shard for shard in shards if shard in self._hand.shards]
        runs = self._hand.let_go(going)
        unheld = [(run, self._mind.hold_after(run)[1]) for run in runs if not run.held]
        stay: set[int] = set()
        try:
            with self._session.transaction():
                steps.reach("shards.giving")
                held: set[int] = set()
                if unheld:
                    rows = self._session.fetch("hold", **hold_arguments(unheld, self._me))
                    held = {row[0] for row in rows}
                stay = {run.visit.shard for run, _ in unheld if run.token not in held}
                self._free([shard for shard in going if shard not in stay], to)
            for run, _ in unheld:
                run.held = run.held or run.token in held
            self._note_given({shard for shard in going if shard not in stay}, to)
            steps.reach("shards.given")
        except BaseException:
            stay = set()  # unknown: none is mine until a beat has read the leases
            raise
        finally:
            if stay:
                self._hand.own(self._hand.shards | stay, count=len(self._leases))
            self._mind.shards_changed()

    def _note_given(self, given: set[int], to: UUID | None) -> None:
        """What is given is no longer mine to give, whatever the leases said at the last beat."""
        self._leases = [
            replace(lease, worker_id=None, offered_to=to) if lease.shard in given else lease
            for lease in self._leases
        ]
        for shard in given:
            self._epochs.pop(shard, None)
            self._given.pop(shard, None)

    def _free(self, shards: list[int], to: UUID | None) -> None:
        pool = self._settings.pool
        self._session.fetch(
            "give_leases",
            pool=pool,
            worker_id=self._me,
            shards=shards,
            epochs=[self._epochs.get(shard, 0) for shard in shards],
            offered_to=to,
            epoch=token(),
        )
        self._session.fetch("wake_all", pool=pool)

    def tidy(self) -> None:
        """Forget notes that newer ones have replaced, and suspects that were all looked at."""
        self._session.call("trim_reach", worker_id=self._me)
        if self._hand.suspects and self._mind.suspects_done():
            self._session.call(
                "clear_suspects",
                pool=self._settings.pool,
                worker_id=self._me,
                shards=list(self._hand.suspects),
            )
            self._hand.suspects = {}


def _of_users(queues: Collection[str]) -> list[str]:
    """The queues that tell applications apart; every one has those of the engine."""
    return sorted(name for name in queues if not name.startswith(OWN)) or sorted(queues)
