"""Rates of the last hour: of all queues or of one, minute by minute, and queue by queue."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from mainspring.console.drawing import chart
from mainspring.console.look import Page, Visitor
from mainspring.operate.status import Throughput

MINUTES = 60
MOST = 50
FAILED = ("retry", "parked")


@dataclass(frozen=True, slots=True)
class QueueRate:
    """A queue's last hour."""

    queue: str
    count: int
    failed: int
    mean_ms: float
    lag_seconds: float


async def page(look: Visitor) -> Page:
    """The busiest queues first. Lags are those of now, from the snapshot."""
    name = look.text("queue")
    if name is not None:
        await look.operator.check_queue(name)
    minutes = await look.operator.minutes(minutes=MINUTES, queue=name)
    sight = await look.sight()
    lags = {queue.name: queue.lag_seconds for queue in sight.status.queues}
    found = rates(await look.operator.throughput(MINUTES * 60.0), lags)
    values = {
        "name": name or "",
        "minutes": minutes,
        "chart": chart.draw(minutes),
        "total": sum(minute.count for minute in minutes),
        "failed": sum(minute.failed for minute in minutes),
        "queues": [rate for rate in found if name in (None, rate.queue)][:MOST],
        "most": MOST,
        "lags": list(look.lags),
    }
    return Page("metrics.html", "Metrics", values, command="mainspring metrics")


def rates(throughput: list[Throughput], lags: dict[str, float]) -> list[QueueRate]:
    """By queue, the busiest first. Pure."""
    by_queue: dict[str, list[Throughput]] = defaultdict(list)
    for each in throughput:
        by_queue[each.queue].append(each)
    found = []
    for queue, outcomes in by_queue.items():
        count = sum(each.count for each in outcomes)
        failed = sum(each.count for each in outcomes if each.outcome in FAILED)
        spent = sum(each.count * each.mean_ms for each in outcomes)
        found.append(QueueRate(queue, count, failed, spent / count, lags.get(queue, 0.0)))
    return sorted(found, key=lambda rate: (-rate.count, rate.queue))
