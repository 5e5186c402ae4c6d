"""The workloads: what is measured, each in a file of its own, in the order they run."""

from __future__ import annotations

from benchmarks.catalog import Unknown
from benchmarks.workloads import (
    backlog,
    capture,
    chains,
    crowds,
    drain,
    enqueue,
    failing,
    fanout,
    group_rates,
    groups,
    held,
    latency,
    long,
    memory,
    priorities,
    recovery,
    stages,
    timers,
    triggers,
    writers,
)
from benchmarks.workloads.workload import Figure, Trial, Workload

__all__ = ["WORKLOADS", "Figure", "Trial", "Workload", "chosen"]

WORKLOADS: tuple[Workload, ...] = (
    enqueue.ONE,
    enqueue.BULK,
    drain.ONE,
    drain.TWO,
    drain.CLI,
    latency.IDLE,
    latency.HALF,
    backlog.SMALL,
    backlog.MIDDLE,
    backlog.LARGE,
    memory.MEMORY,
    held.HELD,
    long.LONG_TASKS,
    failing.FAILING,
    groups.GROUPS,
    group_rates.GROUP_RATES,
    priorities.PRIORITIES,
    recovery.RECOVERY,
    stages.STAGES,
    writers.WRITING,
    timers.TIMERS,
    capture.CAPTURE,
    triggers.TRIGGERS,
    triggers.TRIGGERS_PAGES,
    triggers.TRIGGERS_BURST,
    chains.CHAINS,
    chains.START,
    fanout.FANOUT,
    crowds.RESTART,
    crowds.SEARCH,
    crowds.SLEEPERS,
)


def chosen(names: list[str] | None, *, quick: bool) -> list[Workload]:
    """Those that give one of the named records, or all (of the quick ones)."""
    if names:
        known = {name for workload in WORKLOADS for name in (workload.name, *workload.gives)}
        if unknown := sorted(set(names) - known):
            raise Unknown(f"no workload {unknown[0]!r}; known are {', '.join(sorted(known))}")
        return [w for w in WORKLOADS if {w.name, *w.gives} & set(names)]
    return [workload for workload in WORKLOADS if workload.quick or not quick]
