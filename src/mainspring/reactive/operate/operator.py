"""What an operator can ask about params and reactive tasks, and order them to do.

for task in await app.reactive.tasks():
    print(task.task, task.state, task.cause)
await app.reactive.run("daily", record=True, by="ann")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from mainspring.db.database import Connection
from mainspring.db.pool import HasPool
from mainspring.db.sql import Statement
from mainspring.errors import InvalidSetting, UnknownParam, UnknownReactiveTask
from mainspring.kernel import Offer, offer_visits
from mainspring.operate import origin, record_order
from mainspring.reactive.declare.params import Affected, AffectedTask, affected_of, make, rewind
from mainspring.reactive.model.values import AnyParam, check_value, dump_value
from mainspring.reactive.operate.states import (
    Evaluation,
    EvaluationRow,
    ParamChange,
    ParamLogRow,
    ParamRow,
    ParamState,
    ReactiveLoad,
    TaskState,
    TaskStateRow,
    evaluation,
    param_change,
    param_state,
    task_state,
)
from mainspring.reactive.queues import ADMIT, CHECK, EXPECT, FIRST
from mainspring.reactive.statements import SQL

if TYPE_CHECKING:  # most questions need no triggers
    from mainspring.reactive.decide.decide import Definition, View

MOST = 1000
_LAST = 2**63 - 1
R = TypeVar("R")


class PlaceInPool(NamedTuple):
    """Where a firing stands that waits for a slot of its pool; `keepers` have slots kept for others."""

    pool: str
    cap: int | None
    reserve_max: timedelta
    running: int
    ahead: int
    keepers: list[str]
    kept_until: datetime | None


class ServedTask(NamedTuple):
    """Whether workers are there that check triggers, that run a task, that carry its release."""

    pool: str
    scheduler_pool: str
    scheduled: bool
    run: bool
    left_why: str | None
    carried: bool


class UsualDuration(NamedTuple):
    """How long runs of a task usually take."""

    task: str
    median_ms: float


class PausedTask(NamedTuple):
    """A task that was paused or resumed; `expects`: a success of it is due some time."""

    task: str
    expects: bool


class RepairedTask(NamedTuple):
    """A task whose last seen value was changed."""

    task: str
    in_flight: bool


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """All that a live evaluation of a task needs, of one snapshot: for `why`."""

    task: str
    now: datetime
    definition: Definition
    view: View


class _OnlyTried(Exception):
    """A dry run: what it changed is rolled back."""


class ReactiveOperator:
    """Questions and orders."""

    def __init__(self, host: HasPool) -> None:
        self._host = host

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Connection]:
        pool = await self._host.pool()
        async with pool.connection(transaction=True) as connection:
            yield connection

    async def _rows(
        self, statement: Statement, row: Callable[..., R], /, **values: object
    ) -> list[R]:
        async with self._open() as connection:
            return await connection.rows(statement, row, **values)

    # -- params

    async def params(
        self, *, name: str | None = None, after: str = "", limit: int = 100
    ) -> list[ParamState]:
        """Params by name; the next page begins after the last one."""
        rows = await self._rows(
            SQL["list_params"], ParamRow, name=name, after=after, most=_page(limit)
        )
        if name is not None and not rows:
            raise await self._unknown_param(name)
        return [param_state(row) for row in rows]

    async def param_history(
        self, name: str, *, before: int | None = None, limit: int = 50
    ) -> list[ParamChange]:
        """What was set of a param, newest first."""
        most = _page(limit)
        rows = await self._rows(
            SQL["list_param_log"], ParamLogRow, name=name, before=before or _LAST, most=most
        )
        return [param_change(row) for row in rows]

    async def affected(self, name: str) -> list[Affected]:
        """Tasks that have seen more of a param than it had at its last rewind (R13)."""
        kind = (await self.params(name=name))[0].param.kind
        tasks = await self._rows(SQL["affected"], AffectedTask, name=name)
        return affected_of(kind, tasks)

    async def create_param(self, param: AnyParam) -> None:
        """Make a param, unless it is there."""
        async with self._open() as connection:
            await connection.follow(make([param]))
            await record_order(connection, "params.create", param.key)

    async def rewind(
        self,
        name: str,
        to: object,
        *,
        chunks: Sequence[object] = (),
        why: str | None = None,
        dry_run: bool = False,
    ) -> list[Affected]:
        """Move a param back; returns the tasks that have seen more of it, with the repair of each.
        `dry_run`: only look which they would be."""
        param = (await self.params(name=name))[0].param
        steps = rewind(param, to, chunks=chunks, by=origin().actor, why=why)
        found: list[Affected] = []
        with suppress(_OnlyTried):
            async with self._open() as connection:
                found = await connection.follow(steps)
                if dry_run:
                    raise _OnlyTried  # so the transaction is rolled back
                await record_order(connection, "params.rewind", name, details={"to": str(to)})
        return found

    async def _unknown_param(self, name: str) -> UnknownParam:
        return UnknownParam(name, await self._rows(SQL["list_param_names"], str))

    # -- tasks

    async def load(self) -> list[ReactiveLoad]:
        """The tasks of each pool in numbers."""
        return await self._rows(SQL["read_load"], ReactiveLoad)

    async def tasks(
        self,
        *,
        task: str | None = None,
        after: str = "",
        missed_only: bool = False,
        limit: int = 100,
    ) -> list[TaskState]:
        """Reactive tasks by name, retired ones too; the next page begins after the last one."""
        rows = await self._rows(
            SQL["list_tasks"],
            TaskStateRow,
            task=task,
            after=after,
            missed=missed_only,
            most=_page(limit),
        )
        if task is not None and not rows:
            raise await self._unknown_task(task)
        return [task_state(row) for row in rows]

    async def evaluations(
        self, task: str, *, before: int | None = None, limit: int = 50
    ) -> list[Evaluation]:
        """Evaluations whose outcome differed from the one before, newest first."""
        most = _page(limit)
        rows = await self._rows(
            SQL["list_evaluations"], EvaluationRow, task=task, before=before or _LAST, most=most
        )
        return [evaluation(row) for row in rows]

    async def look(self, task: str) -> TaskSnapshot:
        """What a live evaluation needs, read in one statement."""
        from mainspring.reactive.schedule.check import Definitions, read_tasks, view_of

        async with self._open() as connection:
            for row in await read_tasks(connection, [task]):
                definitions = Definitions()
                await definitions.load(connection, [row.fingerprint])
                definition = definitions.get(row.fingerprint)
                if isinstance(definition, str):
                    raise InvalidSetting(f"task {task!r} cannot be looked at here: {definition}")
                return TaskSnapshot(task, row.now, definition, view_of(row))
        raise await self._unknown_task(task)

    async def usual_durations(self, tasks: Sequence[str]) -> dict[str, timedelta]:
        """How long runs of these tasks usually take; those that never ran are left out."""
        if not tasks:
            return {}
        found = await self._rows(SQL["usual_durations"], UsualDuration, tasks=list(tasks))
        return {usual.task: timedelta(milliseconds=usual.median_ms) for usual in found}

    async def place(self, task: str) -> PlaceInPool | None:
        """Where a firing stands that waits for a slot of its pool; nothing if it does not wait."""
        async with self._open() as connection:
            return await connection.first(SQL["read_place"], PlaceInPool, task=task)

    async def served(self, task: str) -> ServedTask:
        """Whether workers are there that check triggers, and that run this task."""
        from mainspring.reactive.declare.register import LIVING_SECONDS

        async with self._open() as connection:
            return await connection.one(
                SQL["read_served"], ServedTask, task=task, living=LIVING_SECONDS
            )

    async def _unknown_task(self, task: str) -> UnknownReactiveTask:
        return UnknownReactiveTask(task, await self._rows(SQL["list_task_names"], str))

    # -- orders

    async def run(self, task: str, *, record: bool = False, by: str | None = None) -> bool:
        """Ask for a manual run; returns whether it has to wait for the one in flight."""
        return await self._order("run", task, SQL["request_run"], bool, record=record, by=by)

    async def pause(self, task: str) -> None:
        """Check the task no more until it is resumed; a firing in flight goes on."""
        await self._order("pause", task, SQL["pause_task"], PausedTask, paused=True)

    async def resume(self, task: str) -> None:
        """Check the task again."""
        await self._order("resume", task, SQL["pause_task"], PausedTask, paused=False)

    async def seen_move(self, task: str, param: str, value: object) -> None:
        """Let the task have seen a param up to a value: what is above it is new (R13)."""
        kind = (await self.params(name=param))[0].param
        raw = msgspec.json.encode(dump_value(check_value(kind, value))).decode()
        await self._order(
            "seen_move", task, SQL["repair_seen"], RepairedTask, param=param, value=raw
        )

    async def seen_delete(self, task: str, param: str) -> None:
        """Let the task not have seen a param at all: its Delta is true at once (R13)."""
        await self.params(name=param)
        await self._order(
            "seen_delete", task, SQL["repair_seen"], RepairedTask, param=param, value=None
        )

    async def set_cap(
        self, pool: str, cap: int | None, *, reserve_max: timedelta | None = None
    ) -> None:
        """At most so many reactive tasks of a pool at once; stands until the code's word changes."""
        from mainspring.reactive.declare.register import PoolSettings

        checked = PoolSettings(pool, cap, reserve_max or timedelta())
        seconds = None if reserve_max is None else checked.reserve_max.total_seconds()
        async with self._open() as connection:
            await connection.run(SQL["set_cap"], pool=pool, cap=cap, reserve=seconds)
            await record_order(connection, "reactive.set_cap", pool, details={"cap": cap})
            offer = Offer(ADMIT, pool, None, FIRST)
            await offer_visits(connection.database, connection, [offer])

    async def _order(
        self,
        action: str,
        task: str,
        statement: Statement,
        row: Callable[..., R],
        /,
        **values: object,
    ) -> R:
        """Change the task's row and offer it a check, in one transaction."""
        async with self._open() as connection:
            changed = await connection.first(statement, row, task=task, **values)
            if changed is not None:
                offers = [Offer(CHECK, task, None, FIRST)]
                if isinstance(changed, PausedTask) and changed.expects:
                    offers.append(Offer(EXPECT, task))
                await offer_visits(connection.database, connection, offers)
                await record_order(connection, f"reactive.{action}", task, details=values)
                return changed
        found = await self.tasks(task=task)
        raise InvalidSetting(f"task {task!r} is {found[0].state}: nothing was changed")


def _page(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise InvalidSetting(f"limit must be 1 to {MOST}, got {limit!r}; read page by page")
    return limit
