"""Running a firing: started once, whatever happens, with the values of its check.

The start marks the firing in the task's state, in a transaction of its own. So a worker that dies
leaves a mark, and whoever comes next ends that firing (as failed; after an orderly stop as
interrupted) and has the trigger checked afresh: a run never starts on old values.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.kernel import Again, Done, Outcome, Run, clean_text, describe
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.declare.task import ReactiveTask
from mainspring.reactive.run.finish import Ending, FinishRuns, result_json
from mainspring.reactive.statements import ask

log = logging.getLogger("mainspring")
_decode = msgspec.json.decode
UNKNOWN_SECONDS = 1.0  # a task that this worker's code does not know is left to another

# How a function is called: in the loop or in a thread. Given by the layer above, which has threads.
Execute = Callable[[Run, Callable[..., Any], Mapping[str, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Starting:
    """A firing that is to be started."""

    task: str
    firing: int
    run: int
    needs: str | None  # the params that this worker's code names, as JSON; None: it has no code


class Start:
    """Marks firings as started, many in one statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.release = 0  # of this process

    async def __call__(self, connection: Any, items: Sequence[Starting]) -> list[Any]:
        ordered = sorted(items, key=lambda i: i.task)
        rows = await ask(
            self._database,
            connection,
            "start_runs",
            tasks=[i.task for i in ordered],
            firings=[i.firing for i in ordered],
            runs=[i.run for i in ordered],
            needs=[i.needs for i in ordered],
            release=self.release,
        )
        by_task = {row["task"]: row for row in rows}
        return [by_task[item.task] for item in items]


class Runs:
    """The handler of run visits."""

    def __init__(
        self,
        tasks: Mapping[str, ReactiveTask],
        start: Callable[[Starting], Awaitable[Any]],
        end: FinishRuns,
        execute: Execute,
    ) -> None:
        self._tasks = tasks
        self._start = start
        self._end = end
        self._execute = execute

    async def __call__(self, run: Run) -> Outcome:
        name, task = run.visit.key, self._tasks.get(run.visit.key)
        firing = int(_decode(run.visit.payload)["firing"])
        needs = None if task is None else task.needs
        row = await self._start(Starting(name, firing, run.token, needs))
        ending = Ending(name, firing, run.token, "void", failures=row["failures"] or 0)
        if task is not None:
            ending.backoff = task.settings.backoff
        match row["answer"]:
            case "other":
                return Done()  # that firing is over
            case "newer":
                why = f"a newer release declares task {name!r}: left to a worker that has it"
                return Again(after=UNKNOWN_SECONDS, error=why)
            case "again":
                # No code is needed for that: a task that was taken out would keep its slot for ever.
                _end_dead(run, ending, row)
                return self._ended(run, ending)
        if task is None:
            return Again(after=UNKNOWN_SECONDS, error=f"this worker has no code of task {name!r}")
        if (reason := _void(row)) is not None:
            ending.error = reason
            return self._ended(run, ending)
        return await self._call(run, task, ending, row)

    async def _call(self, run: Run, task: ReactiveTask, ending: Ending, row: Any) -> Outcome:
        context = ReactiveRun(run, task, row)
        arguments = {} if task.takes_run is None else {task.takes_run: context}
        result: str | None = None
        try:
            async with asyncio.timeout(task.settings.timeout):
                answer = await self._execute(run, task.function, arguments)
            if answer is not None:
                result = msgspec.json.encode(answer).decode()
        except asyncio.CancelledError:
            if run.stopped != "cancelled":
                raise  # fenced or stopping: whoever runs the visit next ends the firing
            ending.how, ending.error = "cancelled", "cancelled while it ran"
        except Exception as error:
            if isinstance(error, TimeoutError) and task.settings.timeout is not None:
                error = TimeoutError(f"ran longer than its timeout of {task.settings.timeout:g} s")
            ending.how = "failed"
            ending.error_type, ending.error = describe(error)
        else:
            ending.how, ending.products = "success", list(context.products)
        captured = _decode(row["captured"])
        kept = result_json(captured, row["base"], ending.firing, result)
        return self._ended(run, ending, kept)

    def _ended(self, run: Run, ending: Ending, result: str | None = None) -> Outcome:
        run.note = ending
        if ending.how == "failed":
            facts = {"task": ending.task, "error": (ending.error or "").splitlines()[0][:300]}
            log.warning("reactive.failed", extra=facts)
        return Done(result=result if ending.how == "success" else None, writer=self._end)


def _end_dead(run: Run, ending: Ending, row: Any) -> None:
    """An earlier start of this firing ended without an end: its worker died, or was stopped."""
    ending.run = row["run"]
    if run.suspect or run.visit.crashes or run.visit.attempt:
        ending.how = "failed"
        ending.error = "the worker that ran it died"
        if run.visit.attempt:
            ending.error = clean_text("its end could not be stored", 500)
    else:
        ending.how = "interrupted"
        ending.error = "the worker that ran it was stopped"


def _void(row: Any) -> str | None:
    """Why a firing is not run any more, though it was started."""
    if not row["exact"]:
        return "its check looked at other params than this release names"
    if row["rewound"] and row["kind"] == "regular":
        return "a param that its check looked at was moved back since"
    return None
