"""The steps of settling what actors elsewhere came to: many answers in one commit. No I/O; judged by the
rules of a worker's own decisions, the visit's version the referee (P4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from mainspring import clock
from mainspring.db.sql import Steps, rows, run
from mainspring.errors import InvalidDecision, MainspringError
from mainspring.kernel import (
    KERNEL_SQL,
    Done,
    Outcome,
    Parked,
    Postponed,
    QueueSettings,
    Retry,
    Run,
    SettleAnswer,
    lock_steps,
    settle_values,
)
from mainspring.processes.commit.batch import NotSettled
from mainspring.processes.commit.change import TaskChange, change_of
from mainspring.processes.commit.commit import Commit
from mainspring.processes.commit.task_input import TaskInput, in_background, read_steps
from mainspring.processes.record.decision import Decision, validate
from mainspring.processes.remote.answers import Answer, FailedInput, GivenBack, tells
from mainspring.processes.remote.hidden import read_rule_steps, stored, without_hidden
from mainspring.processes.remote.pull_rows import RemoteActor
from mainspring.processes.remote.pulling import look_steps, stored_policy
from mainspring.processes.remote.ticket import Ticket
from mainspring.processes.run.actor_policy import retry_of, with_stored_timeouts
from mainspring.processes.statements import SQL
from mainspring.processes.structural.not_run import too_late
from mainspring.redact.stored import Rules
from mainspring.retry_policy import RetryPolicy
from mainspring.tasks.declare.promise import Failure
from mainspring.tasks.declare.sealing import Sealing
from mainspring.tasks.run.queue import never_run

_RETRY = RetryPolicy()  # of an actor that this code does not declare


class Settling(NamedTuple):
    """An answer for an attempt."""

    ticket: Ticket
    answer: Answer
    worker_id: UUID

    @property
    def place(self) -> tuple[int, str, str]:
        return (self.ticket.shard, self.ticket.task, self.ticket.queue)


# "accepted", "already" or "refused"; an error: nothing was settled, the ticket stays good; None: send it
# again.
SettledAs = str | MainspringError | None


class AttemptRow(NamedTuple):
    """A row of read_attempts.sql."""

    n: int
    id: UUID
    grp: str | None
    priority: int
    due: float
    version: int
    attempt: int
    crashes: int
    payload: str
    run: int | None  # that holds it

    def counts(self, ticket: Ticket) -> bool:
        """Whether an answer may: for the visit as it was pulled, or held by its run, or settled by it."""
        return self.version in (ticket.version, ticket.run) or self.run == ticket.run


class Prepared(msgspec.Struct):
    """An answer as what it changes: a change of a process, or an outcome of the visit alone."""

    n: int
    run: Run
    worker_id: UUID
    change: TaskChange | None
    outcome: Outcome
    is_doubted: bool  # its run has settled something before
    is_held: bool  # by its run, as it was read


class PreparedBatch(NamedTuple):
    """Answers that are settled together."""

    settled: dict[int, SettledAs]  # those that are judged already
    changes: list[Prepared]
    others: list[Prepared]


def prepare_steps(
    items: Sequence[Settling], retries: Mapping[str, RetryPolicy], sealing: Sealing | None
) -> Steps[PreparedBatch]:
    """Read what the answers are for, and work out what they change. One answer for a visit: others are
    sent again."""
    batch = PreparedBatch({}, [], [])
    known = yield from look_steps(item.ticket.queue for item in items)
    found = yield from rows(
        SQL["read_attempts"],
        AttemptRow,
        shards=[item.ticket.shard for item in items],
        keys=[item.ticket.task for item in items],
        queues=[item.ticket.queue for item in items],
    )
    attempts = {row.n - 1: row for row in found}
    steps = [(item.ticket.process_id, item.ticket.task) for item in items if item.ticket.process_id]
    read = (yield from read_steps(list(dict.fromkeys(steps)))) if steps else []
    task_inputs = {task_input.task_id: task_input for task_input in read}
    taken: set[tuple[int, str, str]] = set()
    settings: dict[tuple[str, bool], QueueSettings] = {}
    rules: Rules | None = None  # read for the first failure
    for n, item in sorted(enumerate(items), key=lambda numbered: numbered[1].place):
        if item.place in taken:
            batch.settled[n] = None
            continue
        taken.add(item.place)
        row = attempts.get(n)
        if row is not None and not row.counts(item.ticket):
            continue  # another attempt was settled since: this one's answer changes nothing
        actor, task_input = known.get(item.ticket.queue), task_inputs.get(item.ticket.task)
        retry = retries.get(item.ticket.queue, _RETRY)
        kind = (item.ticket.queue, not isinstance(item.answer, GivenBack))
        if kind not in settings:  # made and checked once, not for each of a list
            settings[kind] = _settings(kind[0], actor, retry, kind[1])
        made = _run(item.ticket, actor, row, settings[kind])
        if tells(item.answer):
            if rules is None:
                rules = yield from read_rule_steps()
            given = made.visit.payload, task_input
            item = item._replace(
                answer=without_hidden(item.answer, rules, sealing, kind[0], *given)
            )
        try:
            one = _prepared(n, item, made, task_input, row, sealing)
        except MainspringError as error:
            batch.settled[n] = error
            continue
        if one is None:
            continue  # its task is gone
        (batch.others if one.change is None else batch.changes).append(one)
    for n, one in enumerate(batch.changes):
        if one.change is not None and one.change.tasks:
            tasks = yield from with_stored_timeouts(one.change.tasks)
            change = msgspec.structs.replace(one.change, tasks=tasks)
            batch.changes[n] = msgspec.structs.replace(one, change=change)
    return batch


def change_batch_steps(
    batch: Sequence[Prepared], shard_count: int, *, fast: bool
) -> Steps[dict[int, SettledAs]]:
    """Commit the changes of answers and settle their runs: those that counted, and those to be sent again.

    `fast`: as if all counted, which they nearly always do; raises NotSettled where one does not.
    """
    changes = [one.change for one in batch if one.change is not None]
    runs = [one.run for one in batch]
    workers = {one.worker_id for one in batch}
    fast = fast and len(workers) == 1
    fast = fast and all(change.is_plain for change in changes)
    fast = fast and not any(one.is_doubted for one in batch)
    settle = settle_values(runs, batch[0].worker_id) if fast else None
    yield from run(SQL["limit_waits"])
    commit = Commit(changes, shard_count, runs=runs, settle=settle)
    yield from commit.steps()
    settled: dict[int, SettledAs] = {}
    left = []
    for one, verdict in zip(batch, commit.verdicts, strict=True):
        if commit.has_settled:  # not where a process has ended since: then each is looked at
            settled[one.n] = "accepted"
        elif verdict == "locked":
            settled[one.n] = None
        elif not isinstance(verdict, str):
            if verdict is not None:
                one.run.refuse(verdict)
            left.append(one)
    settled |= yield from settle_batch_steps(left)
    return settled


def settle_free_steps(batch: Sequence[Prepared]) -> Steps[dict[int, SettledAs]]:
    """The same for runs whose visits are not locked yet. What somebody has locked holds up no other."""
    settled: dict[int, SettledAs] = {}
    answers = yield from lock_steps([one.run for one in batch])
    free = []
    for one, answer in zip(batch, answers, strict=True):
        if answer == "locked":
            settled[one.n] = None
        else:
            free.append(one)
    return settled | (yield from settle_batch_steps(free))


def settle_batch_steps(batch: Sequence[Prepared]) -> Steps[dict[int, SettledAs]]:
    """Settle runs that change nothing but their visit: those that counted, and those to be sent again.
    Raises NotSettled where another attempt was settled since they were read."""
    settled: dict[int, SettledAs] = {}
    for worker_id in sorted({one.worker_id for one in batch}):
        some = [one for one in batch if one.worker_id == worker_id]
        answers = yield from rows(
            KERNEL_SQL["settle"],
            SettleAnswer,
            **settle_values([one.run for one in some], worker_id),
        )
        named = {answer.n - 1: answer.answer for answer in answers if answer.n}
        for n, one in enumerate(some):
            match named.get(n):
                case "superseded" if not one.is_held:
                    raise NotSettled
                case None | "superseded":
                    settled[one.n] = "accepted"
                case "changed":
                    settled[one.n] = None
                case "settled" if type(one.run.outcome) is Postponed:
                    settled[one.n] = "already"  # by this very run, which history does not know
                case _:
                    pass
    return settled


def judge_steps(items: Sequence[Settling], left: Sequence[int]) -> Steps[dict[int, SettledAs]]:
    """What did not count: taken before by this very run, or refused. What is refused is counted."""
    asked = [items[n] for n in left]
    known = yield from rows(
        SQL["was_answered"],
        int,
        keys=[item.ticket.task for item in asked],
        runs=[item.ticket.run for item in asked],
        started=[item.ticket.started for item in asked],
        are_failures=[not isinstance(item.answer, Decision) for item in asked],
    )
    settled: dict[int, SettledAs] = dict.fromkeys(left, "refused")
    settled |= {left[n - 1]: "already" for n in known}
    late = [items[n].ticket.queue for n in left if settled[n] == "refused"]
    if late:
        yield from run(KERNEL_SQL["count"], actors=late, names=["late_result"] * len(late))
    return settled


def _run(
    ticket: Ticket, actor: RemoteActor | None, row: AttemptRow | None, settings: QueueSettings
) -> Run:
    """The attempt as a run that is settled here."""
    began = clock.local()
    if actor is not None:
        began -= max(0.0, actor.now - ticket.started)
    visit = ticket.visit()
    if row is not None:
        visit = msgspec.structs.replace(
            visit,
            group=row.grp,
            priority=row.priority,
            due=row.due,
            attempt=row.attempt,
            crashes=row.crashes,
            payload=row.payload if str(row.id) == ticket.id else visit.payload,
        )
    return Run(visit, ticket.run, ticket.started, began, settings=settings)


def _settings(
    queue: str, actor: RemoteActor | None, retry: RetryPolicy, is_result: bool
) -> QueueSettings:
    """What is given back must be its own hold."""
    if actor is None:
        return QueueSettings(name=queue, handler=never_run, retry=retry, any_pass=is_result)
    policy = stored_policy(actor.policy)
    return QueueSettings(
        name=queue,
        handler=never_run,
        retry=retry_of(retry, policy),
        any_pass=is_result and policy.accept == "first",
        searchable=tuple(actor.searchable),
    )


def _prepared(
    n: int,
    item: Settling,
    made: Run,
    task_input: TaskInput | None,
    row: AttemptRow | None,
    sealing: Sealing | None,
) -> Prepared | None:
    change = None
    outcome: Outcome | TaskChange
    if not item.ticket.process_id:
        outcome = _plain_outcome(item, made)
    elif task_input is None:
        return None
    else:
        outcome = _step_outcome(item.answer, made, in_background(task_input, made.visit))
    if sealing is not None:
        outcome = stored(sealing, outcome, made.visit.queue)
    if isinstance(outcome, TaskChange):
        change, outcome = outcome, Done()
    made.end(outcome, clock.local())
    doubted = row is None or row.version != item.ticket.version
    held = row is not None and row.run == item.ticket.run
    return Prepared(n, made, item.worker_id, change, outcome, doubted, held)


def _step_outcome(answer: Answer, made: Run, task_input: TaskInput) -> Outcome | TaskChange:
    """What an answer for a step of a process is."""
    if isinstance(answer, GivenBack):
        return Postponed(answer.after, answer.why)
    if isinstance(answer, FailedInput):
        again = _retry(answer, made)
        if again is not None and not too_late(made, again):
            return again
        answer = Decision(error=Failure(answer.type, answer.message, cause=task_input.task_id))
    elif (problem := validate(answer, {given.promise for given in task_input.inputs})) is not None:
        raise InvalidDecision(problem.message)
    unneeded = [(task_input.process_id, "", f"deadline/{task_input.task_id}")]
    return msgspec.structs.replace(change_of(task_input, answer), unneeded=unneeded)


def _plain_outcome(item: Settling, made: Run) -> Outcome:
    """What an answer for a call of its own is."""
    answer = item.answer
    if isinstance(answer, GivenBack):
        return Postponed(answer.after, answer.why)
    if isinstance(answer, FailedInput):
        return _retry(answer, made) or Parked(answer.type, f"{answer.type}: {answer.message}")
    if answer.children or answer.scopes or answer.attrs or answer.returned is not None:
        raise InvalidDecision(
            f"task {item.ticket.task} of {item.ticket.queue!r} belongs to no process: "
            "it can make no tasks; send a result"
        )
    if (problem := validate(answer, ())) is not None:
        raise InvalidDecision(problem.message)
    if answer.error is not None:
        return Parked(answer.error.type, f"{answer.error}")
    return Done(stored_result(answer))


def stored_result(answer: Decision) -> str | None:
    """As a worker stores it: None is no result."""
    return None if answer.result == "null" else answer.result


def _retry(answer: FailedInput, made: Run) -> Retry | None:
    """Failures are counted from the row."""
    failures, policy = made.visit.attempt + 1, made.settings.retry
    if not answer.retry or failures >= policy.attempts:
        return None
    return Retry(policy.delay(failures), answer.type, f"{answer.type}: {answer.message}")


def in_batches(items: Iterable[Prepared], wide: int, widest: int) -> list[list[Prepared]]:
    """Wide decisions are committed by few, as those of a worker."""
    batches: list[list[Prepared]] = []
    size = 0
    for one in items:
        width = 0 if one.change is None else len(one.change.tasks)
        if not batches or size + width > widest or (width > wide and size):
            batches.append([])
            size = 0
        batches[-1].append(one)
        size += width
    return batches
