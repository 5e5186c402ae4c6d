"""The plan: every workload once, then again while there is time; systems interleaved.

System A, system B, ... in one workload, then the next workload; the second and third runs come
in passes of their own. So noise of the machine hits all alike, and when the time is up it is
repeats that are missing, never a workload. A pass of repeats begins with what a quick run measures
as well, for that is what people quote, and in each of the two parts with the shortest: what is
missing on a slow day are repeats of the few that take minutes. A run that fails or hangs ends with
its reason as the record; the others go on.
"""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from benchmarks import install
from benchmarks.book import Book, Key
from benchmarks.catalog import System, tuned
from benchmarks.install import NotInstallable
from benchmarks.lab import Lab
from benchmarks.stage import Failed
from benchmarks.targets import BARE, OURS
from benchmarks.workloads import Trial, Workload

ABILITIES = {
    "latency": "has no wake-up to measure",
    "retry": "has no retry that can be set to happen at once",
    "groups": "has no limit per group",
    "priorities": "has no priorities",
    "long": "has no limit of slots to set",
    "survives": "does not promise to reconnect",
    "workflows": "has no workflows: durable steps that depend on one another",
}
TIME_IS_UP = "not measured: the time of this run was up"


@dataclass(slots=True)
class Plan:
    lab: Lab
    systems: list[System]
    workloads: list[Workload]
    book: Book
    runs: int
    quick: bool
    seconds: float  # after which nothing is begun
    say: Callable[[str], None]
    named: bool = False  # both asked for by name: each system has a record of each workload
    took: dict[Key, float] = field(default_factory=dict)  # seconds of its last run
    begin: float = 0.0

    def carry_out(self) -> None:
        self.begin = time.monotonic()
        ready = self.installed()
        for run in range(1, self.runs + 1):
            turns = [(w, [s for s in ready if self.has_turn(s, w, run)]) for w in self.workloads]
            if run > 1:
                turns.sort(key=lambda turn: (not turn[0].quick, self.expected(*turn)))
            for workload, systems in turns:
                if run > 1 and systems and not self.is_time_for(workload, systems):
                    self.say(f"{workload.name}: no time for run {run}")
                    continue
                for system in systems:
                    self.measure(workload, system, run)

    def expected(self, workload: Workload, systems: list[System]) -> float:
        """Seconds that one more run of each of these will take."""
        return sum(self.took.get((workload.name, system.name), 0.0) for system in systems)

    def installed(self) -> list[System]:
        ready = []
        for system in self.systems:
            try:
                install.command(system, self.say)
            except NotInstallable as error:
                for workload in self.workloads:
                    if self.named or invited(system, workload, quick=self.quick):
                        self.book.fail(system.name, workload.records, str(error))
                self.say(f"{system.name}: {error}")
            else:
                self.book.versions[system.name] = install.version(system)
                ready.append(system)
        self.book.save()
        return ready

    def has_turn(self, system: System, workload: Workload, run: int) -> bool:
        if not invited(system, workload, quick=self.quick and not self.named):
            if reason := self.left_out(system, workload):
                self.book.fail(system.name, workload.records, f"not measured: {reason}")
            return False
        if workload.needs and workload.needs not in system.can:
            reason = system.why.get(workload.needs, ABILITIES[workload.needs])
            self.book.fail(system.name, workload.records, f"not measured: {reason}")
            return False
        if run > workload.times(self.runs, ours=system.name == OURS, quick=self.quick):
            return False
        return self.book.runs(workload.records, system.name) == run - 1

    def left_out(self, system: System, workload: Workload) -> str:
        """What to say of a system that does not take part; nothing where nobody would ask."""
        if self.named:
            return workload.others or f"a workload of {' and '.join(workload.systems or ())} alone"
        return workload.others if not self.quick and system.name != BARE else ""

    def is_time_for(self, workload: Workload, systems: list[System]) -> bool:
        spent = time.monotonic() - self.begin
        return spent + self.expected(workload, systems) < self.seconds

    def measure(self, workload: Workload, system: System, run: int) -> None:
        started = time.monotonic()
        if started - self.begin > self.seconds:
            self.book.fail(system.name, workload.records, TIME_IS_UP)
            outcome = TIME_IS_UP
        else:
            outcome = self.attempt(workload, system) or self.shown(workload, system)
        self.book.save()
        now = time.monotonic()
        self.took[workload.name, system.name] = now - started
        at = f"{(now - self.begin) / 60:4.1f} min"
        what = f"{workload.name:14} {system.name:14} run {run}: {outcome}"
        self.say(f"{at}  {what}  ({now - started:.1f} s)")

    def attempt(self, workload: Workload, system: System) -> str:
        """Measure once; the reason when it cannot be done."""
        drained = self.book.median("drain-1", system.name)
        trial = Trial(self.lab, system, tuned(system), self.quick, drained)
        try:
            self.lab.revive()
            with limit(workload.most_seconds):
                figures = workload.measure(trial)
        except Exception as error:
            if isinstance(error, Failed):
                self.book.add(system.name, error.figures)
            else:
                with (self.lab.logs / "harness.log").open("a") as log:
                    traceback.print_exc(file=log)
            reason = f"{error}".strip() or type(error).__name__
            self.book.fail(system.name, workload.records, reason)
            return f"failed: {reason}"
        self.book.add(system.name, figures)
        return ""

    def shown(self, workload: Workload, system: System) -> str:
        records = [self.book.kept.get((name, system.name)) for name in workload.records[:2]]
        return ", ".join(f"{r['workload']} {r['runs'][-1]:,.1f} {r['unit']}" for r in records if r)


def invited(system: System, workload: Workload, *, quick: bool) -> bool:
    """Whether this workload is worth its time with this system."""
    only = workload.quick_systems if quick and workload.quick_systems else workload.systems
    return only is None or system.name in only


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """End what is inside with `Failed` when it takes longer, wherever it hangs."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Failed(f"no end after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
