"""Shards: which of them this worker has, takes, and gives away.

Carries out what lease.py and bands.py decide. Mine is what memory and the lease table agree on: memory
lets go before a give is sent and adopts only what was read back, under a new epoch where an answer was
lost. A lease is of the pool, or of one of its bands while the pool is cut; both are known by their name.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from mainspring.db.literals import numbers
from mainspring.errors import MixedPool
from mainspring.kernel import clock, crash_points
from mainspring.kernel.lease import recut
from mainspring.kernel.lease.bands import (
    CLOSED,
    WHOLE,
    Band,
    Code,
    Piece,
    bands_for,
    members,
    must_yield,
    turns_of,
)
from mainspring.kernel.lease.dead import declare_dead
from mainspring.kernel.lease.holds import hold_arguments
from mainspring.kernel.lease.loop_port import LoopPort
from mainspring.kernel.lease.session import Session
from mainspring.kernel.lease.sharing import (
    Lease,
    Peer,
    Watch,
    load_gift,
    shards_to_take,
    surplus_gift,
)
from mainspring.kernel.owned import Owned
from mainspring.kernel.settings import OWN, WorkerSettings
from mainspring.kernel.visit import LAST_KEY, Position, token

log = logging.getLogger("mainspring")

Held = tuple[str, int]  # the name of a lease (of the pool, or of a band) and its shard


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
        self._book = recut.Book(settings.pool, code)
        self._watch = Watch(settings.lease)
        self._leases: dict[str, list[Lease]] = {}
        self._count = 0  # of the pool's shards
        # The rows of the last read, and the leases that they mean: they rarely change, and a thousand
        # new objects a beat are work for the collector too.
        self._read: tuple[Sequence[Any], dict[str, list[Lease]]] = ([], {})
        self._bands: dict[str, Band] = {settings.pool: WHOLE}  # by name, of all leases ever seen
        self._codes: dict[UUID, Code | None] = {}  # of the workers that there are
        self._pieces: recut.Cut = {}  # the leases by shard, while there are bands
        self._in_order: tuple[Any, ...] = ()  # the pieces and codes that need no recut
        self._target: tuple[frozenset[Code | None], list[Band]] = (frozenset(), [WHOLE])
        self._epochs: dict[Held, int] = {}  # of the leases that are mine, as memory knows them
        self._given: dict[Held, float] = {}  # what came for its load, and when
        self._said_waiting = False
        self.peers: list[Peer] = []

    @property
    def _me(self) -> UUID:
        assert self._owned.worker_id is not None
        return self._owned.worker_id

    def seen(self, peers: Sequence[Any], leases: Sequence[Any]) -> None:
        """What a beat has read. Where memory and table differ an answer was lost or a recut was made, so
        what the table says is adopted under a new epoch: a late give of mine then comes to nothing."""
        self._read_peers(peers)
        self._read_leases(leases)
        mine = {held: lease.epoch for held, lease in self._mine()}
        if mine == self._epochs and {shard for _, shard in mine} == self._owned.shards:
            return
        rows = self._session.call(
            "renew_leases", pool=self._settings.pool, worker_id=self._me, epoch=token()
        )
        self._bands |= self._book.bands(self._session.call, {row[0] for row in rows})
        renewed = {(row[0], row[1]): Lease(*row[1:]) for row in rows if row[0] in self._bands}
        self._note(renewed)
        self._adopt(renewed)

    def _mine(self) -> Iterable[tuple[Held, Lease]]:
        for name, leases in self._leases.items():
            for lease in leases:
                if lease.worker_id == self._me:
                    yield (name, lease.shard), lease

    def _note(self, changed: dict[Held, Lease]) -> None:
        """These leases are as follows from here on, whatever the last beat read."""
        self._leases = {
            name: [changed.get((name, lease.shard), lease) for lease in leases]
            for name, leases in self._leases.items()
        }

    def _read_leases(self, rows: Sequence[Any]) -> None:
        """What rows of read_leases mean. Lists that are never changed, only replaced."""
        if rows != self._read[0]:
            pool = self._settings.pool
            found = self._book.bands(self._session.call, {pool, *(row[0] for row in rows)})
            self._bands |= found
            leases: dict[str, list[Lease]] = {name: [] for name in found}
            self._count = 0
            for name, group, *rest in rows:
                shards = group.split(",")
                self._count += len(shards) if name == pool else 0
                if rest[0] != CLOSED and name in leases:
                    leases[name] += [Lease(int(shard), *rest) for shard in shards]
            self._read = (rows, leases)
        self._leases = self._read[1]

    def _read_peers(self, rows: Sequence[Any]) -> None:
        codes = self._book.codes(self._session.call, [(r[0], r[9]) for r in rows])
        if codes != self._codes:
            self._codes, self._loop_port.turns_of = codes, turns_of(codes.values())
        self.peers = [
            Peer(row[0], row[1], code.queues if code else frozenset(row[2]), *row[3:])
            for row in rows
            if row[0] in codes
            for code in (codes[row[0]],)
        ]
        self._owned.bundles = all(peer.bundles for peer in self.peers)

    def _adopt(self, mine: dict[Held, Lease]) -> None:
        """Make these leases, and only these, mine: load what is held there before anything starts."""
        shards = {shard for _, shard in mine}
        new = mine.keys() - self._epochs.keys()
        if new:
            self._loop_port.held_read(self._session.call("read_held", shards=numbers(list(shards))))
            self._load_suspects({held: mine[held].suspect_of for held in new})
        self._epochs = {held: lease.epoch for held, lease in mine.items()}
        self._owned.own(shards, count=self._count, by_queue=self._by_queue())
        self._loop_port.shards_changed()

    def _by_queue(self) -> dict[str, frozenset[int]]:
        """The shards of each queue; none while what is mine is whole."""
        of: dict[str, set[int]] = {}
        for name, shard in self._epochs:
            of.setdefault(name, set()).add(shard)
        if of.keys() <= {self._settings.pool}:
            return {}
        known: dict[tuple[str, ...], frozenset[int]] = {}
        found = {}
        for queue in self._queues:
            names = tuple(n for n in of if (band := self._bands[n]) is None or queue in band)
            if names not in known:
                known[names] = frozenset[int]().union(*(of[name] for name in names))
            found[queue] = known[names]
        return found

    def _load_suspects(self, of: dict[Held, UUID | None]) -> None:
        """How far the dead owners of these leases had read: up to there, visits are suspects."""
        dead = list({worker_id for worker_id in of.values() if worker_id is not None})
        if not dead:
            return
        reach: dict[UUID, dict[tuple[str, int], Position]] = {}
        rows = self._session.call("read_reach", worker_ids=dead)
        for worker_id, queue, priority, due_at, key in rows:
            reached = (due_at.timestamp(), LAST_KEY if key is None else key)
            reach.setdefault(worker_id, {})[queue, priority] = reached
        for (name, shard), owner in of.items():
            if (
                owner is not None
            ):  # one that had read nothing too: else its name would stay for ever
                band, read = self._bands[name], reach.get(owner, {})
                levels = {k: v for k, v in read.items() if band is None or k[0] in band}
                before = {} if band is None else self._owned.suspects.get(shard, {})
                self._owned.suspects[shard] = before | levels

    def declare_dead(self, beat_at: float, read_at: float) -> None:
        """Declare dead who stood still for a lease time, and free its shards."""
        pool = self._settings.pool
        for peer in self._watch.look(self.peers, me=self._me, now=beat_at, read_at=read_at):
            freed = declare_dead(
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
            self._read_leases(self._session.call("read_leases", pool=pool))
            self.peers = [p for p in self.peers if p.id != peer.id]
            self._codes.pop(peer.id, None)

    # -- bands

    def recut(self) -> bool:
        """Whether the pool's bands were written anew, as far as its living codes need others."""
        if len(self._leases) == 1 and len(set(self._codes.values())) == 1:
            return False
        cut: dict[int, set[Piece]] = {}
        for name, leases in self._leases.items():
            for lease in leases:
                piece = Piece(self._bands[name], lease.worker_id, lease.suspect_of)
                cut.setdefault(lease.shard, set()).add(piece)
        self._pieces = {shard: frozenset(some) for shard, some in cut.items()}
        as_read = (self._pieces, frozenset(self._codes.items()))
        if as_read == self._in_order:
            return False
        planned = recut.planned(self._pieces, self.target, self._codes)
        wrong = [n for n in range(self._count) if n not in planned or planned[n] != self._pieces[n]]
        if not wrong:
            self._in_order = as_read
            return False
        return recut.carry_out(
            self._session,
            self._book,
            me=self._me,
            shards=wrong,
            seconds=self._settings.beat_every / 2,
        )

    @property
    def target(self) -> list[Band]:
        """The bands that the pool should have."""
        codes = frozenset(self._codes.values())
        if codes != self._target[0]:
            self._target = (codes, bands_for(codes))
        return self._target[1]

    def _wanted(self) -> list[str]:
        """The names of leases that are taken and shared: those that are no mere pieces of a band."""
        target = self.target
        return [name for name in self._leases if self._bands[name] in target]

    def _members(self, name: str) -> list[Peer]:
        """Who shares these leases and means to stay."""
        staying = [
            peer
            for peer in self.peers
            if peer.slots and not (peer.code is None and peer.is_stranger(self._queues))
        ]
        return members(self._bands[name], staying, self._codes)

    # -- take

    def take(self) -> None:
        """Take free shards up to a fair share, and those freed for me."""
        if strangers := self._older_strangers():
            self._give_way(strangers)
            return
        for name in self._wanted():
            self._take(name)
        if not self._owned.shards:
            self._say_waiting()

    def _take(self, name: str) -> None:
        me, leases = self._me, self._leases[name]
        staying = {peer.id for peer in self._members(name)}
        if self._bands[name] is not None and me not in staying:
            return
        most = shards_to_take(leases, staying, me=me)
        if most <= 0:
            return
        gifts = {lease.shard for lease in leases if lease.offered_to == me}
        rows = self._session.call("take_leases", pool=name, worker_id=me, most=most, epoch=token())
        if not rows:
            return
        crash_points.passed("leases.taken")
        taken = {(name, row[0]): Lease(row[0], me, row[1], None, row[2]) for row in rows}
        mine = sum(1 for lease in leases if lease.worker_id == me)
        # What only fills my fair share was not given for its load, and may go for that at once.
        if mine + len(taken) > len(leases) // max(1, len(staying)):
            came = [held for held in taken if held[1] in gifts]
            self._given.update(dict.fromkeys(came, clock.local()))
        self._note(taken)
        self._adopt(dict(self._mine()))

    def _older_strangers(self) -> list[Peer]:
        """Workers of another application that were in this pool before me, mean to stay and know no bands.

        Of two that are strangers one is the older, whatever each has seen of the other: that one
        works, the other takes nothing until the older is gone.
        """
        mine = next((p for p in self.peers if p.id == self._me), None)
        return [
            peer
            for peer in self.peers
            if mine is not None
            and peer.slots
            and peer.code is None
            and peer.is_stranger(self._queues)
            and (peer.started_at, peer.id) < (mine.started_at, mine.id)
        ]

    def _give_way(self, strangers: Sequence[Peer]) -> None:
        """One that beats is there to stay; one that does not will be declared dead."""
        for peer in strangers:
            if self._watch.saw_beat(peer):
                place = f"process {peer.process} on {peer.host}"
                mine, theirs = _of_users(self._queues), _of_users(peer.queues)
                self._loop_port.turned_away(MixedPool(self._settings.pool, mine, theirs, place))
                return
        if not self._owned.shards:
            self._say_waiting()

    def _say_waiting(self) -> None:
        """A worker that has nothing says once why: others have the shards, alive or not yet known dead."""
        if self._said_waiting:
            return
        self._said_waiting = True
        holders = {lease.worker_id for some in self._leases.values() for lease in some} - {None}
        facts = {"holders": len(holders), "lease_seconds": self._settings.lease}
        log.info("worker.waiting_for_shards", extra=facts)

    # -- give

    def share(self, *, look: bool = False) -> None:
        """Give away what is above my share, or what waits here while another worker is idle."""
        if look:
            self._read_peers(self._session.call("read_workers", pool=self._settings.pool))
        for name in self._wanted():
            self._share(name)
        if not look:
            self._let_bands_meet()

    def _share(self, name: str) -> None:
        me, leases, staying = self._me, self._leases[name], self._members(name)
        if all(peer.id != me for peer in staying):
            self._hand_over(name, staying)
            return
        recent = clock.local() - self._settings.lease
        keep = {shard for (n, shard), at in self._given.items() if at > recent and n == name}
        gift = surplus_gift(leases, staying, me=me, keep=keep)
        if gift is None and self._loop_port.free_slots() == 0:
            # What waits is only for who can run all of it.
            band = self._bands[name]
            queues = self._queues if band is None else self._queues & band
            serving = [p for p in staying if p.id == me or p.queues >= queues]
            gift = load_gift(self._loop_port.waiting_by_shard(queues), serving, me=me, keep=keep)
        if gift is not None:
            self._give(name, gift.shards, gift.to)

    def _hand_over(self, name: str, staying: Sequence[Peer]) -> None:
        """I have a part of a band only, and those who have all of it are enough: it is theirs."""
        if self._bands[name] is not None and staying:
            mine = [shard for (n, shard) in self._epochs if n == name]
            if mine:
                self._give(name, mine, None)

    def _let_bands_meet(self) -> None:
        """Free pieces of mine that stand in the way of a band with one owner."""
        target = self.target
        if all(self._bands[name] in target for name in self._leases):
            return
        staying = {peer.id: self._codes[peer.id] for peer in self.peers if peer.slots}
        going: dict[str, list[int]] = {}
        for (name, shard), lease in self._mine():
            mine = Piece(self._bands[name], self._me, lease.suspect_of)
            if must_yield(mine, self._pieces.get(shard, ()), target, staying):
                going.setdefault(name, []).append(shard)
        for name, shards in going.items():
            self._give(name, shards, None)

    def give_all(self) -> bool:
        """Free everything, for anyone; whether nothing is left."""
        of: dict[str, list[int]] = {}
        for name, shard in self._epochs:
            of.setdefault(name, []).append(shard)
        for name, shards in of.items():
            self._give(name, shards, None)
        return not self._owned.shards

    def _give(self, name: str, shards: Sequence[int], to: UUID | None) -> None:
        """Free shards, with every run in them held; a shard with a run that cannot be held stays."""
        going = {s: self._epochs.pop((name, s)) for s in shards if (name, s) in self._epochs}
        runs = self._owned.let_go(going, self._bands[name])
        unheld = [(run, self._loop_port.hold_after(run)[1]) for run in runs if not run.held]
        stay: set[int] = set()
        try:
            with self._session.transaction():
                crash_points.passed("shards.giving")
                held: set[int] = set()
                if unheld:
                    rows = self._session.fetch("hold", **hold_arguments(unheld, self._me))
                    held = {row[0] for row in rows}
                stay = {run.visit.shard for run, _ in unheld if run.token not in held}
                self._free(name, {s: epoch for s, epoch in going.items() if s not in stay}, to)
            for run, _ in unheld:
                run.held = run.held or run.token in held
            self._note_given(name, going.keys() - stay, to)
            crash_points.passed("shards.given")
        except BaseException:
            stay = set()  # unknown: none is mine until a beat has read the leases
            raise
        finally:
            if stay:
                self._epochs |= {(name, shard): going[shard] for shard in stay}
                owned = {shard for _, shard in self._epochs}
                self._owned.own(owned, count=self._count, by_queue=self._by_queue())
            self._loop_port.shards_changed()

    def _note_given(self, name: str, given: Collection[int], to: UUID | None) -> None:
        """What is given is no longer mine to give, whatever the leases said at the last beat."""
        self._leases = {
            **self._leases,
            name: [
                replace(lease, worker_id=None, offered_to=to) if lease.shard in given else lease
                for lease in self._leases.get(name, ())
            ],
        }
        for shard in given:
            self._given.pop((name, shard), None)

    def _free(self, name: str, epochs: dict[int, int], to: UUID | None) -> None:
        self._session.fetch(
            "give_leases",
            pool=name,
            worker_id=self._me,
            shards=list(epochs),
            epochs=list(epochs.values()),
            offered_to=to,
            epoch=token(),
        )
        self._session.fetch("wake_all", pool=self._settings.pool)

    def tidy(self) -> None:
        """Forget notes that newer ones have replaced, and suspects that were all looked at."""
        self._session.call("trim_reach", worker_id=self._me)
        suspects = self._owned.suspects
        if suspects and self._loop_port.suspects_done():
            known = self._queues
            self._session.call(
                "clear_suspects",
                pool=self._settings.pool,
                worker_id=self._me,
                shards=list(suspects),
                others=[
                    s for s, levels in suspects.items() if any(q not in known for q, _ in levels)
                ],
                epochs=list(set(self._epochs.values())),
            )
            self._owned.suspects = {}


def _of_users(queues: Collection[str]) -> list[str]:
    """The queues that tell applications apart; every one has those of the engine."""
    return sorted(name for name in queues if not name.startswith(OWN)) or sorted(queues)
