"""Running a firing: started once, whatever happens, with the values of its check.

The start marks the firing in the task's state, in a transaction of its own. So a worker that dies
leaves a mark, and whoever comes next ends that firing (as failed; after an orderly stop as
interrupted) and has the trigger checked afresh: a run never starts on old values.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from mainspring.db.tx import Tx
from mainspring.failure_text import describe
from mainspring.kernel import Again, Done, Outcome, Run
from mainspring.reactive.declare.context import ReactiveRun, StartedRun, firing_of
from mainspring.reactive.declare.task import BACKOFF, ReactiveTask
from mainspring.reactive.run.finish import Ending, FinishRuns, result_json
from mainspring.reactive.statements import SQL

log = logging.getLogger("mainspring")
UNKNOWN_SECONDS = 1.0  # a task that this worker's code does not know is left to another

# How a function is called: in the loop or in a thread. Given by the layer above, which has threads.
Execute = Callable[[Run, Callable[..., object], Mapping[str, object]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Starting:
    """A firing that is to be started."""

    task: str
    firing: int
    run: int
    needs: str | None  # the params that this worker's code names, as JSON; None: it has no code


class Start:
    """Marks firings as started, many in one statement."""

    def __init__(self) -> None:
        self.release = 0  # of this process

    def serve(self, release: int) -> None:
        """From now on firings are started for this release."""
        self.release = release

    async def __call__(self, tx: Tx, items: Sequence[Starting]) -> list[StartedRun]:
        ordered = sorted(items, key=lambda i: i.task)
        rows = await tx.rows(
            SQL["start_runs"],
            StartedRun,
            tasks=[i.task for i in ordered],
            firings=[i.firing for i in ordered],
            runs=[i.run for i in ordered],
            needs=[i.needs for i in ordered],
            release=self.release,
        )
        by_task = {row.task: row for row in rows}
        return [by_task[item.task] for item in items]


class Runs:
    """The handler of run visits."""

    def __init__(
        self,
        tasks: Mapping[str, ReactiveTask],
        start: Callable[[Starting], Awaitable[StartedRun]],
        end: FinishRuns,
        execute: Execute,
    ) -> None:
        self._tasks = tasks
        self._start = start
        self._end = end
        self._execute = execute

    async def __call__(self, run: Run) -> Outcome:
        name, task = run.visit.key, self._tasks.get(run.visit.key)
        firing = firing_of(run)
        needs = None if task is None else task.needs
        started = await self._start(Starting(name, firing, run.token, needs))
        backoff = BACKOFF if task is None else task.settings.backoff
        failures = started.failures or 0
        ending = Ending(name, firing, run.token, "void", backoff=backoff, failures=failures)
        match started.answer:
            case "other":
                return Done()  # that firing is over
            case "newer":
                why = f"a newer release declares task {name!r}: left to a worker that has it"
                return Again(after=UNKNOWN_SECONDS, error=why)
            case "again":
                # No code is needed for that: a task that was taken out would keep its slot for ever.
                return self._ended(run, _end_dead(run, ending, started))
        if task is None:
            return Again(after=UNKNOWN_SECONDS, error=f"this worker has no code of task {name!r}")
        if (reason := _void(started)) is not None:
            return self._ended(run, replace(ending, error=reason))
        return await self._call(run, task, ending, started)

    async def _call(
        self, run: Run, task: ReactiveTask, ending: Ending, started: StartedRun
    ) -> Outcome:
        context = ReactiveRun(run, task, started)
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
            ended = replace(ending, how="cancelled", error="cancelled while it ran")
        except Exception as error:
            if isinstance(error, TimeoutError) and task.settings.timeout is not None:
                error = TimeoutError(f"ran longer than its timeout of {task.settings.timeout:g} s")
            error_type, text = describe(error)
            ended = replace(ending, how="failed", error_type=error_type, error=text)
        else:
            ended = replace(ending, how="success", products=list(context.products))
        kept = result_json(started.captured, started.base, ending.firing, result)
        return self._ended(run, ended, kept)

    def _ended(self, run: Run, ending: Ending, result: str | None = None) -> Outcome:
        run.leave_to_writer(ending)
        if ending.how == "failed":
            facts = {"task": ending.task, "error": (ending.error or "").splitlines()[0][:300]}
            log.warning("reactive.failed", extra=facts)
        return Done(result=result if ending.how == "success" else None, writer=self._end)


def _end_dead(run: Run, ending: Ending, started: StartedRun) -> Ending:
    """An earlier start of this firing ended without an end: its worker died, or was stopped."""
    if run.visit.attempt:
        how, error = "failed", "its end could not be stored"
    elif run.suspect or run.visit.crashes:
        how, error = "failed", "the worker that ran it died"
    else:
        how, error = "interrupted", "the worker that ran it was stopped"
    return replace(ending, run=started.run, how=how, error=error)


def _void(started: StartedRun) -> str | None:
    """Why a firing is not run any more, though it was started."""
    if not started.exact:
        return "its check looked at other params than this release names"
    if started.rewound and started.kind == "regular":
        return "a param that its check looked at was moved back since"
    return None
