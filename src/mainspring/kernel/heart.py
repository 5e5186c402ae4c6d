"""The heart: a thread that keeps the worker alive in the eyes of the others.

It beats, takes and gives shards, declares the dead, frees their visits and writes the holds that are
due, on a connection of its own. So a handler that blocks the event loop loses no lease and is seen.
When it cannot beat, the lease ends by its own clock and the worker is fenced: every run is stopped
before another worker may start the same visit.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import socket
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID, uuid4

from mainspring.db.connect import Database, backoff
from mainspring.kernel import moment, steps
from mainspring.kernel.config import WorkerSettings
from mainspring.kernel.hand import Hand
from mainspring.kernel.lease import (
    Lease,
    Peer,
    Watch,
    load_gift,
    shards_to_take,
    surplus_gift,
)
from mainspring.kernel.limits import Part, next_rate, next_size
from mainspring.kernel.store import SQL
from mainspring.kernel.visit import Run, token

log = logging.getLogger("mainspring")

# A worker with more visits than slots looks this often whether another one is idle.
SHARE_EVERY = 0.25
# While a worker waits for its part of a limit it looks this often.
PARTS_EVERY = 0.1
# Of the lease time: runs are stopped after the first, the process (if it must) ends after the second.
FENCE_AFTER = 0.7
EXIT_AFTER = 0.9


@dataclass(frozen=True, slots=True)
class PartNeed:
    """A limited queue: whether this worker could use (more of) it, and what it runs."""

    queue: str
    wants: bool
    running: int


class Mind(Protocol):
    """What the heart asks of the worker and tells it, from its own thread."""

    def settings_read(self, rows: Sequence[Any]) -> None: ...
    def held_read(self, rows: Sequence[Any]) -> None: ...
    def shards_changed(self) -> None: ...
    def clock_jumped(self, seconds: float) -> None: ...
    def fenced(self) -> None: ...
    def waiting_by_shard(self) -> dict[int, int]: ...
    def free_slots(self) -> int: ...
    def hold_after(self, run: Run) -> tuple[float, float | None]: ...
    def part_needs(self) -> list[PartNeed]: ...
    def part_shrink(self, queue: str, size: int, rate: float) -> int: ...
    def part_set(self, queue: str, size: int, rate: float) -> None: ...
    def suspects_done(self) -> bool: ...


class Heart(threading.Thread):
    """One per worker. `step()` is one turn of it; the rest is when to turn."""

    def __init__(
        self,
        database: Database,
        hand: Hand,
        mind: Mind,
        settings: WorkerSettings,
        queues: Iterable[str],
    ) -> None:
        super().__init__(name="mainspring.heart", daemon=True)
        self._database = database
        self._hand = hand
        self._mind = mind
        self._settings = settings
        self._queues = list(queues)
        self._connection: Any = None
        self._poke = threading.Event()
        self._watch = Watch(settings.lease)
        self._beat_at = 0.0
        self._given: dict[int, float] = {}  # shards that came as a gift, and when
        self._overdue: set[int] = set()  # passes whose work timeout had passed at the last beat
        self._leases: list[Lease] = []
        self._epochs: dict[int, int] = {}  # of the shards that are mine, as memory knows them
        self._peers: list[Peer] = []
        self._was_fenced = False
        self._parts_at = 0.0
        self._shared_at = 0.0
        self._overfull = False  # visits wait here for a slot
        self._unmet = False  # a limited queue of mine could use more
        self.joined = threading.Event()
        self.leaving = threading.Event()  # give everything, take nothing
        self.given_all = threading.Event()
        self._ending = threading.Event()

    # -- when to turn

    def run(self) -> None:
        tries = 0
        while not self._ending.is_set():
            try:
                self._turn()
                tries = 0
                wait = self._until_next()
            except Exception as error:
                if tries % 20 == 0:
                    log.warning("heart.waiting", extra={"error": str(error)})
                self._disconnect()
                wait = min(backoff(tries), self._settings.beat_every)
                tries += 1
            self._fence_if_late()
            self._poke.wait(wait)
            self._poke.clear()
        if self._settings.fence == "exit":
            faulthandler.cancel_dump_traceback_later()

    def poke(self) -> None:
        """Turn soon: something changed that cannot wait for the next beat."""
        self._poke.set()

    def poke_beat(self) -> None:
        """Beat now: shards were freed or settings changed."""
        self._beat_at = min(self._beat_at, moment.local() - self._settings.beat_every)
        self._poke.set()

    def poke_parts(self) -> None:
        """A limited queue waits for its part: look soon, but not at every start that is kept back."""
        if moment.local() - self._parts_at > PARTS_EVERY:
            self._poke.set()

    def poke_share(self) -> None:
        """Visits wait here for a slot: if another worker is idle, it should have them now."""
        if len(self._peers) > 1 and moment.local() - self._shared_at > SHARE_EVERY:
            self._shared_at = moment.local()
            self._overfull = True
            self._poke.set()

    def _until_next(self) -> float:
        now = moment.local()
        wait = self._beat_at + self._settings.beat_every - now
        if self._unmet:
            wait = min(wait, PARTS_EVERY)
        for run in self._hand.snapshot():
            if not run.held and run.outcome is None:
                wait = min(wait, max(run.hold_at, run.began + self._mind.hold_after(run)[0]) - now)
        return max(0.01, wait)

    def _fence_if_late(self) -> None:
        if moment.local() > self._hand.good_until and not self._was_fenced:
            self._was_fenced = True
            log.warning("worker.fenced", extra={"worker": str(self._hand.worker_id)})
            self._mind.fenced()
        if self._was_fenced and self._settings.fence == "exit" and not self._active():
            faulthandler.cancel_dump_traceback_later()  # all have stopped: no need to end the process

    def _active(self) -> list[Run]:
        return [run for run in self._hand.snapshot() if run.outcome is None]

    # -- one turn

    def _turn(self) -> None:
        if self._hand.worker_id is None:
            self._join()
        if moment.local() >= self._beat_at + self._settings.beat_every * 0.9:
            if not self._beat():
                self._declared_dead()
                return
            self._bury()
            if not self.leaving.is_set():
                self._take()
            self._look_at_held()
            self._share()
            self._tidy()
        elif self._overfull:
            self._read_peers(self._call("read_workers", pool=self._settings.pool))
            self._share()
        self._overfull = False
        self._hold_due()
        self._keep_parts()
        if self.leaving.is_set() and not self.given_all.is_set():
            self._give_all()

    def _me(self) -> UUID:
        assert self._hand.worker_id is not None
        return self._hand.worker_id

    def _call(self, name: str, **values: Any) -> list[Any]:
        if self._connection is None:
            self._connection = self._database.connect_sync("heart")
        with self._database.transaction_sync(self._connection):
            return self._fetch(name, values)

    def _fetch(self, name: str, values: dict[str, Any]) -> list[Any]:
        cursor = self._connection.execute(SQL[name].text, values)
        return cursor.fetchall() if cursor.description else []

    def _transaction(self) -> Any:
        if self._connection is None:
            self._connection = self._database.connect_sync("heart")
        return self._database.transaction_sync(self._connection)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _join(self) -> None:
        """Appear under an id that was never used before; ids never come back."""
        worker_id = uuid4()
        self._call(
            "join_pool",
            worker_id=worker_id,
            pool=self._settings.pool,
            queues=self._queues,
            slots=self._settings.concurrency,
            host=socket.gethostname(),
            process=os.getpid(),
        )
        self._call("make_leases", pool=self._settings.pool)
        self._hand.worker_id = worker_id
        self._beat_at = 0.0
        steps.reach("pool.joined")
        log.info("worker.joined", extra={"worker": str(worker_id), "pool": self._settings.pool})

    def _beat(self) -> bool:
        """Beat, and see all others and all leases in the same transaction."""
        hand, settings = self._hand, self._settings
        sent = moment.local()
        with self._transaction():
            beaten = self._fetch(
                "beat",
                {
                    "worker_id": hand.worker_id,
                    "slots": 0 if self.leaving.is_set() else settings.concurrency,
                    "free": self._mind.free_slots(),
                },
            )
            if not beaten:
                return False
            peers = self._fetch("read_workers", {"pool": settings.pool})
            leases = self._fetch("read_leases", {"pool": settings.pool})
            queues = self._fetch("read_queues", {"queues": self._queues})
        received = moment.local()
        self._beat_at = sent
        hand.good_until = sent + settings.lease * FENCE_AFTER
        self._was_fenced = False
        if settings.fence == "exit":
            left = sent + settings.lease * EXIT_AFTER - moment.local()
            faulthandler.dump_traceback_later(max(0.01, left), exit=True)
        jump = hand.time.seen(beaten[0][1], sent=sent, received=received)
        if abs(jump) > 0.25 and self.joined.is_set():
            self._mind.clock_jumped(jump)
        self._read_peers(peers)
        self._leases = [Lease(*row) for row in leases]
        self._mind.settings_read(queues)
        self._reconcile()
        self.joined.set()
        return True

    def _read_peers(self, rows: Sequence[Any]) -> None:
        self._peers = [Peer(row[0], row[1], frozenset(row[2]), row[3], row[4]) for row in rows]

    def _reconcile(self) -> None:
        """Mine is what memory and table agree on. Where they differ an answer was lost, so what the
        table says is adopted under a new epoch: a late give of mine then comes to nothing."""
        mine = {lease.shard: lease for lease in self._leases if lease.worker_id == self._me()}
        agreed = mine.keys() == self._hand.shards and all(
            self._epochs.get(shard) == lease.epoch for shard, lease in mine.items()
        )
        if agreed:
            return
        rows = self._call(
            "renew_leases", pool=self._settings.pool, worker_id=self._me(), epoch=token()
        )
        renewed = {row[0]: Lease(*row) for row in rows}
        self._leases = [renewed.get(lease.shard, lease) for lease in self._leases]
        self._adopt(renewed.values())

    def _adopt(self, leases: Iterable[Lease]) -> None:
        """Make these leases, and only these, mine: load what is held there before anything starts."""
        mine = {lease.shard: lease for lease in leases}
        new = set(mine) - self._hand.shards
        if new:
            self._mind.held_read(self._call("read_held", shards=list(mine)))
            suspected = {mine[s].suspect_of for s in new if mine[s].suspect_of is not None}
            if suspected:
                self._load_suspects({s: mine[s].suspect_of for s in new}, suspected)
        self._epochs = {shard: lease.epoch for shard, lease in mine.items()}
        self._hand.own(mine, count=len(self._leases))
        self._mind.shards_changed()

    def _load_suspects(self, of: dict[int, UUID | None], dead: Iterable[UUID | None]) -> None:
        reach: dict[UUID, dict[tuple[str, int], Any]] = {}
        for worker_id, queue, priority, due_at in self._call("read_reach", worker_ids=list(dead)):
            reach.setdefault(worker_id, {})[queue, priority] = due_at
        for shard, worker_id in of.items():
            if worker_id is not None and worker_id in reach:
                self._hand.suspects[shard] = reach[worker_id]

    def _bury(self) -> None:
        """Declare dead who stood still for a lease time, and free its shards."""
        for peer in self._watch.look(self._peers, me=self._me(), now=self._beat_at):
            with self._transaction():
                if not self._fetch("declare_dead", {"dead_id": peer.id, "beat": peer.beat}):
                    continue
                freed = self._fetch(
                    "free_leases",
                    {"dead_id": peer.id, "pool": self._settings.pool, "epoch": token()},
                )
            steps.reach("dead.declared")
            log.warning(
                "worker.dead",
                extra={
                    "worker": str(peer.id),
                    "shards": len(freed),
                    "by": str(self._hand.worker_id),
                },
            )
            self._leases = [Lease(*r) for r in self._call("read_leases", pool=self._settings.pool)]
            self._peers = [p for p in self._peers if p.id != peer.id]

    def _take(self) -> None:
        """Take free shards up to a fair share, and those freed for me."""
        me = self._me()
        staying = {p.id for p in self._peers if p.slots}
        most = shards_to_take(self._leases, staying, me=me)
        if most <= 0:
            return
        gifts = {lease.shard for lease in self._leases if lease.offered_to == me}
        rows = self._call(
            "take_leases", pool=self._settings.pool, worker_id=me, most=most, epoch=token()
        )
        if not rows:
            return
        steps.reach("leases.taken")
        taken = {row[0]: Lease(row[0], me, row[1], None, row[2]) for row in rows}
        for shard in gifts & taken.keys():
            self._given[shard] = moment.local()
        self._leases = [taken.get(lease.shard, lease) for lease in self._leases]
        self._adopt([lease for lease in self._leases if lease.worker_id == me])

    def _look_at_held(self) -> None:
        """Free what a dead worker held, what passed its work timeout at two beats running, and what
        I hold for a run that I no longer have (a hold that arrived after its run was given up)."""
        self._release_lost()
        if not self._hand.shards:
            return
        shards = list(self._hand.shards)
        rows = self._call("read_held", shards=shards)
        late = {row[4] for row in rows if row[6]}
        overdue, self._overdue = late & self._overdue, late
        orphaned = [row[4] for row in rows if row[7]]
        if overdue or orphaned:
            freed = self._call("recover", shards=shards, orphaned=orphaned, overdue=list(overdue))
            steps.reach("visits.recovered")
            for _, key, queue, crashes, was_orphaned, parked in freed:
                facts = {"queue": queue, "key": key, "crashes": crashes, "parked": parked}
                log.warning("visit.recovered", extra={**facts, "orphaned": was_orphaned})
            rows = self._call("read_held", shards=shards)
            self._mind.shards_changed()
        self._mind.held_read(rows)

    def _release_lost(self) -> None:
        held = [row[1] for row in self._call("read_own_holds", worker_id=self._me())]
        # A run is in hand before its hold is sent, so what is not in hand now has ended.
        lost = [run for run in held if run not in self._hand.runs]
        if lost:
            self._call("release_holds", worker_id=self._me(), runs=lost)
            self._mind.shards_changed()

    def _hold_due(self) -> None:
        """Mark the runs that last: from here on they are seen, and survive one by one."""
        now = moment.local()
        due: list[tuple[Run, float | None]] = []
        for run in self._hand.snapshot():
            if run.held or run.outcome is not None or run.settled:
                continue
            after, work_timeout = self._mind.hold_after(run)
            if now >= max(run.hold_at, run.began + after):
                run.hold_at = now + self._settings.beat_every
                due.append((run, work_timeout))
        if not due:
            return
        steps.reach("hold.writing")
        held = {row[0] for row in self._call("hold", **hold_arguments(due, self._hand.worker_id))}
        for run, _ in due:
            run.held = run.held or run.token in held
        steps.reach("hold.written")

    # -- giving

    def _share(self) -> None:
        """Give away what is above my share, or what waits here while another worker is idle."""
        me = self._me()
        if self.leaving.is_set() or len(self._peers) < 2:
            return
        staying = [p for p in self._peers if p.slots]
        serving = [p for p in staying if p.id == me or p.queues >= set(self._queues)]
        gift = surplus_gift(self._leases, staying, me=me)
        if gift is not None and gift.to not in {p.id for p in serving}:
            gift = None
        if gift is None and self._mind.free_slots() == 0:
            recent = moment.local() - self._settings.lease
            keep = {shard for shard, at in self._given.items() if at > recent}
            gift = load_gift(self._mind.waiting_by_shard(), serving, me=me, keep=keep)
        if gift is not None:
            self._give(gift.shards, gift.to)

    def _give_all(self) -> None:
        if self._hand.shards:
            self._give(tuple(self._hand.shards), None)
        if not self._hand.shards:
            self._call("wake_all", pool=self._settings.pool)
            self.given_all.set()

    def _give(self, shards: Sequence[int], to: UUID | None) -> None:
        """Free shards, with every run in them held; a shard with a run that cannot be held stays."""
        runs = self._hand.let_go(shards)
        kept: set[int] = set(shards)
        try:
            with self._transaction():
                steps.reach("shards.giving")
                unheld = [(run, self._mind.hold_after(run)[1]) for run in runs if not run.held]
                held: set[int] = set()
                if unheld:
                    rows = self._fetch("hold", hold_arguments(unheld, self._hand.worker_id))
                    held = {row[0] for row in rows}
                stay = {run.visit.shard for run, _ in unheld if run.token not in held}
                going = [shard for shard in shards if shard not in stay]
                freed = self._fetch(
                    "give_leases",
                    {
                        "pool": self._settings.pool,
                        "worker_id": self._hand.worker_id,
                        "shards": going,
                        "epochs": [self._epochs.get(shard, 0) for shard in going],
                        "offered_to": to,
                        "epoch": token(),
                    },
                )
                self._fetch("wake_all", {"pool": self._settings.pool})
            for run, _ in unheld:
                run.held = run.held or run.token in held
            kept -= {row[0] for row in freed}
            steps.reach("shards.given")
        except BaseException:
            kept = set()  # unknown: not mine until the next beat has read the leases
            self._beat_at = 0.0
            raise
        finally:
            if kept:
                self._hand.own(self._hand.shards | kept, count=len(self._leases))
            self._mind.shards_changed()
        for shard in shards:
            self._given.pop(shard, None)

    # -- limits

    def _keep_parts(self) -> None:
        """My part of each limited queue: asked for on demand, given back when not used."""
        self._parts_at = moment.local()
        needs = self._mind.part_needs()
        for need in needs:
            self._keep_part(need)
        self._unmet = any(need.wants for need in needs)

    def _keep_part(self, need: PartNeed) -> None:
        queue = need.queue
        with self._transaction():
            # The row's lock also waits for a commit of my own whose answer was lost.
            limits = self._fetch("lock_queue", {"queue": queue})
            if not limits:
                return
            rows = self._fetch("read_parts", {"queue": queue})
            parts = {row[0]: Part(row[1], row[2], row[3]) for row in rows}
            mine = parts.pop(self._me(), Part(0, 0.0, False))
            others = list(parts.values())
            size = rate = 0.0
            if limits[0][0] is not None:
                size = next_size(
                    limits[0][0], mine.size, others, wants=need.wants, running=need.running
                )
            if limits[0][1] is not None:
                rate = next_rate(limits[0][1], mine.rate, others, wants=need.wants)
            # Shrink before grow: what the table lends to others I must already have stopped using.
            running = self._mind.part_shrink(queue, min(mine.size, int(size)), min(mine.rate, rate))
            size = max(int(size), min(mine.size, running))
            part = Part(size, rate, need.wants)
            if part != mine:
                self._fetch(
                    "keep_part",
                    {
                        "queue": queue,
                        "worker_id": self._me(),
                        "size": part.size,
                        "rate": part.rate,
                        "wants": part.wants,
                    },
                )
        self._mind.part_set(queue, part.size, part.rate)

    # -- tidying and the end

    def _tidy(self) -> None:
        self._call("trim_reach", worker_id=self._hand.worker_id)
        if self._hand.suspects and self._mind.suspects_done():
            shards = list(self._hand.suspects)
            self._call(
                "clear_suspects",
                pool=self._settings.pool,
                worker_id=self._hand.worker_id,
                shards=shards,
            )
            self._hand.suspects = {}

    def _declared_dead(self) -> None:
        """Others believe me dead: stop everything, then come back as somebody else."""
        log.warning("worker.declared_dead", extra={"worker": str(self._hand.worker_id)})
        self._hand.let_go(self._hand.shards)
        self._hand.good_until = 0.0
        self._mind.fenced()
        self._mind.shards_changed()
        self._hand.worker_id = None
        self._beat_at = 0.0
        self._poke.set()

    def leave(self) -> None:
        """The end: what is left goes back at once, and my row goes. Called after the thread ended."""
        steps.reach("pool.leaving")
        me = {"worker_id": self._me()}
        try:
            with self._transaction():
                self._fetch("release_holds", {**me, "runs": None})
                self._fetch("free_own_leases", {**me, "pool": self._settings.pool})
                self._fetch("leave_pool", me)
                self._fetch("wake_all", {"pool": self._settings.pool})
        finally:
            self._disconnect()

    def end(self) -> None:
        """End the thread (not the worker's row)."""
        self._ending.set()
        self._poke.set()


def hold_arguments(
    runs: Sequence[tuple[Run, float | None]], worker_id: UUID | None
) -> dict[str, Any]:
    """The arguments of hold.sql."""
    return {
        "shards": [run.visit.shard for run, _ in runs],
        "keys": [run.visit.key for run, _ in runs],
        "queues": [run.visit.queue for run, _ in runs],
        "versions": [run.visit.version for run, _ in runs],
        "runs": [run.token for run, _ in runs],
        "started": [run.started for run, _ in runs],
        "work_timeouts": [timeout for _, timeout in runs],
        "worker_id": worker_id,
    }
