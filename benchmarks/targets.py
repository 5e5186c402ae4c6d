"""The targets: what this project promises of its speed, and whether a run kept it.

Only what a run measured is judged. A target whose figure could not be had is shown with the reason; one
that needs a system or workload that was left out is not shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]
Key = tuple[str, str]
OURS, BARE = "mainspring", "bare"


@dataclass(frozen=True, slots=True)
class Target:
    words: str
    workload: str
    over: Key | None = None  # a quotient: ours over this record
    detail: str | None = None  # of our record, instead of its median
    least: float | None = None
    most: float | None = None
    unit: str = "x"

    @property
    def bound(self) -> str:
        return f"at least {self.least:,g}" if self.least is not None else f"at most {self.most:,g}"

    def value(self, records: dict[Key, Record]) -> float | None:
        ours = records.get((self.workload, OURS), {})
        value = ours.get(self.detail or "median")
        if value is None or self.over is None:
            return value
        other = records.get(self.over, {}).get("median")
        return value / other if other else None

    def reason(self, records: dict[Key, Record]) -> str:
        """Why this run, which tried, has no value of it."""
        for key in ((self.workload, OURS), self.over):
            if key and (error := records.get(key, {}).get("error")):
                return f"{key[1]}: {error}" if key[1] != OURS else str(error)
        return ""

    def kept(self, value: float) -> bool:
        return value >= self.least if self.least is not None else value <= (self.most or 0.0)


FAULTS = ("storm", "restart", "kill", "suspend", "listen", "block", "poison", "clock", "disk")
TARGETS = (
    Target("drain, one process, to PgQueuer", "drain-1", ("drain-1", "pgqueuer"), least=3),
    Target("drain, one process, to Graphile Worker", "drain-1", ("drain-1", "graphile"), least=1),
    Target("drain, one process, to the bare loop", "drain-1", ("drain-1", BARE), least=0.6),
    Target("drain, two processes, to one", "drain-2", ("drain-1", OURS), least=1.2),
    Target("drain by command lines, to PgQueuer", "drain-cli", ("drain-cli", "pgqueuer"), least=2),
    Target(
        "drain by the command line, to the quiet one", "drain-cli", ("drain-1", OURS), least=0.4
    ),
    Target("bulk enqueue", "enqueue-bulk", least=100_000, unit="jobs/s"),
    Target("bulk enqueue, to bare COPY", "enqueue-bulk", ("enqueue-bulk", BARE), least=0.55),
    Target("single enqueue, to a bare insert", "enqueue-one", ("enqueue-one", BARE), least=0.8),
    Target("latency p50", "latency-p50", most=2, unit="ms"),
    Target("latency p99", "latency-p99", most=8, unit="ms"),
    Target("latency p50, to PgQueuer", "latency-p50", ("latency-p50", "pgqueuer"), most=1),
    Target("1,000,000 waiting, to 10,000", "backlog-1m", ("backlog-10k", OURS), least=0.85),
    Target("transaction held, last to first", "held-last", ("held-first", OURS), least=0.85),
    Target("8 long tasks on 8 slots", "long", most=1.3, unit="rounds"),
    Target("group rates, to no rate", "group-rates", least=80, unit="%"),
    Target("use of group rates", "group-rates-used", least=80, unit="%"),
    Target("memory over 1,000,000 tasks", "memory", most=50, unit="MB"),
    *(Target(f"rate after {fault}", f"recovery-{fault}", least=95, unit="%") for fault in FAULTS),
    Target("stages, to one at a time", "stages", ("stages-loop", BARE), least=5),
    Target("stages, to bare statements", "stages", ("stages", BARE), least=0.6),
    Target("64 writers, to a bare loop", "writers-64", ("writers-64", BARE), least=1),
    Target("timers among 1,000,000, late p99", "timers-1m", most=100, unit="ms"),
    Target(
        "offer beside 1,000,000 timers", "timers-offer", detail="more_percent", most=15, unit="%"
    ),
    Target(
        "settle beside 1,000,000 timers", "timers-settle", detail="more_percent", most=15, unit="%"
    ),
    Target("capture, to a row-level audit trigger", "capture", ("capture", BARE), most=2),
    Target("chains of ten, to absurd", "chain-10", ("chain-10", "absurd"), least=5),
    Target("chains of ten, to DBOS", "chain-10", ("chain-10", "dbos"), least=20),
    Target(
        "chains of ten, to ten tasks", "chain-10", detail="percent_of_10_tasks", least=20, unit="%"
    ),
    Target("start of a workflow, to absurd", "start-p50", ("start-p50", "absurd"), most=1),
    Target("fan-out and fan-in of 10,000", "fanout-10k", detail="seconds", most=3, unit="s"),
    Target("memory of four fan-outs more", "fanout-10k", detail="grew_again_mb", most=5, unit="MB"),
    Target("mass restart", "restart-100k", least=5_000, unit="restarts/s"),
    Target("live work beside it, p95", "restart-100k", detail="times_the_live_p95", most=2),
    Target("search among 1,000,000, p95", "search-1m", most=200, unit="ms"),
    Target("1,000 advances/s, p99", "triggers", most=100, unit="ms"),
    Target("10,000 idle reactive tasks", "triggers-idle", most=1, unit="% of a core"),
    Target(
        "pages an advance, 10,000 tasks to 100",
        "triggers-pages",
        detail="percent_more_than_few",
        most=20,
        unit="%",
    ),
)


def judged(records: list[Record]) -> list[tuple[Target, float, bool]]:
    """Each target that this run can tell about, with its value and whether it was kept."""
    known = by_key(records)
    found = ((target, target.value(known)) for target in TARGETS)
    return [(target, value, target.kept(value)) for target, value in found if value is not None]


def unjudged(records: list[Record]) -> list[tuple[Target, str]]:
    """Each target that this run tried to tell about and could not, with the reason."""
    known = by_key(records)
    lost = [target for target in TARGETS if target.value(known) is None]
    return [(target, reason) for target in lost if (reason := target.reason(known))]


def by_key(records: list[Record]) -> dict[Key, Record]:
    return {(record["workload"], record["system"]): record for record in records}
