"""The probe: what every handler of every system does, and how the harness sees it from outside.

A process counts its handler runs in a small memory-mapped slot, so a run costs about one
microsecond and no system call. Runs whose start time matters also leave a stamp in a file.
Standard library only: this is imported inside the virtual environment of each peer.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Iterable
from pathlib import Path

NOTHING, STAMP, FAIL_ONCE, SLEEP, BLOCK, DIE, NAP = range(7)  # what a job asks its handler to do

SLOT = struct.Struct("<qqqq")  # count, last run, first run, the marked run (nanoseconds)
COUNT, LAST, FIRST, MARKED = range(4)  # its places
STAMPED = struct.Struct("<qqq")  # number of the job, start, end (nanoseconds, monotonic clock)


def numbers_of(path: Path, access: int = mmap.ACCESS_READ) -> memoryview:
    """The numbers of a slot, as they are in memory: each is written and read whole.

    Packed byte by byte, or read through the file, a count was now and then seen half written.
    """
    with path.open("r+b" if access == mmap.ACCESS_WRITE else "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), SLOT.size, access=access)).cast("q")


class FailedOnPurpose(Exception):
    """Raised by the first run of a job that is meant to fail once."""


class Probe:
    """The counter of this process. A forked child gets a slot of its own."""

    def __init__(self) -> None:
        self.directory = Path(os.environ.get("BENCH_SLOTS", "."))
        self.mark = int(os.environ.get("BENCH_MARK", "0"))
        self.nap_seconds = float(os.environ.get("BENCH_NAP", "1"))
        self.block_seconds = float(os.environ.get("BENCH_BLOCK", "1"))
        self.failed: set[int] = set()  # numbers that have failed once in this process
        self.lock = threading.Lock()  # handlers may run in threads
        self.forget()

    def forget(self) -> None:
        self.slot: memoryview | None = None
        self.stamps: int | None = None
        self.count = 0

    def open(self) -> memoryview:
        path = self.directory / f"{os.getpid()}.slot"
        path.write_bytes(bytes(SLOT.size))
        self.slot = numbers_of(path, mmap.ACCESS_WRITE)
        self.slot[FIRST] = time.monotonic_ns()
        return self.slot

    def hit(self) -> None:
        """Count one run."""
        with self.lock:
            slot = self.slot or self.open()
            self.count = count = self.count + 1
            slot[LAST] = time.monotonic_ns()
            slot[COUNT] = count
            if count == self.mark:
                slot[MARKED] = time.monotonic_ns()

    def stamp(self, number: int, started: int) -> None:
        if self.stamps is None:
            path = self.directory / f"{os.getpid()}.stamps"
            self.stamps = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(self.stamps, STAMPED.pack(number, started, time.monotonic_ns()))

    def must_fail(self, number: int) -> bool:
        if number in self.failed:
            return False
        self.failed.add(number)
        return True

    async def act(self, number: int, act: int) -> None:
        """Do what the job asks for; the plain no-op calls `hit` directly instead."""
        started = time.monotonic_ns()
        if act in (SLEEP, NAP):
            await asyncio.sleep(self.nap_seconds)
        if act == BLOCK:
            time.sleep(self.block_seconds)  # noqa: ASYNC251 - it blocks the loop on purpose
        if act == DIE:
            os.kill(os.getpid(), signal.SIGKILL)
        self.finish(number, act, started)

    def act_in_thread(self, number: int, act: int) -> None:
        """The same for handlers that are plain functions."""
        started = time.monotonic_ns()
        if act == SLEEP:
            time.sleep(self.nap_seconds)
        self.finish(number, act, started)

    def finish(self, number: int, act: int, started: int) -> None:
        if act == FAIL_ONCE and self.must_fail(number):
            raise FailedOnPurpose(f"job {number} fails once on purpose")
        if act in (STAMP, SLEEP):
            self.stamp(number, started)
        self.hit()


PROBE = Probe()
os.register_at_fork(after_in_child=PROBE.forget)


class Sight:
    """What the slots of all worker processes say together, read by the harness."""

    def __init__(self, directory: Path) -> None:
        slots = [list(numbers_of(path)) for path in full(directory.glob("*.slot"))]
        ran = [slot for slot in slots if slot[COUNT] > 0]
        self.count = sum(slot[COUNT] for slot in ran)
        self.last = max((slot[LAST] for slot in ran), default=0)
        self.first = min((slot[FIRST] for slot in ran), default=0)
        self.marked = min((slot[MARKED] for slot in ran if slot[MARKED]), default=0)


def full(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if path.stat().st_size == SLOT.size]


def stamps(directory: Path) -> dict[int, tuple[int, int]]:
    """Number of the job -> when its handler started and ended."""
    found: dict[int, tuple[int, int]] = {}
    for path in directory.glob("*.stamps"):
        whole = path.read_bytes()
        for number, start, end in STAMPED.iter_unpack(whole[: len(whole) // 24 * 24]):
            found.setdefault(number, (start, end))
    return found
