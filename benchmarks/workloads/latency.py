"""Latency: from the return of the enqueue call, which is its commit, to the handler's start.

A handler can start while the call is still returning, so the time from before the call is
kept beside it. At half of capacity jobs come in small batches, because one awaited job after
the other would not reach that rate; where the producer cannot keep up the record says so.
"""

from __future__ import annotations

import time

from benchmarks.catalog import LATENCY
from benchmarks.stage import Failed, Stage
from benchmarks.workloads.workload import Figure, Trial, Workload, curve, percentile

WARM_SECONDS = 0.5
SLOWEST_SECONDS = 15.0
JOBS = 80
GAP_SECONDS = 0.05
HALF_GAP_SECONDS = 0.02


def idle(trial: Trial) -> list[Figure]:
    n = JOBS
    with trial.lab.stage(trial.system, trial.idle_settings) as stage:
        waits, whole = measure(stage, n=n, gap=GAP_SECONDS, batch=1)
    extra = {
        "n": n,
        "settings": trial.idle_settings,
        "before_call_p50": round(percentile(whole, 50), 3),
        "before_call_p99": round(percentile(whole, 99), 3),
        "curve": curve(waits),
    }
    return [
        Figure("latency-p50", percentile(waits, 50), "ms", False, extra),
        Figure("latency-p99", percentile(waits, 99), "ms", False, {"n": n}),
    ]


def half(trial: Trial) -> list[Figure]:
    rate = trial.rate / 2
    batch = max(2, round(rate * HALF_GAP_SECONDS))
    rounds = 100
    with trial.lab.stage(trial.system, trial.settings) as stage:
        waits, _ = measure(stage, n=batch * rounds, gap=batch / rate, batch=batch)
        first, last = min(stage.sent), max(stage.sent)
    got = len(waits) / max((last - first) / 1e9, 1e-9)
    extra = {
        "n": len(waits),
        "asked_per_second": round(rate),
        "sent_per_second": round(got),
        "p99": round(percentile(waits, 99), 3),
        "curve": curve(waits),
        "note": "" if got > 0.9 * rate else "the producer could not reach half of capacity",
    }
    return [Figure("latency-half", percentile(waits, 50), "ms", False, extra)]


def measure(
    stage: Stage, *, n: int, gap: float, batch: int, chains: bool = False
) -> tuple[list[float], list[float]]:
    """Waits in ms from the call's return, and from before the call; of jobs, or of chains."""
    client = stage.client()
    stage.start_workers()
    if chains:
        client.ask("chains", n=1)
    else:
        client.ask("bulk", n=10)
    stage.wait_for(10, seconds=60)
    time.sleep(WARM_SECONDS)
    sent = client.ask("paced", n=n, gap=gap, batch=batch, chains=chains, timeout=90)
    n = len(sent["after"])
    deadline = time.monotonic() + SLOWEST_SECONDS
    while len(stage.stamps()) < n and time.monotonic() < deadline:
        time.sleep(0.1)
    started = stage.stamps()
    if len(started) < n * 0.99:
        raise Failed(f"only {len(started)} of {n} jobs started within {SLOWEST_SECONDS:.0f} s")
    stage.sent = sent["after"]
    numbers = [number for number in range(1, n + 1) if number in started]
    waits = [(started[i][0] - sent["after"][i - 1]) / 1e6 for i in numbers]
    whole = [(started[i][0] - sent["before"][i - 1]) / 1e6 for i in numbers]
    return waits, whole


IDLE = Workload("latency", idle, gives=("latency-p50", "latency-p99"), needs=LATENCY, quick=True)
HALF = Workload("latency-half", half, needs=LATENCY)
