"""Looking at a process: ends it, delivers errors that are caught by now, ends failed scopes, repairs.

One visit a process. It reads in one snapshot; only if something must change it takes the process
for itself alone and reads again. A process that waits only for timers, signals, children or the start
of a delayed step is not idle: its next look follows what is known to come.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mainspring.kernel import KERNEL_SQL, new_id
from mainspring.processes.commit.change import NewTask, TaskChange
from mainspring.processes.commit.end_rows import TaskEnd, end_values
from mainspring.processes.commit.task_input import decode_options
from mainspring.processes.commit.visits import find_places, queue_of
from mainspring.processes.record.arguments import with_error
from mainspring.processes.record.decision import Undo, fingerprint
from mainspring.processes.statements import SQL
from mainspring.processes.steps import Step, Steps
from mainspring.processes.structural.change import Answer, Locked
from mainspring.processes.structural.compensation import may_have_begun, under_way, undo_tasks
from mainspring.processes.structural.cone import LIVE, WAITING, TaskGraph, TaskNode
from mainspring.processes.structural.repair import ALL_ENDED, Repairing
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


class Checking(Repairing):
    """What a look changes, under the exclusive lock."""

    def look(self, *, check: bool = True, idle: bool = False) -> Steps[Any]:
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
            yield from self._note([("I8", ALL_ENDED, locked.root)])
        yield from self.unlock()

    def end(self) -> Generator[Step, list[Any], Answer]:
        """The root has closed: finish the process, unless something of it still goes on."""
        locked = yield from self.lock()
        if locked.state == "open":
            yield from self._finish(locked)
        yield from self.unlock()
        return Answer(True)

    # -- parked tasks

    def _deliver(self, locked: Locked) -> Steps[Any]:
        """Parked tasks whose error somebody catches by now; and those that the kernel parked."""
        rows = yield SQL["read_parked"], {"id": self.process_id}
        if not rows:
            return
        known = [row for row in rows if _error(row).type not in NEVER_DELIVERED]
        values = {
            "processes": [self.process_id for _ in known],
            "promises": [row[1] for row in known],
        }
        answers = (yield SQL["is_caught"], values) if known else []
        caught = {row[0] for row in answers if row[1]}
        if scoped := sorted({row[3] for row in known if row[3] is not None}):
            catching = {row[0] for row in (yield SQL["find_scopes"], {"ids": scoped})}
            caught |= {row[1] for row in known if row[3] in catching}
        if fresh := [row for row in rows if row[6] and row[1] not in caught]:
            yield SQL["park_tasks"], {"items": _encode([_parked(locked, row) for row in fresh])}
            ends = [TaskEnd(self.process_id, row[0], "parked", error=_error(row)) for row in fresh]
            yield SQL["end_tasks"], end_values(ends)
        changes = []
        for row in known:
            if row[1] in caught:
                change = TaskChange(self.process_id, row[0], "done", row[2], row[1], "err")
                change.error, change.scope_id, change.generation = _error(row), row[3], row[4]
                changes.append(change)
        if changes:
            places = yield from find_places(
                [(queue_of(c.actor, self.engine), c.task) for c in changes]
            )
            yield KERNEL_SQL["drop_visits"], places
            yield from self.end_tasks(locked, changes)

    # -- scopes

    def _end_scopes(self, locked: Locked, graph: TaskGraph) -> Steps[Any]:
        """Failed scopes: cancel what is left of each, undo what was done, call the handler."""
        rows = yield SQL["read_scopes"], {"id": self.process_id}
        scopes = {row[0]: row for row in rows}
        failing = {
            id for id, row in scopes.items() if row[3] == "failed" or (row[3] == "open" and row[8])
        }
        for id in sorted(failing):
            if not _inside(scopes[id][1], failing, scopes):
                yield from self._end_scope(locked, graph, scopes, id)

    def _end_scope(
        self, locked: Locked, graph: TaskGraph, scopes: dict[str, Any], id: str
    ) -> Steps[Any]:
        row = scopes[id]
        # One inside that failed before has been undone: once is enough.
        within = {s for s in scopes if _inside(s, {id}, scopes) and scopes[s][3] != "undoing"}
        error = (
            msgspec.json.decode(row[6], type=Failure)
            if row[6]
            else Failure("mainspring.errors.ScopeTimeout", "the scope did not end in time")
        )
        members = [n for n in graph.nodes.values() if n.scope_id in within]
        live = [n for n in members if n.state in LIVE and not decode_options(n.options).shielded]
        places = yield from find_places([(queue_of(n.actor, self.engine), n.id) for n in live])
        had_visit = set(places["keys"])
        yield from self._drop([n.id for n in live], graph)
        yield from self._cancel_children([n.id for n in members])
        # Written first: what waited for a member is of the scope itself, or is told by its promise.
        changes = [self._cancelled(n, row[5]) for n in live]
        done = [n for n in members if n.undo and may_have_begun(n, had_visit)]
        makers = {
            s[2] for s in scopes.values() if _inside(s[0], {id}, scopes) and s[0] not in within
        }
        after = under_way(graph, makers)
        changes += [self._handler(graph, locked.root, row, done, after, error)]
        yield SQL["change_scopes"], {"ids": sorted(within), "state": "undoing"}
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
        row: Any,
        done: list[TaskNode],
        after: list[str],
        error: Failure,
    ) -> TaskChange:
        """The undo tasks of what was done, newest first, and then the handler."""
        opened_by = graph.nodes.get(row[2]) or graph.nodes[root]
        tasks = undo_tasks(self.process_id, done, lambda step: opened_by, after)
        edges = [(before, "order") for before in ([tasks[-1].id] if tasks else after)]
        if row[4] is not None:
            handler = msgspec.json.decode(row[4], type=Undo)
            actor, version = handler.actor, handler.args_version
            args = with_error(handler.args, error)
        else:
            actor, version = FAIL, 1
            args = _encode({"error": error})
        task = NewTask(
            new_id(), self.process_id, opened_by.id, opened_by.generation, row[5], actor, args, version,
            tuple(edges),
        )  # fmt: skip
        task.scope_id = row[1]
        change = TaskChange(self.process_id, opened_by.id, None, opened_by.actor)
        change.tasks = [*tasks, task]
        return change

    def _finish(self, locked: Locked) -> Generator[Step, list[Any], bool]:
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


def _inside(scope: str | None, scopes: set[str], all_scopes: dict[str, Any]) -> bool:
    while scope is not None:
        if scope in scopes:
            return True
        scope = all_scopes[scope][1] if scope in all_scopes else None
    return False


def _error(row: Any) -> Failure:
    if row[5]:
        return msgspec.json.decode(row[5], type=Failure)
    text = row[7] or "parked by the engine"
    kind, _, message = text.partition(": ")
    if message and not any(map(str.isspace, kind)):  # as every error of a run begins
        return Failure(kind, message, cause=row[0])
    kind = "mainspring.errors.WorkerDied" if row[8] else "unknown"
    return Failure(kind, text, cause=row[0])


def _parked(locked: Locked, row: Any) -> dict[str, Any]:
    error = _error(row)
    return {
        "task": row[0],
        "process_id": locked.id,
        "type": locked.type,
        "actor": row[2],
        "fingerprint": fingerprint(row[2], error),
        "error_type": error.type,
        "error": error.message,
    }


def _encode(value: Any) -> str:
    return msgspec.json.encode(value).decode()
