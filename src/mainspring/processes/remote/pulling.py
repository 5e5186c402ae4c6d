"""The steps of pulling tasks: statements and judgements, no I/O. line.py says who asks, and when.

A task is held, with its recovery time, before it is handed out. The pass of a hold follows from the id
of the pull and the version of the visit: so whoever lost the answer can ask for the same tasks again,
anywhere.
"""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID, uuid5

import msgspec

from mainspring.db.sql import Steps, one, quoted, rows, run
from mainspring.errors import InvalidArguments, InvalidSetting, MainspringError, NotFound
from mainspring.ids import token
from mainspring.kernel import KERNEL_SQL, Expired, QueueSettings, Run, Visit, settle_values
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.sealed import opened_input
from mainspring.processes.commit.task_input import TaskInput, in_background, read_steps
from mainspring.processes.commit.visits import is_process_visit, payload_of
from mainspring.processes.declare.versions import Versions
from mainspring.processes.record.arguments import fill
from mainspring.processes.record.sealed_values import opened_value
from mainspring.processes.remote.pull_rows import (
    FreeVisit,
    Hold,
    PulledVisit,
    RemoteActor,
    Returned,
    RoomLeft,
)
from mainspring.processes.remote.seal import Seals
from mainspring.processes.remote.ticket import Pulled, Ticket, sealed
from mainspring.processes.statements import SQL
from mainspring.processes.structural.not_run import stopped
from mainspring.tasks.declare.policy import Policy, policy_of
from mainspring.tasks.declare.sealing import Sealing
from mainspring.tasks.run.queue import never_run

log = logging.getLogger("mainspring")
MOST = 1000  # tasks pulled at once
MOST_HELD = 500  # of one actor by one statement
# By which payloads of processes' visits are known, and their task timeouts (visits.py, `Payload`).
LEFT = {"mark": "@", "until": "deadline"}
BEATS = 3  # in a work timeout
# Of the arguments of the tasks that one pull is answered. gRPC takes 4 MB in most languages; what is
# refused there would be asked for again for ever.
ANSWER_BYTES = 3_000_000
_REMOTE = UUID("5f3b2f0c-3a53-4d0c-9a0e-6f1d2c7b8a90")  # under which history knows actors elsewhere


class PullAsk(NamedTuple):
    """A pull: whose tasks, how many, and under which id."""

    actors: tuple[str, ...]
    limit: int
    pull_id: str


class HeldTask(msgspec.Struct):
    """A visit that is held for a pull, by its place among those that ask."""

    visit: Visit
    hold: Hold
    held_until: datetime
    asked: int

    @property
    def run(self) -> Run:
        """The attempt as a run, for what ends without being handed out."""
        visit, hold = self.visit, self.hold
        return Run(visit, hold.run, hold.started, 0.0, settings=_settings(visit.queue))


class DealtTask(NamedTuple):
    """A task that is handed out."""

    held: HeldTask
    pulled: Pulled
    size: int  # bytes of its arguments
    is_simple: bool  # its result alone may be written: nothing else must be known of it


class Dealt(NamedTuple):
    """What one look came to: tasks by the pull that gets them, and those that end without being handed
    out."""

    tasks: list[DealtTask]
    ended: list[tuple[Run, TaskChange]]


def pass_of(pull_id: str, version: int) -> int:
    """The pass of a visit that is held for a pull; pull_again.sql has the same in SQL."""
    digest = hashlib.sha256(f"{pull_id}{version}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def check_pull(limit: int, wait: float) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise InvalidSetting(f"limit must be 1 to {MOST}, got {limit!r}")
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= 3600:
        raise InvalidSetting(f"wait must be 0 to 3600 seconds, got {wait!r}")


def look_steps(actors: Iterable[str]) -> Steps[dict[str, RemoteActor]]:
    """Actors as they stand, by name."""
    found = yield from rows(SQL["read_remote"], RemoteActor, queues=sorted(set(actors)))
    return {actor.name: actor for actor in found}


def not_pulled(actors: Iterable[str], known: Mapping[str, RemoteActor]) -> MainspringError | None:
    """Why nobody can pull these actors' tasks, if so."""
    for name in actors:
        if name not in known:
            return NotFound(f"no actor is named {name!r}: declare it with @app.task(remote=True)")
        if known[name].served:
            return InvalidSetting(
                f"workers run {name!r} themselves; to pull its tasks, declare it with remote=True"
            )
    return None


def hold_steps(asked: Sequence[PullAsk], known: Mapping[str, RemoteActor]) -> Steps[list[HeldTask]]:
    """Hold for all who ask what is due, in one transaction: most urgent first, shared out in turn."""
    wanted: dict[str, int] = {}
    for asking in asked:
        for name in asking.actors:
            wanted[name] = min(MOST_HELD, wanted.get(name, 0) + asking.limit)
    for name in sorted(wanted):
        actor = known[name]
        if actor.paused or not actor.has_due:
            del wanted[name]
        elif actor.limited:
            wanted[name] = yield from _room(name, wanted[name])
    most = {name: count for name, count in wanted.items() if count > 0}
    if not most:
        return []
    free = yield from rows(
        KERNEL_SQL["pull_visits"],
        FreeVisit,
        queues=list(most),
        most=list(most.values()),
        **LEFT,
    )
    expired = [visit for visit in free if visit.is_expired]
    if expired:
        yield from _expire(expired)
    dealt = deal([visit for visit in free if not visit.is_expired], asked)
    if not dealt:
        return []
    timeouts = {name: stored_policy(known[name].policy).work_timeout for name in most}
    passes = [pass_of(asked[n].pull_id, visit.version) for visit, n in dealt]
    holds = yield from rows(
        KERNEL_SQL["hold_pulled"],
        Hold,
        addresses=quoted([visit.address for visit, _ in dealt]),
        versions=[visit.version for visit, _ in dealt],
        passes=passes,
        work_timeouts=[timeouts[visit.queue] for visit, _ in dealt],
    )
    by_pass = {hold.run: hold for hold in holds}
    return [
        HeldTask(visit.visit, hold, hold.held_until.astimezone(UTC), n)
        for (visit, n), held in zip(dealt, passes, strict=True)
        if (hold := by_pass.get(held)) is not None
    ]


def deal(visits: Sequence[FreeVisit], asked: Sequence[PullAsk]) -> list[tuple[FreeVisit, int]]:
    """Which visit goes to which pull: the most urgent first, to those who ask in turn."""
    room = [asking.limit for asking in asked]
    turns: dict[str, deque[int]] = {}
    for n, asking in enumerate(asked):
        for name in asking.actors:
            turns.setdefault(name, deque()).append(n)
    dealt = []
    for visit in sorted(visits, key=lambda v: (-v.priority, v.due, v.key)):
        turn = turns[visit.queue]
        while turn and not room[turn[0]]:
            turn.popleft()
        if turn:
            n = turn.popleft()
            room[n] -= 1
            turn.append(n)
            dealt.append((visit, n))
    return dealt


def again_steps(asking: PullAsk, known: Mapping[str, RemoteActor]) -> Steps[list[HeldTask]]:
    """What a pull holds whose answer was lost."""
    held = yield from rows(
        KERNEL_SQL["pull_again"],
        PulledVisit,
        queues=list(asking.actors),
        work_timeouts=[stored_policy(known[name].policy).work_timeout for name in asking.actors],
        pull_id=asking.pull_id,
    )
    return [
        HeldTask(
            h.visit,
            Hold(h.run, h.started, h.held_until, h.address),
            h.held_until.astimezone(UTC),
            0,
        )
        for h in held
    ]


def give_back_steps(held: Sequence[HeldTask]) -> Steps[None]:
    """Nobody was there any more to take these: they are as they were."""
    freed = yield from rows(
        KERNEL_SQL["give_back"],
        Returned,
        shards=[one.visit.shard for one in held],
        keys=[one.visit.key for one in held],
        queues=[one.visit.queue for one in held],
        passes=[one.hold.run for one in held],
        held_untils=[one.held_until for one in held],
    )
    if ended := [visit for visit in freed if visit.called_off]:
        yield from run(
            KERNEL_SQL["end_called_off"],
            shards=[visit.shard for visit in ended],
            keys=[visit.key for visit in ended],
            queues=[visit.queue for visit in ended],
        )


def load_steps(
    held: Sequence[HeldTask],
    known: Mapping[str, RemoteActor],
    versions: Versions,
    seals: Seals,
    url: str,
    sealing: Sealing | None,
) -> Steps[Dealt]:
    """What the tasks are run with, opened where it was encrypted: actors elsewhere have no cipher. A visit
    without its task stays held: the look finds it. So does one that this code cannot read, until its work
    timeout: others may be able to."""
    yield from seals.read(url)
    visits = [one.visit for one in held if is_process_visit(one.visit)]
    read: list[TaskInput] = []
    if visits:
        read = yield from read_steps(
            [(payload_of(visit).process_id, visit.key) for visit in visits]
        )
    task_inputs = {task_input.task_id: task_input for task_input in read}
    dealt = Dealt([], [])
    for held_task in held:
        visit, args, task_input = held_task.visit, held_task.visit.payload, None
        if is_process_visit(visit):
            if (found := task_inputs.get(visit.key)) is None:
                continue
            task_input = in_background(found, visit)
            if (given := task_input.failed_input) is not None:
                # It fails too, without being handed out.
                dealt.ended.append((held_task.run, stopped(task_input, given.promise, given.error)))
                continue
        try:
            if task_input is None:
                args = opened_value(sealing, args, f"the payload of task {visit.queue!r}")
            else:
                task_input = opened_input(sealing, task_input)
                text = versions.upcast(visit.queue, task_input.args_version, task_input.args)
                args = fill(text, task_input.inputs)
            actor = known[visit.queue]
            pulled = _pulled(held_task, task_input, args, actor, seals)
            # History is to have searchable arguments, and limits count its rows.
            simple = task_input is None and not (actor.searchable or actor.limited)
            dealt.tasks.append(DealtTask(held_task, pulled, bytes_of(args), simple))
        except InvalidArguments as error:
            facts = {"actor": visit.queue, "task": visit.key}
            log.warning("task.not_pulled", extra={**facts, "error": str(error)})
    return dealt


def bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def fitting(tasks: Sequence[DealtTask]) -> int:
    """How many of the first of these fit into one answer; one at least, if there is any."""
    size = 0
    for n, task in enumerate(tasks):
        size += task.size
        if n and size > ANSWER_BYTES:
            return n
    return len(tasks)


@lru_cache(maxsize=1000)  # each task of a pull asks
def stored_policy(stored: str) -> Policy:
    """What a queue's row says."""
    try:
        return policy_of(msgspec.json.decode(stored))
    except InvalidSetting:  # made by hand
        return Policy()


def id_of(worker: str) -> UUID:
    return uuid5(_REMOTE, worker)


def _room(actor: str, limit: int) -> Steps[int]:
    """How many may be pulled: counted under a lock, by a statement that began when it was there."""
    yield from run(KERNEL_SQL["lock_queue"], queue=actor)
    found = yield from one(SQL["count_room"], RoomLeft, queue=actor)
    return limit if found.room is None else min(limit, found.room)


def _expire(visits: Sequence[FreeVisit]) -> Steps[None]:
    """Calls that are not to be started any more end, as a worker would end them."""
    ended = [
        Run(
            found.visit, token(), found.now, 0.0, outcome=Expired(), settings=_settings(found.queue)
        )
        for found in sorted(visits, key=lambda v: (v.shard, v.key, v.queue))
    ]
    yield from run(KERNEL_SQL["settle"], **settle_values(ended, None))


@lru_cache(maxsize=1000)
def _settings(queue: str) -> QueueSettings:
    return QueueSettings(name=queue, handler=never_run)


def _pulled(
    held: HeldTask, task_input: TaskInput | None, args: str, actor: RemoteActor, seals: Seals
) -> Pulled:
    visit, hold = held.visit, held.hold
    process_id = "" if task_input is None else task_input.process_id
    id = str(visit.id)
    ticket = Ticket(
        visit.queue, visit.shard, process_id, visit.key, id, visit.version,
        hold.run, hold.started, visit.priority, visit.group,
    )  # fmt: skip
    deadline = None if task_input is None else payload_of(visit).deadline
    return Pulled(
        sealed(ticket, seals), visit.queue, process_id, visit.key, args, id,
        visit.attempt + 1, held.held_until, stored_policy(actor.policy).work_timeout / BEATS,
        deadline,
    )  # fmt: skip
