"""Looking at a process: ends it, delivers errors that are caught by now, ends failed scopes, repairs.

One visit a process. It reads in one snapshot; only if something must change it takes the process
for itself alone and reads again. A process that waits only for timers, signals, children or the start
of a delayed step is not idle: its next look follows what is known to come.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from mainspring.db.sql import Steps, as_rows, rows, run
from mainspring.ids import new_id
from mainspring.processes.commit.change import NewTask, TaskChange
from mainspring.processes.commit.close import CaughtPromise, TaskEnd, end_steps
from mainspring.processes.commit.task_input import decode_options
from mainspring.processes.commit.visits import drop_steps, find_places, queue_of
from mainspring.processes.record.arguments import with_error
from mainspring.processes.record.decision import Undo, fingerprint
from mainspring.processes.statements import SQL
from mainspring.processes.structural.change import Answer, Locked
from mainspring.processes.structural.compensation import (
    Scopes,
    StoredScope,
    around,
    may_have_begun,
    under_way,
    undo_tasks,
)
from mainspring.processes.structural.cone import LIVE, WAITING, TaskGraph, TaskNode
from mainspring.processes.structural.repair import ALL_ENDED, ProcessViolation, Repairing
from mainspring.tasks.declare.promise import Failure

A_DAY = timedelta(days=1)
A_WHILE = timedelta(seconds=30)
FAIL = "@fail"
# Errors of the code itself: their tasks are parked whoever would catch them.
NEVER_DELIVERED = tuple(
    f"mainspring.errors.{name}"
    for name in ("InvalidArguments", "IdInUse", "PromiseMisused", "PromiseAttribute")
)
CANCELLED = Failure("mainspring.errors.Cancelled", "cancelled with its scope")


class Sight(msgspec.Struct):
    """A row of look.sql."""

    state: str
    now: datetime
    idle_timeout: float
    deadline_at: datetime
    changed_at: datetime | None
    due_at: datetime | None
    scope_at: datetime | None
    is_waiting: bool
    must_change: bool

    @property
    def is_idle(self) -> bool:
        """Nothing has changed for a while: what a change asked for was done, or is lost."""
        return self.changed_at is not None and self.now - self.changed_at > A_WHILE

    def next_at(self) -> datetime:
        """When it is to be looked at again."""
        idle = timedelta(seconds=self.idle_timeout)
        changed_at = self.changed_at or self.now
        at = changed_at + idle
        if at <= self.now:
            at = self.now + idle
        if self.deadline_at > self.now:
            at = min(at, self.deadline_at)
        if self.is_waiting:
            # Not idle. With a known time the look waits for it; without one it comes ever more rarely.
            known = self.due_at + idle if self.due_at is not None else None
            doubled = min(self.now + A_DAY, self.now + max(idle, self.now - changed_at))
            at = max(at, known if known is not None else doubled)
        if self.scope_at is not None:
            at = min(at, max(self.scope_at, self.now))
        return at


class ParkedNow(NamedTuple):
    """A row of read_parked.sql."""

    id: str
    promise: str
    actor: str
    scope_id: str | None
    generation: int
    task_error: str | None  # JSON
    is_new: bool  # its visit was parked by the kernel
    visit_error: str | None
    has_crashed: bool

    @property
    def failure(self) -> Failure:
        """What it failed with."""
        if self.task_error:
            return msgspec.json.decode(self.task_error, type=Failure)
        text = self.visit_error or "parked by the engine"
        kind, _, message = text.partition(": ")
        if message and not any(map(str.isspace, kind)):  # as every error of a run begins
            return Failure(kind, message, cause=self.id)
        kind = "mainspring.errors.WorkerDied" if self.has_crashed else "unknown"
        return Failure(kind, text, cause=self.id)


class Checking(Repairing):
    """What a look changes, under the exclusive lock."""

    def look(self, *, check: bool = True, idle: bool = False) -> Steps[None]:
        """Read again, and change what must be; with a check, what cannot be. Whoever ended the last task
        asked for a look at once: that a planned one finishes an idle process is a defect."""
        locked = yield from self.lock()
        if locked.state != "open":
            yield from self.unlock()
            return
        yield from self._deliver(locked)
        graph = yield from self.read()
        yield from self._end_scopes(locked, graph)
        if check:
            yield from self._repair(locked)
        if (yield from self._finish(locked)) and check and idle:
            yield from self._note([ProcessViolation("I8", ALL_ENDED, locked.root)])
        yield from self.unlock()

    def end(self) -> Steps[Answer]:
        """The root has closed: finish the process, unless something of it still goes on."""
        locked = yield from self.lock()
        if locked.state == "open":
            yield from self._finish(locked)
        yield from self.unlock()
        return Answer(True)

    # -- parked tasks

    def _deliver(self, locked: Locked) -> Steps[None]:
        """Parked tasks whose error somebody catches by now; and those that the kernel parked."""
        parked = yield from rows(SQL["read_parked"], ParkedNow, id=self.process_id)
        if not parked:
            return
        known = [task for task in parked if task.failure.type not in NEVER_DELIVERED]
        caught = yield from self._find_caught(known)
        if fresh := [task for task in parked if task.is_new and task.promise not in caught]:
            yield from run(SQL["park_tasks"], items=as_rows([_noted(locked, t) for t in fresh]))
            yield from end_steps(
                TaskEnd(self.process_id, task.id, "parked", error=task.failure) for task in fresh
            )
        changes = [
            TaskChange(
                self.process_id,
                task.id,
                "done",
                task.actor,
                task.promise,
                "err",
                error=task.failure,
                scope_id=task.scope_id,
                generation=task.generation,
            )
            for task in known
            if task.promise in caught
        ]
        if changes:
            yield from drop_steps([(queue_of(c.actor, self.engine), c.task) for c in changes])
            yield from self.end_tasks(locked, changes)

    def _find_caught(self, parked: list[ParkedNow]) -> Steps[set[str]]:
        """Of their promises, those whose error somebody catches, or a scope does."""
        if not parked:
            return set()
        found = yield from rows(
            SQL["is_caught"],
            CaughtPromise,
            processes=[self.process_id for _ in parked],
            promises=[task.promise for task in parked],
        )
        caught = {promise.source for promise in found if promise.caught}
        if scoped := sorted({task.scope_id for task in parked if task.scope_id is not None}):
            catching = yield from rows(SQL["find_scopes"], str, ids=scoped)
            caught |= {task.promise for task in parked if task.scope_id in catching}
        return caught

    # -- scopes

    def _end_scopes(self, locked: Locked, graph: TaskGraph) -> Steps[None]:
        """Failed scopes: cancel what is left of each, undo what was done, call the handler."""
        scopes = yield from self.read_scopes()
        failing = {
            scope.id
            for scope in scopes.values()
            if scope.state == "failed" or (scope.state == "open" and scope.is_over)
        }
        for id in sorted(failing):
            if not _inside(scopes[id].parent, failing, scopes):
                yield from self._end_scope(locked, graph, scopes, scopes[id])

    def _end_scope(
        self, locked: Locked, graph: TaskGraph, scopes: Scopes, scope: StoredScope
    ) -> Steps[None]:
        inside = [one for one in scopes.values() if _inside(one.id, {scope.id}, scopes)]
        # One inside that failed before has been undone: once is enough.
        within = {one.id for one in inside if one.state != "undoing"}
        error = (
            msgspec.json.decode(scope.error, type=Failure)
            if scope.error
            else Failure("mainspring.errors.ScopeTimeout", "the scope did not end in time")
        )
        members = [n for n in graph.nodes.values() if n.scope_id in within]
        live = [n for n in members if n.state in LIVE and not decode_options(n.options).shielded]
        places = yield from find_places([(queue_of(n.actor, self.engine), n.id) for n in live])
        had_visit = {place.key for place in places}
        yield from self._drop([n.id for n in live], graph)
        yield from self._cancel_children([n.id for n in members])
        # Written first: what waited for a member is of the scope itself, or is told by its promise.
        changes = [self._cancelled(n, scope.promise) for n in live]
        done = [n for n in members if n.undo and may_have_begun(n, had_visit)]
        after = under_way(graph, {one.opened_by for one in inside if one.id not in within})
        changes += [self._handler(graph, locked.root, scope, done, after, error)]
        yield from run(SQL["change_scopes"], ids=sorted(within), state="undoing")
        yield from self._tell_locks(scopes=sorted(within))
        yield from self.end_tasks(locked, changes)

    def _cancelled(self, node: TaskNode, promise: str) -> TaskChange:
        change = TaskChange(self.process_id, node.id, "cancelled", node.actor)
        change.generation, change.fails_scope = node.generation, False
        if node.promise != promise:  # that one the handler fulfils
            change.promise, change.outcome, change.error = node.promise, "err", CANCELLED
        return change

    def _handler(
        self,
        graph: TaskGraph,
        root: str,
        scope: StoredScope,
        done: list[TaskNode],
        after: list[str],
        error: Failure,
    ) -> TaskChange:
        """The undo tasks of what was done, newest first, and then the handler."""
        opened_by = graph.nodes.get(scope.opened_by) or graph.nodes[root]
        tasks = undo_tasks(self.process_id, done, lambda step: opened_by, after)
        edges = [(before, "order") for before in ([tasks[-1].id] if tasks else after)]
        if scope.on_error is not None:
            handler = msgspec.json.decode(scope.on_error, type=Undo)
            actor, version = handler.actor, handler.args_version
            args = with_error(handler.args, error)
        else:
            actor, version = FAIL, 1
            args = msgspec.json.encode({"error": error}).decode()
        task = NewTask(
            new_id(), self.process_id, opened_by.id, opened_by.generation, scope.promise, actor, args,
            version, tuple(edges), scope_id=scope.parent,
        )  # fmt: skip
        return TaskChange(
            self.process_id, opened_by.id, None, opened_by.actor, tasks=[*tasks, task]
        )

    def _finish(self, locked: Locked) -> Steps[bool]:
        """All has ended: daemons and what nobody waits for any more are cancelled, and it is finished."""
        graph = yield from self.read()
        live = graph.live()
        left = [n for n in live if n.actor in WAITING or decode_options(n.options).daemon]
        root = graph.nodes.get(locked.root)
        if root is None or root.outcome is None or len(live) > len(left):
            return False
        yield from self._drop([n.id for n in left], graph)
        changes = [self._cancelled(n, "") for n in left]
        change = TaskChange(self.process_id, locked.root, None)
        yield from self.end_tasks(locked, changes or [change])
        return True


def _inside(scope: str | None, outer: set[str], scopes: Scopes) -> bool:
    return any(found.id in outer for found in around(scope, scopes))


def _noted(locked: Locked, task: ParkedNow) -> dict[str, object]:
    """An item of park_tasks.sql."""
    error = task.failure
    return {
        "task": task.id,
        "process_id": locked.id,
        "type": locked.type,
        "actor": task.actor,
        "fingerprint": fingerprint(task.actor, error),
        "error_type": error.type,
        "error": error.message,
    }
