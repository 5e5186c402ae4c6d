"""Recovery: the rate after a storm of killed connections and a restart, in percent of before.

All backends of the database are terminated ten times a second, then PostgreSQL is restarted
under the worker, which must come back by itself: nobody restarts it.
"""

from __future__ import annotations

import time

import psycopg

from benchmarks.catalog import SURVIVES
from benchmarks.stage import Failed, Stage
from benchmarks.workloads.held import Feeder
from benchmarks.workloads.workload import Figure, Trial, Workload

MEASURED_SECONDS = 6.0
BACK_SECONDS = 40.0
TERMINATE = """
select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = %s
"""


def recovery(trial: Trial) -> list[Figure]:
    start_with = trial.drain_jobs
    settings = {**trial.settings, "reconnect": True}
    with trial.lab.stage(trial.system, settings, jobs=start_with) as stage:
        stage.start_workers()
        stage.wait_for(1, seconds=60)
        before = Feeder(stage, stage.client(), trial.rate, start_with)
        before.feed(2)
        before_rate = measure(before)
        before.settle()
        killed = storm(stage, seconds=2.0 if trial.quick else 5.0)
        trial.lab.server.restart()
        done = stage.look().count
        back = time.monotonic()
        after = Feeder(stage, stage.client(), trial.rate, before.enqueued)
        after.feed(BACK_SECONDS, until=lambda: stage.look().count > done + after.chunk)
        if stage.look().count <= done:
            raise Failed(f"no job ran within {BACK_SECONDS:.0f} s after the restart")
        back_after = time.monotonic() - back
        after.feed(2)
        after_rate = measure(after)
        after.settle()
    extra = {
        "before": round(before_rate),
        "after": round(after_rate),
        "connections_killed": killed,
        "back_after_seconds": round(back_after, 1),
    }
    return [Figure("recovery", 100 * after_rate / before_rate, "%", True, extra)]


def measure(feeder: Feeder) -> float:
    begin = time.monotonic()
    feeder.feed(MEASURED_SECONDS)
    return feeder.rate(begin, time.monotonic())


def storm(stage: Stage, seconds: float) -> int:
    killed = 0
    database = psycopg.conninfo.conninfo_to_dict(stage.url)["dbname"]
    with stage.lab.admin() as admin:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            row = admin.execute(TERMINATE, [database]).fetchone()
            killed += row[0] if row else 0
            time.sleep(0.1)
    if not killed:
        raise Failed("the storm found no connection to kill")
    return killed


RECOVERY = Workload("recovery", recovery, needs=SURVIVES, most_runs=3)
