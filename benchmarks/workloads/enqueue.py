"""Enqueue: one awaited job after the other, and many at once."""

from __future__ import annotations

from benchmarks.workloads.workload import Figure, Trial, Workload

SECONDS = 1.0  # of singles, after fifty that are not counted


def one(trial: Trial) -> list[Figure]:
    with trial.lab.stage(trial.system, trial.settings) as stage:
        done = stage.client().ask("singles", seconds=SECONDS)
    return [Figure("enqueue-one", done["count"] / done["seconds"], extra={"n": done["count"]})]


def bulk(trial: Trial) -> list[Figure]:
    n = trial.system.bulk
    with trial.lab.stage(trial.system, trial.settings) as stage:
        client = stage.client()
        client.ask("bulk", n=10)
        done = client.ask("bulk", n=n)
    extra = {"n": n, "note": trial.system.bulk_note}
    return [Figure("enqueue-bulk", n / done["seconds"], extra=extra)]


ONE = Workload("enqueue-one", one, quick=True)
BULK = Workload("enqueue-bulk", bulk, quick=True)
