"""TaskService: calls of tasks enqueued, looked up, waited for and called off (T8).

Enqueueing is idempotent by the caller's ids: the database knows a call that waits, runs or is in history.
A task that the server's code declares has its arguments checked here; others when they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mainspring.errors import InvalidRequest, NotFound
from mainspring.processes.record.sealed_values import opened_value
from mainspring.server.access.caller import Caller
from mainspring.server.handlers import checks
from mainspring.server.handlers.store import Store
from mainspring.server.handlers.waiting import Lookout
from mainspring.server.statements import SQL
from mainspring.tasks.declare.sealing import DROPPED, Sealing, opened_error
from mainspring.v1 import body_pb2, task_service_pb2

MOST_CALLS = 1000
GROUP_BYTES = 255
VISIT_KEY_BYTES = 1300
ENDED = ("done", "parked", "cancelled", "expired")


class EnqueuedRow(NamedTuple):
    """A call that is enqueued: just now, or before."""

    id: str
    key: str
    is_new: bool


class ServedCall(NamedTuple):
    """How a call stands."""

    task: str
    id: str
    key: str
    state: str
    result: str | None
    error: str | None


class CallPlace(NamedTuple):
    """Which call is meant."""

    task: str
    id: str
    key: str


class TaskCalls:
    """The service's calls."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lookout: Lookout[CallPlace, ServedCall] = Lookout(self._look)

    async def close(self) -> None:
        """Let those go who wait."""
        await self._lookout.close()

    async def enqueue_tasks(
        self, caller: Caller, request: task_service_pb2.EnqueueTasksRequest
    ) -> task_service_pb2.EnqueueTasksResponse:
        """Enqueue calls, all or none."""
        checks.count("calls", request.calls, MOST_CALLS)
        for n, call in enumerate(request.calls):
            caller.check("enqueue", checks.text(f"calls[{n}].task", call.task))
        values = self._arrays(request.calls)
        places = zip(values["queues"], values["ids"], strict=True)
        checks.no_twice("calls", ((task, id) for task, id in places if id is not None))
        async with self._store.transaction() as tx:
            rows = await tx.rows(SQL["enqueue_calls"], EnqueuedRow, **values)
        return task_service_pb2.EnqueueTasksResponse(
            handles=[
                task_service_pb2.Handle(task=call.task, id=row.id, key=row.key, is_new=row.is_new)
                for call, row in zip(request.calls, rows, strict=True)
            ]
        )

    def _arrays(self, calls: Sequence[task_service_pb2.Call]) -> dict[str, list[object]]:
        """The arguments of enqueue_calls.sql."""
        named = [(f"calls[{n}].", call) for n, call in enumerate(calls)]
        return {
            "queues": [call.task for call in calls],
            "payloads": [self._payload(at, call) for at, call in named],
            "due_ats": [_due_at(at, call) for at, call in named],
            "delays": [checks.span(f"{at}delay", call, call.delay) for at, call in named],
            "expires_ats": [
                checks.moment(f"{at}expires_at", call, call.expires_at) for at, call in named
            ],
            "priorities": [
                checks.priority(f"{at}priority", call, call.priority) for at, call in named
            ],
            "groups": [
                checks.optional_text(f"{at}group", call.group, GROUP_BYTES) or None
                for at, call in named
            ],
            "keys": [
                checks.optional_text(f"{at}key", call.key, checks.KEY_BYTES) or None
                for at, call in named
            ],
            "ids": [checks.uuid_of(f"{at}id", call.id) if call.id else None for at, call in named],
        }

    def _payload(self, at: str, call: task_service_pb2.Call) -> str:
        arguments = checks.json_object(f"{at}args_json", call.args_json)
        task = self._store.app.tasks.get(call.task)
        if task is None:
            if any(name.startswith("@") for name in arguments):  # as the engine marks its own
                raise InvalidRequest(f"{at}args_json", "has an argument that begins with @")
            text, sealing = call.args_json or "{}", self._store.app.sealing
            return text if sealing is None else sealing.payload(text.encode(), ()).decode()
        return task.payload_of((), arguments, task.call_options).decode()

    async def get_task(
        self, caller: Caller, request: task_service_pb2.GetTaskRequest
    ) -> task_service_pb2.GetTaskResponse:
        """How a call stands; waits for its end."""
        place = self._place(caller, "task.read", request.task, request.id, request.key)
        wait = checks.wait_of(request, request.wait)
        row = await self._lookout.wait(place, lambda row: row.state in ENDED, wait)
        if row is None:
            raise _unknown(place)
        done, sealing = row.state == "done", self._store.app.sealing
        what = f"the result of task {request.task!r}"
        return task_service_pb2.GetTaskResponse(
            state=row.state,
            result_json=opened_value(sealing, row.result or "null", what)
            if done and row.result != DROPPED
            else "",
            error=_problem(row, sealing),
        )

    async def cancel_task(
        self, caller: Caller, request: task_service_pb2.CancelTaskRequest
    ) -> task_service_pb2.CancelTaskResponse:
        """Call a call off, or have its run told to end; answers how it stands then."""
        place = self._place(caller, "task.cancel", request.task, request.id, request.key)
        async with self._store.transaction() as tx:
            values = place._asdict()
            shard = await tx.first(SQL["find_call"], int, **values)
            if shard is not None:
                gone = await tx.first(
                    SQL["cancel_call"],
                    str,
                    **values,
                    shard=shard,
                    reason=f"cancelled by {caller.name}",
                )
                if gone not in (None, place.id):
                    raise NotFound(f"the call {place.id} has ended, and another has its key")
        row = (await self._look([place])).get(place)
        if row is None:
            raise _unknown(place)
        return task_service_pb2.CancelTaskResponse(state=row.state)

    def _place(self, caller: Caller, verb: str, task: str, id: str, key: str) -> CallPlace:
        caller.check(verb, checks.text("task", task))
        own = checks.uuid_of("id", id)
        return CallPlace(task, own, checks.optional_text("key", key, VISIT_KEY_BYTES) or own)

    async def _look(self, places: Sequence[CallPlace]) -> dict[CallPlace, ServedCall]:
        rows = await self._store.rows(
            SQL["look_up_calls"],
            ServedCall,
            tasks=[place.task for place in places],
            ids=[place.id for place in places],
            keys=[place.key for place in places],
        )
        return {CallPlace(row.task, row.id, row.key): row for row in rows}


def _due_at(at: str, call: task_service_pb2.Call) -> object:
    if call.HasField("at") and call.HasField("delay"):
        raise InvalidRequest(f"{at}at", "and delay are both set; give one of them")
    return checks.moment(f"{at}at", call, call.at)


def _problem(row: ServedCall, sealing: Sealing | None) -> body_pb2.Problem | None:
    """Why it ended without a result, or why its last run failed."""
    if row.result == DROPPED:
        text = "its result was dropped: it was kept for as long as its task says"
        return body_pb2.Problem(code="dropped", message=text, final=True)
    if row.error is None and row.state in ("done", "scheduled", "waiting", "running"):
        return None
    return body_pb2.Problem(
        code=row.state if row.state in ENDED else "failed",
        message=opened_error(sealing, row.error) or "",
        final=row.state in ("cancelled", "expired"),
    )


def _unknown(place: CallPlace) -> NotFound:
    return NotFound(
        f"task {place.task!r} has no call {place.id}: it was not enqueued, or its "
        "history was dropped by age"
    )
