"""Why a process does not go on: a named cause for every idle one (P8).

Whether a task is queued is looked up, never inferred; what holds its visit back is the kernel's
`why`, asked for each visit. A process whose tasks all wait for each other has a broken invariant.
"""

from __future__ import annotations

from collections.abc import Mapping
from shlex import join
from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.kernel import VISIT_REMEDIES, decoded, why_visit
from mainspring.phrases import instant
from mainspring.processes.operate.search import FoundProcess, find_process
from mainspring.processes.statements import SQL

MOST_TASKS = 20

# Every cause, with what an operator can do about it; those of single visits are the kernel's.
REMEDIES: Mapping[str, str] = {
    **VISIT_REMEDIES,
    "finished": "nothing: it has ended",
    "cancelled": "nothing: it was called off",
    "cancelling": "nothing, unless a compensation is parked: it ends when they have",
    "engine_off": "start a worker: mainspring worker module:app",
    "parked_task": "restart it when its reason is gone: mainspring processes restart-tasks --task ...",
    "waiting_for_signal": "send the signal, or wait for its timeout",
    "waiting_for_timer": "nothing: it goes on then",
    "waiting_for_child": "ask why that process waits",
    "waiting_for_remote": "start the actor that pulls these tasks",
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


async def explain(database: Database, connection: Any, id: str) -> ProcessWhy:
    """Why a process does not go on, by its id or the user's."""
    process = await find_process(database, connection, id)
    if process.ended_at is not None:
        text = f"the process is {process.state} since {instant(process.ended_at)}"
        return ProcessWhy(process, [ProcessCause(process.state, text)])
    causes: list[ProcessCause] = []
    if process.cancelling:
        causes.append(ProcessCause("cancelling", "it is being cancelled: its compensations run"))
    if process.inconsistent is not None:
        causes.append(ProcessCause("inconsistent", process.inconsistent))
    for rule, detail, task in await _ask(database, connection, "read_violations", id=process.id):
        causes.append(ProcessCause("broken_invariant", f"{rule}: {detail}", task))
    rows = await _ask(database, connection, "read_causes", id=process.id, limit=MOST_TASKS)
    if rows and not rows[0]["workers"]:
        causes.append(ProcessCause("engine_off", "no worker is running"))
    for row in rows:
        causes.append(external_cause(row) or await _queued_cause(database, connection, row))
    if not causes:
        causes.append(ProcessCause("nothing_open", "no task of it is queued or waits outside"))
    return ProcessWhy(process, causes)


def external_cause(row: Any) -> ProcessCause | None:
    """The cause of a task that is parked or waits for something outside the graph."""
    task = row["id"]
    if row["state"] == "parked":
        error = decoded(row["error"]) or {}
        text = f"{row['actor']!r} is parked: {error.get('type', '')}: {error.get('message', '')}"
        command = ["mainspring", "processes", "restart-tasks", "--task", row["actor"]]
        advice = f"restart all such when their reason is gone: {join(command)}"
        return ProcessCause("parked_task", text, task, advice)
    until = "" if row["due_at"] is None else f" until {instant(row['due_at'])}"
    match row["external"]:
        case "signal":
            return ProcessCause(
                "waiting_for_signal", f"it waits for the signal {row['signal']!r}{until}", task
            )
        case "timer":
            return ProcessCause("waiting_for_timer", f"it sleeps{until}", task)
        case "child":
            return ProcessCause(
                "waiting_for_child", f"it waits for the process {row['child']}", task
            )
    return None


async def _queued_cause(database: Database, connection: Any, row: Any) -> ProcessCause:
    if row["remote"] and row["held"]:
        text = f"{row['actor']!r} is run by an actor elsewhere until {instant(row['held_until'])}"
        return ProcessCause("running", text, row["id"])
    found = await why_visit(database, connection, row["queue"], row["id"])
    first = found.causes[0]
    if (hanging := next((c for c in found.causes if c.name == "hanging"), None)) is not None:
        also = "" if first is hanging else f"; {first.text}"
        return ProcessCause("hanging", f"{row['actor']!r}: {hanging.text}{also}", row["id"])
    ahead = first.facts.get("ahead")
    if row["remote"] and first.name == "no_worker":
        text = f"{row['actor']!r} waits for an actor elsewhere to pull it"
        return ProcessCause("waiting_for_remote", text, row["id"])
    if first.name == "about_to_run" and ahead:
        return ProcessCause(
            "backlog", f"{row['actor']!r} is queued behind {ahead} others", row["id"]
        )
    return ProcessCause(first.name, f"{row['actor']!r}: {first.text}", row["id"], first.advice)


async def _ask(database: Database, connection: Any, name: str, /, **values: Any) -> list[Any]:
    statement = SQL[name]
    return await database.fetch(connection, statement, *statement.arguments(values))
