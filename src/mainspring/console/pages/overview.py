"""What needs somebody, and how the engine does."""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.console.live import glance
from mainspring.console.look import Page, Visitor
from mainspring.console.snapshot import Glance
from mainspring.console.words import ago, first_line, link, number, span
from mainspring.phrases import counted

MOST_NEEDS = 12
# A lag that nobody has to look at.
LATE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Matter:
    """Something that stands still until a person comes: what it is, what is known, where to go."""

    state: str
    text: str
    more: str
    path: str
    button: str


async def page(look: Visitor) -> Page:
    """The first screen. Drawn from the snapshot alone."""
    sight = await look.sight()
    queues = sorted(
        (q for q in sight.status.queues if q.waiting or q.running or q.parked or q.paused_at),
        key=lambda q: (-q.lag_seconds, -q.parked, -q.waiting, q.name),
    )
    values = {
        "sight": sight,
        "glance": glance(sight),
        "needs": needs(sight)[:MOST_NEEDS],
        "queues": queues[:12],
        "others": max(0, len(queues) - 12),
        "operations": [o for o in sight.operations if o.ended_at is None],
        "rates": list(look.rates),
        "lags": list(look.lags),
        "runs": {t.queue: t for t in sight.status.throughput},
    }
    return Page("overview.html", "Overview", values, command="mainspring status", live="glance")


def needs(sight: Glance) -> list[Matter]:
    """What a person has to look at, the worst first."""
    found: list[Matter] = []
    for group in sight.parked[:MOST_NEEDS]:
        found.append(
            Matter(
                "parked",
                f"{counted(group.count, 'visit')} of {group.queue} parked: {group.error_type}",
                f"{first_line(group.example, 120)}; last {ago(group.last_at, sight.at)}",
                link(
                    "/parked/group",
                    queue=group.queue,
                    error_type=group.error_type,
                    fingerprint=group.fingerprint,
                ),
                f"Look at {number(group.count)}",
            )
        )
    for queue in sight.status.unserved:
        found.append(
            Matter(
                "unserved",
                f"{queue.waits} in {queue.name}{sight.status.whom_unserved_lack}",
                "A task was renamed or removed, or its worker is not running."
                if sight.status.workers
                else "Start one: mainspring worker module:app.",
                link("/queues/one", name=queue.name),
                "Why",
            )
        )
    for away, finders in sight.status.away:
        found.append(
            Matter(
                "late", away.text, f"So {counted(finders, 'worker')} found.", "/workers", "Workers"
            )
        )
    for task in sight.missed:
        found.append(
            Matter(
                "late",
                f"{task.task} had no success within the time that is expected",
                f"Since {ago(task.missed_at, sight.at)}.",
                link("/reactive/one", task=task.task),
                "Why",
            )
        )
    for finding in sight.findings:
        if finding.level == "bad":
            found.append(
                Matter("bad", first_line(finding.text), finding.remedy, "/doctor", "Doctor")
            )
    for operation in sight.operations:
        if operation.state in ("failed", "parked"):
            found.append(
                Matter(
                    "failed",
                    f"operation {operation.id} ({operation.kind}) is {operation.state}",
                    first_line(operation.error),
                    link("/operations/one", id=operation.id),
                    "Look",
                )
            )
    for queue in sight.status.queues:
        if queue.paused_at is not None and queue.waiting:
            found.append(
                Matter(
                    "paused",
                    f"{queue.name} is paused; {queue.waits}",
                    f"Paused {queue.pause}.",
                    link("/queues/one", name=queue.name),
                    "Resume…",
                )
            )
        elif queue.lag_seconds > LATE_SECONDS and queue.workers:
            found.append(
                Matter(
                    "late",
                    f"{queue.name} is {span(queue.lag_seconds)} late; {queue.waits}",
                    "Its oldest visit has been due for so long.",
                    link("/queues/one", name=queue.name),
                    "Why",
                )
            )
    return found
