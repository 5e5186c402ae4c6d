"""What an operator can order of live calls of tasks: one at once, many as an operation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from mainspring.db.database import Connection, Database
from mainspring.declaring import OWN
from mainspring.errors import InvalidSetting, NotFound
from mainspring.jobs.operation import Operation
from mainspring.jobs.task_orders import REASON, CancelTasksOrder, RunTasksNowOrder
from mainspring.operate import CallFilter, LiveVisit, call_off_visits, make_due

# Visits of processes that nothing waits for: what an operator asked for, and may call off.
_ORDERS = ("cancel/", "restart/", "call_off/")
P = ParamSpec("P")
R = TypeVar("R")


class CarriesOut(Protocol):
    """Carries an order out in a transaction, and notes it in the audit."""

    async def __call__(
        self,
        action: str,
        target: str,
        order: Callable[Concatenate[Database, Connection, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R: ...


class Finds(Protocol):
    """Live visits of a key."""

    async def __call__(
        self, key: str, *, queue: str | None = None, group: str | None = None
    ) -> list[LiveVisit]: ...


class Starts(Protocol):
    """Begins an operation."""

    async def __call__(
        self, kind: str, order: object, *, source: str, dry_run: bool = False
    ) -> Operation: ...


class TaskOperator:
    """`app.operator.tasks`."""

    def __init__(self, order: CarriesOut, find: Finds, start: Starts) -> None:
        self._order = order
        self._find_all = find
        self._start = start

    async def cancel(
        self, queue: str, key: str, *, group: str | None = None, reason: str | None = None
    ) -> str:
        """Cancel one: 'cancelled', or 'cancelling' where its run is told to end."""
        visit = await self._find(queue, key, group)
        is_order = queue.startswith(OWN) and key.startswith(_ORDERS)
        if isinstance(visit.payload, dict) and "@" in visit.payload and not is_order:
            raise InvalidSetting(
                f"{key!r} of {queue!r} is a step of process {visit.payload['@']}, which would wait for it; "
                "mainspring processes cancel ends the whole process"
            )
        told = await self._order(
            "tasks.cancel",
            _named(queue, key, group),
            call_off_visits,
            [visit.place],
            reason=reason or REASON,
            waits=True,
        )
        if told:
            return "cancelled" if told[0].answer == "cancelled" else "cancelling"
        if await self._find_all(key, queue=queue, group=group):
            raise InvalidSetting(
                f"visit {key!r} of queue {queue!r} runs, so it cannot be called off; "
                "wait for its end, or for its timeout"
            )
        raise NotFound(f"visit {key!r} of queue {queue!r} has ended just now")

    async def run_now(self, queue: str, key: str, *, group: str | None = None) -> str:
        """Have one run now that is for later. Answers how it stands: 'waiting', or what it was already."""
        visit = await self._find(queue, key, group)
        named = _named(queue, key, group)
        due = await self._order("tasks.run_now", named, make_due, [visit.place])
        return "waiting" if due else visit.state

    async def _find(self, queue: str, key: str, group: str | None) -> LiveVisit:
        found = await self._find_all(key, queue=queue, group=group)
        if not found:
            raise NotFound(f"queue {queue!r} has no visit {key!r}")
        return found[0]

    async def cancel_all(
        self,
        wanted: CallFilter,
        *,
        source: str,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> Operation:
        """Cancel all that fit, as an operation; runs under way are told to end, unless `state` says which
        are meant."""
        order = CancelTasksOrder(wanted, reason or REASON)
        return await self._start("cancel_tasks", order, source=source, dry_run=dry_run)

    async def run_all_now(
        self, wanted: CallFilter, *, source: str, dry_run: bool = False
    ) -> Operation:
        """Have all run now that fit and are for later, as an operation."""
        order = RunTasksNowOrder(wanted)
        return await self._start("run_tasks_now", order, source=source, dry_run=dry_run)


def _named(queue: str, key: str, group: str | None) -> str:
    """A task in the audit: as its commands name it."""
    return f"{queue} {key}" if group is None else f"{queue} {key} (group {group})"
