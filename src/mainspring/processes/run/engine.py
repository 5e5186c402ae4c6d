"""The engine's own visits: looks, timers, cancels, restarts and whatever else concerns a whole process.

A visit of a signal, a timer or a child is settled by the writer of decisions. The others are structural
changes, each in a transaction of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from mainspring.db.sql import Steps
from mainspring.errors import Fenced, NotFound
from mainspring.kernel import BACKGROUND_BELOW, Again, Done, Outcome, Parked, Run, WorkerPort
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.commit import settle_steps
from mainspring.processes.commit.visits import engine_visit, payload_of
from mainspring.processes.connections import Lines
from mainspring.processes.locks.granting import look_at_lock
from mainspring.processes.parts.call_off import CallingOff
from mainspring.processes.statements import SQL
from mainspring.processes.structural.cancel import Cancelling
from mainspring.processes.structural.cancel_many import Cancels
from mainspring.processes.structural.change import Answer, run_alone
from mainspring.processes.structural.check import Checking, Sight
from mainspring.processes.structural.deadline import Deadline, Overdue
from mainspring.processes.structural.prune import KEEP, Pruning
from mainspring.processes.structural.repair import AUTOMATIC, ProcessViolation
from mainspring.processes.structural.request import PartOrder, ProcessRestart, cancel_of
from mainspring.processes.structural.restart import Restarting

log = logging.getLogger("mainspring")


class Engine:
    """What the engine does for processes, in one worker. `settles` leaves a change to the settler."""

    def __init__(
        self, lines: Lines, worker: WorkerPort, settles: Callable[[Run, TaskChange], Outcome]
    ) -> None:
        self._lines = lines
        self._worker = worker
        self._settles = settles
        self._shard_count = lines.database.shard_count
        self._cancels = Cancels(lines.database, lines, worker)
        self.keep = KEEP  # ended tasks of a loop

    async def close(self) -> None:
        """When the worker has stopped."""
        await self._cancels.close()

    async def handle(self, kind: str, subject: str, run: Run) -> Outcome:
        """Do what a visit asks for, by the kind that its key begins with."""
        process_id = payload_of(run.visit).process_id
        match kind:
            case "signal" | "await" | "timer" | "child":
                seeking = TaskChange(process_id, subject, None)
                seeking.seeks = "timer" if kind == "timer" else "signal"
                if run.visit.priority < BACKGROUND_BELOW:
                    seeking.background = run.visit.priority  # of a timer: see wait_outside
                return self._settles(run, seeking)
            case "look":
                return await self._look(process_id, payload_of(run.visit).more)
            case "end":
                ending = Checking(process_id, self._shard_count)
                return await self.alone_with(process_id, run, ending.end())
            case "cancel":
                return await self._cancel(process_id, run)
            case "call_off":
                part = msgspec.convert(payload_of(run.visit).more, PartOrder)
                calling = CallingOff(process_id, self._shard_count)
                return await self.alone_with(process_id, run, calling.call_off(part))
            case "prune":
                pruning = Pruning(process_id, self._shard_count)
                return await self.alone_with(process_id, run, pruning.prune(self.keep))
            case "deadline":
                return await self._deadline(process_id, subject, run)
            case "restart":
                return await self._restart(process_id, run)
            case "lock":
                async with self._lines.transaction() as connection:
                    again = await connection.follow(look_at_lock(subject, self._shard_count))
                return Done() if again is None else Again(after=again)
        raise ValueError(f"the engine has no visits of the kind {kind!r}")

    async def _look(self, process_id: str, more: object) -> Outcome:
        """Look at a process: change what must be, and say when to look again.

        One that a change of the process asked for does not check what every commit keeps true.
        """
        is_check = more != 1
        sight = await self._sight(process_id)
        if sight is None or sight.state != "open":
            return Done()
        if sight.must_change or (is_check and await self._is_broken(process_id)):
            source = more if isinstance(more, str) else AUTOMATIC  # who ordered the check
            looking = Checking(process_id, self._shard_count, source)
            steps = looking.look(check=is_check, idle=sight.is_idle)
            async with self._lines.connection() as connection:
                await run_alone(connection, process_id, steps)
            sight = await self._sight(process_id)
        if sight is None or sight.state != "open":
            return Done()
        planned = engine_visit("look", process_id, process_id, id=process_id, engine="")
        return Again(at=sight.next_at(), payload=planned.payload())

    async def _is_broken(self, process_id: str) -> bool:
        found = await self._lines.first(SQL["read_violations"], ProcessViolation, id=process_id)
        return found is not None

    async def _sight(self, process_id: str) -> Sight | None:
        return await self._lines.first(SQL["look"], Sight, id=process_id)

    async def _deadline(self, process_id: str, task: str, run: Run) -> Outcome:
        """The task timeout of a task has passed, if it is still the same."""
        found = await self._lines.first(
            SQL["read_deadline"], Overdue, process_id=process_id, task=task
        )
        if found is not None and found.again_at is not None:
            return Again(at=found.again_at)
        if found is None or not found.ends:
            return Done()
        change = Deadline(process_id, self._shard_count)
        return await self.alone_with(process_id, run, change.end(task))

    async def _cancel(self, process_id: str, run: Run) -> Outcome:
        """With others that wait, or alone."""
        compensate = cancel_of(payload_of(run.visit).more).compensate
        if await self._cancels.together(process_id, run, compensate=compensate):
            run.settle()
            return Done()
        change = Cancelling(process_id, self._shard_count)
        with self._cancels.alone():
            return await self.alone_with(process_id, run, change.cancel(compensate=compensate))

    async def _restart(self, process_id: str, run: Run) -> Outcome:
        order = msgspec.convert(payload_of(run.visit).more, ProcessRestart)
        change = Restarting(process_id, self._shard_count)
        return await self.alone_with(process_id, run, change.restart(order))

    async def alone_with(self, process_id: str, run: Run, steps: Steps[Answer]) -> Outcome:
        """A structural change that is done once: the settle of its visit is part of it."""

        outcome: Outcome = Done()

        def with_settle() -> Steps[Answer]:
            nonlocal outcome
            answer = yield from steps
            outcome = Done(result=msgspec.json.encode(answer).decode())
            if (error := answer.parked) is not None:
                outcome = Parked(error.type, str(error))
            settled = yield from settle_steps(run, outcome, self._worker.worker_id)
            if settled not in ("settled", "before", "superseded"):
                raise Fenced(f"the visit {run.visit.key!r} was settled or deleted meanwhile")
            return answer

        try:
            async with self._lines.connection() as connection:
                answer = await run_alone(connection, process_id, with_settle())
        except NotFound:
            return Done()  # dropped by age, or by hand: there is nothing to change
        if not answer.done:
            facts = {"process_id": process_id, "visit": run.visit.key, "why": answer.why}
            log.warning("process.change_refused", extra=facts)
        run.settle()
        return outcome
