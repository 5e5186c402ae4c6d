"""Operations on many processes: restart parked tasks, restart or cancel processes, by a filter (P10).

They are operations of the kernel: counted first (dry run), done page by page in the transaction that
notes their progress, paused, resumed and cancelled, and kept with who ordered them. A parked task
is freed under its process's shared lock, like a decision; to restart or cancel a whole process is a
structural change, which the engine does: see asked.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from mainspring.db.database import Connection, Database
from mainspring.errors import InvalidSetting, NotFound
from mainspring.jobs import Operation, start_operation
from mainspring.kernel import BACKGROUND_BELOW
from mainspring.operation_kind import ItemResult, OperationKind, OperationPage
from mainspring.processes.commit.visits import NewVisit
from mainspring.processes.operate.asked import PacedOrder, ask_for, paced_page, page_of
from mainspring.processes.operate.search import FoundProcess, ProcessFilter, check_search, search
from mainspring.processes.statements import SQL
from mainspring.processes.structural.parked import ParkedTask, unpark_steps
from mainspring.processes.structural.request import (
    ProcessRestart,
    request_cancel,
    request_look,
    request_restart,
    request_steps,
)
from mainspring.processes.structural.restart import FROM_SCRATCH
from mainspring.tasks.declare.options import check_priority

# What an operator orders in masses goes behind live work, unless told otherwise.
LOW_PRIORITY = BACKGROUND_BELOW - 1  # gives way to live work
# Parked tasks that are freed in one transaction: a larger one would hold up the flushes of others.
TASKS = 80
# What could not be freed because its process was being changed is tried again, so often and after so long.
ROUNDS = 5
ROUND_SECONDS = 0.5
_MISSED = "it was no longer parked"
_BUSY = "its process was being changed, again and again"


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which parked tasks are meant: by process type, actor, kind of error, text or type of error."""

    type: str | None = None
    actor: str | None = None
    fingerprint: str | None = None
    error: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it means every parked task there is: an empty text is no condition."""
        return not (self.type or self.actor or self.fingerprint or self.error)


@dataclass(frozen=True, slots=True)
class RestartTasks:
    """Let the parked tasks that fit go on, under the same keys."""

    wanted: TaskFilter = field(default_factory=TaskFilter)
    until: datetime | None = None
    rate: float | None = None  # items a second; None: as fast as it goes
    priority: int = LOW_PRIORITY


@dataclass(frozen=True, slots=True)
class RestartProcesses:
    """Redo the processes that fit, from scratch or from their tasks of an actor on."""

    wanted: ProcessFilter = field(default_factory=ProcessFilter)
    fresh_signals: bool = False
    rate: float | None = None
    priority: int = LOW_PRIORITY
    task: str | None = None  # an actor, or a task's id


@dataclass(frozen=True, slots=True)
class CheckProcesses:
    """Check the processes that fit: what is broken is an item that failed, and is looked at."""

    wanted: ProcessFilter = field(default_factory=ProcessFilter)
    rate: float | None = None
    priority: int = LOW_PRIORITY
    operation: int | None = None  # its own number: repairs name it


@dataclass(frozen=True, slots=True)
class CancelProcesses:
    """Cancel the processes that fit."""

    wanted: ProcessFilter = field(default_factory=ProcessFilter)
    rate: float | None = None
    priority: int = LOW_PRIORITY
    compensate: bool = True


BulkOrder = RestartTasks | RestartProcesses | CheckProcesses | CancelProcesses
OfProcesses = TypeVar("OfProcesses", RestartProcesses, CheckProcesses, CancelProcesses)


async def order(
    connection: Connection,
    kind: str,
    wanted: BulkOrder,
    *,
    source: str,
    dry_run: bool = False,
    everything: bool = False,
) -> Operation:
    """Begin an operation. A filter without a condition must be meant; one that finds nothing is said."""
    meant = wanted.wanted
    check_priority(wanted.priority)
    if wanted.rate is not None and not 0 < wanted.rate < 1_000_000:
        raise InvalidSetting(
            f"rate must be more than 0 and less than 1,000,000 a second, got {wanted.rate!r}"
        )
    if meant.is_empty and not everything and not dry_run:
        raise InvalidSetting(
            "the filter has no condition and means everything: name a type, an actor or an error, "
            "or say everything=True (--all)"
        )
    begun = await start_operation(
        connection.database, connection, KINDS[kind], wanted, source=source, dry_run=dry_run
    )
    if not begun.total and not dry_run:
        raise NotFound(f"nothing fits the filter: {msgspec.json.encode(meant).decode()}")
    return begun


# -- parked tasks


def _freeze_tasks(order: RestartTasks, now: datetime) -> RestartTasks:
    return replace(order, until=now if order.until is None else min(order.until, now))


def _values(order: RestartTasks) -> dict[str, object]:
    w = order.wanted
    return {
        "type": w.type,
        "actor": w.actor,
        "fingerprint": w.fingerprint,
        "error": w.error,
        "until": order.until,
    }


async def _count_tasks(database: Database, connection: Connection, order: RestartTasks) -> int:
    return await connection.one(SQL["count_parked_tasks"], int, **_values(order))


class _Place(msgspec.Struct):
    """Where a page begins: what is left of earlier rounds is still parked, and found from the start."""

    after: str | None = None
    round: int = 1


def _place(position: str) -> _Place:
    """The last release wrote the task alone."""
    found: _Place | str = msgspec.json.decode(position, type=_Place | str)
    return _Place(found) if isinstance(found, str) else found


async def _page_tasks(
    database: Database, connection: Connection, order: RestartTasks, position: str | None, most: int
) -> OperationPage:
    at = _Place() if position is None else _place(position)
    most = paced_page(order, TASKS)
    items = await _parked_from(connection, order, at, most)
    if not items and at.after is not None and at.round < ROUNDS:
        at = _Place(None, at.round + 1)
        items = await _parked_from(connection, order, at, most)
    if not items or (len(items) < most and at.round >= ROUNDS):
        return OperationPage(items, None)
    if len(items) == most:
        following, wait = _Place(items[-1].parked.task, at.round), 0.0
    else:
        following, wait = _Place(None, at.round + 1), ROUND_SECONDS if at.round > 1 else 0.0
    page = _paced(order, items, msgspec.json.encode(following).decode())
    return replace(page, wait=max(page.wait, wait))


class _InRound(NamedTuple):
    """A parked task, and the round in which it was found."""

    parked: ParkedTask
    round: int


async def _parked_from(
    connection: Connection, order: RestartTasks, at: _Place, most: int
) -> list[_InRound]:
    found = await connection.rows(
        SQL["page_parked_tasks"], ParkedTask, **_values(order), after=at.after, limit=most
    )
    return [_InRound(parked, at.round) for parked in found]


async def _restart_tasks(
    database: Database, connection: Connection, order: RestartTasks, items: Sequence[_InRound]
) -> list[ItemResult]:
    tasks = [item.parked for item in items]
    going = await connection.follow(unpark_steps(tasks, priority=order.priority))
    missed = [item.task for item in tasks if item.task not in going]
    busy: set[str] = set()
    if missed:
        busy = set(await connection.rows(SQL["find_parked"], str, tasks=missed))
    is_last_round = bool(items) and items[0].round >= ROUNDS
    results = []
    for item in tasks:
        if item.task in going:
            results.append(ItemResult(item.actor, item.task))
        elif item.task not in busy:
            results.append(ItemResult(item.actor, item.task, _MISSED))
        elif is_last_round:
            results.append(ItemResult(item.actor, item.task, _BUSY))
    return results


def _paced(order: PacedOrder, items: Sequence[object], position: str | None) -> OperationPage:
    return OperationPage(
        items, position, wait=0.0 if order.rate is None else len(items) / order.rate
    )


# -- processes


def _freeze_processes(order: OfProcesses, now: datetime) -> OfProcesses:
    wanted = order.wanted
    until = now if wanted.until is None else min(wanted.until, now)
    return replace(order, wanted=msgspec.structs.replace(wanted, until=until))


async def _count_processes(
    database: Database,
    connection: Connection,
    order: RestartProcesses | CheckProcesses | CancelProcesses,
) -> int:
    await check_search(connection, order.wanted)
    return await connection.one(SQL["count_processes"], int, **order.wanted.values())


async def _page_processes(
    database: Database,
    connection: Connection,
    order: CheckProcesses,
    position: str | None,
    most: int,
) -> OperationPage:
    before = None
    if position is not None:
        before = msgspec.json.decode(position, type=tuple[datetime, str])
    most = paced_page(order, most)
    found = await search(connection, order.wanted, before=before, limit=most)
    last = msgspec.json.encode(found[-1].position).decode() if len(found) == most else None
    return _paced(order, found, last)


def _restart_of(order: RestartProcesses, process: FoundProcess) -> NewVisit | str:
    """The visit that restarts a process, or why it cannot be."""
    if order.task is not None and process.state == "cancelled":
        return FROM_SCRATCH
    how = ProcessRestart.starting(
        order.task, fresh_signals=order.fresh_signals, priority=order.priority
    )
    return request_restart(process.id, how, order.priority)


def _cancel_of(order: CancelProcesses, process: FoundProcess) -> NewVisit | str:
    if process.state != "open":
        return f"the process is {process.state}"
    return request_cancel(process.id, order.priority, compensate=order.compensate)


class BrokenProcess(NamedTuple):
    """A row of check_processes.sql."""

    id: str
    rule: str
    detail: str
    task: str


async def _check_processes(
    database: Database, connection: Connection, order: CheckProcesses, items: Sequence[FoundProcess]
) -> list[ItemResult]:
    """What is broken is reported now, and looked at: that repairs what is safe and marks the rest."""
    ids = [item.id for item in items]
    broken: dict[str, str] = {}
    for found in await connection.rows(SQL["check_processes"], BrokenProcess, ids=ids):
        broken.setdefault(found.id, f"{found.rule}: {found.detail} (task {found.task})")
    source = f"operation {order.operation}"
    visits = [
        request_look(item.id, order.priority, source=source)
        for item in items
        if item.state == "open" and item.id in broken
    ]
    if visits:
        await connection.follow(request_steps(visits, database.shard_count))
    return [ItemResult(item.type, item.id, broken.get(item.id)) for item in items]


KINDS: dict[str, OperationKind] = {
    kind.name: kind
    for kind in (
        OperationKind(
            "restart_tasks", RestartTasks, _freeze_tasks, _count_tasks, _page_tasks, _restart_tasks
        ),
        OperationKind(
            "restart_processes",
            RestartProcesses,
            _freeze_processes,
            _count_processes,
            partial(page_of, changes=_restart_of),
            ask_for,
        ),
        OperationKind(
            "check_processes",
            CheckProcesses,
            _freeze_processes,
            _count_processes,
            _page_processes,
            _check_processes,
        ),
        OperationKind(
            "cancel_processes",
            CancelProcesses,
            _freeze_processes,
            _count_processes,
            partial(page_of, changes=_cancel_of),
            ask_for,
        ),
    )
}
