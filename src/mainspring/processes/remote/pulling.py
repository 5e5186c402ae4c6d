"""The steps of pulling tasks and answering for them: statements and judgements, no I/O. See remote.py."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID, uuid5

import msgspec

from mainspring.db.steps import Steps, first, one, rows
from mainspring.errors import InvalidDecision, InvalidSetting, NotFound, Refused
from mainspring.failure_text import clean_text
from mainspring.kernel import KERNEL_SQL, QueueSettings, Retry, Run, Visit
from mainspring.processes.commit.change import TaskChange, change_of
from mainspring.processes.commit.commit import change_steps, settle_steps
from mainspring.processes.commit.task_input import TaskInput
from mainspring.processes.record.decision import Decision, validate
from mainspring.processes.remote.ticket import Pulled, Ticket
from mainspring.processes.run.actor_policy import with_stored_timeouts
from mainspring.processes.statements import SQL
from mainspring.processes.structural.not_run import stopped
from mainspring.tasks.declare.policy import Policy, policy_of
from mainspring.tasks.declare.promise import Failure
from mainspring.tasks.run.queue import never_run

MOST = 1000  # tasks pulled at once
# By which payloads of processes' visits are known, and their task timeouts (visits.py, `Payload`).
PULLED = {"mark": "@", "until": "deadline"}
# A long poll looks this often (seconds): soon at first, then ever more rarely.
POLLS = (0.02, 0.05, 0.1, 0.2, 0.5)
_REMOTE = UUID("5f3b2f0c-3a53-4d0c-9a0e-6f1d2c7b8a90")  # under which history knows actors elsewhere


class HeldTask(msgspec.Struct):
    """A visit that was just held."""

    run: Run
    held_until: datetime


class RemoteActor(NamedTuple):
    """A row of read_remote.sql."""

    policy: str  # JSON
    paused: bool
    served: bool  # by workers themselves
    limited: bool
    now: float


class PulledVisit(NamedTuple):
    """A row of pull_visits.sql: a visit as a run reads it, and its run."""

    shard: int
    key: str
    queue: str
    id: UUID
    grp: str | None
    priority: int
    due: float
    version: int
    attempt: int
    crashes: int
    expires_at: datetime | None
    payload: str
    run: int
    started: float
    held_until: datetime

    @property
    def visit(self) -> Visit:
        return Visit(*self[:12])


class RoomLeft(NamedTuple):
    """A row of count_room.sql."""

    room: int | None  # None: the limits were lifted a moment ago


class BeatVisit(NamedTuple):
    """A row of beat_visits.sql."""

    run: int
    held_until: datetime


class FailedInput(msgspec.Struct, frozen=True):
    type: str
    message: str
    retry: bool


def check_pull(limit: int, wait: float) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise InvalidSetting(f"limit must be 1 to {MOST}, got {limit!r}")
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= 3600:
        raise InvalidSetting(f"wait must be 0 to 3600 seconds, got {wait!r}")


def next_pause(deadline: float, polls: int) -> float | None:
    left = deadline - time.monotonic()
    return None if left <= 0 else min(left, POLLS[min(polls, len(POLLS) - 1)])


def pull_steps(actor: str, limit: int) -> Steps[list[HeldTask]]:
    found = yield from first(SQL["read_remote"], RemoteActor, queue=actor)
    if found is None:
        raise NotFound(f"no actor is named {actor!r}: declare it with @app.task(remote=True)")
    if found.served:
        raise InvalidSetting(
            f"workers run {actor!r} themselves; to pull its tasks, declare it with remote=True"
        )
    if found.paused:
        return []
    most = (yield from _room(actor, limit)) if found.limited else limit
    if most <= 0:
        return []
    work_timeout = stored_policy(found.policy).work_timeout
    pulled = yield from rows(
        KERNEL_SQL["pull_visits"],
        PulledVisit,
        queue=actor,
        most=most,
        work_timeout=work_timeout,
        **PULLED,
    )
    settings = QueueSettings(name=actor, handler=never_run)
    return [
        HeldTask(Run(held.visit, held.run, held.started, 0.0, settings=settings), held.held_until)
        for held in pulled
    ]


def _room(actor: str, limit: int) -> Steps[int]:
    """How many may be pulled: counted under a lock, by a statement that began when it was there."""
    yield KERNEL_SQL["lock_queue"], {"queue": actor}
    found = yield from one(SQL["count_room"], RoomLeft, queue=actor)
    return limit if found.room is None else min(limit, found.room)


def stopped_of(
    found: Sequence[tuple[HeldTask, TaskInput, Pulled]],
) -> list[tuple[Run, TaskChange]]:
    """Tasks whose input failed: they fail too, without being handed out."""
    ended = []
    for held, task_input, _ in found:
        if (given := task_input.failed_input) is not None:
            ended.append((held.run, stopped(task_input, given.promise, given.error)))
    return ended


def pulled_of(found: Sequence[tuple[HeldTask, TaskInput, Pulled]]) -> list[Pulled]:
    return [pulled for _, task_input, pulled in found if task_input.failed_input is None]


def beat_steps(ticket: Ticket) -> Steps[str]:
    """Move the recovery time of an attempt: "kept", or "stop" if it counts no longer. "busy": somebody
    has the row, and nothing is known; beat again soon, and go on meanwhile."""
    actor = yield from first(SQL["read_remote"], RemoteActor, queue=ticket.queue)
    policy = Policy() if actor is None else stored_policy(actor.policy)
    kept = yield from first(
        KERNEL_SQL["beat_visits"],
        BeatVisit,
        shards=[ticket.shard],
        keys=[ticket.task],
        queues=[ticket.queue],
        passes=[ticket.run],
        work_timeouts=[policy.work_timeout],
    )
    if kept is not None:
        return "kept"
    held = yield from one(
        SQL["has_pass"],
        bool,
        shard=ticket.shard,
        key=ticket.task,
        queue=ticket.queue,
        run=ticket.run,
    )
    return "busy" if held else "stop"


def settle_answer(
    run: Run,
    task_input: TaskInput,
    answer: Decision | FailedInput,
    shard_count: int,
    worker_id: UUID,
) -> Steps[str]:
    if isinstance(answer, FailedInput):
        failures, policy = run.visit.attempt + 1, run.settings.retry
        if answer.retry and failures < policy.attempts:
            text = f"{answer.type}: {answer.message}"
            outcome = Retry(policy.delay(failures), answer.type, text)
            return (yield from settle_steps(run, outcome, worker_id))
        failure = Failure(answer.type, answer.message, cause=task_input.task_id)
        answer = Decision(error=failure)
    elif (problem := validate(answer, {given.promise for given in task_input.inputs})) is not None:
        raise InvalidDecision(problem.message)
    change = change_of(task_input, answer)
    change = msgspec.structs.replace(
        change,
        tasks=(yield from with_stored_timeouts(change.tasks)),
        unneeded=[(task_input.process_id, "", f"deadline/{task_input.task_id}")],
    )
    return (yield from change_steps(run, change, shard_count, worker_id))


def failed(type: str, message: str, retry: bool) -> FailedInput:
    return FailedInput(clean_text(type, 500), clean_text(message, 16_000), retry)


def stored_policy(stored: str) -> Policy:
    try:
        return policy_of(msgspec.json.decode(stored))
    except InvalidSetting:  # made by hand
        return Policy()


def id_of(worker: str) -> UUID:
    return uuid5(_REMOTE, worker)


def accepted(answer: str, ticket: Ticket) -> str:
    """Outside the transaction, so that the count of what is refused is kept."""
    if answer == "refused":
        raise Refused(
            f"this attempt at task {ticket.task} of {ticket.queue!r} no longer counts: the task has "
            "ended, was cancelled or restarted, or a newer attempt has it; drop the result"
        )
    return answer


def busy(ticket: Ticket) -> Refused:
    return Refused(f"task {ticket.task} is being changed and does not come free; send it again")
