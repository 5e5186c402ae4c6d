"""Orders on many live calls of tasks: cancel them, or have them run now. Operations carry them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting
from mainspring.operate import (
    CallFilter,
    ParkedPlace,
    call_off_visits,
    count_calls,
    make_due,
    page_calls,
)
from mainspring.operation_kind import ItemResult, OperationKind, OperationPage

REASON = "cancelled by an operator"
_MISSED = "it had ended, or it runs now, or somebody had it locked"
_NOT_LATER = "it was not for later any more, or somebody had it locked"


@dataclass(frozen=True, slots=True)
class CancelTasksOrder:
    """Cancel the calls that fit; runs under way are told to end."""

    wanted: CallFilter = field(default_factory=CallFilter)
    reason: str = REASON


@dataclass(frozen=True, slots=True)
class RunTasksNowOrder:
    """Have the calls run now that fit and are for later."""

    wanted: CallFilter = field(default_factory=CallFilter)

    def __post_init__(self) -> None:
        if self.wanted.state not in (None, "scheduled"):
            raise InvalidSetting(
                f"only what is scheduled can be made to run now, got state {self.wanted.state!r}; leave "
                "it out, or restart what is parked"
            )


TaskOrder = TypeVar("TaskOrder", CancelTasksOrder, RunTasksNowOrder)


def _freeze(order: TaskOrder, now: datetime) -> TaskOrder:
    until = order.wanted.until
    return replace(
        order, wanted=replace(order.wanted, until=now if until is None else min(until, now))
    )


async def _count(database: Database, tx: Tx, order: CancelTasksOrder | RunTasksNowOrder) -> int:
    return await count_calls(database, tx, _wanted(order))


async def _page(
    database: Database,
    tx: Tx,
    order: CancelTasksOrder | RunTasksNowOrder,
    position: str | None,
    most: int,
) -> OperationPage:
    found = await page_calls(database, tx, _wanted(order), position)
    while not found.places and found.after is not None:  # a page without items would be a rest
        found = await page_calls(database, tx, _wanted(order), found.after)
    return OperationPage(found.places, found.after)


def _wanted(order: CancelTasksOrder | RunTasksNowOrder) -> CallFilter:
    if isinstance(order, RunTasksNowOrder):
        return replace(order.wanted, state="scheduled")
    return order.wanted


async def _cancel(
    database: Database, tx: Tx, order: CancelTasksOrder, items: Sequence[ParkedPlace]
) -> list[ItemResult]:
    told = await call_off_visits(
        database,
        tx,
        items,
        reason=order.reason,
        spares_held=order.wanted.state not in (None, "running"),
    )
    return _results(items, {(one.queue, one.key) for one in told}, _MISSED)


async def _run_now(
    database: Database, tx: Tx, order: RunTasksNowOrder, items: Sequence[ParkedPlace]
) -> list[ItemResult]:
    due = await make_due(database, tx, items)
    return _results(items, {(one.queue, one.key) for one in due}, _NOT_LATER)


def _results(
    items: Sequence[ParkedPlace], changed: set[tuple[str, str]], missed: str
) -> list[ItemResult]:
    return [
        ItemResult(item.queue, item.key, None if (item.queue, item.key) in changed else missed)
        for item in items
    ]


CANCEL = OperationKind("cancel_tasks", CancelTasksOrder, _freeze, _count, _page, _cancel)
RUN_NOW = OperationKind("run_tasks_now", RunTasksNowOrder, _freeze, _count, _page, _run_now)
