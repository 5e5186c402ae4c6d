"""The catalog: every system of the benchmarks, what it is made of and what it can do.

Settings here are what a tuning pass tries; what it chose is in tuning.json, with the date. Where the
largest one wins, a larger one belongs in the list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Settings = dict[str, Any]


class Unknown(Exception):
    """Something was asked for by a name or in a form that is not known; the message says more."""


TUNING = Path(__file__).with_name("tuning.json")
DRAIN_SECONDS = 2.0  # about how long a drain of a slow peer lasts
TIMES_AT_ONCE = 5
DRAIN_MOST = 100_000
DRAIN_LEAST = 1_000
LESS_OFTEN = 100_000  # objects made before Python looks for garbage, instead of 700

LATENCY, RETRY, GROUPS, PRIORITIES, LONG, SURVIVES, WORKFLOWS = (
    "latency",
    "retry",
    "groups",
    "priorities",
    "long",
    "survives",
    "workflows",
)


@dataclass(frozen=True, slots=True)
class System:
    name: str
    packages: tuple[str, ...] = ()  # empty: runs in our own environment
    python: tuple[int, int] = (3, 11)
    runtime: str = "python"  # or "node"
    store: str = "postgres"  # or "redis"
    can: frozenset[str] = frozenset()
    why: dict[str, str] = field(default_factory=dict)  # why not, where it has something of the kind
    variants: tuple[Settings, ...] = ({},)  # tried by tune on a drain with one process
    idle: Settings = field(default_factory=dict)  # laid over the chosen variant for latency
    four_slots: Settings = field(default_factory=dict)  # laid over it for long tasks
    grouped: Settings = field(default_factory=dict)  # and for groups, where the same is a trap
    bulk: int = 50_000  # jobs of enqueue-bulk; fewer where there is no bulk call
    bulk_note: str = ""
    guess: int = 1_000  # jobs/s before anything was tuned
    chains: int = 0  # workflows of chain-10; fewer where a system needs minutes for more
    fan: int = 0  # steps of fanout-10k, likewise


def can(*abilities: str) -> frozenset[str]:
    return frozenset(abilities)


SYSTEMS = (
    System(
        "mainspring",
        can=can(LATENCY, RETRY, GROUPS, PRIORITIES, LONG, SURVIVES, WORKFLOWS),
        variants=(
            {"slots": 100},
            {"slots": 1000},
            {"slots": 1000, "gc": LESS_OFTEN},
            {"slots": 2000, "page": 2000},
            {"slots": 2000, "page": 2000, "gc": LESS_OFTEN},
            {"slots": 2000, "page": 5000, "gc": LESS_OFTEN},
        ),
        idle={"slots": 100},
        four_slots={"slots": 4},
        guess=40_000,
        chains=2_000,
        fan=10_000,
    ),
    System(
        "bare",
        variants=(
            {"batch": 500},
            {"batch": 500, "gc": LESS_OFTEN},
            {"batch": 1000},
            {"batch": 1000, "gc": LESS_OFTEN},
            {"batch": 2000, "gc": LESS_OFTEN},
            {"batch": 4000, "gc": LESS_OFTEN},
        ),
        bulk_note="COPY",
        guess=60_000,
    ),
    System(
        "pgqueuer",
        # Its command line fails at its start with a later typer: the level of the log stays a text.
        packages=("pgqueuer[asyncpg]==1.6.*", "uvloop", "typer==0.24.*"),
        can=can(LATENCY, RETRY, PRIORITIES, LONG, SURVIVES),
        variants=(
            {"batch": 100},
            {"batch": 250},
            {"batch": 500},
            {"batch": 500, "gc": LESS_OFTEN},
            {"batch": 500, "gc": LESS_OFTEN, "reconnect": True},  # on a pool
            {"batch": 1000},
        ),
        idle={"batch": 10},
        four_slots={"batch": 2, "slots": 4},
        bulk_note="lists, 5,000 a call",
        guess=11_000,
    ),
    System(
        "procrastinate",
        packages=("procrastinate==3.*", "psycopg[binary,pool]", "uvloop"),
        can=can(LATENCY, RETRY, GROUPS, PRIORITIES, LONG, SURVIVES),
        variants=(
            {"slots": 10, "pool": 10},
            {"slots": 30, "pool": 10},
            {"slots": 30, "pool": 30},
            {"slots": 100, "pool": 20},
        ),
        idle={"slots": 10},
        four_slots={"slots": 4},
        bulk=10_000,
        bulk_note="batch_defer, 5,000 a call",
        guess=650,
    ),
    System(
        "chancy",
        packages=("chancy", "psycopg[binary,pool]", "uvloop"),
        can=can(LATENCY, RETRY, PRIORITIES, LONG, SURVIVES),
        variants=(
            {"slots": 500},
            {"slots": 2000},
            {"slots": 2000, "gc": LESS_OFTEN},
            {"slots": 4000},
            {"slots": 8000},
            {"slots": 8000, "gc": LESS_OFTEN},
        ),
        idle={"slots": 100},
        four_slots={"slots": 4},
        bulk=5_000,
        bulk_note="push_many, 5,000 a batch",
        guess=4_500,
    ),
    System(
        "awa",
        packages=("awa-pg", "uvloop"),
        can=can(LATENCY, RETRY, PRIORITIES, LONG, SURVIVES),
        variants=(
            {"slots": 1000},
            {"slots": 1000, "claim": 500},
            {"slots": 2000, "claim": 1000},
            {"slots": 2000, "claim": 1000, "gc": LESS_OFTEN},
            {"slots": 4000, "claim": 1000},
            {"slots": 8000, "claim": 2000},
        ),
        idle={"slots": 50, "claim": None},
        four_slots={"slots": 4, "claim": None},
        bulk_note="enqueue_many_copy, 5,000 a call",
        guess=6_500,
    ),
    System(
        "graphile",
        packages=("graphile-worker@0.17", "pg@8"),
        runtime="node",
        can=can(LATENCY, GROUPS, PRIORITIES, LONG, SURVIVES),
        variants=(
            {"slots": 24, "pool": 20, "local": 500, "delay": 0},
            {"slots": 24, "pool": 8, "local": 500, "delay": 10},
            {"slots": 100, "pool": 20, "local": 1000, "delay": 0},
            {"slots": 100, "pool": 8, "local": 1000, "delay": 10},
            {"slots": 200, "pool": 20, "local": 2000, "delay": 0},
        ),
        idle={"slots": 10, "pool": 12, "local": 0, "delay": None},
        four_slots={"slots": 4, "local": 0, "delay": None},
        # One read of 1,000 takes a job of every group and waits for all: 500 a second, not 8,000.
        grouped={"slots": 24, "pool": 20, "local": 500, "delay": 0},
        bulk_note="addJobs, 5,000 a call",
        guess=25_000,
    ),
    System(
        "dbos",
        packages=("dbos==3.*", "psycopg[binary]", "uvloop"),
        can=can(LATENCY, RETRY, GROUPS, PRIORITIES, LONG, SURVIVES, WORKFLOWS),
        variants=({"slots": 100, "poll": 0.05}, {"slots": 500, "poll": 0.02}),
        idle={"slots": 100, "poll": 0.01},
        four_slots={"slots": 4, "poll": 0.05},
        bulk=1_000,
        bulk_note="no bulk call; enqueue in one transaction, 1,000 each",
        guess=350,
        chains=100,
        fan=500,
    ),
    System(
        "absurd",
        packages=("absurd-sdk==0.5.*", "absurdctl==0.5.*", "psycopg[binary]", "uvloop"),
        can=can(LATENCY, RETRY, LONG, SURVIVES, WORKFLOWS),
        variants=({"clients": 8, "slots": 50}, {"clients": 16, "slots": 20}),
        idle={"clients": 1, "slots": 10, "poll": 0.01},
        four_slots={"clients": 1, "slots": 4, "poll": 0.05},
        bulk=10_000,
        bulk_note="no bulk call; one statement over its spawn function, 5,000 each",
        guess=1_200,
        chains=400,
        fan=500,
    ),
    System(
        "oban",
        packages=("oban==0.7.*", "psycopg[binary,pool]", "uvloop"),
        python=(3, 12),
        can=can(LATENCY, RETRY, PRIORITIES, LONG, SURVIVES),
        variants=(
            {"slots": 100},
            {"slots": 500},
            {"slots": 2000},
            {"slots": 4000},
            {"slots": 4000, "gc": LESS_OFTEN},
        ),
        idle={"slots": 10},
        four_slots={"slots": 4},
        bulk=5_000,
        bulk_note="enqueue_many, 5,000 a call",
        guess=3_200,
    ),
    System(
        "celery",
        packages=("celery[redis]==5.*", "redis"),
        store="redis",
        can=can(LATENCY, RETRY, PRIORITIES, LONG),
        variants=({"pool": "solo", "slots": 1}, {"pool": "threads", "slots": 2}),
        idle={"pool": "prefork", "slots": 2},
        four_slots={"pool": "threads", "slots": 4, "late": True},
        bulk=3_000,
        bulk_note="no bulk call; one producer, one message after the other",
        guess=750,
    ),
    System(
        "dramatiq",
        packages=("dramatiq[redis]==2.*", "redis"),
        store="redis",
        can=can(LATENCY, RETRY, LONG),
        why={PRIORITIES: "has them for what a worker has fetched, not for what waits"},
        variants=({"slots": 8}, {"slots": 32}, {"slots": 64}, {"slots": 32, "prefetch": 512}),
        idle={"slots": 8, "timeout": 10},
        four_slots={"slots": 4, "prefetch": 4, "timeout": 50},
        bulk=5_000,
        bulk_note="no bulk call; one message after the other",
        guess=2_700,
    ),
)
BY_NAME = {system.name: system for system in SYSTEMS}
QUICK = ("mainspring", "bare", "pgqueuer")


@dataclass(frozen=True, slots=True)
class Tuned:
    """What the last tuning pass found best for one system."""

    settings: Settings
    rate: float  # jobs/s of one process with these settings

    @property
    def drain_jobs(self) -> int:
        """As many jobs as last about DRAIN_SECONDS, 100,000 at most; and several times as many as are in
        hand at once: what is claimed before the first one starts and written after the last is not seen."""
        n = int(self.rate * DRAIN_SECONDS)
        at_once = max(self.settings.get(name, 0) for name in ("slots", "batch", "local"))
        return min(max(round(n, -2), DRAIN_LEAST, TIMES_AT_ONCE * at_once), DRAIN_MOST)


def tuned(system: System) -> Tuned:
    known = json.loads(TUNING.read_text())["systems"] if TUNING.exists() else {}
    if system.name in known:
        entry = known[system.name]
        return Tuned(entry["settings"], entry["rate"])
    return Tuned(system.variants[0], system.guess)


def named(names: Iterable[str]) -> list[System]:
    """The systems of these names, in the order of the catalog."""
    wanted = set(names)
    if unknown := sorted(wanted - set(BY_NAME)):
        raise Unknown(f"no system {unknown[0]!r}; known are {', '.join(BY_NAME)}")
    return [system for system in SYSTEMS if system.name in wanted]
