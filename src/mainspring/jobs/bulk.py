"""The kernel's kinds of operations: restart or delete parked visits, put past tasks back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

import msgspec

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting
from mainspring.jobs import task_orders
from mainspring.operate import (
    FINAL,
    HistoryFilter,
    HistoryPosition,
    ParkedFilter,
    ParkedPlace,
    ParkedPosition,
    ParkedVisit,
    PastRun,
    cancel_visits,
    count_history,
    count_parked,
    list_parked,
    put_back,
    restart_parked,
    search_history,
)
from mainspring.operation_kind import ItemResult, OperationKind, OperationPage

_MISSED = "it was no longer parked, or somebody had it locked"
_LIVE = "a task with its key is live"


DELETED = "deleted by an operator while parked"


@dataclass(frozen=True, slots=True)
class RestartParkedOrder:
    """Restart the parked visits that fit."""

    wanted: ParkedFilter = field(default_factory=ParkedFilter)
    fresh_ids: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOrder:
    """Delete the parked visits that fit; history says why."""

    wanted: ParkedFilter = field(default_factory=ParkedFilter)
    reason: str = DELETED


ParkedOrder = TypeVar("ParkedOrder", RestartParkedOrder, DeleteOrder)


@dataclass(frozen=True, slots=True)
class PutBackOrder:
    """Put the past tasks back that fit."""

    wanted: HistoryFilter
    fresh_ids: bool = False

    def __post_init__(self) -> None:
        if self.wanted.since is None and self.wanted.key is None:
            raise InvalidSetting(
                "putting back needs a time span or a key: give since, else all history runs again"
            )
        for outcome in self.wanted.outcomes or ():
            if outcome not in FINAL:
                raise InvalidSetting(
                    f"a task whose run ended as {outcome!r} is not over, so it cannot be put back: "
                    f"name some of {', '.join(FINAL)}; parked ones are restarted"
                )


def _freeze_parked(order: ParkedOrder, now: datetime) -> ParkedOrder:
    return replace(order, wanted=replace(order.wanted, until=_earlier(order.wanted.until, now)))


async def _count_parked(database: Database, tx: Tx, order: RestartParkedOrder | DeleteOrder) -> int:
    return await count_parked(database, tx, order.wanted)


async def _page_parked(
    database: Database,
    tx: Tx,
    order: RestartParkedOrder | DeleteOrder,
    position: str | None,
    most: int,
) -> OperationPage:
    before = None if position is None else msgspec.json.decode(position, type=ParkedPosition)
    found = await list_parked(database, tx, order.wanted, limit=most, before=before)
    return OperationPage(found, _encoded(found[-1].position) if len(found) == most else None)


async def _restart(
    database: Database, tx: Tx, order: RestartParkedOrder, items: Sequence[ParkedVisit]
) -> list[ItemResult]:
    changed = await restart_parked(database, tx, _places(items), fresh_ids=order.fresh_ids)
    return _results(items, {(c.queue, c.key) for c in changed})


async def _delete(
    database: Database, tx: Tx, order: DeleteOrder, items: Sequence[ParkedVisit]
) -> list[ItemResult]:
    changed = await cancel_visits(
        database, tx, _places(items), reason=order.reason, parked_only=True
    )
    return _results(items, {(c.queue, c.key) for c in changed})


def _places(items: Sequence[ParkedVisit]) -> list[ParkedPlace]:
    return [ParkedPlace(item.shard, item.key, item.queue) for item in items]


def _results(items: Sequence[ParkedVisit], changed: set[tuple[str, str]]) -> list[ItemResult]:
    return [
        ItemResult(item.queue, item.key, None if (item.queue, item.key) in changed else _MISSED)
        for item in items
    ]


def _freeze_past(order: PutBackOrder, now: datetime) -> PutBackOrder:
    wanted = replace(
        order.wanted,
        until=_earlier(order.wanted.until, now),
        outcomes=list(order.wanted.outcomes or FINAL),
    )
    return replace(order, wanted=wanted)


async def _count_past(database: Database, tx: Tx, order: PutBackOrder) -> int:
    return await count_history(database, tx, order.wanted)


async def _page_past(
    database: Database, tx: Tx, order: PutBackOrder, position: str | None, most: int
) -> OperationPage:
    before = None if position is None else msgspec.json.decode(position, type=HistoryPosition)
    found = await search_history(database, tx, order.wanted, limit=most, before=before)
    return OperationPage(found, _encoded(found[-1].position) if len(found) == most else None)


async def _put_back(
    database: Database, tx: Tx, order: PutBackOrder, items: Sequence[PastRun]
) -> list[ItemResult]:
    past = [p for p in items if not p.superseded and not p.queue.startswith("mainspring.")]
    until = order.wanted.until
    assert until is not None, "frozen at the start"
    answers = await put_back(database, tx, past, until=until, fresh_ids=order.fresh_ids)
    return [
        ItemResult(a.queue, a.key, _LIVE if a.answer == "live" else None)
        for a in answers
        if a.answer != "repeated"
    ]


def _earlier(asked: datetime | None, now: datetime) -> datetime:
    return now if asked is None else min(asked, now)


def _encoded(position: ParkedPosition | HistoryPosition) -> str:
    return msgspec.json.encode(position).decode()


RESTART = OperationKind(
    "restart_parked", RestartParkedOrder, _freeze_parked, _count_parked, _page_parked, _restart
)
DELETE = OperationKind(
    "delete_parked", DeleteOrder, _freeze_parked, _count_parked, _page_parked, _delete
)

# By name. Layers above add their own before a worker starts.
OPERATIONS: dict[str, OperationKind] = {
    kind.name: kind
    for kind in (
        RESTART,
        DELETE,
        # Of those that are alike: a worker of the release before, which does not know that condition and
        # would pass it over, does not know these either.
        replace(RESTART, name="restart_alike"),
        replace(DELETE, name="delete_alike"),
        OperationKind("put_back", PutBackOrder, _freeze_past, _count_past, _page_past, _put_back),
        task_orders.CANCEL,
        task_orders.RUN_NOW,
    )
}
