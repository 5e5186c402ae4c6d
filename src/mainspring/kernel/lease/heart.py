"""The heart: a thread that keeps the worker alive in the eyes of the others.

It beats, and between beats has shards, holds and parts looked after, on a connection of its own. So
a handler that blocks the event loop loses no lease and is seen. While it looks after them it beats
whenever that is due: over a slow network each statement takes its time. When it cannot beat, the lease
ends by its own clock and the worker is fenced: every run is stopped before another worker may start
the same visit.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
from collections import deque
from collections.abc import Iterable
from uuid import uuid4

from mainspring.db.database import Database, backoff
from mainspring.kernel import clock, crash_points
from mainspring.kernel.lease import parts
from mainspring.kernel.lease.bands import code_of
from mainspring.kernel.lease.dead import deny_death
from mainspring.kernel.lease.holds import Holds
from mainspring.kernel.lease.loop_port import LoopPort
from mainspring.kernel.lease.parts import Parts
from mainspring.kernel.lease.session import Session
from mainspring.kernel.lease.shards import Shards
from mainspring.kernel.lease.watchdog import Watchdog
from mainspring.kernel.owned import Owned
from mainspring.kernel.run.loop_watch import LoopWatch
from mainspring.kernel.settings import QueueSettings, WorkerSettings

log = logging.getLogger("mainspring")

# A worker with more visits than slots looks this often whether another one is idle (seconds).
SHARE_EVERY = 0.25
# Of the lease time: so long a new connection is waited for, before the clock is looked at again.
CONNECT_WITHIN = 0.15
# A lease that is shorter than so many round trips may end while the heart looks after things. That is
# said when the shortest of so many beats is that slow.
ROUND_TRIPS = 50
ROUND_TRIPS_SEEN = 5
# Visits that are locked when the worker leaves are tried so often, a tenth of a second apart.
LEAVE_TRIES = 20
# The database's clock is said to have jumped when it moved so much against ours (seconds).
JUMP = 0.25


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
        self._turns = {queue.name: queue.turns for queue in queues}
        self._watched = [*self._turns, *watched]  # whose settings are read
        self._session = Session(database, patience=settings.lease * CONNECT_WITHIN)
        self._session.between = self._beat_if_due
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
        # When all others were last asked for, and when they were known.
        self._look_at = self._read_at = 0.0
        self._round_trips: deque[float] = deque(maxlen=ROUND_TRIPS_SEEN)
        self._said_short = False
        self._beat_now = False  # the next turn beats, whatever the time
        self._turn_at = 0.0  # when the turn that is under way began
        self._shared_at = 0.0
        self._overfull = False  # visits wait here for a slot
        self._was_fenced = False
        # Declared so by others. The id stays until the next turn joins under a new one: a hold or
        # a result that is on its way must name whose it is.
        self._is_dead = False
        self.joined = threading.Event()
        self.leaving = threading.Event()  # give everything, take nothing
        self.given_all = threading.Event()
        self._ending = threading.Event()
        self.loop = LoopWatch()

    # -- when to turn

    def run(self) -> None:
        tries = 0
        while not self._ending.is_set():
            try:
                self._turn_at = clock.local()
                self.watchdog.asking()
                self._turn()
                self.watchdog.answered()
                tries = 0
                wait = self._until_next()
            except Exception as error:
                if tries % 20 == 0:
                    log.warning("heart.waiting", extra={"error": str(error)})
                self._session.disconnect()
                self._beat_now = True  # an answer may be lost: a beat reads how things stand
                wait = min(backoff(tries), self._settings.beat_every)
                tries += 1
            self._turn_at = 0.0
            self._fence_if_late()
            self.loop.look()
            self._poke.wait(wait)
            self._poke.clear()
        self.watchdog.end()
        self._session.close()

    def cut(self) -> None:
        """The lease has ended and no beat came: break off what the thread waits for, if it hangs."""
        began = self._turn_at
        if began and clock.local() - began > self._settings.lease / 2:
            self._session.cut()

    def break_off(self) -> None:
        """Whatever its connection waits for, at the worker's end."""
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
        if len(self._shards.peers) > 1 and clock.local() - self._shared_at > SHARE_EVERY:
            self._shared_at = clock.local()
            self._overfull = True
            self._poke.set()

    def _until_next(self) -> float:
        now = clock.local()
        if self._beat_now:
            return 0.0
        wait = min(self._look_at + self._settings.beat_every - now, self._holds.next_in(now))
        if self._parts.unmet:
            wait = min(wait, parts.EVERY)
        # A run that begins while this thread sleeps must be held in time too.
        wait = min(wait, max(0.05, self._loop_port.shortest_hold_after() / 2))
        return max(0.01, wait)

    def _fence_if_late(self) -> None:
        if clock.local() > self._owned.good_until and not self._was_fenced:
            self._was_fenced = True
            log.warning("worker.fenced", extra={"worker": str(self._owned.worker_id)})
            self._loop_port.fenced()
        self.watchdog.call_off_if_idle()

    # -- one turn

    def _turn(self) -> None:
        try:
            self._look_after_all()
        except _DeclaredDead:
            self._declared_dead()

    def _look_after_all(self) -> None:
        if self._owned.worker_id is None or self._is_dead:
            self._join()
        looks = self._beat_now or (clock.local() >= self._look_at + self._settings.beat_every * 0.9)
        if looks:
            self._beat_now = False
            self._beat()
        # What runs here and now comes first: looking after others may fail, or wait for locks.
        self._holds.write_due()
        self._parts.keep()
        self._look_after_shards(look=looks)
        # At every turn: a recut that came before a give has left me what I thought was given.
        if self.leaving.is_set() and self._shards.give_all():
            self.given_all.set()

    def _look_after_shards(self, *, look: bool) -> None:
        if look:
            self._shards.declare_dead(self._look_at, self._read_at)
            if not self.leaving.is_set():
                self._take_part()
            self._holds.look()
            self._shards.tidy()
        elif self._overfull and not self.leaving.is_set():
            self._shards.share(look=True)
        self._overfull = False

    def _take_part(self) -> None:
        """In the work of the pool. What a recut has written is read by a beat first, at once."""
        if self._shards.recut():
            self.poke_beat()
        else:
            self._shards.take()
            self._shards.share()

    def _join(self) -> None:
        """Appear under an id that was never used before; ids never come back."""
        settings, self._beat_at = self._settings, 0.0
        if self._is_dead:
            # Nothing that ran here has killed anybody.
            deny_death(self._session, self._owned.worker_id)
        self._session.call("make_leases", pool=settings.pool)
        worker_id = self._first_id or uuid4()
        self._first_id = None  # used, even if the answer is lost
        self._session.call(
            "join_pool",
            worker_id=worker_id,
            pool=settings.pool,
            queues=list(self._turns),
            turns=[turn or "" for turn in self._turns.values()],
            code=self._digest,
            slots=settings.concurrency,
            host=socket.gethostname(),
            process=os.getpid(),
            launch=self._launch,
        )
        self._owned.worker_id = worker_id
        self._is_dead = False
        self._look_at = 0.0
        # The others should share now. Lost, they will at their next beat; but we have joined.
        self._session.call("wake_all", pool=settings.pool)
        crash_points.passed("pool.joined")
        log.info("worker.joined", extra={"worker": str(worker_id), "pool": settings.pool})

    def _beat(self) -> None:
        """Beat, and see all others, all leases and all settings as they are after it."""
        settings, session = self._settings, self._session
        sent = clock.local()
        self._send_beat()
        peers = session.call("read_workers", pool=settings.pool)
        leases = session.call("read_leases", pool=settings.pool)
        queues = session.call("read_queues", queues=self._watched)
        self._look_at, self._read_at = sent, clock.local()
        self._loop_port.settings_read(queues)
        self._shards.seen(peers, leases)
        self.joined.set()

    def _beat_if_due(self) -> None:
        """Between two statements: a turn of many must not last longer than the lease."""
        if self._beat_at and clock.local() >= self._beat_at + self._settings.beat_every:
            self._send_beat()

    def _send_beat(self) -> None:
        owned, settings = self._owned, self._settings
        slots = 0 if self.leaving.is_set() else settings.concurrency
        sent = clock.local()
        beaten = self._session.alone(
            "beat", worker_id=owned.worker_id, slots=slots, free=self._loop_port.free_slots()
        )
        received = clock.local()
        if not beaten:
            raise _DeclaredDead
        self._beat_at = sent
        self.watchdog.beaten(sent)
        self._was_fenced = False
        jump = owned.time.seen(beaten[0][1], sent=sent, received=received)
        if abs(jump) > JUMP and self.joined.is_set():
            self._loop_port.clock_jumped(jump)
        self._warn_of_short_lease(received - sent)

    def _warn_of_short_lease(self, round_trip: float) -> None:
        self._round_trips.append(round_trip)
        shortest, lease = min(self._round_trips), self._settings.lease
        full = len(self._round_trips) == ROUND_TRIPS_SEEN
        if self._said_short or not full or shortest * ROUND_TRIPS <= lease:
            return
        self._said_short = True
        text = (
            f"a round trip to the database takes {shortest * 1000:.0f} ms, which is long for a lease of "
            f"{lease:g} s: set lease to at least {math.ceil(shortest * ROUND_TRIPS)} s, or move the "
            "worker nearer to its database"
        )
        facts = {"lease_seconds": lease, "round_trip_ms": round(shortest * 1000), "text": text}
        log.warning("lease.short", extra=facts)

    def _declared_dead(self) -> None:
        """Others believe me dead: stop everything, then come back as somebody else."""
        log.warning("worker.declared_dead", extra={"worker": str(self._owned.worker_id)})
        self._owned.let_go(self._owned.shards)
        self._owned.good_until = 0.0
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
        session.disconnect()  # a new one: that of the thread may hang
        # No clock is to be looked at any more, and a beat would set the watchdog on a process that ends.
        session.patience, session.between = None, lambda: None
        try:
            for _ in range(LEAVE_TRIES):
                # A hold that is left (its row is locked just now) would be taken for a crash.
                session.call("release_holds", worker_id=me, runs=None)
                if not session.call("read_own_holds", worker_id=me):
                    break
                self._poke.wait(0.1)
                self._poke.clear()
            with session.transaction():
                session.fetch("release_holds", worker_id=me, runs=None)
                session.fetch("free_own_leases", worker_id=me, pool=pool)
                session.fetch("leave_pool", worker_id=me)
                session.fetch("wake_all", pool=pool)
        finally:
            session.close()

    def end(self) -> None:
        """End the thread (not the worker's row)."""
        self._ending.set()
        self._poke.set()
