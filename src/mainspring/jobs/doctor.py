"""What the doctor says of the engine's jobs: history's days, and schedules that nobody serves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.jobs.recurring import list_recurring
from mainspring.jobs.schedule import Recurring
from mainspring.jobs.statements import SQL
from mainspring.jobs.upkeep import MissingDay
from mainspring.operate import Finding, WorkerStatus, list_workers

DAYS_AHEAD = 2


async def examine(database: Database, tx: Tx) -> list[Finding]:
    """Look at history's days and at recurring visits."""
    workers = await list_workers(database, tx)
    missing = await tx.rows(SQL["keep_days"], MissingDay, ahead=DAYS_AHEAD)
    schedules = await list_recurring(database, tx)
    return [*judge_days(missing, workers), *judge_recurring(schedules, workers)]


def judge_days(missing: Sequence[MissingDay], workers: Sequence[WorkerStatus]) -> Iterator[Finding]:
    """History's days should be there ahead of time, from the first worker on."""
    if not missing:
        yield Finding("history_days", "ok", f"history has its days for {DAYS_AHEAD} days ahead")
        return
    if missing[0].has_none and not workers:
        text = "history has no days yet: the first worker makes them"
        yield Finding("history_days", "ok", text)
        return
    names = ", ".join(day.name for day in missing)
    text = (
        f"history lacks the days {names}; their runs go to history_other and history_bundle_other"
    )
    remedy = "start a worker: it makes them; if one runs, look at its log for history.day_not_made"
    yield Finding("history_days", "warn", text, remedy)


def judge_recurring(
    schedules: Sequence[Recurring], workers: Sequence[WorkerStatus]
) -> Iterator[Finding]:
    """Schedules whose target nobody serves fill their queue with ticks."""
    served = {name for worker in workers for name in worker.queues}
    for schedule in schedules:
        if workers and schedule.paused_at is None and schedule.target not in served:
            text = f"schedule {schedule.name!r} ticks, but no worker serves {schedule.target!r}"
            remedy = f"mainspring recurring remove {schedule.name}, or start a worker for it"
            yield Finding("recurring", "warn", text, remedy)
