"""What an operator can ask of processes: `app.operator.processes`.

for group in await app.operator.processes.parked_groups():
    print(group.type, group.actor, group.count, group.example)
why = await app.operator.processes.why("order-7")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from mainspring.db.database import Connection
from mainspring.db.pool import HasPool
from mainspring.db.sql import Steps
from mainspring.jobs import Operation
from mainspring.kernel import KERNEL_SQL
from mainspring.operate import explaining, origin, record_order
from mainspring.processes.commit.signals import send_steps
from mainspring.processes.locks.claims import ProcessLock, read_locks
from mainspring.processes.operate import actors, bulk, graph, search, settings, templates, why
from mainspring.processes.operate.actors import Counts, Settings
from mainspring.processes.operate.bulk import (
    LOW_PRIORITY,
    BulkOrder,
    CancelProcesses,
    CheckProcesses,
    RestartProcesses,
    RestartTasks,
    TaskFilter,
)
from mainspring.processes.operate.given import check_given, given_failure, given_value
from mainspring.processes.operate.graph import Graph
from mainspring.processes.operate.search import (
    FoundProcess,
    ParkedTaskGroup,
    ProcessFilter,
    Repair,
)
from mainspring.processes.operate.settings import SettingChange
from mainspring.processes.operate.templates import Template, TemplateTerms
from mainspring.processes.operate.why import ProcessWhy
from mainspring.processes.parts.call_off import CallingOff
from mainspring.processes.structural.cancel import Cancelling
from mainspring.processes.structural.change import Answer, closing, refuse
from mainspring.processes.structural.parked import Resolving
from mainspring.processes.structural.request import ProcessRestart, part_of
from mainspring.processes.structural.restart import Restarting, RestartPreview
from mainspring.tasks.declare.promise import Failure
from mainspring.tasks.declare.sealing import Sealing

P = ParamSpec("P")
R = TypeVar("R")


class OperatedProcesses(HasPool, Protocol):
    """What has a database, and what its values are sealed by."""

    @property
    def sealing(self) -> Sealing | None: ...


class ProcessOperator:
    """Questions about processes, and their settings."""

    def __init__(self, host: OperatedProcesses) -> None:
        self._host = host

    async def _ask(
        self,
        question: Callable[Concatenate[Connection, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        pool = await self._host.pool()
        with explaining():
            async with pool.connection(transaction=True) as connection:
                await connection.run(KERNEL_SQL["plan_anew"])
                return await question(connection, *args, **kwargs)

    async def _noted(
        self,
        noted: tuple[str, str],
        order: Callable[Concatenate[Connection, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Carry an order out and note it (its name, and of what) in the same transaction."""

        async def with_note(connection: Connection) -> R:
            answer = await order(connection, *args, **kwargs)
            name, target = noted
            await record_order(connection, f"processes.{name}", target)
            return answer

        return await self._ask(with_note)

    async def search(
        self,
        wanted: ProcessFilter | None = None,
        *,
        before: tuple[datetime, str] | None = None,
        limit: int = 50,
    ) -> list[FoundProcess]:
        """Processes, newest first, a page at a time: `before` is the last one's position."""
        return await self._ask(search.search, wanted or ProcessFilter(), before=before, limit=limit)

    async def find(self, id: str) -> FoundProcess:
        """The process of an id, its own or the user's."""
        return await self._ask(search.find_process, id)

    async def graph(self, id: str, *, superseded: bool = False) -> Graph:
        """The tasks of a process and who waits for whom; `superseded`: earlier generations too."""
        return await self._ask(graph.read_graph, id, superseded=superseded)

    async def why(self, id: str) -> ProcessWhy:
        """Why a process does not go on: named causes, each with what to do."""
        return await self._ask(why.explain, id)

    async def locks(self, name: str | None = None) -> list[ProcessLock]:
        """Who holds locks, and who waits for them in line; all of them, or one."""
        return await self._ask(read_locks, name)

    async def parked_groups(
        self, *, type: str | None = None, actor: str | None = None
    ) -> list[ParkedTaskGroup]:
        """Parked tasks by process type, actor and kind of error, the largest group first."""
        return await self._ask(search.group_parked, type=type, actor=actor)

    # -- orders

    async def cancel(
        self,
        id: str,
        *,
        compensate: bool = True,
        task: str | None = None,
        scope: str | None = None,
        why: str = "called off",
    ) -> Answer:
        """Cancel a process and its child processes, now; refused if it has ended.

        What was done and can be undone (`.compensate(...)`) is undone; with `compensate=False` it stays,
        and compensations that run already are given up. `task` (an id, or an actor: its live ones) or
        `scope` (a name) call off that part alone: the task fails with `Cancelled` and `why`, the scope is
        undone and its handler runs.
        """
        process = await self.find(id)
        if (part := part_of(task, scope, why, compensate=compensate)) is not None:
            calling = CallingOff(process.id, (await self._host.database()).shard_count)
            named = {"task": task, "scope": scope, "why": why}
            return await self._alone("call_off", process.id, calling.call_off(part), named)
        change = Cancelling(process.id, (await self._host.database()).shard_count)
        details = {"compensate": compensate}
        return await self._alone(
            "cancel", process.id, change.cancel(compensate=compensate), details
        )

    async def restart(
        self, id: str, task: str | None = None, *, fresh_signals: bool = False
    ) -> Answer:
        """Redo a process from scratch, or from a task on (its id, or an actor: all its tasks that have
        ended): what they made and what depends on them.

        Other branches keep their results. Signals that were taken by what is redone are given to it
        again, unless `fresh_signals` asks for new ones.
        """
        process = await self.find(id)
        order = ProcessRestart.starting(task, fresh_signals=fresh_signals)
        change = Restarting(process.id, (await self._host.database()).shard_count)
        return await self._alone("restart", process.id, change.restart(order), {"from": task})

    async def preview_restart(self, id: str, task: str | None = None) -> RestartPreview:
        """What `restart` would redo, stop and keep, as things are now. Nothing is written."""
        process = await self.find(id)
        change = Restarting(process.id, (await self._host.database()).shard_count)
        return await self._ask(Connection.follow, change.preview(ProcessRestart.starting(task)))

    async def signal(
        self, id: str, name: str, payload: object = None, *, signal_id: str | None = None
    ) -> bool:
        """Send a signal; returns whether it is new. Who waits for it checks the payload."""
        process = await self.find(id)
        shard_count = (await self._host.database()).shard_count
        text = given_value(self._host.sealing, payload)
        by = origin().actor
        steps = send_steps(
            process.id, name, text, shard_count=shard_count, id=signal_id, sent_by=by
        )
        return await self._noted(("signal", f"{process.id} {name}"), Connection.follow, steps)

    async def restart_tasks(
        self,
        wanted: TaskFilter,
        *,
        source: str = "",
        rate: float | None = None,
        priority: int = LOW_PRIORITY,
        dry_run: bool = False,
        everything: bool = False,
    ) -> Operation:
        """Let parked tasks that fit go on, as an operation with progress; a dry run only counts.

        `rate`: at most so many a second. They go behind live work unless `priority` says otherwise.
        """
        order = RestartTasks(wanted, rate=rate, priority=priority)
        return await self._order(
            "restart_tasks", order, source, dry_run=dry_run, everything=everything
        )

    async def restart_all(
        self,
        wanted: ProcessFilter,
        *,
        task: str | None = None,
        fresh_signals: bool = False,
        source: str = "",
        rate: float | None = None,
        priority: int = LOW_PRIORITY,
        dry_run: bool = False,
        everything: bool = False,
    ) -> Operation:
        """Redo processes that fit, as an operation: from scratch, or (`task`, an actor or a task's id)
        only what their tasks of this actor made and what depends on them."""
        order = RestartProcesses(wanted, fresh_signals, rate, priority, task)
        return await self._order(
            "restart_processes", order, source, dry_run=dry_run, everything=everything
        )

    async def cancel_all(
        self,
        wanted: ProcessFilter,
        *,
        compensate: bool = True,
        source: str = "",
        rate: float | None = None,
        priority: int = LOW_PRIORITY,
        dry_run: bool = False,
        everything: bool = False,
    ) -> Operation:
        """Cancel processes that fit, as an operation."""
        return await self._order(
            "cancel_processes",
            CancelProcesses(wanted, rate, priority, compensate),
            source,
            dry_run=dry_run,
            everything=everything,
        )

    async def check_all(
        self,
        wanted: ProcessFilter | None = None,
        *,
        source: str = "",
        rate: float | None = None,
        priority: int = LOW_PRIORITY,
        dry_run: bool = False,
    ) -> Operation:
        """Check the processes that fit (all open ones, unless a filter is given), as an operation.

        Its failed items are the report: the processes in which something is broken, and what. What is
        safe is repaired and listed by `repairs`; what is not marks its process inconsistent.
        """
        order = CheckProcesses(wanted or ProcessFilter(state="open"), rate, priority)
        return await self._order("check_processes", order, source, dry_run=dry_run, everything=True)

    async def repairs(self, *, limit: int = 50) -> list[Repair]:
        """What was repaired, newest first: each is a defect that was found."""
        return await self._ask(search.list_repairs, limit=limit)

    async def resolve(self, id: str, task: str, value: object) -> Answer:
        """Give the value of a parked task by hand: what depends on it goes on."""
        process = await self.find(id)
        text = given_value(self._host.sealing, value)
        return await self._resolve("resolve", process.id, task, result=text)

    async def fail(self, id: str, task: str, message: str) -> Answer:
        """Give a parked task up: its failure is delivered to what depends on it."""
        process = await self.find(id)
        failure = Failure("mainspring.errors.GivenUp", message, cause=task)
        failure = given_failure(self._host.sealing, failure)
        return await self._resolve("fail", process.id, task, error=failure)

    async def _resolve(
        self,
        action: str,
        process_id: str,
        task: str,
        *,
        result: str | None = None,
        error: Failure | None = None,
    ) -> Answer:
        await self._ask(check_given, self._host.sealing, process_id)
        resolving = Resolving(process_id, (await self._host.database()).shard_count)
        steps = resolving.resolve(task, result=result, error=error)
        return await self._alone(action, process_id, steps, {"task": task})

    async def _order(
        self, kind: str, what: BulkOrder, source: str, *, dry_run: bool, everything: bool
    ) -> Operation:
        return await self._ask(
            bulk.order, kind, what, source=source, dry_run=dry_run, everything=everything
        )

    async def _alone(
        self, action: str, process_id: str, steps: Steps[Answer], details: Mapping[str, object]
    ) -> Answer:
        """A structural change at once; its mark is committed before, behind a pooler too."""
        pool = await self._host.pool()
        async with (
            closing(pool.connection, process_id),
            pool.connection(transaction=True) as connection,
        ):
            answer = await connection.follow(steps)
            if answer.done:
                await record_order(connection, f"processes.{action}", process_id, details=details)
        return refuse(answer)  # after the commit, which takes the mark back

    # -- filters under a name

    async def save_template(
        self,
        name: str,
        wanted: ProcessFilter,
        *,
        action: str = "search",
        terms: TemplateTerms | None = None,
        source: str = "",
    ) -> None:
        """Keep a filter, its action (search, restart, cancel, check) and how to do it under a name."""
        noted, save = ("save_template", name), templates.save_template
        await self._noted(noted, save, name, wanted, action=action, terms=terms, source=source)

    async def templates(self) -> list[Template]:
        """The filters that were kept."""
        return await self._ask(templates.list_templates)

    async def template(self, name: str) -> Template:
        """The filter of a name."""
        return await self._ask(templates.find_template, name)

    async def run_template(
        self,
        name: str,
        *,
        source: str = "",
        rate: float | None = None,
        priority: int = LOW_PRIORITY,
        dry_run: bool = False,
    ) -> Operation:
        """Do what a template is kept for with the processes that fit it now, as an operation."""
        run = templates.run_template
        return await self._ask(
            run, name, source=source, rate=rate, priority=priority, dry_run=dry_run
        )

    # -- settings

    async def settings(self) -> dict[str, Settings]:
        """The settings of all process types, as they are in force."""
        return await self._ask(settings.list_types)

    async def change_settings(
        self, type: str, changes: Mapping[str, object], *, source: str = ""
    ) -> Settings:
        """Change settings of a process type while the engine runs; returns all of them."""
        return await self._noted(("settings", type), settings.change, type, changes, source=source)

    async def actors(self) -> dict[str, Settings]:
        """The settings of all actors (tasks and deciders), as they are in force."""
        return await self._ask(actors.list_actors)

    async def change_actor(
        self, actor: str, changes: Mapping[str, object], *, source: str = ""
    ) -> Settings:
        """Change settings of an actor while the engine runs; returns all of them.

        Its policy (`work_timeout`, `accept`, `task_timeout`, ...), numbers of its retry policy
        (`retry.attempts`, ...) and its limits. The workers are told at once.
        """
        return await self._noted(
            ("actor", actor), actors.change_actor, actor, changes, source=source
        )

    async def setting_changes(
        self, type: str | None = None, *, actor: str | None = None, limit: int = 50
    ) -> list[SettingChange]:
        """Changes of a process type, an actor or all, newest first, with who made them."""
        subject = f"process {type}" if type is not None else actor and f"actor {actor}"
        return await self._ask(settings.list_changes, subject, limit=limit)

    # -- counters

    async def counters(
        self, *, since: datetime | timedelta = timedelta(hours=1), actor: str | None = None
    ) -> list[Counts]:
        """What recovery did, by actor: work timeouts, task timeouts, deaths of workers, results that
        came too late. All of an engine is their sum."""
        return await self._ask(actors.count, since=since, actor=actor)
