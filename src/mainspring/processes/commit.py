"""The decision commit: many changes of many processes in one transaction.

A generator of statements without I/O, so that the settler (asyncpg) and a task's own transaction
(psycopg) walk the same steps. Lock order: processes by id (shared), visits, task rows by id in one
pass, wait rows by task, new visits, process rows. Every step is a statement of its own: what it
sees is what was committed before its locks were had.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mainspring.db.literals import numbers, words
from mainspring.db.sql import Statement
from mainspring.errors import IdInUse
from mainspring.kernel.locks import find_values, lock_values
from mainspring.kernel.outcome import Again, Cancelled, Parked, Verdict
from mainspring.kernel.store import SQL as KERNEL_SQL
from mainspring.kernel.visit import new_id, tokens
from mainspring.processes.change import FIRST_OF, Change, NewTask
from mainspring.processes.decision import fingerprint
from mainspring.processes.external import closing_of
from mainspring.processes.hand_out import (
    DEADLINE_AFTER,
    NO_OPTIONS,
    Handout,
    Input,
    Options,
    deadline_of,
    decode_options,
)
from mainspring.processes.start import start_steps
from mainspring.processes.store import SQL
from mainspring.processes.visits import (
    QUEUE,
    NewVisit,
    Serves,
    add_values,
    asked_look,
    engine_visit,
    offer_values,
    place_values,
    task_visit,
)
from mainspring.tasks.promise import Failure

Step = tuple[Statement, dict[str, Any]]
Steps = Generator[Step, list[Any], Any]
_encode = msgspec.json.Encoder().encode
LIVE = ("open", "external", "parked")
LEAVE = "@leave"


class Torn(RuntimeError):
    """A row was not as every commit leaves it: nothing is written."""


class Commit:
    """One transaction of changes. `verdicts` answers each by its place."""

    def __init__(
        self,
        changes: Sequence[Change],
        shard_count: int,
        *,
        waiting: bool = False,
        serves: Serves = lambda queue, shard: False,
    ) -> None:
        self._changes = changes
        self._shard_count = shard_count
        self._waiting = waiting  # for a structural change under way, instead of leaving it alone
        self._serves = serves  # what the committing worker will start itself
        self.verdicts: list[Verdict] = [None] * len(changes)
        self.visits: list[NewVisit] = []  # that this commit added
        self.handouts: dict[int, Handout] = {}  # by the version of the visit
        self._offers: list[NewVisit] = []  # that may be there already
        self._roots: dict[str, str] = {}
        self._types: dict[str, str] = {}
        self._engines: dict[str, str] = {}  # the queue in which the engine works for each process
        self._root_closed: set[str] = set()
        self._tokens: list[int] = []  # drawn and not used yet
        self.now = datetime.min

    def steps(self) -> Steps:
        """Write the changes; what is not to be settled says so in `verdicts`."""
        taken = yield from self._lock_processes()
        taken = yield from self._lock_visits(taken)
        if not taken:
            return
        yield from self._write(taken)

    def structural_steps(self, root: str, type: str, now: datetime, engine: str) -> Steps:
        """The same for the changes of one process that the caller has locked for itself alone."""
        id = self._changes[0].process_id
        self._roots[id], self._types[id], self.now = root, type, now
        self._engines[id] = engine
        self._root_closed.add(id)
        yield from self._write(list(range(len(self._changes))))

    def _write(self, taken: list[int]) -> Steps:
        found = yield from self._look_outside(taken)
        changes = [self._changes[n] for n in taken if not self._changes[n].seeks] + list(found)
        if not changes:
            return
        state = yield from self._lock_tasks(changes)
        changes = [change for change in changes if self._still_counts(change, found, state)]
        for change in changes:
            if change.keeps:
                self.verdicts[self._place_of(change)] = Again(after=1.0)
        yield from self._start_children(changes)
        yield from self._insert(changes, state)
        yield from self._judge(changes)
        yield from self._end(changes, state)
        yield from self._take(changes)
        yield from self._release(changes)
        yield from self._wait_outside(changes)
        yield from self._offer(changes)
        yield from self._finish(changes)

    # -- locks

    def _lock_processes(self) -> Generator[Step, list[Any], list[int]]:
        """Shared; those that a structural change has are sent again, those that ended are dropped."""
        ids = sorted({change.process_id for change in self._changes})
        name = "lock_processes_waiting" if self._waiting else "lock_processes"
        rows = yield SQL[name], {"ids": words(ids)}
        for id, root, root_closed, now, type, engine in rows:
            self._roots[id], self._types[id], self.now = root, type, now
            self._engines[id] = engine
            if root_closed:
                self._root_closed.add(id)
        missing = [id for id in ids if id not in self._roots]
        still_open = set()
        if missing:
            still_open = {row[0] for row in (yield SQL["find_open"], {"ids": words(missing)})}
        taken = []
        for n, change in enumerate(self._changes):
            if change.process_id in self._roots:
                taken.append(n)
            elif change.process_id in still_open:
                self.verdicts[n] = "locked"
            else:
                # Its visit, if it is still there, must go with it.
                self.verdicts[n] = Cancelled("its process has ended")
                taken.append(n)
        return taken

    def _lock_visits(self, taken: list[int]) -> Generator[Step, list[Any], list[int]]:
        """The visit's token is the referee of late, repeated, cancelled and superseded decisions."""
        runs = {n: run for n in taken if (run := self._changes[n].run) is not None}
        if not runs:
            return taken
        order = sorted(runs, key=lambda n: _place(runs[n]))
        listed = [runs[n] for n in order]
        rows = yield KERNEL_SQL["lock_visits"], lock_values(listed)
        answers = {order[row[0] - 1]: row[1] for row in rows}
        if len(answers) < len(order):
            found = yield KERNEL_SQL["find_visits"], find_values(listed)
            there = {(row[0], row[1]) for row in found}
            for n in order:
                is_there = (runs[n].visit.queue, runs[n].visit.key) in there
                answers.setdefault(n, "locked" if is_there else "gone")
        kept = []
        seen: set[tuple[str, str | None]] = set()
        for n in taken:
            answer = answers.get(n, "same")
            subject = (self._changes[n].task, self._changes[n].seeks)
            if answer == "same" and self.verdicts[n] is None and subject in seen:
                self.verdicts[n] = "locked"  # one decision for a task: the next is judged after it
            elif answer == "same" and self.verdicts[n] is None:
                kept.append(n)
                seen.add(subject)
            elif answer != "same":
                # Settled before, by this very run: its answer was lost, and all of it stands.
                self.verdicts[n] = {"moved": "rerun"}.get(answer, answer)
        return kept

    def _lock_tasks(self, changes: list[Change]) -> Generator[Step, list[Any], dict[str, Any]]:
        """One sorted pass over what ends, what is closed and what is linked to."""
        wanted: set[tuple[str, str]] = set()
        for change in changes:
            wanted.add((change.process_id, change.task))
            if change.promise is not None:
                wanted.add((change.process_id, change.promise))
            made = {task.id for task in change.tasks} | {task.promise for task in change.tasks}
            for task in change.tasks:
                for promise, kind in task.edges:
                    if kind != "handle" and promise not in made:
                        wanted.add((change.process_id, promise))
        listed = sorted(wanted, key=lambda pair: pair[1])
        values = {"processes": words([p for p, _ in listed]), "ids": words([t for _, t in listed])}
        rows = yield SQL["lock_tasks"], values
        return {row[0]: row for row in rows}

    def _still_counts(
        self, change: Change, found: dict[Change, int], state: dict[str, Any]
    ) -> bool:
        row = state.get(change.task)
        if row is None:
            raise Torn(f"task {change.task} of process {change.process_id} has a visit and no row")
        if change in found:
            if row[1] == "external" and row[3] == change.generation:
                return True
            self.verdicts[found[change]] = "locked"  # somebody was faster: it looks again
            return False
        if change.state is None:
            return True
        return row[1] in LIVE  # else it came too late, or its visit was left over: it just ends

    # -- what tasks wait for outside the graph

    def _look_outside(self, taken: list[int]) -> Generator[Step, list[Any], dict[Change, int]]:
        """What the visits of signals, timers and children find to close, each with its visit."""
        seeking = [n for n in taken if self._changes[n].seeks]
        if not seeking:
            return {}
        ids = sorted({self._changes[n].process_id for n in seeking})
        externals = yield SQL["read_externals"], {"ids": ids}
        signals: dict[tuple[str, str], list[Any]] = {}
        if any(row[2] == "signal" for row in externals):
            for row in (yield SQL["read_signals"], {"ids": ids}):
                signals.setdefault((row[0], row[1]), []).append(row)
        visit_of = {self._changes[n].process_id: n for n in seeking}
        timers = {self._changes[n].task for n in seeking if self._changes[n].seeks == "timer"}
        found: dict[Change, int] = {}
        for row in externals:
            waiting = signals.get((row[0], row[3]), [])
            change = closing_of(row, waiting, now=self.now, timers=timers)
            if change is not None:
                found[change] = visit_of[change.process_id]
        early = {row[1]: row[4] for row in externals if row[4] is not None and row[4] > self.now}
        closed = {change.task for change in found}
        for n in seeking:
            task = self._changes[n].task
            if self._changes[n].seeks == "timer" and task in early and task not in closed:
                self.verdicts[n] = Again(at=early[task])  # its worker's clock runs ahead
        return found

    def _take(self, changes: list[Change]) -> Steps:
        """Signals that are taken, and rows of tasks that wait outside no longer."""
        taking = [change for change in changes if change.signal is not None]
        if taking:
            values = {
                "processes": [change.process_id for change in taking],
                "names": [change.signal[0] for change in taking if change.signal],
                "ids": [change.signal[1] for change in taking if change.signal],
                "tasks": [change.task for change in taking],
                "generations": [change.generation for change in taking],
            }
            rows = yield SQL["take_signals"], values
            if len(rows) != len(taking):
                raise TimeoutError("a signal was taken by another task meanwhile")  # sent again
        outside = [c.task for c in changes if c.was_external and c.state != "external"]
        if outside:
            yield SQL["drop_externals"], {"tasks": outside}

    def _wait_outside(self, changes: list[Change]) -> Steps:
        """Tasks that wait for a signal, a time or a child from here on."""
        items = []
        for change in changes:
            waiting = change.waiting
            if waiting is None or change.state != "external":
                continue
            due_at = waiting.until
            if waiting.seconds is not None:
                due_at = self.now + timedelta(seconds=waiting.seconds)
            items.append(
                {
                    "task": change.task,
                    "process_id": change.process_id,
                    "kind": waiting.kind,
                    "name": waiting.name,
                    "due_at": due_at,
                    "child": waiting.child,
                }
            )
            kinds = ["await"] if waiting.kind == "signal" else []
            kinds += ["timer"] if due_at is not None else []
            for kind in kinds:
                due = due_at if kind == "timer" else None
                visit = self._engine_visit(kind, change.process_id, change.task, due)
                self._offers.append(visit)
        if items:
            yield SQL["insert_externals"], {"items": _json(items)}

    def _start_children(self, changes: list[Change]) -> Steps:
        """Child processes begin in the commit by which their task begins to wait for them."""
        for change in changes:
            if change.child is None or change.waiting is None:
                continue
            try:
                started = yield from start_steps(
                    change.child.type,
                    change.child.key,
                    change.child.args,
                    shard_count=self._shard_count,
                    attrs=change.child.attrs,
                    parent=change.child.parent,
                    refuse_taken=True,
                )
            except IdInUse as error:
                change.failing = change.park = True
                change.error = Failure("mainspring.errors.IdInUse", str(error), cause=change.task)
                continue
            change.waiting.child = started.id

    # -- writes

    def _insert(self, changes: list[Change], state: dict[str, Any]) -> Steps:
        """Children, edges and counts, before anything is closed: what this batch closes is counted
        as open here and released after."""
        tasks: list[dict[str, Any]] = []
        edges: list[dict[str, Any]] = []
        waits: list[dict[str, Any]] = []
        for change in changes:
            # A promise that a tail call moves on is open too: its new fulfiller is made here.
            made = {task.id for task in change.tasks} | {task.promise for task in change.tasks}
            for task in change.tasks:
                open_inputs, is_stopped = _inputs(task, made, state)
                if is_stopped:
                    open_inputs = 0
                tasks.append(_row(task, open_inputs))
                edges += [
                    {
                        "process_id": task.process_id,
                        "promise": promise,
                        "task": task.id,
                        "kind": kind,
                        "pos": pos,
                    }
                    for pos, (promise, kind) in enumerate(task.edges)
                ]
                if open_inputs >= 2:
                    n = 1 if task.actor == FIRST_OF else open_inputs
                    waits.append({"task": task.id, "process_id": task.process_id, "n": n})
                elif open_inputs == 0:
                    self._ready(task.process_id, task.id, task.actor, task.options or NO_OPTIONS, 0)
                    if not task.edges:
                        self._hand_over(_fresh_handout(task, ()))
        if tasks:
            values = {"tasks": _json(tasks), "edges": _json(edges), "waits": _json(waits)}
            yield SQL["insert_tasks"], values
        scopes = [scope for change in changes for scope in change.scopes]
        if scopes:
            yield SQL["insert_scopes"], {"items": _json(scopes)}
        for scope in scopes:
            if scope.timeout is not None:
                due_at = self.now + timedelta(seconds=scope.timeout)
                self._offers.append(self._asked_look(scope.process_id, due_at))

    def _ready(
        self, process_id: str, task: str, actor: str, options: Options, generation: int
    ) -> None:
        due_at = options.at
        if options.delay is not None:
            due_at = self.now + timedelta(seconds=options.delay)
        deadline_at = deadline_of(options, due_at or self.now)
        if deadline_at is not None:
            looked_at = deadline_at + DEADLINE_AFTER
            self._offers.append(self._engine_visit("deadline", process_id, task, looked_at))
        self.visits.append(
            task_visit(
                process_id,
                task,
                actor,
                engine=self._engines[process_id],
                generation=generation,
                due_at=due_at,
                priority=options.priority,
                group=options.group,
                deadline_at=deadline_at,
                version=self._token(),
            )
        )

    def _asked_look(self, process_id: str, due_at: datetime | None = None) -> NewVisit:
        return asked_look(process_id, self._engines[process_id], due_at)

    def _token(self) -> int:
        if not self._tokens:
            self._tokens = list(tokens(64))
        return self._tokens.pop()

    def _engine_visit(
        self, kind: str, process_id: str, subject: str, due_at: datetime | None = None
    ) -> NewVisit:
        engine = self._engines[process_id]
        return engine_visit(kind, process_id, subject, id=new_id(), engine=engine, due_at=due_at)

    def _hand_over(self, handout: Handout) -> None:
        """What the visit that was added last is run with: known here, so nobody need read it."""
        self.handouts[self.visits[-1].version] = handout

    def _judge(self, changes: list[Change]) -> Steps:
        """A failure is delivered if somebody catches it; else the task parks and its promise waits."""
        failing = [change for change in changes if change.failing]
        if not failing:
            return
        caught: set[str | None] = set()
        delivered = [change for change in failing if not change.park]
        scoped = {change.scope_id for change in delivered if change.scope_id is not None}
        if scoped:
            rows = yield SQL["find_scopes"], {"ids": sorted(scoped)}
            catching = {row[0] for row in rows}
            caught |= {c.promise for c in delivered if c.scope_id in catching}
        if delivered:
            values = {
                "processes": [change.process_id for change in delivered],
                "promises": [change.promise for change in delivered],
            }
            rows = yield SQL["is_caught"], values
            caught |= {row[0] for row in rows if row[1]}
            # Somebody who catches it may be linked at this very moment: whoever commits last looks last.
            held = {row[0] for row in rows if not row[1]}
            for change in delivered:
                change.look = change.look or change.promise in held
        parked = []
        for change in failing:
            if change.promise in caught and not change.park:
                continue
            error = change.error
            assert error is not None
            change.state, change.promise, change.outcome = "parked", None, None
            self.verdicts[self._place_of(change)] = Parked(
                error.type, f"{error.type}: {error.message}\n{error.trace}".strip()
            )
            parked.append(
                {
                    "task": change.task,
                    "process_id": change.process_id,
                    "type": self._types[change.process_id],
                    "actor": change.actor,
                    "fingerprint": fingerprint(change.actor, error),
                    "error_type": error.type,
                    "error": error.message,
                }
            )
        if parked:
            yield SQL["park_tasks"], {"items": _json(parked)}

    def _place_of(self, change: Change) -> int:
        return next(n for n, other in enumerate(self._changes) if other is change)

    def _end(self, changes: list[Change], state: dict[str, Any]) -> Steps:
        """Ends and outcomes. A row that is missed is a defect: everything is rolled back."""
        rows: dict[str, dict[str, Any]] = {}
        for change in changes:
            if change.state is not None:
                row = rows.setdefault(change.task, _end_row(change.process_id, change.task))
                row["state"] = change.state
                if change.state == "parked":
                    row["error"] = msgspec.to_builtins(change.error)
            if change.promise is not None:
                row = rows.setdefault(change.promise, _end_row(change.process_id, change.promise))
                row["outcome"] = change.outcome
                row["result"] = msgspec.Raw((change.result or "null").encode())
                row["error"] = msgspec.to_builtins(change.error)
        if not rows:
            return
        ended = yield SQL["end_tasks"], {"ends": _json(list(rows.values()))}
        if missed := rows.keys() - {row[0] for row in ended}:
            raise Torn(f"promise or task {min(missed)} was closed before: two fulfil one promise")
        went_on = [c.task for c in changes if state[c.task][1] == "parked" and c.state != "parked"]
        if went_on:
            yield SQL["unpark_tasks"], {"tasks": went_on}

    def _release(self, changes: list[Change]) -> Steps:
        """Tasks that waited for what is closed now, in a later statement than the lock."""
        closed = [change for change in changes if change.promise is not None]
        if not closed:
            return
        values = {
            "processes": words([change.process_id for change in closed]),
            "promises": words([str(change.promise) for change in closed]),
            "outcomes": words([str(change.outcome) for change in closed]),
        }
        by_promise = {change.promise: change for change in closed}
        rows = yield SQL["find_released"], values
        counted = {}
        for row in rows:
            if row[4] == 1:
                self._ready(row[0], row[1], row[5], decode_options(row[6]), row[7])
                if row[9] is not None:
                    self._hand_over(_released_handout(row, by_promise[row[14]]))
            elif row[4] > 1:
                counted[row[1]] = row
        if not counted:
            return
        listed = sorted(counted)
        values = {
            "tasks": words(listed),
            "counts": numbers([counted[task][2] for task in listed]),
            "failed": numbers([counted[task][3] for task in listed]),
        }
        crossed = [task for task, n, was in (yield SQL["count_down"], values) if n <= 0 < was]
        if crossed:
            for task in crossed:
                row = counted[task]
                self._ready(row[0], task, row[5], decode_options(row[6]), row[7])
            yield SQL["drop_waits"], {"tasks": crossed}

    def _offer(self, changes: list[Change]) -> Steps:
        for change in changes:
            self.visits += change.offers
        if self.visits:
            yield SQL["add_visits"], add_values(self.visits, self._shard_count, self._serves)

    def _finish(self, changes: list[Change]) -> Steps:
        """The last end finishes the process; if others end at the same moment, a look does."""
        closed = {
            change.process_id
            for change in changes
            if change.promise is not None and change.promise == self._roots[change.process_id]
        }
        ending = sorted(closed | (self._root_closed & {change.process_id for change in changes}))
        unneeded = [place for change in changes for place in change.unneeded]
        attrs = [{"id": c.process_id, "attrs": c.attrs} for c in changes if c.attrs]
        if attrs:
            yield SQL["unite_attrs"], {"items": _json(attrs)}
        left = [c.scope_id for c in changes if c.actor == LEAVE and c.outcome == "ok"]
        if left:
            yield SQL["change_scopes"], {"ids": left, "state": "closed"}
        failed = {
            change.scope_id: {"id": change.scope_id, "error": change.error}
            for change in changes
            if change.outcome == "err" and change.scope_id is not None and change.fails_scope
        }
        if failed:
            rows = yield SQL["fail_scopes"], {"items": _json(list(failed.values()))}
            self._offers += [
                self._asked_look(process_id) for process_id in {row[1] for row in rows}
            ]
        self._offers += [self._asked_look(c.process_id) for c in changes if c.look]
        self._offers += [
            self._engine_visit("prune", c.process_id, c.process_id) for c in changes if c.prune
        ]
        if ending:
            rows = yield SQL["finish_processes"], {"ids": words(ending)}
            finished = {row[0] for row in rows}
            unneeded += [(id, self._engines[id], f"look/{id}") for id in finished]
            for _, parent, parent_task, engine in rows:
                if parent is not None:
                    visit = engine_visit(
                        "child", parent, parent_task, id=new_id(), engine=engine or QUEUE
                    )
                    self._offers.append(visit)
            others = [id for id in ending if id not in finished]
            if others:
                yield SQL["mark_root_closed"], {"ids": others}
                # Who closed the root has those to wait for that did not see it closed, and were in
                # flight; all later ones see it, and the last of them asks for a look.
                for id in others:
                    seen = id in self._root_closed
                    end = self._asked_look(id) if seen else self._engine_visit("end", id, id)
                    self._offers.append(end)
        if self._offers:
            # An upsert meets a row once; the earliest wins.
            self._offers.sort(key=lambda v: -v.due_at.timestamp() if v.due_at else 0.0)
            once = {(v.queue, v.key): v for v in self._offers}
            yield KERNEL_SQL["offer"], offer_values(list(once.values()), self._shard_count)
        if unneeded:
            yield KERNEL_SQL["delete_visits"], place_values(unneeded, self._shard_count)


def _inputs(task: NewTask, made: set[str], state: dict[str, Any]) -> tuple[int, bool]:
    """How many inputs are open, and whether it need not wait for them: one that is closed is an
    error that stops it, or the first of a first_of."""
    open_inputs = 0
    is_stopped = False
    for promise, kind in task.edges:
        if kind == "handle":
            continue
        if promise in made:
            open_inputs += 1
            continue
        row = state.get(promise)
        if row is None:
            raise Torn(f"task {task.id} waits for promise {promise}, which does not exist")
        if row[2] is None:
            open_inputs += 1
        elif task.actor == FIRST_OF or (row[2] == "err" and kind in ("value", "order")):
            is_stopped = True
    return open_inputs, is_stopped


def _fresh_handout(task: NewTask, inputs: tuple[Input, ...]) -> Handout:
    return Handout(
        task.process_id,
        task.id,
        task.promise,
        task.actor,
        "open",
        0,
        task.args,
        task.args_version,
        task.scope_id,
        task.step,
        inputs,
    )


def _released_handout(row: Any, change: Change) -> Handout:
    """Of a task with one edge, whose promise this change has closed."""
    given = Input(row[14], row[13], change.outcome, change.result, change.error)
    return Handout(
        row[0], row[1], row[8], row[5], "open", row[7], row[9], row[10], row[11], row[12], (given,)
    )


def _row(task: NewTask, waits: int) -> dict[str, Any]:
    return {
        "process_id": task.process_id,
        "id": task.id,
        "created_by": task.created_by,
        "creator_generation": task.creator_generation,
        "promise": task.promise,
        "actor": task.actor,
        "edges": len(task.edges),
        "waits": waits,
        "args": msgspec.Raw(task.args.encode()),
        "args_version": task.args_version,
        "options": task.options,
        "scope_id": task.scope_id,
        "undo": task.undo,
        "step": task.step,
    }


def _end_row(process_id: str, id: str) -> dict[str, Any]:
    return {"process_id": process_id, "id": id}


def _place(run: Any) -> tuple[int, str, str]:
    visit = run.visit
    return (visit.shard, visit.key, visit.queue)


def _json(value: Any) -> str:
    return _encode(value).decode()
