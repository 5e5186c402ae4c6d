"""The faults of the recovery workload: each strikes a running scene and proves that it struck."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from benchmarks.probe import BLOCK, DIE, NAP
from benchmarks.stage import Failed, Stage
from benchmarks.targets import OURS
from benchmarks.workloads.feeder import Feeder
from benchmarks.workloads.workload import Trial
from mainspring.testing import Clock

TERMINATE = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and application_name like %s
"""
PARKED = "select count(*) from mainspring.visit where parked_at is not null"
# What bounds the rate is slots, not the machine: 2 x 40 slots of 20 ms are 4,000 jobs a second, so a
# worker that did not come back is seen and a busy neighbour is not.
WORKERS, SLOTS, NAP_SECONDS = 2, 40, 0.02
OUTAGE_SECONDS = 4.0
STORM_SECONDS = 4.0
BLOCK_SECONDS = 6.0  # three leases
STOPPED_SECONDS = 6.0
PARKED_SECONDS = 60.0
HOUR = 3600.0


class Scene:
    """Two workers, a producer and the rate so far.

    A worker of ours that ends where no fault ended it is a failure. Peers may: their guides leave it to
    a supervisor to start them again, so here the scene does, and counts how often.
    """

    def __init__(self, trial: Trial, stage: Stage) -> None:
        self.trial, self.stage = trial, stage
        ours = trial.system.name == OURS
        self.restarts = 0
        self.feeder = Feeder(
            stage,
            stage.client(),
            WORKERS * SLOTS / NAP_SECONDS,
            NAP,
            watch=None if ours else self.supervise,
        )
        # Moved by one fault only, but there from the start: asking a moved clock costs a little more.
        self.clock = Clock(stage.url) if ours else None

    def start(self, workers: int = WORKERS) -> None:
        self.stage.start_workers(workers, BENCH_NAP=NAP_SECONDS, BENCH_BLOCK=BLOCK_SECONDS)

    def renew(self) -> None:
        """Another producer, for the fault has cost the first its connection."""
        self.feeder.client = self.stage.client()

    def sql(self, statement: str, *values: object) -> int:
        with psycopg.connect(self.stage.url, autocommit=True) as connection:
            row = connection.execute(statement.encode(), values).fetchone()
        return int(row[0]) if row else 0

    def replace_dead(self) -> int:
        """What a supervisor does: another worker for each that has ended."""
        dead = [worker for worker in self.stage.workers if worker.poll() is not None]
        for worker in dead:
            self.stage.workers.remove(worker)
        self.start(len(dead))
        return len(dead)

    def supervise(self) -> None:
        self.restarts += self.replace_dead()


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    words: str
    strike: Callable[[Scene], None]


def killed_worker(scene: Scene) -> None:
    victim = scene.stage.workers[0]
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait(5)
    scene.replace_dead()


def stopped_worker(scene: Scene) -> None:
    victim = scene.stage.workers[0].pid
    os.killpg(victim, signal.SIGSTOP)
    scene.feeder.feed(STOPPED_SECONDS)
    os.killpg(victim, signal.SIGCONT)


def killed_connections(scene: Scene) -> None:
    scene.feeder.settle()
    killed = 0
    end = time.monotonic() + STORM_SECONDS
    with psycopg.connect(scene.stage.url, autocommit=True) as admin:
        while time.monotonic() < end:
            row = admin.execute(TERMINATE, ["%"]).fetchone()
            killed += row[0] if row else 0
            scene.feeder.wait(0.1)
    if not killed:
        raise Failed("the storm found no connection to kill")
    scene.renew()


def server_away(scene: Scene) -> None:
    scene.feeder.settle()
    server = scene.trial.lab.server
    server.stop()
    scene.feeder.wait(OUTAGE_SECONDS)
    server.start()
    scene.renew()


def deaf_workers(scene: Scene) -> None:
    if not scene.sql(TERMINATE, "mainspring:listener:%"):
        raise Failed("no connection listened")


def poison(scene: Scene) -> None:
    """A job that kills its worker, until it is parked."""
    scene.feeder.settle()
    scene.feeder.client.ask("bulk", n=1, act=DIE)
    scene.feeder.enqueued += 1
    died = 0
    deadline = time.monotonic() + PARKED_SECONDS
    while not scene.sql(PARKED):
        died += scene.replace_dead()
        if time.monotonic() > deadline:
            raise Failed(
                f"the poison was not parked in {PARKED_SECONDS:.0f} s, {died} workers died"
            )
        scene.feeder.wait(0.1)
    scene.replace_dead()
    if not died:
        raise Failed("the poison killed no worker")


def blocked_loop(scene: Scene) -> None:
    scene.feeder.settle()
    scene.feeder.client.ask("bulk", n=1, act=BLOCK)
    scene.feeder.enqueued += 1
    scene.feeder.feed(BLOCK_SECONDS + 1)


def clock_jumps(scene: Scene) -> None:
    assert scene.clock is not None
    scene.clock.advance_sync(HOUR)


STORM = Fault("storm", "all connections killed ten times a second for 4 s", killed_connections)
OUTAGE = Fault("restart", "the server away for 4 s", server_away)
SHARED = (STORM, OUTAGE)
FAULTS = (
    STORM,
    OUTAGE,
    Fault("kill", "kill -9 of one of two workers, another one started", killed_worker),
    Fault("suspend", "one of two workers stopped for three leases", stopped_worker),
    Fault("listen", "the listening connections killed", deaf_workers),
    Fault("block", "a handler that blocks the loop for three leases", blocked_loop),
    Fault("poison", "a task that kills its worker until it is parked", poison),
    Fault("clock", "the database's clock an hour ahead at once", clock_jumps),
)
