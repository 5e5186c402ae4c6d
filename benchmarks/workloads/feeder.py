"""The feeder: a steady load, and the rate at which it gets done, second by second."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.probe import NOTHING
from benchmarks.stage import FIRST_RUN_SECONDS, Client, Failed, Stage

SAMPLE_SECONDS = 0.1
PLOT_SECONDS = 1.0


class Feeder:
    """Keeps about a second of work waiting, one bulk call at a time.

    It begins with nothing waiting: a worker that works off what was there before has the machine
    to itself, and its rate is not one that lasts.
    """

    def __init__(
        self,
        stage: Stage,
        client: Client,
        rate: float,
        act: int = NOTHING,
        watch: Callable[[], object] | None = None,
    ) -> None:
        self.stage = stage
        self.watch = watch or stage.check_workers  # what is done about workers that have ended
        self.client = client
        self.chunk = int(min(5_000, max(200, rate / 2)))
        self.enough = max(1_000, rate)  # jobs waiting above which nothing is added
        self.act = act
        self.enqueued = 0
        self.calling = False
        self.dry = 0  # looks at which nothing was waiting
        self.samples: list[tuple[float, int]] = []

    def begin(self) -> None:
        """Feed until the first job has run."""
        self.feed(FIRST_RUN_SECONDS, until=lambda: self.stage.look().count > 0)
        if not self.stage.look().count:
            raise Failed(f"no job ran within {FIRST_RUN_SECONDS:.0f} s")

    def feed(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Feed and sample for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            self.watch()
            done = self.sample()
            self.dry += done >= self.enqueued
            if self.calling and self.client.answered():
                self.client.answer()
                self.calling = False
                self.enqueued += self.chunk
            if not self.calling and self.enqueued - done < self.enough:
                self.client.tell("bulk", n=self.chunk, act=self.act)
                self.calling = True
            time.sleep(0.01 if self.calling else SAMPLE_SECONDS / 4)

    def wait(self, seconds: float) -> None:
        """Only sample: nothing can be enqueued now."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.sample()
            time.sleep(SAMPLE_SECONDS)

    def sample(self) -> int:
        done: int = self.stage.look().count
        self.samples.append((time.monotonic(), done))
        return done

    def settle(self) -> None:
        """End the call that is under way."""
        if self.calling:
            self.client.answer()
            self.calling = False
            self.enqueued += self.chunk

    def rate(self, begin: float, end: float) -> float:
        """Completions per second between two moments."""
        inside = [sample for sample in self.samples if begin <= sample[0] <= end]
        (first, low), (last, high) = inside[0], inside[-1]
        return (high - low) / (last - first)

    def series(self, begin: float, end: float, *, zero: float) -> list[tuple[float, float]]:
        """Seconds since `zero` -> completions per second, for a plot."""
        points = []
        at = begin
        while at + PLOT_SECONDS <= end:
            inside = [sample for sample in self.samples if at <= sample[0] <= at + PLOT_SECONDS]
            if len(inside) > 1 and inside[-1][0] > inside[0][0]:
                points.append((round(at - zero, 2), round(self.rate(at, at + PLOT_SECONDS), 1)))
            at += PLOT_SECONDS
        return points
