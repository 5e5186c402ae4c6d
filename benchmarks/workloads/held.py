"""Held: steady load while another transaction keeps its snapshot open.

A producer keeps the queue from running empty, so the figure is the completion rate of worker
and producer together. What falls between the first and the last ten seconds is the cost of
dead rows that no vacuum may take away.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg

from benchmarks.stage import Client, Stage
from benchmarks.workloads.workload import Figure, Trial, Workload

HELD_SECONDS = 60.0
QUICK_SECONDS = 20.0
WINDOW_SECONDS = 10.0
WARM_SECONDS = 3.0
SAMPLE_SECONDS = 0.1
PLOT_SECONDS = 1.0


class Feeder:
    """Keeps about a second of work waiting, one bulk call at a time."""

    def __init__(self, stage: Stage, client: Client, rate: float, enqueued: int) -> None:
        self.stage = stage
        self.client = client
        self.chunk = int(min(5_000, max(200, rate / 2)))
        self.enough = max(1_000, rate)  # jobs waiting above which nothing is added
        self.enqueued = enqueued
        self.calling = False
        self.dry = 0  # looks at which nothing was waiting
        self.samples: list[tuple[float, int]] = []

    def feed(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Feed and sample for so long."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end and not until():
            self.stage.check_workers()
            done = self.stage.look().count
            self.samples.append((now, done))
            self.dry += done >= self.enqueued
            if self.calling and self.client.answered():
                self.client.answer()
                self.calling = False
                self.enqueued += self.chunk
            if not self.calling and self.enqueued - done < self.enough:
                self.client.tell("bulk", n=self.chunk)
                self.calling = True
            time.sleep(0.01 if self.calling else SAMPLE_SECONDS / 4)

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


def held(trial: Trial) -> list[Figure]:
    seconds = QUICK_SECONDS if trial.quick else HELD_SECONDS
    start_with = trial.drain_jobs  # the same filled database as for a drain
    with trial.lab.stage(trial.system, trial.settings, jobs=start_with) as stage:
        client = stage.client()
        stage.start_workers()
        stage.wait_for(1, seconds=60)
        feeder = Feeder(stage, client, trial.rate, start_with)
        feeder.feed(WARM_SECONDS)
        with psycopg.connect(stage.url) as holder:
            holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            holder.execute("select pg_current_snapshot()")
            begin = time.monotonic()
            feeder.feed(seconds)
            end = time.monotonic()
            holder.rollback()
        feeder.settle()
    dry = feeder.dry / len(feeder.samples)
    first = feeder.rate(begin, begin + WINDOW_SECONDS)
    last = feeder.rate(end - WINDOW_SECONDS, end)
    extra = {
        "held_seconds": seconds,
        "series": series(feeder, begin, end),
        "note": f"the queue was empty {dry:.0%} of the time" if dry > 0.05 else "",
    }
    return [
        Figure("held-first", first, extra=extra),
        Figure("held-last", last, extra={"percent_of_first": round(100 * last / first, 1)}),
    ]


def series(feeder: Feeder, begin: float, end: float) -> list[tuple[float, float]]:
    """Seconds since the transaction began -> completions per second, for the plot."""
    points = []
    at = begin - WARM_SECONDS
    while at + PLOT_SECONDS <= end:
        inside = [s for s in feeder.samples if at <= s[0] <= at + PLOT_SECONDS]
        if len(inside) > 1 and inside[-1][0] > inside[0][0]:
            points.append((round(at - begin, 2), round(feeder.rate(at, at + PLOT_SECONDS), 1)))
        at += PLOT_SECONDS
    return points


HELD = Workload(
    "held",
    held,
    gives=("held-first", "held-last"),
    quick=True,
    quick_systems=("mainspring", "pgqueuer"),
    most_runs=1,
)
