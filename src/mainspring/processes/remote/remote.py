"""Actors that are not functions of a worker: pull a task, beat, complete or fail it with its ticket.

`app.remote` for Python, and the seam for other languages: everything is plain data. A task is held, with
its recovery time, before it is handed out; what comes back is judged by the same rules as a worker's own
decisions, its visit's token the referee. Sent again, an answer is the same answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

import msgspec

from mainspring.db.database import Database
from mainspring.db.steps import Steps, first, one, run
from mainspring.errors import InvalidArguments
from mainspring.kernel import KERNEL_SQL, QueueSettings, RetryPolicy
from mainspring.processes.commit.commit import change_steps
from mainspring.processes.commit.task_input import TaskInput, in_background, read_steps
from mainspring.processes.commit.visits import payload_of
from mainspring.processes.declare.versions import Versions
from mainspring.processes.record.arguments import fill
from mainspring.processes.record.decision import Decision
from mainspring.processes.remote.pulling import (
    FailedInput,
    HeldTask,
    RemoteActor,
    accepted,
    beat_steps,
    busy,
    check_pull,
    failed,
    id_of,
    next_pause,
    pull_steps,
    pulled_of,
    settle_answer,
    stopped_of,
    stored_policy,
)
from mainspring.processes.remote.ticket import Pulled, Ticket
from mainspring.processes.run.actor_policy import retry_of
from mainspring.processes.statements import SQL
from mainspring.shape import shape
from mainspring.tasks.declare.policy import Policy
from mainspring.tasks.declare.signature import encode_result
from mainspring.tasks.declare.task import Task
from mainspring.tasks.run.queue import never_run

log = logging.getLogger("mainspring")
T = TypeVar("T")
# An answer that meets a lock is sent again so often, so many seconds apart.
TRIES = 100
PAUSE = 0.05
# A beat is worth less patience: if the lock outlasts it, the actor goes on and beats again.
BEAT_TRIES = 10


class RemoteHost(Protocol):
    """What a remote actor needs of the application."""

    versions: Versions

    @property
    def tasks(self) -> dict[str, Task[Any, Any]]: ...

    async def database(self) -> Database: ...
    def database_sync(self) -> Database: ...
    async def run_steps(self, steps: Steps[T]) -> T: ...
    def run_steps_sync(self, steps: Steps[T]) -> T: ...


class Remote:
    """Tasks for actors elsewhere: those that are declared with `remote=True`.

    for task in await app.remote.pull("charge", wait=20):
        await app.remote.complete(task.ticket, charge_card(**task.args))
    """

    def __init__(self, host: RemoteHost) -> None:
        self._host = host

    # -- async

    async def pull(
        self, actor: str, *, limit: int = 1, wait: float = 0.0, worker: str = "remote"
    ) -> list[Pulled]:
        """Take due tasks of an actor, at most `limit`; wait up to so many seconds for the first.

        Each is yours until its `held_until`; `beat` moves that. `worker` is the name under which the
        history of runs knows you.
        """
        check_pull(limit, wait)
        host, deadline, polls = self._host, time.monotonic() + wait, 0
        shard_count = (await host.database()).shard_count
        while True:
            held = await host.run_steps(pull_steps(actor, limit))
            found = await host.run_steps(self._load(held)) if held else []
            for ended, change in stopped_of(found):
                await host.run_steps(change_steps(ended, change, shard_count, id_of(worker)))
            if pulled := pulled_of(found):
                return pulled
            if (pause := next_pause(deadline, polls)) is None:
                return []
            await asyncio.sleep(pause)
            polls += 1

    async def beat(self, ticket: str) -> bool:
        """Say that you are still at it. False: the task has ended or another attempt has it; stop."""
        read = Ticket.decode(ticket)
        for _ in range(BEAT_TRIES):
            if (found := await self._host.run_steps(beat_steps(read))) != "busy":
                break
            await asyncio.sleep(PAUSE)
        return found != "stop"

    async def complete(self, ticket: str, value: object = None, *, worker: str = "remote") -> str:
        """Bring a task's result: "accepted", or "already" if this very attempt's was taken before.

        Raises `Refused` if the attempt no longer counts, also where its time ran out.
        """
        return await self._answer(ticket, self._completed(ticket, value), worker)

    async def decide(self, ticket: str, decision: Decision, *, worker: str = "remote") -> str:
        """The same for a decider: new tasks, and a value or a promise. Judged like any decision."""
        return await self._answer(ticket, decision, worker)

    async def fail(
        self,
        ticket: str,
        message: str,
        *,
        type: str = "RemoteError",
        retry: bool = True,
        worker: str = "remote",
    ) -> str:
        """Say that an attempt failed: retried as the actor's policy says (unless `retry=False`), then
        delivered to whoever catches it, or parked."""
        return await self._answer(ticket, failed(type, message, retry), worker)

    async def _answer(self, text: str, answer: Decision | FailedInput, worker: str) -> str:
        ticket = Ticket.decode(text)
        shard_count = (await self._host.database()).shard_count
        for _ in range(TRIES):
            found = await self._host.run_steps(
                self._answer_steps(ticket, answer, shard_count, id_of(worker))
            )
            if found is not None:
                return accepted(found, ticket)
            await asyncio.sleep(PAUSE)
        raise busy(ticket)

    # -- the same for code that is not async

    def pull_sync(
        self, actor: str, *, limit: int = 1, wait: float = 0.0, worker: str = "remote"
    ) -> list[Pulled]:
        """See pull."""
        check_pull(limit, wait)
        host, deadline, polls = self._host, time.monotonic() + wait, 0
        shard_count = host.database_sync().shard_count
        while True:
            held = host.run_steps_sync(pull_steps(actor, limit))
            found = host.run_steps_sync(self._load(held)) if held else []
            for ended, change in stopped_of(found):
                host.run_steps_sync(change_steps(ended, change, shard_count, id_of(worker)))
            if pulled := pulled_of(found):
                return pulled
            if (pause := next_pause(deadline, polls)) is None:
                return []
            time.sleep(pause)
            polls += 1

    def beat_sync(self, ticket: str) -> bool:
        """See beat."""
        read = Ticket.decode(ticket)
        for _ in range(BEAT_TRIES):
            if (found := self._host.run_steps_sync(beat_steps(read))) != "busy":
                break
            time.sleep(PAUSE)
        return found != "stop"

    def complete_sync(self, ticket: str, value: object = None, *, worker: str = "remote") -> str:
        """See complete."""
        return self._answer_sync(ticket, self._completed(ticket, value), worker)

    def decide_sync(self, ticket: str, decision: Decision, *, worker: str = "remote") -> str:
        """See decide."""
        return self._answer_sync(ticket, decision, worker)

    def fail_sync(
        self,
        ticket: str,
        message: str,
        *,
        type: str = "RemoteError",
        retry: bool = True,
        worker: str = "remote",
    ) -> str:
        """See fail."""
        return self._answer_sync(ticket, failed(type, message, retry), worker)

    def _answer_sync(self, text: str, answer: Decision | FailedInput, worker: str) -> str:
        ticket = Ticket.decode(text)
        shard_count = self._host.database_sync().shard_count
        for _ in range(TRIES):
            steps = self._answer_steps(ticket, answer, shard_count, id_of(worker))
            if (found := self._host.run_steps_sync(steps)) is not None:
                return accepted(found, ticket)
            time.sleep(PAUSE)
        raise busy(ticket)

    # -- both

    def _completed(self, text: str, value: object) -> Decision:
        """A result, checked against the declaration where this application has one."""
        actor = Ticket.decode(text).queue
        result = encode_result("task", actor, value)
        if (task := self._host.tasks.get(actor)) is not None:
            try:
                task.signature.decode_result("null" if result is None else result)
            except InvalidArguments as error:
                raise InvalidArguments(
                    f"the result of {actor!r} does not fit its declaration: {error}; "
                    f"got {shape(value)}"
                ) from None
        return Decision(result=result)

    def _load(self, held: Sequence[HeldTask]) -> Steps[list[tuple[HeldTask, TaskInput, Pulled]]]:
        """What the tasks are run with. A visit without its task stays held: the look finds it. So does one
        that this code cannot read, until its work timeout: others may be able to."""
        visits = [held_task.run.visit for held_task in held]
        wanted = [(payload_of(visit).process_id, visit.key) for visit in visits]
        read = yield from read_steps(wanted)
        task_inputs = {task_input.task_id: task_input for task_input in read}
        found = []
        for held_task in held:
            visit = held_task.run.visit
            if (read_input := task_inputs.get(visit.key)) is not None:
                task_input = in_background(read_input, visit)
                try:
                    found.append((held_task, task_input, self._pulled(held_task, task_input)))
                except InvalidArguments as error:
                    facts = {"actor": visit.queue, "task": task_input.task_id}
                    log.warning("task.not_pulled", extra={**facts, "error": str(error)})
        return found

    def _pulled(self, one: HeldTask, task_input: TaskInput) -> Pulled:
        visit = one.run.visit
        args: dict[str, object] = {}
        if task_input.failed_input is None:
            text = self._host.versions.upcast(visit.queue, task_input.args_version, task_input.args)
            args = msgspec.json.decode(fill(text, task_input.inputs))
        ticket = Ticket(
            visit.queue, visit.shard, task_input.process_id, visit.key, str(visit.id), visit.version,
            one.run.token, one.run.started, visit.attempt, visit.priority,
        )  # fmt: skip
        return Pulled(
            ticket.encode(), visit.queue, task_input.process_id, visit.key, args, str(visit.id),
            visit.attempt + 1, one.held_until, payload_of(visit).deadline,
        )  # fmt: skip

    def _answer_steps(
        self, ticket: Ticket, answer: Decision | FailedInput, shard_count: int, worker_id: UUID
    ) -> Steps[str | None]:
        """Settle an attempt. None: somebody has its rows, send it again."""
        actor = yield from first(SQL["read_remote"], RemoteActor, queue=ticket.queue)
        policy = Policy() if actor is None else stored_policy(actor.policy)
        declared = self._host.tasks.get(ticket.queue)
        retry = retry_of(declared.settings.retry if declared else RetryPolicy(), policy)
        settings = QueueSettings(
            name=ticket.queue, handler=never_run, retry=retry, any_pass=policy.accept == "first"
        )
        attempt = ticket.run_of(settings, ticket.started if actor is None else actor.now)
        tasks = yield from read_steps([(ticket.process_id, ticket.task)])
        settled = "gone"
        if tasks:
            task_input = in_background(tasks[0], attempt.visit)
            settled = yield from settle_answer(attempt, task_input, answer, shard_count, worker_id)
        if settled in ("locked", "changed"):
            return None
        if settled == "settled":
            return "accepted"
        is_known = yield from one(
            SQL["was_answered"],
            bool,
            key=ticket.task,
            run=ticket.run,
            started=ticket.started,
            is_failure=isinstance(answer, FailedInput),
        )
        if is_known:
            return "already"
        yield from run(KERNEL_SQL["count"], actors=[ticket.queue], names=["late_result"])
        return "refused"
