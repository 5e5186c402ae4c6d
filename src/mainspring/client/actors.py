"""Requests of actors: tasks pulled, kept by beats, settled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from google.protobuf.duration_pb2 import Duration

from mainspring.client.messages import (
    Seconds,
    from_json,
    from_time,
    new_id,
    seconds_of,
    to_json,
    to_span,
)
from mainspring.client.remote_call import RemoteCall
from mainspring.errors import InvalidArguments
from mainspring.v1 import actor_service_pb2 as v1
from mainspring.v1 import body_pb2

MOST_SETTLED = 1000
TOLD_CHARACTERS = 16_000  # of an error: more is not kept
SETTLED = {
    v1.SETTLED_AS_ACCEPTED: "accepted",
    v1.SETTLED_AS_ALREADY: "already",
    v1.SETTLED_AS_REFUSED: "refused",
    v1.SETTLED_AS_INVALID: "invalid",
    v1.SETTLED_AS_BUSY: "busy",
}


@dataclass(frozen=True, slots=True)
class PulledTask:
    """A task that is yours until `held_until`; a beat moves that."""

    ticket: str
    actor: str
    args: Mapping[str, object]
    key: str  # the idempotency key: the same over attempts
    attempt: int  # 1 for the first
    held_until: datetime
    beat_every: float  # seconds
    deadline: datetime | None = None
    process_id: str = ""  # empty: a call of its own
    task_id: str = ""
    # W3C trace context of this attempt; the trace is the id of the process, else of the call.
    trace: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PullReply:
    """What a pull got; `pause`: seconds after which to come again."""

    tasks: list[PulledTask]
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class BeatReply:
    """Until when a task is yours; or why to stop."""

    held_until: datetime | None
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class SettledTask:
    """accepted, already, refused, invalid (nothing was settled, the ticket stays good) or busy (send it
    again)."""

    settled_as: str
    problem: str | None = None

    @property
    def counts(self) -> bool:
        return self.settled_as in ("accepted", "already")


_SETTLED = {number: SettledTask(name) for number, name in SETTLED.items()}
_BUSY = SettledTask("busy")


class TaskProblem(Exception):
    """Raise it to say how a task failed. `final`: no retry. `retry_after`: not tried, due again after so
    long."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "RemoteError",
        final: bool = False,
        retry_after: Seconds | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.final = final
        self.retry_after = retry_after


def completed(ticket: str, result: object = None) -> v1.Settlement:
    """A task has a result."""
    return v1.Settlement(ticket=ticket, result_json=to_json(result))


def failed(ticket: str, error: BaseException) -> v1.Settlement:
    """A task failed with this error."""
    if isinstance(error, TaskProblem):
        after = to_span(error.retry_after)
        problem = body_pb2.Problem(
            code=error.code,
            message=str(error)[:TOLD_CHARACTERS],
            final=error.final,
            retry_after=after,
        )
    else:
        text = str(error) or repr(error)
        problem = body_pb2.Problem(code=type(error).__name__, message=text[:TOLD_CHARACTERS])
    return v1.Settlement(ticket=ticket, failure=problem)


def released(ticket: str) -> v1.Settlement:
    """A task is given back untried."""
    return v1.Settlement(ticket=ticket, release=v1.Release())


def pull(
    actors: Sequence[str] | str,
    limit: int,
    wait: Seconds,
    worker: str,
    pull_id: str | None,
    again: bool,
) -> RemoteCall[PullReply]:
    """Take tasks. Not sent again by itself: whoever does says `again`."""
    call = pull_as_it_comes(actors, limit, wait, worker, pull_id, again)
    return RemoteCall(call.method, call.request, call.answer, _pulled, call.wait, call.repeatable)


def pull_as_it_comes(
    actors: Sequence[str] | str,
    limit: int,
    wait: Seconds,
    worker: str,
    pull_id: str | None,
    again: bool,
) -> RemoteCall[v1.PullTasksResponse]:
    """The same, its answer as a message: not each task of a long list is looked at in all its parts."""
    names = [actors] if isinstance(actors, str) else list(actors)
    return RemoteCall(
        "ActorService/PullTasks",
        v1.PullTasksRequest(
            actors=names,
            limit=limit,
            wait=to_span(wait or None),
            worker=worker,
            pull_id=pull_id or new_id(),
            again=again,
        ),
        v1.PullTasksResponse,
        _as_it_comes,
        seconds_of(wait),
        repeatable=again,
    )


def beat(tickets: Sequence[str]) -> RemoteCall[list[BeatReply]]:
    """Keep tasks in work."""
    return RemoteCall(
        "ActorService/BeatTasks",
        v1.BeatTasksRequest(tickets=tickets),
        v1.BeatTasksResponse,
        lambda answer: [
            BeatReply(from_time(one, "held_until"), one.stop or None) for one in answer.beaten
        ],
    )


def settle(settlements: Iterable[v1.Settlement], worker: str) -> RemoteCall[list[SettledTask]]:
    """Say what tasks came to."""
    listed = list(settlements)
    if not 1 <= len(listed) <= MOST_SETTLED:
        raise InvalidArguments(f"settle takes 1 to {MOST_SETTLED} tasks at once, got {len(listed)}")
    return RemoteCall(
        "ActorService/SettleTasks",
        v1.SettleTasksRequest(worker=worker, settlements=listed),
        v1.SettleTasksResponse,
        lambda answer: [
            SettledTask(SETTLED.get(one.settled_as, "busy"), one.problem.message)
            if one.HasField("problem")
            else _SETTLED.get(one.settled_as, _BUSY)
            for one in answer.settled
        ],
    )


def _as_it_comes(answer: v1.PullTasksResponse) -> v1.PullTasksResponse:
    return answer


def _pulled(answer: v1.PullTasksResponse) -> PullReply:
    return PullReply([pulled_task(task) for task in answer.tasks], span_seconds(answer.pause))


def pulled_task(task: v1.PulledTask) -> PulledTask:
    """A task as it is handed to a function."""
    return PulledTask(
        task.ticket,
        task.actor,
        from_json(task.args_json),
        task.idempotency_key,
        task.attempt,
        task.held_until.ToDatetime(tzinfo=UTC),
        span_seconds(task.beat_every),
        from_time(task, "deadline"),
        task.process_id,
        task.task_id,
        dict(task.trace),
    )


def span_seconds(span: Duration) -> float:
    return float(span.seconds + span.nanos / 1e9)
