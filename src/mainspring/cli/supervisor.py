"""The supervisor: keeps a number of worker processes alive.

A process that dies (a poison task, the kernel's memory killer) is declared dead at once and replaced
after a pause that grows while they keep dying. One that its watchdog ended for want of the database is
said to have been fenced, as soon as somebody is there to be told: none of its runs is to blame. One in
which too many runs hang ends in order, and another takes its place at once. A drain gives up in the
end, and so does a worker whose processes all end because they were told what cannot be (exit code 2).
The first signal lets them end in order, a second one ends everything at once. Each process has a session
of its own, so that a terminal's Ctrl-C reaches it once, through here, and as SIGTERM: a process that
still imports then ends without a traceback.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import IO
from uuid import UUID, uuid4

import msgspec

from mainspring.cli import codes, show
from mainspring.cli.child import Orders
from mainspring.db.reconnecting import backoff
from mainspring.kernel.lease.watchdog import read_mark
from mainspring.serve import ECHO_SECONDS

log = logging.getLogger("mainspring")
STEADY_SECONDS = 30.0  # a process that lived so long did not die at its start
LONGEST_PAUSE = 10.0  # seconds, before a process is started again
STOP_MARGIN_SECONDS = 30.0  # beyond the grace, for settling and leaving
# A seat is given up after so many deaths in a row: before the worker joined its pool, and at all.
# (A task that kills its worker is parked after a few deaths; several may come one after the other.)
START_TRIES = 3
DRAIN_DEATHS = 50


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a process ended."""

    pid: int
    code: int
    lived: float  # seconds
    fenced: bool = False  # its watchdog ended it, and the database did not answer


# Declares a worker dead (or fenced); answers whether it had joined its pool, None if it cannot be told.
DeclareDead = Callable[[UUID, bool], bool | None]


class DeathNotice:
    """Declares a dead process's worker dead, in a thread: while the database is away that takes long,
    and signals must be heard all the same. One that was fenced is not waited for: its database is away,
    and must be told before others come to think that it was killed."""

    def __init__(self, declare_dead: DeclareDead, worker_id: UUID, end: ProcessEnd) -> None:
        self.end = end
        self.had_joined = end.fenced
        self._declare_dead = declare_dead
        self._thread = threading.Thread(target=self._run, args=(worker_id,), daemon=True)
        self._thread.start()

    def _run(self, worker_id: UUID) -> None:
        tries = 0
        while (
            had_joined := self._declare_dead(worker_id, self.end.fenced)
        ) is None and self.end.fenced:
            time.sleep(backoff(tries))
            tries += 1
        self.had_joined = self.had_joined or bool(had_joined)

    @property
    def is_over(self) -> bool:
        return self.end.fenced or not self._thread.is_alive()


@dataclass(slots=True)
class Seat:
    """A place for one process."""

    process: subprocess.Popen[bytes] | None = None
    worker_id: UUID | None = None
    mark: IO[bytes] | None = None  # what its watchdog leaves
    began: float = 0.0
    deaths: int = 0  # in a row, each soon after a start
    start_at: float = 0.0
    death_notice: DeathNotice | None = None  # of the process that has just died
    drained: bool = False
    refused: bool = False  # its processes ended with exit code 2, again and again
    given_up: bool = False
    leaving: bool = False  # told to end, to be started anew


class Supervisor:
    """Runs `count` processes by these orders until a signal, or until all have drained."""

    def __init__(
        self,
        orders: Orders,
        count: int,
        *,
        grace: float,
        declare_dead: DeclareDead,
        gives_up: bool = True,
    ) -> None:
        self._orders = orders
        self._grace = grace
        self._declare_dead = declare_dead
        self._gives_up = gives_up
        self._seats = [Seat() for _ in range(count)]
        # Set by the handler, which does nothing else; `_turn` passes the first one on.
        self._signals = 0
        self._signalled_at = 0.0
        self._passed_on = False
        self._deadline = float("inf")
        self._failed = 0  # the exit code when a seat was given up

    def run(self, *, each_turn: Callable[[], bool] = lambda: False) -> int:
        """Watch over the processes; answers the exit code.

        `each_turn` is called all the while; when it answers True, every process is ended in order
        and started anew.
        """
        handlers = {n: signal.signal(n, self._signalled) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            while not self._over():
                self._turn()
                if each_turn() and not self._signals:
                    self._renew()
                time.sleep(0.05)
        finally:
            self._send(signal.SIGKILL)
            for seat in self._seats:
                if seat.process is not None:
                    seat.process.wait()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return codes.INTERRUPTED if self._signals > 1 else self._failed

    def _over(self) -> bool:
        if self._signals > 1:
            return True
        idle = all(seat.process is None and seat.death_notice is None for seat in self._seats)
        return idle and (
            self._signals == 1 or all(seat.drained or seat.given_up for seat in self._seats)
        )

    def _turn(self) -> None:
        now = time.monotonic()
        if self._signals and not self._passed_on:
            self._passed_on = True
            self._deadline = self._signalled_at + self._grace + STOP_MARGIN_SECONDS
            self._send(signal.SIGTERM)
        if now > self._deadline:
            log.error("worker.killed", extra={"seconds": self._grace + STOP_MARGIN_SECONDS})
            self._send(signal.SIGKILL)
            self._deadline = float("inf")
        for seat in self._seats:
            if seat.process is not None and (code := seat.process.poll()) is not None:
                self._ended(seat, code, now)
            if seat.death_notice is not None and seat.death_notice.is_over:
                death_notice, seat.death_notice = seat.death_notice, None
                self._follow(seat, death_notice.end, had_joined=death_notice.had_joined)
            over = seat.drained or seat.given_up or self._signals or seat.death_notice is not None
            if seat.process is None and not over and now >= seat.start_at:
                self._start(seat, now)

    def _renew(self) -> None:
        """End every process in order; each is started anew at once."""
        for seat in self._seats:
            seat.leaving = seat.process is not None
            seat.start_at = 0.0
            seat.deaths = 0
        self._send(signal.SIGTERM)

    def _start(self, seat: Seat, now: float) -> None:
        command = [sys.executable, "-m", "mainspring.cli.child"]
        seat.worker_id, seat.mark = uuid4(), tempfile.TemporaryFile()  # noqa: SIM115
        mark = seat.mark.fileno()
        orders = msgspec.structs.replace(
            self._orders, parent=os.getpid(), worker_id=seat.worker_id, exit_mark=mark
        )
        if orders.counts is not None:  # a file of each seat's own: who comes next counts on
            file = os.path.join(orders.counts, f"{self._seats.index(seat)}.json")
            orders = msgspec.structs.replace(orders, counts=file)
        seat.process = subprocess.Popen(
            [*command, msgspec.json.encode(orders).decode()],
            stdin=subprocess.DEVNULL,
            pass_fds=[mark],
            start_new_session=True,
        )
        seat.began = now
        log.info("worker.process_started", extra={"pid": seat.process.pid})

    def _ended(self, seat: Seat, code: int, now: float) -> None:
        assert seat.process is not None
        assert seat.worker_id is not None
        worker_id, fenced = seat.worker_id, False
        if seat.mark is not None:
            with seat.mark as mark:
                last_known, fenced = read_mark(mark.fileno(), code)
            worker_id = last_known or worker_id
        end = ProcessEnd(seat.process.pid, code, lived=now - seat.began, fenced=fenced)
        seat.process = seat.mark = None
        if code in (codes.OK, codes.WORN_OUT):  # it has left its pool itself
            self._follow(seat, end, had_joined=False)
        else:
            seat.death_notice = DeathNotice(self._declare_dead, worker_id, end)

    def _follow(self, seat: Seat, end: ProcessEnd, *, had_joined: bool) -> None:
        """What comes after the end of a process: nothing, or another one."""
        code, facts = end.code, {"pid": end.pid, "code": end.code, "fenced": end.fenced}
        if self._signals or seat.leaving or seat.given_up:
            seat.leaving = False
            log.info("worker.process_ended", extra=facts)
            return
        if code == codes.WORN_OUT:
            log.warning("worker.process_replaced", extra=facts)
            seat.start_at = 0.0
            return
        if code == 0 and self._orders.drain:
            seat.drained = True
            log.info("worker.process_drained", extra=facts)
            return
        steady = end.lived > STEADY_SECONDS and code != codes.USAGE
        seat.deaths = 0 if steady else seat.deaths + 1
        seat.refused = code == codes.USAGE and seat.deaths >= START_TRIES
        if self._orders.drain and seat.deaths >= (DRAIN_DEATHS if had_joined else START_TRIES):
            self._give_up([seat], code)
            return
        if self._gives_up and all(other.refused for other in self._seats):
            self._give_up(self._seats, code)
            return
        # Where code is being written a process that was told what cannot be starts with the next file.
        waits = code == codes.USAGE and not self._gives_up
        pause = LONGEST_PAUSE if waits else backoff(seat.deaths, first=0.1, most=LONGEST_PAUSE)
        seat.start_at = time.monotonic() + pause
        log.error("worker.process_died", extra={**facts, "restart_after": round(pause, 3)})

    def _give_up(self, seats: list[Seat], code: int) -> None:
        deaths = max(seat.deaths for seat in seats)
        for seat in seats:
            seat.given_up = True
        self._failed = max(code, codes.PROBLEM)
        log.error("worker.given_up", extra={"code": code, "deaths": deaths})
        show.complain(
            f"a worker process ended {deaths} times in a row (exit code {code}) and is not started "
            "again: its log says why; what is due is still there"
        )

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._signals and now - self._signalled_at < ECHO_SECONDS:
            return  # the same one, from the process group and from a wrapper
        self._signals += 1
        self._signalled_at = now

    def _send(self, number: signal.Signals) -> None:
        for seat in self._seats:
            if seat.process is not None and seat.process.poll() is None:
                seat.process.send_signal(number)
