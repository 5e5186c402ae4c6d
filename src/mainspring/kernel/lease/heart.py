"""The heart: a thread that keeps the worker alive in the eyes of the others.

It beats on a connection of its own, and between beats looks after shards, holds and parts. So a handler
that blocks the event loop loses no lease, and is seen. Over a slow network each statement takes its time:
a beat that is due comes between any two of them. When it cannot beat, the lease ends by its own clock and
the worker is fenced: every run is stopped before another worker may start the same visit.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from uuid import UUID, uuid4

from mainspring import clock, crash_points
from mainspring.db.database import Database
from mainspring.db.reconnecting import Reconnecting
from mainspring.db.session import Session
from mainspring.db.sql import as_rows
from mainspring.endpoint import AwayNews
from mainspring.kernel.lease.dead import deny_death, free_leases
from mainspring.kernel.lease.holds import Holds, OwnHold, release
from mainspring.kernel.lease.loop_port import LoopPort, QueueRow
from mainspring.kernel.lease.parts import Parts
from mainspring.kernel.lease.pool_view import LeaseRow
from mainspring.kernel.lease.shards import Shards
from mainspring.kernel.lease.watchdog import Watchdog
from mainspring.kernel.owned import Owned
from mainspring.kernel.settings import QueueSettings, WorkerSettings
from mainspring.kernel.statements import SQL
from mainspring.kernel.tuning import LEASE
from mainspring.loop_watch import LoopWatch
from mainspring.sharing.bands import code_of
from mainspring.sharing.shares import Peer

log = logging.getLogger("mainspring")


class _DeclaredDead(Exception):
    """Others believe this worker dead."""


class Heart(threading.Thread):
    """One per worker. `_turn` is one turn of it; the rest is when to turn."""

    def __init__(
        self,
        database: Database,
        owned: Owned,
        loop_port: LoopPort,
        settings: WorkerSettings,
        queues: Iterable[QueueSettings],
        watched: Iterable[str] = (),
    ) -> None:
        super().__init__(name="mainspring.heart", daemon=True)
        self._owned = owned
        self._loop_port = loop_port
        self._settings = settings
        queues = list(queues)
        self._turns = {queue.name: queue.turns for queue in queues}
        self._away = AwayNews((queue.name, queue.endpoint) for queue in queues)
        self._watched = [*self._turns, *watched]  # whose settings are read
        self._session = Session(database, patience=settings.lease * LEASE.connect)
        self._session.call_between(self._beat_if_due)
        self.watchdog = Watchdog(
            owned, settings.lease, on=settings.fence == "exit", mark=settings.exit_mark
        )
        code = code_of(self._turns.keys(), self._turns.values())
        self._digest = code.digest
        self._shards = Shards(self._session, owned, loop_port, settings, code)
        self._holds = Holds(self._session, owned, loop_port, retry_after=settings.beat_every)
        self._parts = Parts(self._session, owned, loop_port)
        self._first_id = settings.worker_id
        self._launch = uuid4()  # the same under every id, so others know who came back
        self._poke = threading.Event()
        self._beat_at = 0.0  # when the last good beat was sent
        self._look_at = 0.0  # when a beat last asked for all others
        self._read_at = 0.0  # when it had the answer
        self._round_trips: deque[float] = deque(maxlen=LEASE.round_trips_seen)
        self._said_short = False
        self._beat_now = False  # the next turn beats, whatever the time
        self._turn_at = 0.0  # when the turn that is under way began
        self._shared_at = 0.0
        self._overfull = False  # visits wait here for a slot
        self._pooled = database.pooled
        self._pool: set[tuple[UUID, int, str | None]] = (
            set()
        )  # its workers, as the last beat saw them
        self._at_rest = 0  # beats since the last that read everything
        self._all_read_at = 0.0  # when that was
        self._was_fenced = False
        # Others have declared this worker dead. Its id stays until the next turn joins under a new one: a
        # hold or a result that is on its way must name whose it is.
        self._is_dead = False
        self.joined = threading.Event()
        self.leaving = threading.Event()  # give everything, take nothing
        self._ending = threading.Event()
        self.loop = LoopWatch()

    # -- when to turn

    def run(self) -> None:
        reconnecting = Reconnecting("heart.waiting")
        while not self._ending.is_set():
            try:
                self._turn_at = clock.local()
                self.watchdog.asking()
                try:
                    self._turn()
                except _DeclaredDead:
                    self._declared_dead()
                self.watchdog.answered()
                reconnecting.worked()
                wait = self._until_next()
            except Exception as error:
                self._session.disconnect()
                self._beat_now = True  # an answer may be lost: a beat reads how things stand
                wait = min(reconnecting.failed(error), self._settings.beat_every)
            self._turn_at = 0.0
            self._fence_if_late()
            self.loop.look()
            self._poke.wait(wait)
            self._poke.clear()
        self.watchdog.end()
        self._session.close()

    def cut_if_hung(self) -> None:
        """The lease has ended and no beat came: break off what the thread waits for, if it hangs."""
        began = self._turn_at
        if began and clock.local() - began > self._settings.lease * LEASE.hung:
            self.cut()

    def cut(self) -> None:
        """Break off whatever its connection waits for."""
        self._session.cut()

    def poke_beat(self) -> None:
        """Beat now: shards were freed or settings changed."""
        self._beat_now = True
        self._poke.set()

    def poke_parts(self) -> None:
        """A limited queue waits for its part: look soon, but not at every start that is kept back."""
        if self._parts.is_stale():
            self._poke.set()

    def poke_share(self) -> None:
        """Visits wait here for a slot: if another worker is idle, it should have them now."""
        if self._shards.is_shared and clock.local() - self._shared_at > LEASE.share_every:
            self._shared_at = clock.local()
            self._overfull = True
            self._poke.set()

    def _until_next(self) -> float:
        if self._beat_now:
            return 0.0
        now = clock.local()
        waits = [
            self._look_at + self._settings.beat_every - now,
            self._holds.next_in(now),
            LEASE.parts_every if self._parts.unmet else math.inf,
            # A run that begins while this thread sleeps must be held in time too.
            max(
                LEASE.least_hold_sleep,
                self._loop_port.shortest_hold_after() * LEASE.hold_part,
            ),
        ]
        return max(LEASE.least_sleep, min(waits))

    def _fence_if_late(self) -> None:
        if clock.local() > self._owned.good_until and not self._was_fenced:
            self._was_fenced = True
            log.warning("worker.fenced", extra={"worker": str(self._owned.worker_id)})
            self._loop_port.fenced()
        self.watchdog.call_off_if_idle()

    # -- one turn

    def _turn(self) -> None:
        if self._owned.worker_id is None or self._is_dead:
            self._join()
        every = self._settings.beat_every * LEASE.beat_early
        looks = self._beat_now or clock.local() >= self._look_at + every
        if looks:
            poked, self._beat_now = self._beat_now, False
            self._beat(poked)
        # What runs here and now comes first: looking after others may fail, or wait for locks.
        self._holds.write_due()
        self._parts.keep()
        self._look_after_shards(look=looks)
        if looks and not self._at_rest:
            self._holds.look()
            self._shards.tidy()

    def _look_after_shards(self, *, look: bool) -> None:
        shards, overfull, self._overfull = self._shards, self._overfull, False
        died = look and shards.declare_dead(self._look_at, self._read_at)
        if self.leaving.is_set():
            # At every turn: a recut that came before a give has left me what I thought was given.
            shards.give_all()
        elif look and (died or shards.recut()):
            self.poke_beat()  # what was written is read before anything is taken
        elif look:
            shards.take()
            shards.share()
        elif overfull:
            shards.share(look=True)

    def _join(self) -> None:
        """Appear under an id that was never used before; ids never come back."""
        session, pool, self._beat_at = self._session, self._settings.pool, 0.0
        if self._is_dead:
            # Nothing that ran here has killed anybody.
            deny_death(session, self._owned.worker_id)
        session.run(SQL["make_leases"], pool=pool)
        worker_id = self._first_id or uuid4()
        self._first_id = None  # used, even if the answer is lost
        session.run(
            SQL["join_pool"],
            worker_id=worker_id,
            pool=pool,
            queues=list(self._turns),
            turns=[turn or "" for turn in self._turns.values()],
            code=self._digest,
            slots=self._settings.concurrency,
            host=socket.gethostname(),
            process=os.getpid(),
            launch=self._launch,
        )
        self._owned.join(worker_id)
        self._away.joined()
        self._is_dead = False
        self._look_at = 0.0
        # The others should share now. If this is lost they will at their next beat; but we have joined.
        session.run(SQL["wake_all"], pool=pool)
        crash_points.passed("pool.joined")
        log.info("worker.joined", extra={"worker": str(worker_id), "pool": pool})

    def _beat(self, poked: bool) -> None:
        """Beat, and see all others, all leases and all settings as they are after it. At rest only the
        others: whatever else changes is told of, and looked for once in a lease time in any case."""
        session, pool = self._session, self._settings.pool
        sent = clock.local()
        self._send_beat()
        peers = session.rows(SQL["read_workers"], Peer, pool=pool)
        self._at_rest = 0 if poked or not self._rests_with(peers) else self._at_rest + 1
        if self._at_rest:
            self._look_at, self._read_at = sent, clock.local()
            self._shards.read_peers(peers)
            return
        self._all_read_at = sent
        leases = session.rows(SQL["read_leases"], LeaseRow, pool=pool)
        most = LEASE.shut_groups
        queues = session.rows(SQL["read_queues"], QueueRow, queues=self._watched, most_groups=most)
        self._look_at, self._read_at = sent, clock.local()
        self._loop_port.settings_read(queues)
        self._shards.seen(peers, leases)
        self.joined.set()

    def _rests_with(self, peers: Sequence[Peer]) -> bool:
        """Whether nothing runs, waits or is held here, and the pool is the one of the last beat."""
        pool = {(peer.id, peer.slots, peer.code) for peer in peers}
        same, self._pool = pool == self._pool, pool
        owned = self._owned
        here = owned.runs or owned.suspects or owned.started_at > self._all_read_at
        others = self._holds.any_held or self._parts.unmet or self._loop_port.runner.hanging.runs
        if here or others or not same or self.leaving.is_set():
            return False
        return (
            not self._pooled and self._at_rest < LEASE.resting_beats
        )  # behind a pooler nobody is told

    def _beat_if_due(self) -> None:
        """Between two statements: a turn of many must not last longer than the lease."""
        if self._beat_at and clock.local() >= self._beat_at + self._settings.beat_every:
            self._send_beat()

    def _send_beat(self) -> None:
        values = {
            "worker_id": self._owned.worker_id,
            "slots": 0 if self.leaving.is_set() else self._settings.concurrency,
            "free": self._loop_port.free_slots(),
            "hanging": as_rows(self._loop_port.runner.hanging.listed()),
            "away": self._away.news(),
        }
        sent = clock.local()
        with self._session.undisturbed():
            now = self._session.first(SQL["beat"], float, **values)
        received = clock.local()
        if now is None:
            raise _DeclaredDead
        self._beat_at = sent
        self._away.answered()
        self.watchdog.beaten(sent)
        self._was_fenced = False
        jump = self._owned.time.seen(now, sent=sent, received=received)
        if abs(jump) > LEASE.jump and self.joined.is_set():
            self._beat_now = True  # a pause may have ended
            self._loop_port.clock_jumped(jump)
        self._warn_of_short_lease(received - sent)

    def _warn_of_short_lease(self, round_trip: float) -> None:
        self._round_trips.append(round_trip)
        shortest, lease = min(self._round_trips), self._settings.lease
        knows = len(self._round_trips) == LEASE.round_trips_seen and not self._said_short
        if not knows or shortest * LEASE.round_trips <= lease:
            return
        self._said_short = True
        text = (
            f"a round trip to the database takes {shortest * 1000:.0f} ms, which is long for a lease of "
            f"{lease:g} s: set lease to at least {math.ceil(shortest * LEASE.round_trips)} s, or move the "
            "worker nearer to its database"
        )
        facts = {"lease_seconds": lease, "round_trip_ms": round(shortest * 1000), "text": text}
        log.warning("lease.short", extra=facts)

    def _declared_dead(self) -> None:
        """Others believe me dead: stop everything, then come back as somebody else."""
        log.warning("worker.declared_dead", extra={"worker": str(self._owned.worker_id)})
        self._owned.let_go(self._owned.shards)
        self._owned.lease_until(0.0)
        self._loop_port.fenced()
        self._loop_port.shards_changed()
        self._parts.lose()
        self._is_dead = True
        self._look_at = self._beat_at = 0.0
        self._poke.set()

    # -- the end

    def leave(self) -> None:
        """What is left goes back at once, and my row goes. Called after the thread has ended."""
        crash_points.passed("pool.leaving")
        session, me, pool = self._session, self._owned.worker_id, self._settings.pool
        # The thread's connection may hang. And no beat comes between any more: it would set the watchdog on
        # a process that ends.
        session.begin_anew()
        try:
            for _ in range(LEASE.leave_tries):
                # A hold that is left (its row is locked just now) would be taken for a crash.
                with session.transaction():
                    release(session, me, None)
                if not session.rows(SQL["read_own_holds"], OwnHold, worker_id=me):
                    break
                self._poke.wait(LEASE.leave_again)
                self._poke.clear()
            with session.transaction():
                release(session, me, None)
                free_leases(session, me, pool=pool, fenced=True)
                session.run(SQL["leave_pool"], worker_id=me)
                session.run(SQL["wake_all"], pool=pool)
        finally:
            session.close()

    def end(self) -> None:
        """End the thread (not the worker's row)."""
        self._ending.set()
        self._poke.set()
