"""Recovery of runs whose work timeout has passed: by the policy of their actor (P3, P4).

The heart sees them, at the second beat after; what is done about each compares the pass and the version
that were seen, so a result that comes at the same moment wins or loses as a whole. Any worker recovers
the tasks of any actor: a task that fails needs no code of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from mainspring import clock
from mainspring.db.sql import Steps, rows
from mainspring.errors import InvalidSetting, WorkTimeout
from mainspring.ids import new_id
from mainspring.kernel import (
    KERNEL_SQL,
    HeldVisit,
    NewlyParked,
    QueueSettings,
    Retry,
    Run,
    WorkerPort,
    judge,
)
from mainspring.processes.commit.change import change_of
from mainspring.processes.commit.commit import change_steps, settle_steps
from mainspring.processes.commit.task_input import TaskInput, TaskInputs, in_background
from mainspring.processes.commit.visits import (
    MARK,
    VisitRow,
    engine_visit,
    is_process_visit,
    offer_steps,
    payload_of,
)
from mainspring.processes.connections import Lines
from mainspring.processes.record.decision import Decision
from mainspring.processes.run.actor_policy import PolicyInForce, retry_of
from mainspring.processes.statements import SQL
from mainspring.processes.structural.change import call_off_versions
from mainspring.processes.structural.deadline import timed_out
from mainspring.processes.structural.request import ProcessEngine
from mainspring.retry_policy import RetryPolicy
from mainspring.tasks.declare.policy import Policy, policy_of
from mainspring.tasks.declare.promise import Failure
from mainspring.tasks.run.queue import never_run

log = logging.getLogger("mainspring")


class OverdueVisit(VisitRow, frozen=True):
    """A row of read_overdue.sql: a visit as a run reads it, its run, and the policy of its queue."""

    run: int
    started: float
    work_timeouts: int
    policy: str  # JSON
    now: float


class RecoveredVisit(NamedTuple):
    """A row of recover.sql: a visit that is queued again."""

    shard: int
    key: str
    queue: str
    crashes: int
    orphaned: bool
    parked: bool
    payload: str | None
    called_off: bool
    hints: int


class Late(msgspec.Struct):
    """A run whose work timeout has passed."""

    run: Run
    policy: Policy
    work_timeouts: int  # before this one
    now: float

    @property
    def is_over(self) -> bool:
        """Its task timeout has passed as well: it is not started again."""
        deadline = payload_of(self.run.visit).deadline
        return deadline is not None and deadline.timestamp() <= self.now

    @property
    def fails(self) -> bool:
        limit = self.policy.work_timeout_limit
        is_last = limit is not None and self.work_timeouts + 1 >= limit
        return self.policy.on_work_timeout == "fail" or is_last


class Recovery:
    """Of one worker."""

    def __init__(
        self,
        lines: Lines,
        task_inputs: TaskInputs,
        policies: Mapping[str, PolicyInForce],
        shard_count: int,
        worker: WorkerPort,
    ) -> None:
        self._lines = lines
        self._task_inputs = task_inputs
        self._policies = policies
        self._shard_count = shard_count
        self._under_way: set[int] = set()  # passes
        self._tasks: set[asyncio.Task[None]] = set()
        self._worker = worker

    def take_overdue(self, held: Sequence[HeldVisit]) -> set[int]:
        """Take the overdue visits of processes. Called by the heart's thread."""
        mine = [v for v in held if v.payload is not None and v.payload.startswith(MARK)]
        if mine:
            self._worker.call_soon(self._start, [(visit.shard, visit.run) for visit in mine])
        return {visit.run for visit in mine}

    def parked(self, visits: Sequence[NewlyParked]) -> Steps[None]:
        """A process learns at once of a task of its own that is parked: it is looked at."""
        mine = {payload_of(visit).process_id for visit in visits if is_process_visit(visit)}
        if not mine:
            return
        found = yield from rows(SQL["find_engines"], ProcessEngine, ids=sorted(mine))
        looks = [engine_visit("look", p.id, p.id, id=new_id(), engine=p.engine) for p in found]
        yield from offer_steps(looks, self._shard_count)

    def _start(self, places: Sequence[tuple[int, int]]) -> None:
        fresh = [(shard, held) for shard, held in places if held not in self._under_way]
        if fresh:
            task = asyncio.get_running_loop().create_task(self._recover(fresh))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _recover(self, places: Sequence[tuple[int, int]]) -> None:
        passes = {held for _, held in places}
        self._under_way |= passes
        try:
            await self.recover(places)
        except Exception as error:  # what is left is seen again at the next beat
            log.warning("recovery.failed", extra={"error": str(error)})
        finally:
            self._under_way -= passes

    async def recover(self, places: Sequence[tuple[int, int]]) -> None:
        """Recover visits by shard and pass."""
        found = await self._lines.rows(
            SQL["read_overdue"],
            OverdueVisit,
            shards=[shard for shard, _ in places],
            passes=[held for _, held in places],
        )
        late = [self._late(overdue) for overdue in found]
        requeued = [one for one in late if not one.is_over and not one.fails]
        if requeued:
            await self._requeue(requeued)
        for one in late:
            if one.is_over or one.fails:
                await self._end(one)

    def _late(self, overdue: OverdueVisit) -> Late:
        visit = overdue.visit
        try:
            policy = policy_of(msgspec.json.decode(overdue.policy))
        except InvalidSetting:
            policy = Policy()
        in_force = self._policies.get(visit.queue)
        declared = in_force.settings.retry if in_force is not None else RetryPolicy()
        settings = QueueSettings(
            name=visit.queue, handler=never_run, retry=retry_of(declared, policy), any_pass=False
        )
        began = clock.local() - max(0.0, overdue.now - overdue.started)
        run = Run(visit, overdue.run, overdue.started, began, settings=settings)
        return Late(run, policy, overdue.work_timeouts, overdue.now)

    async def _requeue(self, late: Sequence[Late]) -> None:
        """Back to the queue, only if they are still in work; those whose result will not count any
        more are told to stop."""
        overtaken = [one.run.visit.version for one in late if one.policy.accept == "last"]
        async with self._lines.transaction() as connection:
            freed = await connection.rows(
                KERNEL_SQL["recover"],
                RecoveredVisit,
                shards=[one.run.visit.shard for one in late],
                orphaned=[],
                overdue=[one.run.token for one in late],
            )
            await connection.follow(call_off_versions(overtaken))
        keys = {(visit.queue, visit.key) for visit in freed}
        for accept in ("first", "last"):
            visits = [one.run.visit for one in late if one.policy.accept == accept]
            visits = [visit for visit in visits if (visit.queue, visit.key) in keys]
            self._worker.overtaken(visits, void=accept == "last")
        for visit in freed:
            log.warning("task.requeued", extra={"actor": visit.queue, "task": visit.key})

    async def _end(self, one: Late) -> None:
        """An error decision with the version and pass that were seen."""
        visit = one.run.visit
        task_input = await self._task_inputs.load(payload_of(visit).process_id, visit.key)
        if task_input is None:
            return  # the look finds the visit without a task
        task_input = in_background(task_input, visit)
        name = "task_timeout" if one.is_over else "work_timeout"
        async with self._lines.transaction() as connection:
            answer = await connection.follow(self._end_steps(one, task_input))
            if answer == "settled":
                await connection.run(KERNEL_SQL["count"], actors=[visit.queue], names=[name])
                await connection.follow(call_off_versions([visit.version]))
                facts = {"actor": visit.queue, "task": visit.key, "reason": name}
                log.warning("task.overtaken", extra=facts)

    def _end_steps(self, one: Late, task_input: TaskInput) -> Steps[str]:
        run = one.run
        if one.is_over:
            failure = timed_out(task_input.actor, task_input.task_id)
            # It ends, caught or not.
            change = change_of(task_input, Decision(error=failure), failing=False)
            return change_steps(run, change, self._shard_count, self._worker.worker_id)
        text = f"a run of {task_input.actor!r} neither ended nor beat for {one.policy.work_timeout:g} s"
        error = WorkTimeout(text)
        outcome = judge(run.settings.retry, failures=run.visit.attempt + 1, error=error)
        if isinstance(outcome, Retry) and one.policy.on_work_timeout == "fail":
            return settle_steps(run, outcome, self._worker.worker_id)
        failure = Failure("mainspring.errors.WorkTimeout", text, cause=task_input.task_id)
        change = change_of(task_input, Decision(error=failure))
        return change_steps(run, change, self._shard_count, self._worker.worker_id)
