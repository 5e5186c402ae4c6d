"""Why a process does not go on: a named cause for every idle one (P8).

Whether a task is queued is looked up, never inferred; what holds its visit back is the kernel's
`why`, asked for each visit. A process whose tasks all wait for each other has a broken invariant.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from shlex import join
from typing import NamedTuple

import msgspec

from mainspring.db.database import Connection
from mainspring.operate import VISIT_REMEDIES, why_visit
from mainspring.phrases import counted, instant
from mainspring.processes.commit.waiting import LOCK
from mainspring.processes.locks.claims import lock_waits
from mainspring.processes.operate.search import FoundProcess, find_process
from mainspring.processes.statements import SQL
from mainspring.processes.structural.repair import ProcessViolation
from mainspring.redact import Rules, read_rules
from mainspring.tasks.declare.promise import Failure

MOST_TASKS = 20
SHOWS_ALL = Rules()

# Every cause, with what an operator can do about it; those of single visits are the kernel's.
REMEDIES: Mapping[str, str] = {
    **VISIT_REMEDIES,
    "finished": "nothing: it has ended",
    "cancelled": "nothing: it was called off",
    "cancelling": "nothing, unless a compensation is parked: it ends when they have",
    "engine_off": "start a worker: mainspring worker module:app",
    "parked_task": "restart it when its reason is gone: mainspring processes restart-tasks --task ...",
    "waiting_for_signal": "send the signal, or wait for its timeout",
    "waiting_for_lock": "nothing: it has it in its turn; in a deadlock cancel one of them",
    "waiting_for_timer": "nothing: it goes on then",
    "waiting_for_child": "ask why that process waits",
    "backlog": "wait, start more workers, or raise the queue's limit",
    "broken_invariant": "run the check, which repairs what is safe and reports the rest",
    "inconsistent": "see what is missing; other branches go on",
    "nothing_open": "run the check: nothing is open and the process has not ended",
}


class ProcessCause(msgspec.Struct, frozen=True):
    """One reason, in a word, in a sentence, and what to do."""

    name: str
    text: str
    task: str | None = None
    advice: str = ""  # where more can be said than the remedy of every such cause

    @property
    def remedy(self) -> str:
        return self.advice or REMEDIES[self.name]


class ProcessWhy(msgspec.Struct, frozen=True):
    """The causes of one process, those to look at first in front."""

    process: FoundProcess
    causes: list[ProcessCause]
    waiting: list[StillWaiting] = []  # what goes on when these causes are gone


class StillWaiting(NamedTuple):
    """A row of read_waiting_calls.sql: a call that waits for others; how many of them have not ended."""

    task: str
    actor: str
    missing: int
    of: int

    def __str__(self) -> str:
        return f"{self.actor!r} waits for {self.missing} of {counted(self.of, 'call')}"


class WaitingTask(NamedTuple):
    """A row of read_causes.sql: a live task that waits for something other than the process's own tasks."""

    id: str
    actor: str
    state: str
    created_at: datetime
    error: str | None  # JSON
    external: str | None
    signal: str | None
    now: bool  # it takes only a signal that is sent from now on
    due_at: datetime | None
    child: str | None
    queue: str | None  # of its visit
    remote: bool | None
    held: bool
    held_until: datetime | None
    workers: int
    changed_at: datetime | None = None


async def explain(connection: Connection, id: str) -> ProcessWhy:
    """Why a process does not go on, by its id or the user's."""
    process = await find_process(connection, id)
    if process.ended_at is not None:
        text = f"the process is {process.state} since {instant(process.ended_at)}"
        return ProcessWhy(process, [ProcessCause(process.state, text)])
    causes: list[ProcessCause] = []
    if process.cancelling:
        causes.append(ProcessCause("cancelling", "it is being cancelled: its compensations run"))
    if process.inconsistent is not None:
        causes.append(ProcessCause("inconsistent", process.inconsistent))
    for broken in await connection.rows(SQL["read_violations"], ProcessViolation, id=process.id):
        text = f"{broken.rule}: {broken.detail}"
        causes.append(ProcessCause("broken_invariant", text, broken.task))
    tasks = await connection.rows(SQL["read_causes"], WaitingTask, id=process.id, limit=MOST_TASKS)
    if tasks and not tasks[0].workers:
        causes.append(ProcessCause("engine_off", "no worker is running"))
    rules = await read_rules(connection)
    waits = await lock_waits(connection, process.id) if any(map(_is_for_lock, tasks)) else {}
    for task in tasks:
        if task.id in waits:
            causes.append(ProcessCause("waiting_for_lock", waits[task.id], task.id))
            continue
        causes.append(external_cause(task, rules) or await _queued_cause(connection, task))
    if not causes:
        causes.append(ProcessCause("nothing_open", "no task of it is queued or waits outside"))
    waiting = await connection.rows(
        SQL["read_waiting_calls"], StillWaiting, id=process.id, limit=MOST_TASKS
    )
    return ProcessWhy(process, causes, waiting)


def _is_for_lock(task: WaitingTask) -> bool:
    return task.actor == LOCK and task.external is not None


def external_cause(task: WaitingTask, rules: Rules = SHOWS_ALL) -> ProcessCause | None:
    """The cause of a task that is parked or waits for something outside the graph."""
    if task.state == "parked":
        error = msgspec.json.decode(task.error, type=Failure) if task.error else Failure("", "")
        message = rules.message([task.actor, error.actor or ""], error.message, task.changed_at)
        text = f"{task.actor!r} is parked: {error.type}: {message}"
        command = ["mainspring", "processes", "restart-tasks", "--task", task.actor]
        advice = f"restart all such when their reason is gone: {join(command)}"
        return ProcessCause("parked_task", text, task.id, advice)
    until = "" if task.due_at is None else f" until {instant(task.due_at)}"
    match task.external:
        case "signal":
            kept = ", one that is sent from now on" if task.now else ""
            text = f"it waits for the signal {task.signal!r}{kept}{until}"
            return ProcessCause("waiting_for_signal", text, task.id)
        case "timer":
            return ProcessCause("waiting_for_timer", f"it sleeps{until}", task.id)
        case "child":
            text = f"it waits for the process {task.child}"
            return ProcessCause("waiting_for_child", text, task.id)
    return None


async def _queued_cause(connection: Connection, task: WaitingTask) -> ProcessCause:
    if task.remote and task.held and task.held_until is not None:
        text = f"{task.actor!r} is run by an actor elsewhere until {instant(task.held_until)}"
        return ProcessCause("running", text, task.id)
    found = await why_visit(connection.database, connection, task.queue or "", task.id)
    first = found.causes[0]
    if (hanging := next((c for c in found.causes if c.name == "hanging"), None)) is not None:
        also = "" if first is hanging else f"; {first.text}"
        return ProcessCause("hanging", f"{task.actor!r}: {hanging.text}{also}", task.id)
    ahead = first.facts.get("ahead")
    if first.name == "waiting_for_remote":
        text = f"{task.actor!r} waits for an actor elsewhere to pull it"
        return ProcessCause("waiting_for_remote", text, task.id)
    if first.name == "about_to_run" and ahead:
        return ProcessCause("backlog", f"{task.actor!r} is queued behind {ahead} others", task.id)
    return ProcessCause(first.name, f"{task.actor!r}: {first.text}", task.id, first.advice)
