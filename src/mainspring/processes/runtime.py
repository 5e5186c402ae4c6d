"""The layer inside a worker: queues whose visits are tasks of processes, and the engine's own.

A handler finds out what the task is run with, lets its actor decide, and notes the change in the
run; the settler commits many of them in one transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

import msgspec

from mainspring import clock
from mainspring.db.database import Database
from mainspring.db.sql import Steps
from mainspring.errors import InvalidArguments, PromiseMisused, UnknownCipherKey
from mainspring.failure_text import describe, scrub_of
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
    Run,
    WorkerPort,
    judge,
)
from mainspring.processes.commit import waiting
from mainspring.processes.commit.change import LEAVE, TaskChange, change_of
from mainspring.processes.commit.commit import Commit, DecisionWriters
from mainspring.processes.commit.sealed import opened_input, sealed_change
from mainspring.processes.commit.task_input import ENDED, TaskInput, TaskInputs, in_background
from mainspring.processes.commit.visits import (
    MARK,
    as_read,
    engine_of,
    payload_of,
)
from mainspring.processes.connections import Lines
from mainspring.processes.declare.versions import Unread
from mainspring.processes.parts.call_off import CALL_OFF, CallingOff
from mainspring.processes.parts.race import Racing
from mainspring.processes.record import builtin
from mainspring.processes.record.decision import BUILTINS, Decision, Recorded, validate
from mainspring.processes.record.map import MAP, decide_chunk
from mainspring.processes.record.race import RACES
from mainspring.processes.run.actor_policy import PolicyInForce, with_timeouts
from mainspring.processes.run.beats import Beats
from mainspring.processes.run.engine import Engine
from mainspring.processes.run.failed_steps import tell_failed
from mainspring.processes.run.recovery import Recovery
from mainspring.processes.statements import SQL
from mainspring.processes.structural.change import Answer
from mainspring.processes.structural.check import FAIL
from mainspring.processes.structural.not_run import overdue, stopped, too_late
from mainspring.retry_policy import RetryPolicy
from mainspring.tasks.declare.promise import Failure
from mainspring.tasks.declare.sealing import SEALED, Sealing
from mainspring.tasks.run.execute import by_payload

log = logging.getLogger("mainspring")
ALONE = (*RACES, CALL_OFF)  # tasks of the engine's own that are structural changes
# A step that newer code recorded is looked at again after so long: a worker that reads it may have come.
NEWER_CODE_SECONDS = 5.0
# What tasks are run with is kept for so many; beyond that it is read.
INPUTS_AHEAD = 20_000


class Actor(Protocol):
    """What decides: a decider, a task, or somebody far away."""

    @property
    def name(self) -> str: ...

    def decide(self, task_input: TaskInput, run: Run) -> Awaitable[Decision]: ...


class Processes:
    """All of it, for one worker."""

    def __init__(
        self, database: Database, worker: WorkerPort, sealing: Sealing | None = None
    ) -> None:
        """`sealing`: of an application with a cipher."""
        self.database = database
        self._sealing = sealing
        self._worker = worker
        self.lines = Lines(database, worker)
        self._task_inputs = TaskInputs(self.lines)
        self._policies: dict[str, PolicyInForce] = {}
        self._beats = Beats(self.lines, self._work_timeout, worker)
        self.recovery = Recovery(
            self.lines, self._task_inputs, self._policies, database.shard_count, worker
        )
        self._writers = DecisionWriters(database.shard_count, self._committed, worker)
        self.engine = Engine(self.lines, worker, self._writers.settles)
        self._inputs_ahead: dict[
            int, TaskInput
        ] = {}  # what was released here, by the visit's version

    async def close(self) -> None:
        """When the worker has stopped."""
        await self.recovery.close()
        await self.engine.close()
        await self._beats.close()
        await self._task_inputs.close()

    # -- queues

    def actor_queue(
        self, actor: Actor, settings: QueueSettings, *, plain: Handler | None = None
    ) -> QueueSettings:
        """The queue of an actor. `plain` handles its visits that belong to no process."""

        def handle(run: Run) -> Awaitable[Outcome]:
            run.settings = in_force.settings
            return self._run_task(run, actor.decide)

        handler = handle if plain is None else by_payload(MARK, handle, plain)
        settings = replace(settings, handler=handler)
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
            return await self.engine.handle(kind, subject, run)

        retry = RetryPolicy(attempts=1_000_000, first=0.5, most=60)
        return QueueSettings(
            name=engine_of(pool),
            handler=handle,
            pool=pool,
            kind="process",
            retry=retry,
            beside=True,
        )

    # -- tasks

    def _committed(self, commit: Commit) -> None:
        """The next steps are in hand without a read."""
        if len(self._inputs_ahead) > INPUTS_AHEAD:
            self._inputs_ahead.clear()
        self._inputs_ahead.update(commit.task_inputs)
        at = clock.local()
        self._worker.take_in(as_read(commit.visits, self.database.shard_count, commit.now, at))
        if any(change.failing for change in commit.changes):
            tell_failed(commit)

    def forget(self, versions: frozenset[int] | None) -> None:
        """Visits of these versions are said to be gone: what they would be run with is read after all."""
        if versions is None:
            self._inputs_ahead.clear()
            return
        for version in versions:
            self._inputs_ahead.pop(version, None)

    async def _run_task(
        self, run: Run, decide: Callable[[TaskInput, Run], Awaitable[Decision]]
    ) -> Outcome:
        """Hand a task out, let it decide, and note what that changes."""
        payload = payload_of(run.visit)
        task_input = self._inputs_ahead.pop(run.visit.version, None)
        if task_input is None:
            task_input = await self._task_inputs.load(payload.process_id, run.visit.key)
        if task_input is None:
            return await self._inconsistent(payload.process_id, run)
        if task_input.state in ENDED:  # called off while it waited in hand; it may be undone by now
            return Cancelled("its task has ended")
        if run.visit.priority < BACKGROUND_BELOW:
            task_input = in_background(task_input, run.visit)
        if self._sealing is not None or _has_sealed(task_input):
            try:
                task_input = opened_input(self._sealing, task_input)
            except UnknownCipherKey as unknown:
                return self._failed(run, task_input, unknown)
        if payload.deadline is not None and payload.deadline.timestamp() <= run.started:
            return self._writers.settles(run, self._stored(overdue(task_input)))
        if (given := task_input.failed_input) is not None:
            change = stopped(task_input, given.promise, given.error)
            if task_input.actor == LEAVE:
                # Its promise is for the scope's handler to fulfil: the look that ends the scope
                # takes this task away.
                change = msgspec.structs.replace(change, state=None, promise=None, keeps=True)
            return self._writers.settles(run, self._stored(change))
        if task_input.actor in ALONE:
            alone = self._alone(task_input)
            return await self.engine.alone_with(task_input.process_id, run, alone)
        if task_input.actor in waiting.KINDS:
            try:
                return self._writers.settles(run, self._stored(waiting.begin_waiting(task_input)))
            except InvalidArguments as unreadable:
                return self._failed(run, task_input, unreadable)
        if task_input.actor == MAP:
            return self._writers.settles_later(run, partial(self._chunk, task_input))
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
                is_told = self._sealing is None and scrub_of(error) is None
                facts = {"key": run.visit.key, "error_type": type(error).__name__}
                log.error("task.failed_after_completion", extra=facts, exc_info=is_told)
                return Done()
            return self._failed(run, task_input, error)
        if run.settled:
            return Done()
        return self._writers.settles(run, self._change(task_input, decision))

    def _alone(self, task_input: TaskInput) -> Steps[Answer]:
        """The structural change that a task of the engine's own is."""
        process_id, shard_count = task_input.process_id, self.database.shard_count
        if task_input.actor == CALL_OFF:
            return CallingOff(process_id, shard_count).call_off_from_within(task_input)
        racing = Racing(process_id, shard_count)
        return racing.end_race(task_input.task_id, task_input.background)

    def _chunk(self, task_input: TaskInput) -> TaskChange:
        return self._change(task_input, decide_chunk(task_input.args))

    def _change(self, task_input: TaskInput, decision: Decision) -> TaskChange:
        if type(decision) is not Recorded or decision.children or decision.scopes:
            problem = validate(decision, {given.promise for given in task_input.inputs})
            if problem is not None:
                decision = Decision(error=problem)
        # A built-in one passes on what others failed with.
        failing = not task_input.actor.startswith("@")
        return self.prepared(change_of(task_input, decision, failing=failing))

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
            if self._sealing is not None:
                sealed = self._sealing.error(outcome.error)
                return msgspec.structs.replace(outcome, error=sealed)
            return outcome
        kind, text = describe(error)
        message, _, trace = text.removeprefix(f"{kind}: ").partition("\n")
        failure = Failure(kind, message, trace, task_input.task_id)
        change = change_of(task_input, Decision(error=failure), park=in_code)
        return self._writers.settles(run, self._stored(change))

    # -- what the contexts of running tasks need

    def prepared(self, change: TaskChange) -> TaskChange:
        """The change with what the policies of actors say of its new tasks, as it is stored."""
        if change.tasks and any(self._task_timeout(t.actor) is not None for t in change.tasks):
            tasks = with_timeouts(change.tasks, self._task_timeout)
            change = msgspec.structs.replace(change, tasks=tasks)
        return self._stored(change)

    def _stored(self, change: TaskChange) -> TaskChange:
        return change if self._sealing is None else sealed_change(self._sealing, change)

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
        await self.lines.run(SQL["mark_inconsistent"], id=process_id, reason=reason)
        return Parked("mainspring.errors.Inconsistent", reason)


def _has_sealed(task_input: TaskInput) -> bool:
    """Whether something of it was encrypted, though this application has no cipher."""
    if task_input.args.startswith(SEALED):
        return True
    for given in task_input.inputs:  # noqa: SIM110 - of every task: a generator costs more than it
        if given.result is not None and SEALED in given.result:
            return True
    return False


async def _decide_builtin(task_input: TaskInput, run: Run) -> Decision:
    if task_input.actor not in BUILTINS and task_input.actor != FAIL:
        unknown = InvalidArguments(f"{task_input.actor!r} is of newer code than this worker's")
        raise Unread(unknown, is_newer=True)
    if task_input.actor == FAIL:
        return Decision(error=msgspec.json.decode(task_input.args, type=_Fail).error)
    try:
        return builtin.decide(task_input.actor, task_input.args, task_input.inputs)
    except InvalidArguments:  # which says more
        raise
    except (msgspec.MsgspecError, AssertionError, LookupError, TypeError) as error:
        raise InvalidArguments(  # a decision from elsewhere made it so: no further try helps
            f"{task_input.actor!r} cannot be decided from its arguments: {type(error).__name__}"
        ) from error


class _Fail(msgspec.Struct):
    error: Failure
