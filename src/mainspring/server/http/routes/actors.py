"""Routes of actors elsewhere: they come for tasks, keep them by beats, answer with tickets.

One call of each carries tasks of many actors, so their names stand in the body.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from mainspring.server.handlers import checks
from mainspring.server.handlers.actors import MOST_ACTORS, MOST_TASKS, MOST_TICKETS
from mainspring.server.http.problems import HttpRefused
from mainspring.server.http.routes import values
from mainspring.server.http.routes.route import AnyRoute, HttpAsked, NoQuery, Route, Told
from mainspring.v1 import actor_service_pb2 as messages
from mainspring.v1 import body_pb2

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=checks.ID_BYTES)]


class PullOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Whose tasks, and how many are free to be done.

    `pull_id` is made by the caller for this pull; `again`: the answer to it was lost, the same are given.
    """

    actors: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MOST_ACTORS)]
    pull_id: Id
    worker: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_TASKS)] = 1
    wait: values.Wait = 0.0
    again: bool = False


class TaskInHand(msgspec.Struct):
    """A task that was pulled. It is its caller's until `held_until`; beats move that."""

    ticket: str
    actor: str
    process_id: str
    task_id: str
    args: msgspec.Raw
    idempotency_key: str
    attempt: int
    held_until: datetime | None
    beat_every: float
    deadline: datetime | None
    trace: dict[str, str]


class TasksInHand(msgspec.Struct):
    """What was pulled. Come again after `pause` seconds."""

    tasks: list[TaskInHand]
    pause: float


class BeatOrder(msgspec.Struct, forbid_unknown_fields=True):
    """The tickets of tasks that are still in work."""

    tickets: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MOST_TICKETS)]


class BeatTold(msgspec.Struct):
    """Until when the task is the caller's; or why it no longer is: gone, overtaken or cancelled."""

    held_until: datetime | None
    stop: str | None


class BeatsTold(msgspec.Struct):
    """In the order of the tickets."""

    beats: list[BeatTold]


class GivenFailure(msgspec.Struct, forbid_unknown_fields=True):
    """Why a task failed. `final`: it is not tried again. `retry_after`: it is, so many seconds later."""

    code: str
    message: str = ""
    final: bool = False
    retry_after: values.Seconds | None = None


class TicketSettled(msgspec.Struct, forbid_unknown_fields=True):
    """What a task came to: a result, a decision, a failure; or it is given back (`release`)."""

    ticket: str
    result: msgspec.Raw = msgspec.field(default_factory=values.nothing)
    decision: msgspec.Raw = msgspec.field(default_factory=values.nothing)
    failure: GivenFailure | None = None
    release: bool = False


class SettleOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What tasks came to."""

    settlements: Annotated[list[TicketSettled], msgspec.Meta(min_length=1, max_length=MOST_TICKETS)]
    worker: str = ""


class SettlementTold(msgspec.Struct):
    """What became of an answer: `already` was settled by the same run; `refused` counts no longer."""

    settled_as: Literal["accepted", "already", "refused", "invalid", "busy"]
    problem: values.CallFailure | None


class SettlementsTold(msgspec.Struct):
    """In the order of the request."""

    settled: list[SettlementTold]


def _ask_pull(asked: HttpAsked[PullOrder, NoQuery]) -> messages.PullTasksRequest:
    body = asked.body
    return messages.PullTasksRequest(
        actors=body.actors,
        limit=body.limit,
        wait=values.duration(body.wait),
        worker=body.worker,
        pull_id=body.pull_id,
        again=body.again,
    )


def _tell_pull(asked: HttpAsked[PullOrder, NoQuery], response: messages.PullTasksResponse) -> Told:
    return Told(
        200, TasksInHand(list(map(_in_hand, response.tasks)), values.seconds_of(response.pause))
    )


def _in_hand(task: messages.PulledTask) -> TaskInHand:
    return TaskInHand(
        task.ticket,
        task.actor,
        task.process_id,
        task.task_id,
        values.raw_json(task.args_json or "null"),
        task.idempotency_key,
        task.attempt,
        values.moment_of(task.held_until) if task.HasField("held_until") else None,
        values.seconds_of(task.beat_every),
        values.moment_of(task.deadline) if task.HasField("deadline") else None,
        dict(task.trace),
    )


def _ask_beat(asked: HttpAsked[BeatOrder, NoQuery]) -> messages.BeatTasksRequest:
    return messages.BeatTasksRequest(tickets=asked.body.tickets)


def _tell_beat(asked: HttpAsked[BeatOrder, NoQuery], response: messages.BeatTasksResponse) -> Told:
    return Told(
        200,
        BeatsTold(
            [
                BeatTold(values.moment_of(beaten.held_until), None)
                if beaten.WhichOneof("answer") == "held_until"
                else BeatTold(None, beaten.stop)
                for beaten in response.beaten
            ]
        ),
    )


def _ask_settle(asked: HttpAsked[SettleOrder, NoQuery]) -> messages.SettleTasksRequest:
    return messages.SettleTasksRequest(
        worker=asked.body.worker,
        settlements=[
            _settlement(f"settlements[{n}]", given)
            for n, given in enumerate(asked.body.settlements)
        ],
    )


def _settlement(at: str, given: TicketSettled) -> messages.Settlement:
    result, decision = values.json_text(given.result), values.json_text(given.decision)
    if sum(map(bool, (result, decision, given.failure, given.release))) != 1:
        raise HttpRefused(
            422,
            "invalid_request",
            f"{at} must have one of result, decision, failure and release",
            field=at,
        )
    found = messages.Settlement(ticket=given.ticket)
    if result:
        found.result_json = result
    elif decision:
        found.decision_json = decision
    elif given.failure is not None:
        found.failure.CopyFrom(
            body_pb2.Problem(
                code=given.failure.code,
                message=given.failure.message,
                final=given.failure.final,
                retry_after=values.duration(given.failure.retry_after),
            )
        )
    else:
        found.release.SetInParent()
    return found


def _tell_settle(
    asked: HttpAsked[SettleOrder, NoQuery], response: messages.SettleTasksResponse
) -> Told:
    return Told(
        200,
        SettlementsTold(
            [
                SettlementTold(
                    _WORDS[one.settled_as],
                    values.failure(one.problem) if one.HasField("problem") else None,
                )
                for one in response.settled
            ]
        ),
    )


_WORDS: dict[int, Literal["accepted", "already", "refused", "invalid", "busy"]] = {
    messages.SETTLED_AS_ACCEPTED: "accepted",
    messages.SETTLED_AS_ALREADY: "already",
    messages.SETTLED_AS_REFUSED: "refused",
    messages.SETTLED_AS_INVALID: "invalid",
    messages.SETTLED_AS_BUSY: "busy",
}

ROUTES: list[AnyRoute] = [
    Route(
        "POST",
        "/v1/actors/pull",
        "pullTasks",
        "Take tasks of actors; with `wait` the answer comes with the first of them.",
        "ActorService/PullTasks",
        _ask_pull,
        _tell_pull,
        {200: ("Tasks, or none.", TasksInHand)},
        NoQuery,
        PullOrder,
    ),
    Route(
        "POST",
        "/v1/actors/beat",
        "beatTasks",
        "Keep tasks in work.",
        "ActorService/BeatTasks",
        _ask_beat,
        _tell_beat,
        {200: ("Until when each is the caller's.", BeatsTold)},
        NoQuery,
        BeatOrder,
    ),
    Route(
        "POST",
        "/v1/actors/settle",
        "settleTasks",
        "Say what tasks came to.",
        "ActorService/SettleTasks",
        _ask_settle,
        _tell_settle,
        {200: ("What became of each answer.", SettlementsTold)},
        NoQuery,
        SettleOrder,
    ),
]
