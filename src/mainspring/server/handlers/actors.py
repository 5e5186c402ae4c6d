"""ActorService: actors elsewhere pull tasks, keep them by beats, and say what they came to (P3, P4).

The desk (processes/remote) does it, as it does for `app.remote`; here are the messages and who may send
them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

import msgspec
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from mainspring.errors import InvalidRequest, MainspringError
from mainspring.processes.record.decision import Decision
from mainspring.processes.remote.answers import Answer, GivenBack, failed
from mainspring.processes.remote.beating import Beaten
from mainspring.processes.remote.desk import Desk, checked
from mainspring.processes.remote.pulling import PullAsk, id_of
from mainspring.processes.remote.settling import SettledAs, Settling
from mainspring.processes.remote.ticket import Pulled, Ticket
from mainspring.server.access.caller import Caller
from mainspring.server.handlers import checks
from mainspring.server.handlers.refusals import refusals
from mainspring.server.handlers.store import Store
from mainspring.trace_context import trace_context
from mainspring.v1 import actor_service_pb2 as v1
from mainspring.v1 import body_pb2

log = logging.getLogger("mainspring")
MOST_ACTORS = 20
MOST_TASKS = 100
MOST_TICKETS = 1000
TASK_BYTES = 15 * 1024 * 1024  # of the 16 MB of an answer
_SETTLED = {
    "accepted": v1.SETTLED_AS_ACCEPTED,
    "already": v1.SETTLED_AS_ALREADY,
    "refused": v1.SETTLED_AS_REFUSED,
}


class ActorCalls:
    """The service's calls."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made: Desk | None = None

    @property
    def _desk(self) -> Desk:
        if self._made is None:  # in the loop of the first call
            self._made = self._store.app.remote.desk(stays=True)
        return self._made

    async def close(self) -> None:
        """End the waiting pulls with nothing; commit the answers that are here."""
        if self._made is not None:
            await self._made.close()

    async def pull_tasks(
        self, caller: Caller, request: v1.PullTasksRequest
    ) -> v1.PullTasksResponse:
        """Tasks for an actor; waits for the first. A caller who goes gives back what was held for him."""
        checks.count("actors", request.actors, MOST_ACTORS)
        for n, actor in enumerate(request.actors):
            caller.check("pull", checks.text(f"actors[{n}]", actor))
        checks.no_twice("actors", request.actors)
        if not 1 <= request.limit <= MOST_TASKS:
            raise InvalidRequest("limit", f"must be 1 to {MOST_TASKS}, got {request.limit}")
        checks.optional_text("worker", request.worker)
        pull_id = checks.text("pull_id", request.pull_id, checks.ID_BYTES)
        wait = checks.wait_of(request, request.wait)
        asking = PullAsk(tuple(request.actors), request.limit, pull_id)
        with refusals():
            found = await self._desk.pull(asking, wait, again=request.again)
        times: dict[datetime, Timestamp] = {}  # few are different
        spans: dict[float, Duration] = {}
        tasks = [_task(task, times, spans) for task in found.tasks]
        answer = v1.PullTasksResponse(tasks=[task for task in tasks if _fits(task)])
        if found.pause is not None:
            answer.pause.FromMilliseconds(int(found.pause * 1000))
        return answer

    async def beat_tasks(
        self, caller: Caller, request: v1.BeatTasksRequest
    ) -> v1.BeatTasksResponse:
        """Keep tasks in work: until when, or why to stop."""
        tickets = await self._opened(caller, "tickets[{}]", request.tickets)
        with refusals():
            beaten = await self._desk.beat(tickets)
        return v1.BeatTasksResponse(beaten=map(_beaten, beaten))

    async def settle_tasks(
        self, caller: Caller, request: v1.SettleTasksRequest
    ) -> v1.SettleTasksResponse:
        """What tasks came to; each answer is judged for itself."""
        worker = id_of(checks.optional_text("worker", request.worker) or caller.name)
        given = request.settlements
        tickets = await self._opened(
            caller, "settlements[{}].ticket", [settlement.ticket for settlement in given]
        )
        settled: dict[int, SettledAs] = {}
        items: dict[int, Settling] = {}
        for n, (settlement, ticket) in enumerate(zip(given, tickets, strict=True)):
            try:
                answer = self._answer(f"settlements[{n}].", settlement, ticket)
                items[n] = Settling(ticket, answer, worker)
            except MainspringError as error:
                settled[n] = error
        with refusals():
            found = await self._desk.settle(list(items.values()))
        settled |= dict(zip(items, found, strict=True))
        return v1.SettleTasksResponse(settled=[_settled(settled[n]) for n in range(len(given))])

    async def _opened(self, caller: Caller, place: str, texts: Sequence[str]) -> list[Ticket]:
        """Tickets that this installation made, all of actors that the caller may pull."""
        checks.count(place.partition("[")[0], texts, MOST_TICKETS)
        with refusals():
            opened = await self._desk.open(texts)
        found = []
        for n, ticket in enumerate(opened):
            if ticket is None:
                raise InvalidRequest(
                    place.format(n),
                    "is no ticket: send the text that PullTasks answered, as it was",
                )
            caller.check("pull", ticket.queue)
            found.append(ticket)
        return found

    def _answer(self, at: str, settlement: v1.Settlement, ticket: Ticket) -> Answer:
        """What is said of a task; raises where nothing can be settled by it."""
        match settlement.WhichOneof("result"):
            case "result_json":
                text = settlement.result_json
                checks.json_of(f"{at}result_json", text)
                return checked(self._store.app.remote.host, ticket.queue, text)
            case "decision_json":
                return _decision(f"{at}decision_json", settlement.decision_json)
            case "failure":
                return _failure(at, settlement.failure)
            case "release":
                return GivenBack()
            case _:
                raise InvalidRequest(f"{at}result", "is not set: say what the task came to")


def _decision(field: str, text: str) -> Decision:
    checks.json_of(field, text)
    try:
        return Decision.decode(text)
    except msgspec.ValidationError as error:
        raise InvalidRequest(field, f"is no decision: {error}") from None


def _failure(at: str, problem: body_pb2.Problem) -> Answer:
    """A failure; one that is to be postponed was no attempt."""
    after = checks.span(f"{at}failure.retry_after", problem, problem.retry_after)
    message = problem.message or "no reason was given"
    if after is not None:
        if problem.final:
            raise InvalidRequest(f"{at}failure", "is final and to be tried again: say one of them")
        return GivenBack(after.total_seconds(), message)
    return failed(problem.code or "RemoteError", message, not problem.final)


def _task(
    pulled: Pulled, times: dict[datetime, Timestamp], spans: dict[float, Duration]
) -> v1.PulledTask:
    if (held_until := times.get(pulled.held_until)) is None:
        held_until = times[pulled.held_until] = Timestamp()
        held_until.FromDatetime(pulled.held_until)
    if (beat_every := spans.get(pulled.beat_every)) is None:
        beat_every = spans[pulled.beat_every] = Duration()
        beat_every.FromMilliseconds(int(pulled.beat_every * 1000))
    task = v1.PulledTask(
        ticket=pulled.ticket,
        actor=pulled.actor,
        process_id=pulled.process,
        task_id=pulled.task,
        args_json=pulled.args_json,
        idempotency_key=pulled.key,
        attempt=pulled.attempt,
        held_until=held_until,
        beat_every=beat_every,
        deadline=pulled.deadline,
    )
    trace = task.trace
    for name, value in trace_context(pulled.process or pulled.task).items():
        trace[name] = value
    return task


def _fits(task: v1.PulledTask) -> bool:
    """Whether an answer can carry it. Else it is due again when its time is over."""
    if (size := task.ByteSize()) <= TASK_BYTES:
        return True
    text = f"the task has {size} bytes, and an answer takes {TASK_BYTES}; pass references"
    facts = {"actor": task.actor, "task": task.task_id, "error": text}
    log.warning("task.not_pulled", extra=facts)
    return False


def _beaten(beaten: Beaten) -> v1.Beaten:
    if beaten.held_until is None:
        return v1.Beaten(stop=beaten.stop or "gone")
    return v1.Beaten(held_until=beaten.held_until)


def _settled(settled: SettledAs) -> v1.Settled:
    if settled is None:
        return v1.Settled(settled_as=v1.SETTLED_AS_BUSY)
    if isinstance(settled, MainspringError):
        problem = body_pb2.Problem(code=settled.code, message=str(settled)[:1000])
        return v1.Settled(settled_as=v1.SETTLED_AS_INVALID, problem=problem)
    return v1.Settled(settled_as=_SETTLED[settled])
