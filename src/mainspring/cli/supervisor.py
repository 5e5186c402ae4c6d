"""The supervisor: keeps a number of worker processes alive.

A process that dies (a poison task, a fence, the kernel's memory killer) is replaced after a pause
that grows while they keep dying. The first signal is passed on and lets them end in order, a second
one ends everything at once. Each process has a session of its own, so that a terminal's Ctrl-C
reaches it once, through here.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import msgspec

from mainspring.app import ECHO_SECONDS
from mainspring.cli.child import Orders
from mainspring.db.connect import backoff

log = logging.getLogger("mainspring")
STEADY_SECONDS = 30.0  # a process that lived so long did not die at its start
STOP_MARGIN_SECONDS = 30.0  # beyond the grace, for settling and leaving
SECOND_SIGNAL = 130


@dataclass(slots=True)
class Seat:
    """A place for one process."""

    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    deaths: int = 0  # in a row, each soon after a start
    start_at: float = 0.0
    drained: bool = False
    leaving: bool = False  # told to end, to be started anew


class Supervisor:
    """Runs `count` processes by these orders until a signal, or until all have drained."""

    def __init__(self, orders: Orders, count: int, *, grace: float) -> None:
        self._orders = orders
        self._grace = grace
        self._seats = [Seat() for _ in range(count)]
        self._signals = 0
        self._signalled_at = 0.0
        self._deadline = float("inf")

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
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return SECOND_SIGNAL if self._signals > 1 else 0

    def _over(self) -> bool:
        if self._signals > 1:
            return True
        idle = all(seat.process is None for seat in self._seats)
        return idle and (self._signals == 1 or all(seat.drained for seat in self._seats))

    def _turn(self) -> None:
        now = time.monotonic()
        if now > self._deadline:
            log.error("worker.killed", extra={"seconds": self._grace + STOP_MARGIN_SECONDS})
            self._send(signal.SIGKILL)
            self._deadline = float("inf")
        for seat in self._seats:
            if seat.process is not None and (code := seat.process.poll()) is not None:
                self._ended(seat, code, now)
            waits = seat.process is None and not seat.drained and now >= seat.start_at
            if waits and not self._signals:
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
        orders = msgspec.structs.replace(self._orders, parent=os.getpid())
        seat.process = subprocess.Popen(
            [*command, msgspec.json.encode(orders).decode()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        seat.began = now
        log.info("worker.process_started", extra={"pid": seat.process.pid})

    def _ended(self, seat: Seat, code: int, now: float) -> None:
        assert seat.process is not None
        facts: dict[str, Any] = {"pid": seat.process.pid, "code": code}
        seat.process = None
        if self._signals or seat.leaving:
            seat.leaving = False
            log.info("worker.process_ended", extra=facts)
            return
        if code == 0 and self._orders.drain:
            seat.drained = True
            log.info("worker.process_drained", extra=facts)
            return
        seat.deaths = 0 if now - seat.began > STEADY_SECONDS else seat.deaths + 1
        pause = backoff(seat.deaths, first=0.1, most=10.0)
        seat.start_at = now + pause
        log.error("worker.process_died", extra={**facts, "restart_after": round(pause, 3)})

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._signals and now - self._signalled_at < ECHO_SECONDS:
            return  # the same one, from the process group and from a wrapper
        self._signals += 1
        self._signalled_at = now
        self._deadline = time.monotonic() + self._grace + STOP_MARGIN_SECONDS
        self._send(signal.Signals(number) if self._signals == 1 else signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        for seat in self._seats:
            if seat.process is not None and seat.process.poll() is None:
                seat.process.send_signal(number)
                if number == signal.SIGKILL:
                    seat.process.wait()
