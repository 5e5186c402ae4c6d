"""Metrics: what the engine knows in numbers, as OpenMetrics text.

    text = await app.metrics()

Whoever has an HTTP server serves it there; `mainspring metrics` prints it for a collector that reads
files. Everything is read from the database when it is asked for, so one process answers for all
workers, and nothing is counted where nobody asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mainspring.entities.operate.outbox import OutboxLoad
from mainspring.operate.status import Status
from mainspring.operate.tokens import TokenEnd
from mainspring.processes.operate.actors import Counts
from mainspring.reactive.operate.states import ReactiveLoad, TaskState
from mainspring.sources.operate.operator import PartitionState

Sample = tuple[dict[str, str], float]


def render(
    status: Status,
    reactive: Sequence[ReactiveLoad],
    missed: Sequence[TaskState],
    recovered: Sequence[Counts],
    outbox: Sequence[OutboxLoad] = (),
    partitions: Sequence[PartitionState] = (),
    token_ends: Sequence[TokenEnd] = (),
) -> str:
    """All of it, ready to be served as application/openmetrics-text."""
    lines = [
        *_pools(status),
        *_queues(status),
        *_outbox(status, outbox),
        *_reactive(reactive, missed),
        *_gauge(
            "recovered_last_hour",
            "What recovery did for the steps of an actor in the last hour.",
            (
                ({"actor": found.actor, "what": what}, n)
                for found in recovered
                for what, n in found.counts.items()
            ),
        ),
        *_sources(partitions),
        *_gauge(
            "token_expires_timestamp_seconds",
            "When the last token or certificate of a caller of the server expires.",
            (({"name": each.name}, each.expires_at.timestamp()) for each in token_ends),
        ),
        "# EOF",
    ]
    return "\n".join(lines) + "\n"


def _pools(status: Status) -> list[str]:
    pools = status.pools
    slots: dict[str, list[int]] = {}
    for worker in status.workers:
        total = slots.setdefault(worker.pool, [0, 0])
        total[0] += worker.slots
        total[1] += worker.free
    return [
        *_gauge("workers", "Workers of a pool.", (({"pool": p.pool}, p.workers) for p in pools)),
        *_gauge(
            "slots", "Slots of its workers.", (({"pool": p}, n) for p, (n, _) in slots.items())
        ),
        *_gauge(
            "slots_free",
            "Slots that run nothing, as of the last beats.",
            (({"pool": p}, n) for p, (_, n) in slots.items()),
        ),
        *_gauge("shards", "Shards of a pool.", (({"pool": p.pool}, p.shards) for p in pools)),
        *_gauge(
            "shards_owned",
            "Shards that a worker has: fewer than all, and visits wait.",
            (({"pool": p.pool}, p.owned) for p in pools),
        ),
    ]


def _queues(status: Status) -> list[str]:
    queues = status.queues
    hanging = Counter(run.queue for worker in status.workers for run in worker.hanging)
    return [
        *_gauge(
            "visits",
            "Visits of a queue by their state; counting stops early in a large table.",
            (
                ({"queue": q.name, "state": state}, getattr(q, state))
                for q in queues
                for state in ("waiting", "scheduled", "running", "parked")
            ),
        ),
        *_gauge(
            "lag_seconds",
            "For how long the oldest visit that could run has been due.",
            (({"queue": q.name}, q.lag_seconds) for q in queues),
        ),
        *_gauge(
            "runs_hanging",
            "Runs that were overtaken or told to end, and still hang outside of their worker's slots.",
            (({"queue": queue}, n) for queue, n in sorted(hanging.items())),
        ),
        *_gauge(
            "endpoint_away",
            "Workers that find an endpoint away; 0: it is coming back.",
            (({"endpoint": e.endpoint}, n if e.reason else 0) for e, n in status.away),
        ),
        *_gauge(
            "endpoint_away_seconds",
            "For how long it has been away.",
            (
                ({"endpoint": e.endpoint}, max(0.0, (status.at - e.since).total_seconds()))
                for e, _ in status.away
            ),
        ),
        *_gauge(
            "breakers_open",
            "Breakers of the queue or of its groups that are not closed.",
            (({"queue": q}, n) for q, n in Counter(b.queue for b in status.breakers).items()),
        ),
        *_gauge(
            "queue_paused",
            "Whether an operator paused the queue.",
            (({"queue": q.name}, q.paused_at is not None) for q in queues),
        ),
        *_gauge(
            "runs_last_minute",
            "Runs that ended in the last minute.",
            (({"queue": t.queue, "outcome": t.outcome}, t.count) for t in status.throughput),
        ),
    ]


def _outbox(status: Status, loads: Sequence[OutboxLoad]) -> list[str]:
    def labels(load: OutboxLoad) -> dict[str, str]:
        return {"kind": load.kind, "consumer": load.consumer}

    return [
        *_gauge(
            "events_waiting",
            "Events that wait for a consumer; counting stops at a million.",
            ((labels(load), load.waiting) for load in loads),
        ),
        *_gauge(
            "events_waiting_seconds",
            "For how long the oldest of them has waited.",
            (
                (labels(load), max(0.0, (status.at - load.oldest_at).total_seconds()))
                for load in loads
                if load.oldest_at is not None
            ),
        ),
    ]


def _reactive(load: Sequence[ReactiveLoad], missed: Sequence[TaskState]) -> list[str]:
    states = ("ready", "running", "failing", "missed", "paused", "retired")
    return [
        *_gauge(
            "reactive_tasks",
            "Reactive tasks of a pool.",
            (({"pool": p.pool}, p.tasks) for p in load),
        ),
        *_gauge(
            "reactive_tasks_in",
            "Of those, how many are in a state; one may be in several.",
            (({"pool": p.pool, "state": s}, getattr(p, s)) for p in load for s in states),
        ),
        *_gauge(
            "reactive_ready_seconds",
            "For how long the oldest ready task has waited.",
            (({"pool": p.pool}, p.oldest_ready_seconds) for p in load),
        ),
        *_gauge(
            "reactive_missed_timestamp_seconds",
            "Since when a task is without the success that it expects.",
            (({"task": t.task}, t.missed_at.timestamp()) for t in missed if t.missed_at),
        ),
    ]


def _sources(partitions: Sequence[PartitionState]) -> list[str]:
    named = [({"source": p.source, "partition": p.partition}, p) for p in partitions]
    return [
        *_gauge(
            "source_lag",
            "Records of a partition that were not taken in at its reader's last look.",
            ((labels, p.lag) for labels, p in named if p.lag is not None),
        ),
        *_gauge(
            "source_offset",
            "The first record of a partition that was not taken in.",
            ((labels, p.next) for labels, p in named),
        ),
        *_gauge(
            "source_stopped",
            "Whether a partition has stopped at a record, or because the broker lacks its offset.",
            ((labels, p.state == "stopped") for labels, p in named),
        ),
        *_gauge(
            "source_rejects",
            "Records of a partition that were put aside.",
            ((labels, p.rejects) for labels, p in named),
        ),
    ]


def _gauge(name: str, meaning: str, samples: Iterable[Sample]) -> list[str]:
    """One family: its words, then its samples."""
    full = f"mainspring_{name}"
    lines = [f"# TYPE {full} gauge", f"# HELP {full} {meaning}"]
    for labels, value in samples:
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{full}{{{inner}}} {_number(value)}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(int(value))
