"""The layer inside a worker: queues whose visits are tasks of processes, and the engine's own.

A handler finds out what the task is run with, lets its actor decide, and notes the change in the
run; the settler commits many of them in one transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import msgspec

from mainspring.db.database import Database
from mainspring.errors import Fenced, InvalidArguments, NotFound, PromiseMisused
from mainspring.kernel import (
    BACKGROUND_BELOW,
    DEFAULT_POOL,
    Again,
    Cancelled,
    Done,
    Handler,
    Outcome,
    Parked,
    QueueSettings,
    Retry,
    RetryPolicy,
    Run,
    WorkerPort,
    clock,
    describe,
    judge,
)
from mainspring.processes.commit import waiting
from mainspring.processes.commit.change import FIRST_OF, LEAVE, TaskChange, change_of
from mainspring.processes.commit.commit import Commit
from mainspring.processes.commit.settle_one import settle_steps
from mainspring.processes.commit.task_input import ENDED, TaskInput, TaskInputs, in_background
from mainspring.processes.commit.visits import (
    as_read,
    engine_of,
    engine_visit,
    is_process_visit,
    payload_of,
)
from mainspring.processes.commit.writer import Decisions
from mainspring.processes.connections import Lines
from mainspring.processes.declare.versions import Unread
from mainspring.processes.record import builtin
from mainspring.processes.record.decision import Decision, Recorded, validate
from mainspring.processes.record.map import MAP, decide_chunk
from mainspring.processes.run.actor_policy import PolicyInForce, add_timeouts
from mainspring.processes.run.beats import Beats
from mainspring.processes.run.recovery import Recovery
from mainspring.processes.statements import SQL
from mainspring.processes.steps import Step
from mainspring.processes.structural.cancel import Cancelling, cancel_of
from mainspring.processes.structural.cancel_many import Cancels
from mainspring.processes.structural.change import Answer, RestartOrder, Structural, run_alone
from mainspring.processes.structural.check import FAIL, Checking, Sight
from mainspring.processes.structural.deadline import Deadline, Overdue
from mainspring.processes.structural.not_run import overdue, stopped, too_late
from mainspring.processes.structural.prune import KEEP, Pruning
from mainspring.processes.structural.race import Racing
from mainspring.tasks.declare.promise import Failure

log = logging.getLogger("mainspring")
# Decisions that are committed together; batches of 100 to 500 cost alike, smaller ones more.
BATCH = 250
# Decisions with more children than `WIDE` are committed by fours, with more than `WIDEST` alone: what a
# transaction writes, and what its statements keep in memory, is bounded by the children.
WIDE = 16
WIDE_BATCH = 4
WIDEST = 1000
# A step that newer code recorded is looked at again after so long: a worker that reads it may have come.
NEWER_CODE_SECONDS = 5.0
# What tasks are run with is kept for so many; beyond that it is read.
HANDOUTS = 20_000


class Actor(Protocol):
    """What decides: a decider, a task, or somebody far away."""

    @property
    def name(self) -> str: ...

    async def decide(self, task_input: TaskInput, run: Run) -> Decision: ...


class Processes:
    """All of it, for one worker."""

    def __init__(self, database: Database, worker: WorkerPort) -> None:
        self.database = database
        self._worker = worker
        self.lines = Lines(database)
        self._task_inputs = TaskInputs(self.lines.fetch)
        self._policies: dict[str, PolicyInForce] = {}
        self._beats = Beats(self.lines.fetch, self._work_timeout, worker)
        self.recovery = Recovery(
            self.lines, self._task_inputs, self._policies, database.shard_count, worker
        )
        self._cancels = Cancels(database, self.lines, worker)
        self._batched, self._wide, self._alone = (
            Decisions(database.shard_count, most, self._committed, worker)
            for most in (BATCH, WIDE_BATCH, 1)
        )
        self.keep = KEEP  # ended tasks of a loop
        self._handouts: dict[int, TaskInput] = {}  # of those, by the visit's version

    async def close(self) -> None:
        """When the worker has stopped."""
        await self.recovery.close()
        await self._cancels.close()
        await self._beats.close()
        await self.lines.close()

    # -- queues

    def actor_queue(
        self, actor: Actor, settings: QueueSettings, *, plain: Handler | None = None
    ) -> QueueSettings:
        """The queue of an actor. `plain` handles its visits that belong to no process."""

        def handle(run: Run) -> Awaitable[Outcome]:
            if plain is not None and not is_process_visit(run.visit):
                return plain(run)  # no coroutine of ours around it: this is every plain task's way
            run.settings = in_force.settings
            return self._run_task(run, actor.decide)

        settings = replace(settings, handler=handle)
        in_force = self._policies[settings.name] = PolicyInForce(settings)
        return replace(settings, terms=in_force)

    def remote_queue(self, settings: QueueSettings) -> QueueSettings:
        """The queue of an actor elsewhere: nothing of it is run here, but its policy is watched."""
        in_force = self._policies[settings.name] = PolicyInForce(settings)
        return replace(settings, terms=in_force)

    def engine_queue(self, pool: str = DEFAULT_POOL) -> QueueSettings:
        """The queue of built-in actors and of what the engine does for the processes of a pool."""

        async def handle(run: Run) -> Outcome:
            kind, _, subject = run.visit.key.rpartition("/")
            if not kind:
                return await self._run_task(run, _decide_builtin)
            return await self._engine(kind, subject, run)

        retry = RetryPolicy(attempts=1_000_000, first=0.5, most=60)
        return QueueSettings(
            name=engine_of(pool),
            handler=handle,
            pool=pool,
            kind="process",
            retry=retry,
            beside=True,
        )

    async def _engine(self, kind: str, subject: str, run: Run) -> Outcome:
        process_id = payload_of(run.visit).process_id
        match kind:
            case "signal" | "await" | "timer" | "child":
                seeking = TaskChange(process_id, subject, None)
                seeking.seeks = "timer" if kind == "timer" else "signal"
                if run.visit.priority < BACKGROUND_BELOW:
                    seeking.background = run.visit.priority  # of a timer: see wait_outside
                return self._noted(run, seeking)
            case "look":
                return await self._look(process_id, payload_of(run.visit).more)
            case "end":
                ending = Checking(process_id, self.database.shard_count)
                return await self._alone_with(process_id, run, ending.end())
            case "cancel":
                return await self._cancel(process_id, run)
            case "prune":
                pruning = Pruning(process_id, self.database.shard_count)
                return await self._alone_with(process_id, run, pruning.prune(self.keep))
            case "deadline":
                return await self._deadline(process_id, subject, run)
            case "restart":
                return await self._restart(process_id, run)
        raise ValueError(f"the engine has no visits of the kind {kind!r}")

    async def _look(self, process_id: str, more: Any) -> Outcome:
        """Look at a process: change what must be, and say when to look again.

        One that a change of the process asked for does not check what every commit keeps true.
        """
        is_check = more != 1
        sight = await self._sight(process_id)
        if sight is None or sight.state != "open":
            return Done()
        if sight.must_change or (is_check and await self._is_broken(process_id)):
            looking = Checking(process_id, self.database.shard_count)
            if isinstance(more, str):
                looking.source = more  # who ordered the check
            steps = looking.look(check=is_check, idle=sight.is_idle)
            async with self.lines.connection() as connection:
                await run_alone(self.database, connection, process_id, steps)
            sight = await self._sight(process_id)
        if sight is None or sight.state != "open":
            return Done()
        planned = engine_visit("look", process_id, process_id, id=process_id, engine="")
        return Again(at=sight.next_at(), payload=planned.payload())

    async def _is_broken(self, process_id: str) -> bool:
        return bool(await self.lines.fetch(SQL["read_violations"], {"id": process_id}))

    async def _sight(self, process_id: str) -> Sight | None:
        rows = await self.lines.fetch(SQL["look"], {"id": process_id})
        return Sight(*rows[0]) if rows else None

    async def _deadline(self, process_id: str, task: str, run: Run) -> Outcome:
        """The task timeout of a task has passed, if it is still the same."""
        values = {"process_id": process_id, "task": task}
        rows = await self.lines.fetch(SQL["read_deadline"], values)
        found = Overdue(*rows[0]) if rows else None
        if found is not None and found.again_at is not None:
            return Again(at=found.again_at)
        if found is None or not found.ends:
            return Done()
        change = Deadline(process_id, self.database.shard_count)
        return await self._alone_with(process_id, run, change.end(task))

    async def _cancel(self, process_id: str, run: Run) -> Outcome:
        """With others that wait, or alone."""
        compensate = cancel_of(payload_of(run.visit).more).compensate
        if await self._cancels.together(process_id, run, compensate=compensate):
            run.settled = True
            return Done()
        change = Cancelling(process_id, self.database.shard_count)
        with self._cancels.alone():
            return await self._alone_with(process_id, run, change.cancel(compensate=compensate))

    async def _restart(self, process_id: str, run: Run) -> Outcome:
        order = msgspec.convert(payload_of(run.visit).more, RestartOrder)
        change = Structural(process_id, self.database.shard_count)
        return await self._alone_with(process_id, run, change.restart(order))

    async def _alone_with(
        self, process_id: str, run: Run, steps: Generator[Step, list[Any], Answer]
    ) -> Outcome:
        """A structural change that is done once: the settle of its visit is part of it."""

        def with_settle() -> Generator[Step, list[Any], Answer]:
            answer = yield from steps
            outcome = Done(result=msgspec.json.encode(answer).decode())
            settled = yield from settle_steps(run, outcome, self._worker.worker_id)
            if settled not in ("settled", "before", "superseded"):
                raise Fenced(f"the visit {run.visit.key!r} was settled or deleted meanwhile")
            return answer

        try:
            async with self.lines.connection() as connection:
                answer = await run_alone(self.database, connection, process_id, with_settle())
        except NotFound:
            return Done()  # dropped by age, or by hand: there is nothing to change
        if not answer.done:
            facts = {"process_id": process_id, "visit": run.visit.key, "why": answer.why}
            log.warning("process.change_refused", extra=facts)
        run.settled = True
        return Done()

    # -- tasks

    def _committed(self, commit: Commit) -> None:
        """The next steps are in hand without a read."""
        if len(self._handouts) > HANDOUTS:
            self._handouts.clear()
        self._handouts.update(commit.task_inputs)
        at = clock.local()
        self._worker.take_in(as_read(commit.visits, self.database.shard_count, commit.now, at))

    def forget(self, versions: frozenset[int] | None) -> None:
        """Visits of these versions are said to be gone: what they would be run with is read after all."""
        if versions is None:
            self._handouts.clear()
            return
        for version in versions:
            self._handouts.pop(version, None)

    async def _run_task(self, run: Run, decide: Callable[[TaskInput, Run], Any]) -> Outcome:
        """Hand a task out, let it decide, and note what that changes."""
        payload = payload_of(run.visit)
        task_input = self._handouts.pop(run.visit.version, None)
        if task_input is None:
            task_input = await self._task_inputs.load(payload.process_id, run.visit.key)
        if task_input is None:
            return await self._inconsistent(payload.process_id, run)
        if task_input.state in ENDED:  # called off while it waited in hand; it may be undone by now
            return Cancelled("its task has ended")
        if run.visit.priority < BACKGROUND_BELOW:
            task_input = in_background(task_input, run.visit)
        if payload.deadline is not None and payload.deadline.timestamp() <= run.started:
            return self._noted(run, overdue(task_input))
        if (given := task_input.failed_input) is not None:
            change = stopped(task_input, given.promise, given.error)
            if task_input.actor == LEAVE:
                # Its promise is for the scope's handler to fulfil: the look that ends the scope
                # takes this task away.
                change.state = change.promise = None
                change.keeps = True
            return self._noted(run, change)
        if task_input.actor == FIRST_OF:
            racing = Racing(task_input.process_id, self.database.shard_count)
            race = racing.end_race(task_input.task_id, task_input.background)
            return await self._alone_with(task_input.process_id, run, race)
        if task_input.actor in waiting.KINDS:
            try:
                return self._noted(run, waiting.begin_waiting(task_input))
            except InvalidArguments as unreadable:
                return self._failed(run, task_input, unreadable)
        if task_input.actor == MAP:
            # Made when it is written: many chunks wait as what they were given, not as their tasks.
            run.note = partial(self._chunk, task_input)
            return Done(writer=self._wide)
        try:
            decision = await decide(task_input, run)
        except asyncio.CancelledError:
            if run.stopped != "timeout":
                raise
            timeout = run.settings.timeout
            error = TimeoutError(f"ran longer than its timeout of {timeout:g} s")
            return self._failed(run, task_input, error)
        except Unread as unread:
            return self._unread(run, task_input, unread)
        except Exception as error:
            if run.settled:
                log.exception("task.failed_after_completion", extra={"key": run.visit.key})
                return Done()
            return self._failed(run, task_input, error)
        if run.settled:
            return Done()
        return self._decided(run, task_input, decision)

    def _decided(self, run: Run, task_input: TaskInput, decision: Decision) -> Outcome:
        return self._noted(run, self._change(task_input, decision))

    def _chunk(self, task_input: TaskInput) -> TaskChange:
        return self._change(task_input, decide_chunk(task_input.args))

    def _change(self, task_input: TaskInput, decision: Decision) -> TaskChange:
        if type(decision) is not Recorded or decision.children or decision.scopes:
            problem = validate(decision, {given.promise for given in task_input.inputs})
            if problem is not None:
                decision = Decision(error=problem)
        change = change_of(task_input, decision)
        self.prepare(change)
        if task_input.actor.startswith("@"):
            change.failing = False  # it passes on what others failed with
        return change

    def _unread(self, run: Run, task_input: TaskInput, unread: Unread) -> Outcome:
        """Left for newer code where that recorded it: no failure of the task. Else tried again, for a
        rolling deploy may bring the code that reads it, and then parked: the code is at fault."""
        if unread.is_newer:
            facts = {"actor": task_input.actor, "task": task_input.task_id, "error": str(unread)}
            log.warning("task.left_for_newer_code", extra=facts)
            return Again(after=NEWER_CODE_SECONDS, error=str(unread))
        return self._failed(run, task_input, unread.error, tries=True)

    def _failed(
        self, run: Run, task_input: TaskInput, error: Exception, *, tries: bool = False
    ) -> Outcome:
        """Retried as long as the policy says; then delivered or parked, as the commit finds."""
        outcome = judge(run.settings.retry, failures=run.visit.attempt + 1, error=error)
        in_code = isinstance(error, InvalidArguments | PromiseMisused)  # no further try helps
        if isinstance(outcome, Retry) and (tries or not in_code) and not too_late(run, outcome):
            return outcome
        kind, text = describe(error)
        message, _, trace = text.removeprefix(f"{kind}: ").partition("\n")
        failure = Failure(kind, message, trace, task_input.task_id)
        change = change_of(task_input, Decision(error=failure))
        change.park = in_code
        return self._noted(run, change)

    def _noted(self, run: Run, change: TaskChange) -> Outcome:
        run.note = change
        if change.state is not None and '"deadline"' in run.visit.payload:
            change.unneeded = [(change.process_id, "", f"deadline/{change.task}")]
        width = len(change.tasks)
        if width > WIDEST:
            return Done(writer=self._alone)
        return Done(writer=self._wide if width > WIDE else self._batched)

    # -- what the contexts of running tasks need

    def prepare(self, change: TaskChange) -> None:
        """What the policies of actors say of new tasks."""
        if change.tasks:
            add_timeouts(change.tasks, self._task_timeout)

    def _task_timeout(self, actor: str) -> float | None:
        in_force = self._policies.get(actor)
        return None if in_force is None else in_force.policy.task_timeout

    def beat(self, run: Run) -> None:
        """A running task gives a sign of life. From any thread."""
        self._beats.beat(run)

    def _work_timeout(self, run: Run) -> float | None:
        return self._policies[run.visit.queue].work_timeout(run.visit)

    async def _inconsistent(self, process_id: str, run: Run) -> Outcome:
        """A visit without its task: nothing to run. The process is marked, its other branches go on."""
        reason = f"task {run.visit.key} of {run.visit.queue!r} has a visit and no row"
        log.error("process.inconsistent", extra={"process_id": process_id, "reason": reason})
        await self.lines.fetch(SQL["mark_inconsistent"], {"id": process_id, "reason": reason})
        return Parked("mainspring.errors.Inconsistent", reason)


async def _decide_builtin(task_input: TaskInput, run: Run) -> Decision:
    if task_input.actor == FAIL:
        return Decision(error=msgspec.json.decode(task_input.args, type=_Fail).error)
    return builtin.decide(task_input.actor, task_input.args, task_input.inputs)


class _Fail(msgspec.Struct):
    error: Failure
