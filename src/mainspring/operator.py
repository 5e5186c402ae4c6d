"""What an operator can ask of the engine and order it to do, on an application's connections.

The command line and the dashboard go through this; so may an application.

    for group in await app.operator.parked_groups():
        print(group.queue, group.error_type, group.count)
    await app.operator.restart_parked(ParkedFilter(queue="send_email"), source="ann")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar, Unpack

import asyncpg
import msgspec

from mainspring.db.database import Connection, Database
from mainspring.db.pool import HasPool, SyncPool
from mainspring.db.tx import Tx
from mainspring.errors import (
    InvalidArguments,
    InvalidSetting,
    MissingRights,
    NotFound,
    QueueFull,
    SchemaError,
)
from mainspring.jobs import doctor as jobs_doctor
from mainspring.jobs import operation, recurring
from mainspring.jobs.bulk import DELETED, OPERATIONS, DeleteOrder, PutBackOrder, RestartParkedOrder
from mainspring.jobs.operation import Operation, OperationItem
from mainspring.jobs.schedule import Recurring, Schedule, ScheduleSettings
from mainspring.kernel import KERNEL_SQL, read_now
from mainspring.operate import audit, breakers, doctor, parked, queues, rights, status, tokens
from mainspring.operate.audit import Origin, PastOrder, ordered_by
from mainspring.operate.breakers import OpenBreaker
from mainspring.operate.doctor import Finding
from mainspring.operate.history import HistoryFilter, HistoryPosition, PastRun
from mainspring.operate.parked import (
    MOST_GROUPS,
    ParkedFilter,
    ParkedGroup,
    ParkedPlace,
    ParkedPosition,
    ParkedVisit,
)
from mainspring.operate.queues import QueueLoad
from mainspring.operate.status import (
    MinuteRuns,
    Status,
    Throughput,
    read_minutes,
    read_throughput,
)
from mainspring.operate.tokens import TokenEnd
from mainspring.operate.visits import LiveVisit, find_visit, list_visits
from mainspring.operate.why import Why, why_visit
from mainspring.phrases import nearest
from mainspring.reactive.operate.history import run_queues, search_past
from mainspring.tasks.declare.progress import Progress
from mainspring.tasks.declare.sealing import Sealing
from mainspring.tasks.enqueue.results import words_of
from mainspring.tasks.statements import SQL as TASKS_SQL

if TYPE_CHECKING:  # each is imported by who asks for it: a command shall not wait for the others
    from mainspring.entities.operate.operator import EntityOperator
    from mainspring.jobs.task_operator import TaskOperator
    from mainspring.processes.operate.operator import ProcessOperator
    from mainspring.sources.operate.operator import SourceOperator


P = ParamSpec("P")
R = TypeVar("R")


class HasDatabase(HasPool, Protocol):
    """What has a database: the application."""

    def sync_pool(self) -> SyncPool: ...
    def names_of(self, queue: str) -> list[str]: ...
    @property
    def sealing(self) -> Sealing | None: ...


class Operator:
    """Questions and orders. Bulk orders become operations, which workers carry out."""

    def __init__(self, host: HasDatabase) -> None:
        self._host = host

    async def _ask(
        self,
        question: Callable[Concatenate[Database, Connection, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Call a question or order with the database and a connection, in a transaction."""
        database = await self._host.database()
        pool = await self._host.pool()
        with rights.explaining():
            async with pool.connection(transaction=True) as connection:
                await connection.run(KERNEL_SQL["plan_anew"])
                return await question(database, connection, *args, **kwargs)

    async def _order(
        self,
        action: str,
        target: str,
        order: Callable[Concatenate[Database, Connection, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Carry an order out and note it in the same transaction; one that did nothing leaves no row."""

        async def noted(database: Database, connection: Connection) -> R:
            answer = await order(database, connection, *args, **kwargs)
            if answer is None or answer:
                details = {name: value for name, value in kwargs.items() if value}
                await audit.record_order(connection, action, target, details=details)
            return answer

        return await self._ask(noted)

    def ordered_by(self, origin: Origin) -> AbstractContextManager[None]:
        """Orders within are noted as given by that one: `with operator.ordered_by(Origin("ann")): ...`"""
        return ordered_by(origin)

    async def orders(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[PastOrder]:
        """What was ordered, newest first: the audit. `action`: one, or its group (`queues`)."""

        async def ask(_: Database, connection: Connection) -> list[PastOrder]:
            return await audit.list_orders(
                connection, actor=actor, action=action, target=target, before=before, limit=limit
            )

        return await self._ask(ask)

    @property
    def entities(self) -> EntityOperator:
        """Questions and orders about entities and their stages."""
        from mainspring.entities.operate.operator import EntityOperator

        return EntityOperator(self._host)

    @property
    def processes(self) -> ProcessOperator:
        """Questions about processes."""
        from mainspring.processes.operate.operator import ProcessOperator

        return ProcessOperator(self._host)

    @property
    def sources(self) -> SourceOperator:
        """Questions and orders about sources."""
        from mainspring.sources.operate.operator import SourceOperator

        return SourceOperator(self._host)

    # -- visits

    async def visits(
        self,
        *,
        queue: str | None = None,
        state: str | None = None,
        limit: int = 100,
        fields: Mapping[str, object] | None = None,
    ) -> list[LiveVisit]:
        """Visits in the order in which they will run, running ones first.

        `fields`: whose payload has these; of a queue, and of its next 10,000 of each priority.
        """
        return await self._ask(list_visits, queue=queue, state=state, limit=limit, fields=fields)

    async def minutes(self, *, minutes: int = 60, queue: str | None = None) -> list[MinuteRuns]:
        """Runs that ended in each of the last minutes, the oldest first."""
        return await self._ask(read_minutes, minutes=minutes, queue=queue)

    async def throughput(self, seconds: float) -> list[Throughput]:
        """Runs that ended in the last so many seconds, by queue and outcome."""
        return await self._ask(read_throughput, seconds)

    async def find(
        self, key: str, *, queue: str | None = None, group: str | None = None
    ) -> list[LiveVisit]:
        """Live visits of a key: a task's id, or its key within its group."""
        return await self._ask(find_visit, key, queue=queue, group=group)

    async def progress(self, ids: Sequence[str]) -> dict[str, Progress]:
        """How far calls are, by their ids; those that never said it have none."""

        async def question(_: Database, connection: Connection) -> dict[str, Progress]:
            return await connection.follow(words_of(ids))

        return await self._ask(question)

    @property
    def tasks(self) -> TaskOperator:
        """Orders on live calls of tasks: cancelled, or run now, one or by a filter."""
        from mainspring.jobs.task_operator import TaskOperator

        return TaskOperator(self._order, self.find, self.start)

    async def cancel(
        self, queue: str, key: str, *, group: str | None = None, reason: str | None = None
    ) -> str:
        """Call a visit off, whatever it is for; see `tasks.cancel`."""
        return await self.tasks.cancel(queue, key, group=group, reason=reason)

    async def enqueue(
        self,
        task: str,
        arguments: Mapping[str, object],
        *,
        due_at: datetime | None = None,
        priority: int | None = None,
        group: str | None = None,
        key: str | None = None,
    ) -> str:
        """Enqueue a task by its name, without its code: what fits is known when it runs."""
        values = {
            "task": task,
            "arguments": msgspec.json.encode(arguments).decode(),
            "due_at": due_at,
            "priority": priority,
            "grp": group,
            "key": key,
        }
        return await self._order("tasks.enqueue", task, _enqueue, task, values)

    async def why(self, queue: str, key: str, *, group: str | None = None) -> Why:
        """Why a visit has not run."""
        return await self._ask(why_visit, queue, key, group)

    # -- parked

    async def parked(
        self,
        wanted: ParkedFilter | None = None,
        *,
        limit: int = 100,
        before: ParkedPosition | None = None,
    ) -> list[ParkedVisit]:
        """A page of parked visits, newest first."""
        return await self._ask(
            parked.list_parked, wanted or ParkedFilter(), limit=limit, before=before
        )

    async def parked_groups(
        self, wanted: ParkedFilter | None = None, *, limit: int = MOST_GROUPS
    ) -> list[ParkedGroup]:
        """Parked visits counted by queue and type of error."""
        return await self._ask(parked.group_parked, wanted or ParkedFilter(), limit=limit)

    async def count_parked(self, wanted: ParkedFilter | None = None) -> int:
        """How many are parked."""
        return await self._ask(parked.count_parked, wanted or ParkedFilter())

    async def restart(
        self, queue: str, key: str, *, group: str | None = None, fresh_id: bool = False
    ) -> None:
        """Restart one parked visit at once."""
        place = await self._parked_place(queue, key, group)
        if not await self._order(
            "parked.restart",
            _named(queue, key, group),
            parked.restart_parked,
            [place],
            fresh_ids=fresh_id,
        ):
            raise NotFound(f"visit {key!r} of queue {queue!r} is not parked any more")

    async def delete(self, queue: str, key: str, *, group: str | None = None) -> None:
        """Delete one parked visit at once; history keeps it as cancelled."""
        place = await self._parked_place(queue, key, group)
        if not await self._order(
            "parked.delete",
            _named(queue, key, group),
            parked.cancel_visits,
            [place],
            reason=DELETED,
            parked_only=True,
        ):
            raise NotFound(f"visit {key!r} of queue {queue!r} is not parked any more")

    async def _parked_place(self, queue: str, key: str, group: str | None) -> ParkedPlace:
        found = await self.find(key, queue=queue, group=group)
        if not found or found[0].state != "parked":
            state = f"; it is {found[0].state}" if found else ""
            raise NotFound(f"queue {queue!r} has no parked visit {key!r}{state}")
        return found[0].place

    async def restart_parked(
        self,
        wanted: ParkedFilter,
        *,
        source: str,
        fresh_ids: bool = False,
        dry_run: bool = False,
    ) -> Operation:
        """Restart all that fit, as an operation."""
        order = RestartParkedOrder(wanted, fresh_ids=fresh_ids)
        kind = "restart_alike" if wanted.fingerprint else "restart_parked"
        return await self.start(kind, order, source=source, dry_run=dry_run)

    async def delete_parked(
        self, wanted: ParkedFilter, *, source: str, dry_run: bool = False
    ) -> Operation:
        """Delete all that fit, as an operation."""
        order = DeleteOrder(wanted)
        kind = "delete_alike" if wanted.fingerprint else "delete_parked"
        return await self.start(kind, order, source=source, dry_run=dry_run)

    # -- history

    async def history(
        self, wanted: HistoryFilter, *, limit: int = 100, before: HistoryPosition | None = None
    ) -> list[PastRun]:
        """A page of past runs, newest first. The queue may be the name of a reactive task.

        Runs under former names of a task are among them, where the application that says `was=` is asked.
        """
        names = [None] if wanted.queue is None else self._host.names_of(wanted.queue)
        pages = [
            await self._ask(search_past, replace(wanted, queue=name), limit=limit, before=before)
            for name in names
        ]
        found = sorted(chain(*pages), key=lambda run: (run.ended_at, run.run), reverse=True)
        return found[:limit]

    async def put_back(
        self,
        wanted: HistoryFilter,
        *,
        source: str,
        fresh_ids: bool = False,
        dry_run: bool = False,
    ) -> Operation:
        """Put past tasks back to run again, as an operation."""
        reactive = [] if wanted.queue is None else await self._ask(run_queues, wanted.queue)
        if reactive:
            raise InvalidSetting(
                f"{wanted.queue!r} is a reactive task, whose runs belong to what was true then; "
                f"to run it now: mainspring reactive run {wanted.queue} [--record]"
            )
        order = PutBackOrder(wanted, fresh_ids=fresh_ids)
        return await self.start("put_back", order, source=source, dry_run=dry_run)

    # -- operations

    async def start(
        self, kind: str, order: object, *, source: str, dry_run: bool = False
    ) -> Operation:
        """Begin an operation of a kind; a dry run only counts."""
        if kind not in OPERATIONS:
            raise NotFound(f"no kind of operation is named {kind!r}{nearest(kind, OPERATIONS)}")
        return await self._ask(
            operation.start_operation, OPERATIONS[kind], order, source=source, dry_run=dry_run
        )

    async def operations(
        self, *, state: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[Operation]:
        """Operations, newest first."""
        return await self._ask(operation.list_operations, state=state, before=before, limit=limit)

    async def operation(self, id: int | None) -> Operation:
        """One operation, as it stands. One that was only tried dry has no id, and is not there."""
        if id is None:
            raise NotFound("an operation that was only tried dry has no id: leave dry_run out")
        return await self._ask(operation.read_operation, id)

    async def operation_items(
        self, id: int, *, after: int = 0, failed_only: bool = False, limit: int = 100
    ) -> list[OperationItem]:
        """What an operation has done so far."""
        return await self._ask(
            operation.list_items, id, after=after, failed_only=failed_only, limit=limit
        )

    async def pause_operation(self, id: int) -> None:
        """Stop an operation after its step."""
        await self._order("operations.pause", str(id), operation.pause, id)

    async def resume_operation(self, id: int) -> None:
        """Let an operation go on that is paused, failed or parked."""
        await self._order("operations.resume", str(id), operation.resume, id)

    async def cancel_operation(self, id: int) -> None:
        """End an operation; what was done stays done."""
        await self._order("operations.cancel", str(id), operation.cancel, id)

    # -- queues and schedules

    async def queues(self, *, name: str | None = None, exact: bool = False) -> list[QueueLoad]:
        """Queues with what lies in them. Counts of a large table stop (`QueueLoad.capped` says which)
        unless `exact`."""
        return await self._ask(queues.list_queues, name=name, exact=exact)

    async def check_queue(self, name: str, *, or_reactive: bool = False) -> None:
        """Raise NotFound, with the nearest name, for a queue that is not there. A reactive task has
        none of its own."""
        if not await self._ask(run_queues, name):
            await self._ask(queues.check_queue, name)
        elif not or_reactive:
            raise NotFound(
                f"{name!r} is a reactive task, which has no queue of its own; mainspring why {name} "
                f"says where it stands, mainspring history --name {name} what it ran"
            )

    async def pause(
        self, queue: str, *, reason: str | None = None, until: datetime | None = None
    ) -> None:
        """Start nothing of a queue until it is resumed, or until a time. `status` and `why` tell both.

        Example: `await app.operator.pause("charge", reason="the bank is away", until=tomorrow)`
        """
        pause = queues.pause_queue
        await self._order("queues.pause", queue, pause, queue, reason=reason, until=until)

    async def resume(self, queue: str) -> None:
        """Undo a pause."""
        await self._order("queues.resume", queue, queues.resume_queue, queue)

    async def pause_all(
        self, *, reason: str | None = None, until: datetime | None = None
    ) -> list[str]:
        """Start nothing at all until it is resumed, or until a time; returns the queues that were paused
        before, and stay so as they were."""
        pause = queues.pause_queues
        found = await self._order(
            "queues.pause", "*", pause, paused=True, reason=reason, until=until
        )
        return [name for name, before in found.items() if before]

    async def resume_all(self, *, keep: Iterable[str] = ()) -> None:
        """Undo the pause of every queue but those that shall be kept as they are."""
        await self._order("queues.resume", "*", queues.pause_queues, paused=False, keep=list(keep))

    async def limit(self, queue: str, *, source: str = "", **limits: float | None) -> None:
        """Set limits of a queue (concurrency, rate, group_concurrency, group_rate), how many of its
        visits may wait (waiting_max), or its breaker (breaker_failures, breaker_pause); None lifts."""
        await self._order("queues.limit", queue, queues.limit_queue, queue, limits, source=source)

    async def breakers(self, *, queue: str | None = None) -> list[OpenBreaker]:
        """Breakers of queues and groups that are not closed: since when, until when, and why."""

        async def listed(_: Database, tx: Connection) -> list[OpenBreaker]:
            return await breakers.list_breakers(tx, queue=queue)

        return await self._ask(listed)

    async def open_breaker(
        self,
        queue: str,
        *,
        until: datetime,
        group: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Start nothing of a queue, or of one of its groups, until a time. Then one run is tried, and each
        success lets twice as many run."""
        opened = breakers.open_breaker
        await self._order(
            "breakers.open", queue, opened, queue, until=until, group=group, reason=reason
        )

    async def close_breaker(self, queue: str, *, group: str | None = None) -> None:
        """Let a queue, or one of its groups, run on at once."""
        await self._order("breakers.close", queue, breakers.close_breaker, queue, group=group)

    async def recurring(self) -> list[Recurring]:
        """All schedules, by name."""
        return await self._ask(recurring.show_schedules)

    async def schedule(self, name: str) -> Recurring:
        """One schedule."""
        return (await self._ask(recurring.show_schedules, name))[0]

    async def stored_schedule(self, name: str) -> Recurring:
        """One schedule with its arguments as they are stored: for what is made of them, not to be shown."""
        return await self._ask(recurring.read_recurring, name)

    async def next_ticks(self, name: str, count: int = 5) -> list[datetime]:
        """The next ticks of a schedule, whether it is paused or not."""
        return await self._ask(recurring.list_ticks, name, count)

    async def add_schedule(self, schedule: Schedule, *, source: str = "") -> None:
        """Make a schedule at run time."""
        by = source or audit.origin().actor
        await self._order(
            "recurring.add", schedule.name, recurring.add_recurring, schedule, source=by
        )

    async def schedule_by_name(
        self,
        name: str,
        target: str,
        arguments: Mapping[str, object],
        *,
        source: str = "",
        **settings: Unpack[ScheduleSettings],
    ) -> None:
        """The same for a task or process type by its name, without its code: what fits is known when
        it runs."""
        queue, pool = await self._ask(recurring.place_of, target)
        payload = msgspec.json.encode(arguments).decode()
        if queue != target:
            from mainspring.processes.scheduled import start_payload

            payload = start_payload(target, payload)
        settings["payload"] = payload
        made = Schedule(name=name, queue=queue, target=target, pool=pool, **settings)
        await self.add_schedule(made, source=source)

    async def change_schedule(
        self, name: str, wishes: ScheduleSettings, *, source: str = ""
    ) -> None:
        """Change settings of a schedule: those of `Schedule`, but not what it starts."""
        by = source or audit.origin().actor
        await self._order(
            "recurring.change", name, recurring.change_recurring, name, wishes, source=by
        )

    async def pause_recurring(
        self,
        name: str,
        *,
        reason: str | None = None,
        until: datetime | None = None,
        source: str = "",
    ) -> None:
        """Make no tick until it is resumed, or until a time."""
        by = source or audit.origin().actor
        await self._order(
            "recurring.pause",
            name,
            recurring.pause_recurring,
            name,
            reason=reason,
            until=until,
            source=by,
        )

    async def resume_recurring(
        self, name: str, *, catch_up: str = "skip", source: str = ""
    ) -> None:
        """Go on with the next tick; `catch_up` says what of the pause is made up for."""
        by = source or audit.origin().actor
        await self._order(
            "recurring.resume",
            name,
            recurring.resume_recurring,
            name,
            catch_up=catch_up,
            source=by,
        )

    async def remove_recurring(self, name: str, *, source: str = "") -> None:
        """Remove a schedule."""
        by = source or audit.origin().actor
        await self._order("recurring.remove", name, recurring.remove_recurring, name, source=by)

    # -- the whole

    async def status(self, *, exact: bool = False) -> Status:
        """Workers, pools, queues, lag, throughput. Counts of a large table stop unless `exact`."""
        return await self._ask(status.read_status, exact=exact)

    async def doctor(self, *, exact: bool = False) -> list[Finding]:
        """What is wrong with the server, the schema or the tables; the worst first. Of large tables a
        part is looked at, and the finding says so, unless `exact`."""
        try:
            await self._host.database()
        except SchemaError as error:
            return [Finding("schema", "bad", str(error), "run mainspring migrate")]
        except MissingRights as error:
            return [Finding("rights", "bad", str(error), "docs/operate/rights.md has the grants")]
        found = await self._ask(doctor.examine, exact=exact)
        if any(finding.name == "clock" for finding in found):  # it could look at everything
            from mainspring.entities.operate import doctor as kinds_doctor
            from mainspring.reactive.operate import doctor as reactive_doctor
            from mainspring.sources.operate import doctor as source_doctor
            from mainspring.tasks.enqueue import keys

            found += await self._ask(jobs_doctor.examine)
            found += await self._ask(kinds_doctor.examine)
            found += await self._ask(reactive_doctor.examine)
            found += await self._ask(source_doctor.examine)
            found += await self._ask(tokens.examine)
            found += await self._ask(keys.examine)
        return sorted(found, key=lambda finding: -doctor.LEVELS.index(finding.level))

    async def token_ends(self) -> list[TokenEnd]:
        """When those who call the server by a token or a certificate can do so no longer."""
        return await self._ask(tokens.list_token_ends)

    async def now(self) -> datetime:
        """The engine's time."""
        return await self._ask(_read_now)


def _named(queue: str, key: str, group: str | None) -> str:
    """A task in the audit: as its commands name it."""
    return f"{queue} {key}" if group is None else f"{queue} {key} (group {group})"


async def _read_now(database: Database, tx: Tx) -> datetime:
    return await read_now(tx)


async def _enqueue(
    database: Database, connection: Connection, task: str, values: Mapping[str, object]
) -> str:
    try:
        async with connection.transaction():
            return await connection.one(TASKS_SQL["enqueue"], str, **values)
    except asyncpg.UndefinedObjectError:
        raise await queues.unknown_queue(database, connection, task) from None
    except asyncpg.InvalidParameterValueError as error:
        raise InvalidArguments(str(error)) from None
    except asyncpg.ProgramLimitExceededError as error:
        raise QueueFull(str(error)) from None
