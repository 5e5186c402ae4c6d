"""What an operator can ask about params and reactive tasks, and order them to do.

for task in await app.reactive.tasks():
    print(task.task, task.state, task.cause)
await app.reactive.run("daily", record=True, by="ann")
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from mainspring.db.database import Database
from mainspring.errors import InvalidSetting, UnknownParam, UnknownReactiveTask
from mainspring.kernel import Offer, offer_visits
from mainspring.reactive.declare.params import Affected, affected_of, from_raw, to_raw
from mainspring.reactive.model.values import Kind, Param, Value, check_value, split_key
from mainspring.reactive.queues import ADMIT, CHECK, EXPECT, FIRST
from mainspring.reactive.statements import ask

if TYPE_CHECKING:  # most questions need no triggers
    from mainspring.reactive.decide.decide import Definition, View
    from mainspring.reactive.model.triggers import Trigger

MOST = 1000
_LAST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ParamState:
    """A param as it stands."""

    param: Param
    value: Value | None
    rewinds: int
    changed_at: datetime | None
    changed_by: str | None
    why: str | None
    ahead: bool
    consumers: tuple[str, ...]
    producers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParamChange:
    """What was set of a param once."""

    id: int
    param: str
    value: Value | None
    old: Value | None
    is_rewind: bool
    changed_by: str | None
    why: str | None
    at: datetime
    chunks: tuple[Value, ...] = ()  # of a rewind that named some


@dataclass(frozen=True, slots=True)
class ReactiveLoad:
    """The reactive tasks of a pool in numbers: what a dashboard shows and an alert looks at."""

    pool: str
    tasks: int
    ready: int
    running: int
    failing: int
    missed: int  # without the success that was expected (R14)
    paused: int
    retired: int
    oldest_ready_seconds: float


@dataclass(frozen=True, slots=True)
class TaskState:
    """A reactive task as it stands. `seen` and `captured` are raw: {param: [value, rewinds]}."""

    task: str
    pool: str
    priority: int
    release: int
    state: str
    kind: str | None
    cause: str | None
    fired_at: datetime | None
    started_at: datetime | None
    seen: dict[str, Any]
    captured: dict[str, Any] | None
    failures: int
    error: str | None
    retry_at: datetime | None
    succeeded_at: datetime | None
    ended_at: datetime | None
    missed_at: datetime | None
    expect_within: timedelta | None
    paused_at: datetime | None
    retired_at: datetime | None
    request: dict[str, Any] | None
    verdict: bool | None
    since: datetime | None
    trigger: Trigger
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A check whose outcome differed from the one before."""

    id: int
    task: str
    at: datetime
    verdict: bool
    fired: bool
    leaves: list[dict[str, Any]]
    cause: str | None


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """All that a live evaluation of a task needs, of one snapshot: for `why`."""

    task: str
    now: datetime
    definition: Definition
    view: View


class ReactiveHost(Protocol):
    """What has a database: the application."""

    async def database(self) -> Database: ...
    async def pool(self) -> Any: ...


class ReactiveOperator:
    """Questions and orders."""

    def __init__(self, host: ReactiveHost) -> None:
        self._host = host

    async def _open(self) -> tuple[Database, AbstractAsyncContextManager[Any]]:
        database = await self._host.database()
        pool = await self._host.pool()
        return database, pool.connection(transaction=True)

    async def _ask(self, name: str, /, **values: Any) -> list[Any]:
        database, opened = await self._open()
        async with opened as connection:
            return await ask(database, connection, name, **values)

    # -- params

    async def params(
        self, *, name: str | None = None, after: str = "", limit: int = 100
    ) -> list[ParamState]:
        """Params by name; the next page begins after the last one."""
        rows = await self._ask("list_params", name=name, after=after, most=_page(limit))
        if name is not None and not rows:
            raise await self._unknown_param(name)
        return [_param_state(row) for row in rows]

    async def param_history(
        self, name: str, *, before: int | None = None, limit: int = 50
    ) -> list[ParamChange]:
        """What was set of a param, newest first."""
        rows = await self._ask(
            "list_param_log", name=name, before=before or _LAST, most=_page(limit)
        )
        return [_change(row) for row in rows]

    async def affected(self, name: str) -> list[Affected]:
        """Tasks that have seen more of a param than it had at its last rewind (R13)."""
        kind = (await self.params(name=name))[0].param.kind
        return affected_of(kind, await self._ask("affected", name=name))

    async def create_param(self, param: Param) -> None:
        """Make a param, unless it is there."""
        await self._ask("make_params", names=[param.key], kinds=[param.kind])

    async def _unknown_param(self, name: str) -> UnknownParam:
        rows = await self._ask("list_param_names")
        return UnknownParam(name, [row["name"] for row in rows])

    # -- tasks

    async def load(self) -> list[ReactiveLoad]:
        """The tasks of each pool in numbers."""
        return [ReactiveLoad(**dict(row)) for row in await self._ask("read_load")]

    async def tasks(
        self,
        *,
        task: str | None = None,
        after: str = "",
        missed_only: bool = False,
        limit: int = 100,
    ) -> list[TaskState]:
        """Reactive tasks by name, retired ones too; the next page begins after the last one."""
        rows = await self._ask(
            "list_tasks", task=task, after=after, missed=missed_only, most=_page(limit)
        )
        if task is not None and not rows:
            raise await self._unknown_task(task)
        return [_task_state(row) for row in rows]

    async def evaluations(
        self, task: str, *, before: int | None = None, limit: int = 50
    ) -> list[Evaluation]:
        """Evaluations whose outcome differed from the one before, newest first."""
        rows = await self._ask(
            "list_evaluations", task=task, before=before or _LAST, most=_page(limit)
        )
        return [Evaluation(**{**dict(r), "leaves": _json(r["leaves"])}) for r in rows]

    async def look(self, task: str) -> TaskSnapshot:
        """What a live evaluation needs, read in one statement."""
        from mainspring.reactive.schedule.check import Definitions, read_tasks, view_of

        database, opened = await self._open()
        async with opened as connection:
            rows = await read_tasks(database, connection, [task])
            if rows:
                definitions = Definitions(database)
                await definitions.load(connection, [rows[0]["fingerprint"]])
                definition = definitions.get(rows[0]["fingerprint"])
                if isinstance(definition, str):
                    raise InvalidSetting(f"task {task!r} cannot be looked at here: {definition}")
                return TaskSnapshot(task, rows[0]["now"], definition, view_of(rows[0]))
        raise await self._unknown_task(task)

    async def usual_durations(self, tasks: Sequence[str]) -> dict[str, timedelta]:
        """How long runs of these tasks usually take; those that never ran are left out."""
        if not tasks:
            return {}
        rows = await self._ask("usual_durations", tasks=list(tasks))
        return {row["task"]: timedelta(milliseconds=row["median_ms"]) for row in rows}

    async def place(self, task: str) -> dict[str, Any] | None:
        """Where a firing stands that waits for a slot of its pool; nothing if it does not wait."""
        rows = await self._ask("read_place", task=task)
        return dict(rows[0]) if rows else None

    async def served(self, task: str) -> dict[str, Any]:
        """Whether workers are there that check triggers, and that run this task."""
        from mainspring.reactive.declare.register import LIVING_SECONDS

        return dict((await self._ask("read_served", task=task, living=LIVING_SECONDS))[0])

    async def _unknown_task(self, task: str) -> UnknownReactiveTask:
        rows = await self._ask("list_task_names")
        return UnknownReactiveTask(task, [row["task"] for row in rows])

    # -- orders

    async def run(self, task: str, *, record: bool = False, by: str | None = None) -> bool:
        """Ask for a manual run; answers whether it has to wait for the one in flight."""
        rows = await self._order(task, "request_run", record=record, by=by)
        in_flight: bool = rows[0]["in_flight"]
        return in_flight

    async def pause(self, task: str) -> None:
        """Check the task no more until it is resumed; a firing in flight goes on."""
        await self._order(task, "pause_task", paused=True)

    async def resume(self, task: str) -> None:
        """Check the task again."""
        await self._order(task, "pause_task", paused=False)

    async def seen_move(self, task: str, param: str, value: object) -> None:
        """Let the task have seen a param up to a value: what is above it is new (R13)."""
        kind = (await self.params(name=param))[0].param
        raw = msgspec.json.encode(to_raw(check_value(kind, value))).decode()
        await self._order(task, "repair_seen", param=param, value=raw)

    async def seen_delete(self, task: str, param: str) -> None:
        """Let the task not have seen a param at all: its Delta is true at once (R13)."""
        await self.params(name=param)
        await self._order(task, "repair_seen", param=param, value=None)

    async def set_cap(
        self, pool: str, cap: int | None, *, reserve_max: timedelta | None = None
    ) -> None:
        """At most so many reactive tasks of a pool at once; stands until the code's word changes."""
        from mainspring.reactive.declare.register import PoolSettings

        checked = PoolSettings(pool, cap, reserve_max or timedelta())
        seconds = None if reserve_max is None else checked.reserve_max.total_seconds()
        database, opened = await self._open()
        async with opened as connection:
            await ask(database, connection, "set_cap", pool=pool, cap=cap, reserve=seconds)
            await offer_visits(database, connection, [Offer(ADMIT, pool, None, FIRST)])

    async def _order(self, task: str, name: str, **values: Any) -> list[Any]:
        """Change the task's row and offer it a check, in one transaction."""
        database, opened = await self._open()
        async with opened as connection:
            rows = await ask(database, connection, name, task=task, **values)
            if rows:
                offers = [Offer(CHECK, task, None, FIRST)]
                if name == "pause_task" and rows[0]["expects"]:
                    offers.append(Offer(EXPECT, task))
                await offer_visits(database, connection, offers)
                return rows
        found = await self.tasks(task=task)
        raise InvalidSetting(f"task {task!r} is {found[0].state}: nothing was changed")


def _page(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise InvalidSetting(f"limit must be 1 to {MOST}, got {limit!r}; read page by page")
    return limit


def _json(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


def _value(kind: Kind, raw: str | None) -> Value | None:
    return None if raw is None else from_raw(kind, raw)


def _param_state(row: Any) -> ParamState:
    values = dict(row)
    kind = values.pop("kind")
    param = Param(*split_key(values.pop("name")), kind)
    values["value"] = _value(kind, values["value"])
    for name in ("consumers", "producers"):
        values[name] = tuple(values[name])
    return ParamState(param=param, **values)


def _change(row: Any) -> ParamChange:
    values = dict(row)
    kind = values.pop("kind")
    for name in ("value", "old"):
        values[name] = _value(kind, values[name])
    values["chunks"] = tuple(from_raw(kind, raw) for raw in values["chunks"] or ())
    return ParamChange(**values)


def _task_state(row: Any) -> TaskState:
    from mainspring.reactive.model import codec

    values = dict(row)
    trigger = codec.load(_json(values.pop("tree")), format=values.pop("format"))
    for name in ("seen", "captured", "request", "options"):
        values[name] = _json(values[name])
    return TaskState(trigger=trigger, **values)
