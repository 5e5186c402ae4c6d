"""Actors that are not functions of a worker: pull a task, beat, complete or fail it with its ticket.

`app.remote` for Python, and the seam for other languages: everything is plain data. A task is held, with
its recovery time, before it is handed out; what comes back is judged by the same rules as a worker's own
decisions, its visit's token the referee. Sent again, an answer is the same answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID, uuid5

import msgspec

from mainspring.db.connect import Database
from mainspring.errors import InvalidArguments, InvalidDecision, InvalidSetting, NotFound, Refused
from mainspring.kernel.config import QueueSettings
from mainspring.kernel.outcome import Retry
from mainspring.kernel.retry import RetryPolicy, clean
from mainspring.kernel.store import SQL as KERNEL_SQL
from mainspring.kernel.visit import Run, Visit
from mainspring.processes.arguments import fill
from mainspring.processes.change import Change, change_of
from mainspring.processes.decision import Decision, validate
from mainspring.processes.drive import Step, Walk
from mainspring.processes.hand_out import Handout, handout_of, read_arguments
from mainspring.processes.settle import change_steps, settle_steps
from mainspring.processes.store import SQL
from mainspring.processes.terms import retry_of
from mainspring.processes.ticket import Pulled, Ticket
from mainspring.processes.versions import Versions
from mainspring.processes.visits import payload_of
from mainspring.tasks.policy import Policy, policy_of
from mainspring.tasks.promise import Failure
from mainspring.tasks.task import Task

T = TypeVar("T")
Steps = Generator[Step, list[Any], T]
MOST = 1000  # tasks pulled at once
# A long poll looks this often (seconds): soon at first, then ever more rarely.
POLLS = (0.02, 0.05, 0.1, 0.2, 0.5)
# An answer that meets a lock is sent again so often, a twentieth of a second apart.
TRIES = 100
_REMOTE = UUID("5f3b2f0c-3a53-4d0c-9a0e-6f1d2c7b8a90")  # under which history knows actors elsewhere


class Host(Protocol):
    """What a remote actor needs of the application."""

    versions: Versions

    @property
    def tasks(self) -> dict[str, Task[Any, Any]]: ...

    async def database(self) -> Database: ...
    def database_sync(self) -> Database: ...
    async def walk(self, walk: Walk[T]) -> T: ...
    def walk_sync(self, walk: Walk[T]) -> T: ...


class Remote:
    """Tasks for actors elsewhere: those that are declared with `remote=True`.

    for task in await app.remote.pull("charge", wait=20):
        await app.remote.complete(task.ticket, charge_card(**task.args))
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    # -- async

    async def pull(
        self, actor: str, *, limit: int = 1, wait: float = 0.0, worker: str = "remote"
    ) -> list[Pulled]:
        """Take due tasks of an actor, at most `limit`; wait up to so many seconds for the first.

        Each is yours until its `held_until`; `beat` moves that. `worker` is the name under which the
        history of runs knows you.
        """
        _check_pull(limit, wait)
        host, deadline, polls = self._host, time.monotonic() + wait, 0
        shard_count = (await host.database()).shard_count
        while True:
            held = await host.walk(_pull_steps(actor, limit))
            found = await host.walk(self._load(held)) if held else []
            for run, change in _stopped_of(found):
                await host.walk(change_steps(run, change, shard_count, _id_of(worker)))
            if pulled := _pulled_of(found):
                return pulled
            if (pause := _pause(deadline, polls)) is None:
                return []
            await asyncio.sleep(pause)
            polls += 1

    async def beat(self, ticket: str) -> bool:
        """Say that you are still at it. False: the task has ended or another attempt has it; stop."""
        return await self._host.walk(_beat_steps(Ticket.decode(ticket)))

    async def complete(self, ticket: str, value: Any = None, *, worker: str = "remote") -> str:
        """Bring a task's result: "accepted", or "already" if this very attempt was settled before.

        Raises `Refused` if the attempt no longer counts.
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
        return await self._answer(ticket, _failure(type, message, retry), worker)

    async def _answer(self, text: str, answer: Decision | _Failed, worker: str) -> str:
        ticket = Ticket.decode(text)
        shard_count = (await self._host.database()).shard_count
        for _ in range(TRIES):
            found = await self._host.walk(
                self._answer_steps(ticket, answer, shard_count, _id_of(worker))
            )
            if found is not None:
                return _accepted(found, ticket)
            await asyncio.sleep(0.05)
        raise _busy(ticket)

    # -- the same for code that is not async

    def pull_sync(
        self, actor: str, *, limit: int = 1, wait: float = 0.0, worker: str = "remote"
    ) -> list[Pulled]:
        """See pull."""
        _check_pull(limit, wait)
        host, deadline, polls = self._host, time.monotonic() + wait, 0
        shard_count = host.database_sync().shard_count
        while True:
            held = host.walk_sync(_pull_steps(actor, limit))
            found = host.walk_sync(self._load(held)) if held else []
            for run, change in _stopped_of(found):
                host.walk_sync(change_steps(run, change, shard_count, _id_of(worker)))
            if pulled := _pulled_of(found):
                return pulled
            if (pause := _pause(deadline, polls)) is None:
                return []
            time.sleep(pause)
            polls += 1

    def beat_sync(self, ticket: str) -> bool:
        """See beat."""
        return self._host.walk_sync(_beat_steps(Ticket.decode(ticket)))

    def complete_sync(self, ticket: str, value: Any = None, *, worker: str = "remote") -> str:
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
        return self._answer_sync(ticket, _failure(type, message, retry), worker)

    def _answer_sync(self, text: str, answer: Decision | _Failed, worker: str) -> str:
        ticket = Ticket.decode(text)
        shard_count = self._host.database_sync().shard_count
        for _ in range(TRIES):
            steps = self._answer_steps(ticket, answer, shard_count, _id_of(worker))
            if (found := self._host.walk_sync(steps)) is not None:
                return _accepted(found, ticket)
            time.sleep(0.05)
        raise _busy(ticket)

    # -- both

    def _completed(self, text: str, value: Any) -> Decision:
        """A result, checked against the declaration where this application has one."""
        actor = Ticket.decode(text).queue
        try:
            result = msgspec.json.encode(value).decode()
            if (task := self._host.tasks.get(actor)) is not None:
                task.signature.decode_result(result)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise InvalidArguments(
                f"the result of {actor!r} does not fit its declaration: {error}; got {value!r:.200}"
            ) from None
        return Decision(result=result)

    def _load(self, held: Sequence[_Held]) -> Steps[list[tuple[_Held, Handout, Pulled]]]:
        """What the tasks are run with. A visit without its task stays held: the look finds it."""
        wanted = [(payload_of(one.run.visit).process_id, one.run.visit.key) for one in held]
        rows = yield SQL["read_tasks"], read_arguments(wanted)
        handouts = {handout.task_id: handout for handout in map(handout_of, rows)}
        found = []
        for one in held:
            if (handout := handouts.get(one.run.visit.key)) is not None:
                found.append((one, handout, self._pulled(one, handout)))
        return found

    def _pulled(self, one: _Held, handout: Handout) -> Pulled:
        visit = one.run.visit
        args: dict[str, Any] = {}
        if handout.failed_input is None:
            text = self._host.versions.upcast(visit.queue, handout.args_version, handout.args)
            args = msgspec.json.decode(fill(text, handout.inputs))
        ticket = Ticket(
            visit.queue, visit.shard, handout.process_id, visit.key, str(visit.id), visit.version,
            one.run.token, one.run.started, visit.attempt,
        )  # fmt: skip
        return Pulled(
            ticket.encode(), visit.queue, handout.process_id, visit.key, args, str(visit.id),
            visit.attempt + 1, one.held_until, payload_of(visit).deadline,
        )  # fmt: skip

    def _answer_steps(
        self, ticket: Ticket, answer: Decision | _Failed, shard_count: int, worker_id: UUID
    ) -> Steps[str | None]:
        """Settle an attempt. None: somebody has its rows, send it again."""
        rows = yield SQL["read_remote"], {"queue": ticket.queue}
        policy, now = _policy(rows[0][0]) if rows else Policy(), rows[0][4] if rows else 0.0
        declared = self._host.tasks.get(ticket.queue)
        retry = retry_of(declared.settings.retry if declared else RetryPolicy(), policy)
        settings = QueueSettings(
            name=ticket.queue, handler=_never, retry=retry, any_pass=policy.accept == "first"
        )
        run = ticket.run_of(settings, now or ticket.started)
        tasks = yield SQL["read_tasks"], read_arguments([(ticket.process_id, ticket.task)])
        settled = "gone"
        if tasks:
            handout = handout_of(tasks[0])
            settled = yield from _settle(run, handout, answer, shard_count, worker_id)
        if settled in ("locked", "changed"):
            return None
        if settled == "settled":
            return "accepted"
        values = {"key": ticket.task, "run": ticket.run, "started": ticket.started}
        known = yield KERNEL_SQL["has_history"], values
        if known[0][0]:
            return "already"
        yield KERNEL_SQL["count"], {"actors": [ticket.queue], "names": ["late_result"]}
        return "refused"


class _Held(msgspec.Struct):
    """A visit that was just held."""

    run: Run
    held_until: Any


class _Failed(msgspec.Struct, frozen=True):
    type: str
    message: str
    retry: bool


def _check_pull(limit: int, wait: float) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise InvalidSetting(f"limit must be 1 to {MOST}, got {limit!r}")
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= 3600:
        raise InvalidSetting(f"wait must be 0 to 3600 seconds, got {wait!r}")


def _pause(deadline: float, polls: int) -> float | None:
    left = deadline - time.monotonic()
    return None if left <= 0 else min(left, POLLS[min(polls, len(POLLS) - 1)])


def _pull_steps(actor: str, limit: int) -> Steps[list[_Held]]:
    rows = yield SQL["read_remote"], {"queue": actor}
    if not rows:
        raise NotFound(f"no actor is named {actor!r}: declare it with @app.task(remote=True)")
    policy, paused, room, served, _ = rows[0]
    if served:
        raise InvalidSetting(
            f"workers run {actor!r} themselves; to pull its tasks, declare it with remote=True"
        )
    most = limit if room is None else min(limit, room)
    if paused or most <= 0:
        return []
    values = {"queue": actor, "most": most, "work_timeout": _policy(policy).work_timeout}
    held = yield KERNEL_SQL["pull_visits"], values
    settings = QueueSettings(name=actor, handler=_never)
    return [
        _Held(Run(Visit(*row[:12]), row[12], row[13], 0.0, settings=settings), row[14])
        for row in held
    ]


def _stopped_of(
    found: Sequence[tuple[_Held, Handout, Pulled]],
) -> list[tuple[Run, Change]]:
    """Tasks whose input failed: they fail too, without being handed out."""
    stopped = []
    for one, handout, _ in found:
        if (given := handout.failed_input) is not None:
            error = given.error or Failure("unknown", "no error was kept", cause=given.promise)
            change = change_of(one.run, handout, Decision(error=error))
            change.failing = False
            stopped.append((one.run, change))
    return stopped


def _pulled_of(found: Sequence[tuple[_Held, Handout, Pulled]]) -> list[Pulled]:
    return [pulled for _, handout, pulled in found if handout.failed_input is None]


def _beat_steps(ticket: Ticket) -> Steps[bool]:
    rows = yield SQL["read_remote"], {"queue": ticket.queue}
    values = {
        "shards": [ticket.shard],
        "keys": [ticket.task],
        "queues": [ticket.queue],
        "passes": [ticket.run],
        "work_timeouts": [(_policy(rows[0][0]) if rows else Policy()).work_timeout],
    }
    return bool((yield KERNEL_SQL["beat_visits"], values))


def _settle(
    run: Run, handout: Handout, answer: Decision | _Failed, shard_count: int, worker_id: UUID
) -> Steps[str]:
    if isinstance(answer, _Failed):
        failures, policy = run.visit.attempt + 1, run.settings.retry
        if answer.retry and failures < policy.attempts:
            text = f"{answer.type}: {answer.message}"
            outcome = Retry(policy.delay(failures), answer.type, text)
            return (yield from settle_steps(run, outcome, worker_id))
        failure = Failure(answer.type, answer.message, cause=handout.task_id)
        answer = Decision(error=failure)
    elif (problem := validate(answer, {given.promise for given in handout.inputs})) is not None:
        raise InvalidDecision(problem.message)
    change = change_of(run, handout, answer)
    change.unneeded = [(handout.process_id, "", f"deadline/{handout.task_id}")]
    return (yield from change_steps(run, change, shard_count, worker_id))


def _failure(type: str, message: str, retry: bool) -> _Failed:
    return _Failed(clean(type, 500), clean(message, 16_000), retry)


def _policy(stored: str) -> Policy:
    try:
        return policy_of(msgspec.json.decode(stored))
    except InvalidSetting:  # made by hand
        return Policy()


def _id_of(worker: str) -> UUID:
    return uuid5(_REMOTE, worker)


def _accepted(answer: str, ticket: Ticket) -> str:
    """Outside the transaction, so that the count of what is refused is kept."""
    if answer == "refused":
        raise Refused(
            f"this attempt at task {ticket.task} of {ticket.queue!r} no longer counts: the task has "
            "ended, was cancelled or restarted, or a newer attempt has it; drop the result"
        )
    return answer


def _busy(ticket: Ticket) -> Refused:
    return Refused(f"task {ticket.task} is being changed and does not come free; send it again")


async def _never(_: Any) -> Any:
    raise AssertionError("nothing is run here")
