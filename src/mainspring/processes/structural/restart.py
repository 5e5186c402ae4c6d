"""Restarting a process: what is redone, and why it cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.db.sql import Steps, first, rows, run
from mainspring.errors import NotFound
from mainspring.ids import new_id
from mainspring.phrases import counted
from mainspring.processes.commit.task_input import DEADLINE_AFTER, decode_options
from mainspring.processes.commit.visits import insert_steps
from mainspring.processes.commit.waiting import LOCK
from mainspring.processes.record.race import RACES
from mainspring.processes.statements import SQL
from mainspring.processes.structural.change import Answer, Locked, Structural, visit_of
from mainspring.processes.structural.compensation import Scopes, around
from mainspring.processes.structural.cone import TaskGraph
from mainspring.processes.structural.request import ProcessEngine, ProcessRestart

ENDED = ("done", "parked")  # from which a restart may begin
FROM_SCRATCH = "the process was cancelled: restart it from scratch"
NOT_WHILE_CANCELLING = (
    "the process is being cancelled and its compensations run: restart it when they have ended"
)
NOT_WHILE_UNDOING = (
    "compensations of what would be redone have not ended: restart when they have; one that is parked "
    "is tried again (restart-tasks) or gone on without (resolve)"
)
UNDONE = ("failed", "undoing")  # scopes whose end has undone what was done in them, or will


class RestartPlan(NamedTuple):
    """What a restart does to the tasks of a process; with `why`: why it cannot be, and nothing is done."""

    starts: Sequence[str] = ()
    cone: frozenset[str] = frozenset()
    superseded: frozenset[str] = frozenset()  # of the cone: made anew, if at all
    reset: Sequence[str] = ()  # of the cone: redone
    why: str | None = None
    missing: bool = False  # the task that was named is not there


class RestartPreview(msgspec.Struct, frozen=True):
    """What a restart would do now. Nothing is written. Tasks are named by their ids."""

    redone: list[str]
    superseded: list[str]  # made by what is redone: those never were, and may be made anew
    stopped: list[str]  # of these: have not ended, and are called off
    kept: int  # tasks that keep what they came to
    children: int  # open child processes that are cancelled
    why: str = ""  # why it cannot be

    def __str__(self) -> str:
        if self.why:
            return f"cannot be restarted from there: {self.why}"
        return (
            f"would redo {counted(len(self.redone), 'task')} and drop {len(self.superseded)} that these"
            f" made; {len(self.stopped)} of them have not ended and would be stopped; open child "
            f"processes that would be cancelled: {self.children}; kept: {self.kept}. Nothing is written"
        )


class Restarting(Structural):
    """The restart of one process."""

    def preview(self, order: ProcessRestart) -> Steps[RestartPreview]:
        """What `restart` would do. Locks nothing, so it may be another thing a moment later."""
        process = yield from first(SQL["view_process"], Locked, id=self.process_id)
        if process is None:
            raise NotFound(f"there is no process {self.process_id}")
        graph = yield from self.read()
        plan = planned(process, graph, (yield from self.read_scopes()), order)
        if plan.why is not None:
            if plan.missing:
                raise NotFound(plan.why)
            return RestartPreview([], [], [], len(graph.nodes), 0, plan.why)
        children = yield from rows(
            SQL["find_children"],
            ProcessEngine,
            process_id=self.process_id,
            tasks=sorted(plan.cone),
        )
        live = {node.id for node in graph.live()}
        return RestartPreview(
            list(plan.reset),
            sorted(plan.superseded),
            sorted(live & plan.cone),
            len(graph.nodes) - len(plan.cone),
            len(children),
        )

    def restart(self, order: ProcessRestart) -> Steps[Answer]:
        """Redo a task (or those of an actor that have ended), what it made and what depends on it;
        without either, all of the process.

        Other branches keep their results. A run of what is redone is refused by its token.
        """
        locked = yield from self.lock()
        graph = yield from self.read()
        plan = planned(locked, graph, (yield from self.read_scopes()), order)
        if plan.why is not None:
            yield from self.unlock()
            return Answer(False, why=plan.why, missing=plan.missing)
        cone, superseded, reset = plan.cone, plan.superseded, plan.reset
        stopped = yield from self._drop(sorted(cone), graph)
        reopened = {graph.nodes[id].promise for id in cone} | set(cone)
        process_id, redone = self.process_id, sorted(cone)
        if superseded:
            yield from run(SQL["supersede_tasks"], process_id=process_id, tasks=sorted(superseded))
        yield from run(SQL["reopen_promises"], process_id=process_id, promises=sorted(reopened))
        yield from run(SQL["drop_scopes"], process_id=process_id, tasks=redone)
        again = {graph.nodes[id].scope_id for id in reset} - {None}
        yield from run(SQL["reopen_scopes"], ids=sorted(map(str, again)))
        yield from self._reset(graph, reset, reopened, locked.now, order.priority)
        freed = yield from rows(
            SQL["free_signals"], str, process_id=process_id, tasks=redone, fresh=order.fresh_signals
        )
        yield from self._cancel_children(redone)
        if any(graph.nodes[id].actor == LOCK for id in cone):
            yield from self._tell_locks()
        root = graph.nodes[locked.root]
        root_closed = root.outcome is not None and locked.root not in reopened
        yield from self.unlock(
            "open", root_closed=root_closed, generations=1 if locked.root in plan.starts else 0
        )
        offers = [self._engine_visit("look", self.process_id)]
        if freed:
            offers.append(self._engine_visit("signal", new_id()))
        yield from self._offer(offers)
        return Answer(True, len(cone), stopped)

    def _reset(
        self,
        graph: TaskGraph,
        reset: Sequence[str],
        reopened: set[str],
        now: datetime,
        priority: int | None,
    ) -> Steps[None]:
        waiting = {id: graph.open_inputs(id, reopened) for id in reset}
        waits = [waiting[id][0] for id in reset]
        yield from run(
            SQL["reset_tasks"], process_id=self.process_id, tasks=list(reset), waits=waits
        )
        counted = [id for id in reset if waiting[id][0] >= 2]
        if counted:
            numbers = [waiting[id][1] for id in counted]
            yield from run(
                SQL["insert_waits"], process_id=self.process_id, tasks=counted, counts=numbers
            )
        visits = [
            visit_of(self.process_id, graph.nodes[id], 1, engine=self.engine, now=now)
            for id in reset
            if waiting[id][0] == 0
        ]
        if priority is not None:
            visits = [msgspec.structs.replace(visit, priority=priority) for visit in visits]
        yield from insert_steps(visits, self._shard_count)
        # Deadlines move with a restart.
        yield from self._offer(
            [
                self._engine_visit("deadline", v.key, v.deadline_at + DEADLINE_AFTER)
                for v in visits
                if v.deadline_at is not None
            ]
        )


def planned(
    process: Locked, graph: TaskGraph, scopes: Scopes, order: ProcessRestart
) -> RestartPlan:
    """What is redone, and why it cannot be. Pure: the restart and its preview share it."""
    if process.state == "open" and process.cancelling:
        return RestartPlan(why=NOT_WHILE_CANCELLING)
    if (actor := order.actor) is not None:
        starts = [n.id for n in graph.nodes.values() if n.actor == actor and n.state in ENDED]
    else:
        starts = [order.task or process.root]
    refused = (
        _refusal(process, graph, start, force=order.force or start == process.root)
        for start in starts
    )
    why = next(filter(None, refused), None)
    if not starts:
        why = f"process {process.id} has no task of {actor!r} that has ended: nothing to redo"
    if why is not None:
        return RestartPlan(why=why, missing=not any(id in graph.nodes for id in starts))
    cone = graph.cone(starts)
    superseded = graph.superseded(cone, starts)
    reset = sorted(cone - superseded)
    why = _undone_in_race(graph, scopes, cone)
    if any(n.id in cone and decode_options(n.options).shielded for n in graph.live()):
        why = why or NOT_WHILE_UNDOING
    why = why or _undone_before(graph, scopes, cone, [*starts, *reset])
    why = why or _without_lock(graph, scopes, cone, reset)
    if (lost := graph.lost_input(reset)) is not None:
        why = why or f"the input {lost[1]} of task {lost[0]} is gone: restart from scratch"
    return RestartPlan(starts, frozenset(cone), frozenset(superseded), reset, why)


def _refusal(locked: Locked, graph: TaskGraph, start: str, *, force: bool) -> str | None:
    """Why a restart from a task cannot be; None: it can."""
    node = graph.nodes.get(start)
    if node is None:
        return f"process {locked.id} has no task {start}; it may have been pruned"
    if start == locked.root:
        return None
    if locked.state == "cancelled":
        return FROM_SCRATCH
    if node.state in ("superseded", "cancelled"):
        return f"task {start} is {node.state}: restart from the task that made it"
    if node.state in ("open", "external") and not force:
        return (
            f"task {start} is {node.state} and has not ended: there is nothing to redo; "
            "wait for it, or restart from the task that made it"
        )
    if node.done_no is not None and node.done_no <= locked.horizon:
        return f"what followed task {start} was pruned: restart from a later task"
    return None


def _undone_before(
    graph: TaskGraph, scopes: Scopes, cone: set[str], tasks: Iterable[str]
) -> str | None:
    """What was undone is not redone, wherever a restart begins: its scope has ended for good."""
    for id in tasks:
        for scope in around(graph.nodes[id].scope_id, scopes):
            if scope.state in UNDONE and scope.opened_by not in cone:
                return (
                    f"task {id} lies in a scope that has failed and was undone: restart from the "
                    f"task that opened it, {scope.opened_by}"
                )
    return None


def _undone_in_race(graph: TaskGraph, scopes: Scopes, cone: set[str]) -> str | None:
    """A race cannot be run again with a scope that lost it and was undone."""
    for scope in scopes.values():
        if scope.state not in UNDONE or scope.opened_by in cone:
            continue
        for id in cone:
            inputs = {promise for promise, _ in graph.inputs[id]}
            if graph.nodes[id].actor in RACES and scope.promise in inputs:
                return (
                    f"the race {id} would be run again with a scope that was undone: restart from "
                    f"the task that opened it, {scope.opened_by}"
                )
    return None


def _without_lock(
    graph: TaskGraph, scopes: Scopes, cone: set[str], reset: Iterable[str]
) -> str | None:
    """What ran under a lock is not redone without it: it is held no longer than its scope is open."""
    given_up = {
        node.scope_id
        for node in graph.nodes.values()
        if node.actor == LOCK and node.state == "done" and node.id not in cone
    }
    for id in reset if given_up else ():
        for scope in around(graph.nodes[id].scope_id, scopes):
            if scope.id in given_up and scope.state == "closed":
                return (
                    f"task {id} ran under the lock {scope.name!r}, which was given up: restart from the "
                    f"task that took it, {scope.opened_by}"
                )
    return None
