"""Every call, by every scope, on an object of its own and on a foreign one: item by item (invariant 13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

import grpc
import pytest
from google.protobuf.message import Message
from served_process import Served
from tickets import tickets

from mainspring.server.access.scopes import VERBS
from mainspring.server.handlers.methods import Services
from mainspring.server.handlers.store import Store
from mainspring.v1 import actor_service_pb2 as actors
from mainspring.v1 import param_service_pb2 as params
from mainspring.v1 import process_service_pb2 as processes
from mainspring.v1 import state_service_pb2 as states
from mainspring.v1 import task_service_pb2 as tasks

ID = str(uuid4())


class Asked(NamedTuple):
    """A call: its scope's verb, and its request about something of this name."""

    verb: str
    name: str
    foreign: str
    request: Callable[[str], Message]


def state(name: str) -> dict[str, str]:
    kind, _, stage = name.partition("/")
    return {"kind": kind, "stage": stage}


CALLS = {
    "TaskService/EnqueueTasks": Asked(
        "enqueue",
        "mail.note",
        "bill.pay",
        lambda name: tasks.EnqueueTasksRequest(
            calls=[tasks.Call(task=name, args_json='{"text": "x"}')]
        ),
    ),
    "TaskService/GetTask": Asked(
        "task.read", "mail.note", "bill.pay", lambda name: tasks.GetTaskRequest(task=name, id=ID)
    ),
    "TaskService/CancelTask": Asked(
        "task.cancel",
        "mail.note",
        "bill.pay",
        lambda name: tasks.CancelTaskRequest(task=name, id=ID),
    ),
    "ParamService/AdvanceParams": Asked(
        "param.advance",
        "dwh.orders.rows",
        "ml.price.model",
        lambda name: params.AdvanceParamsRequest(
            params=[params.Param(name=name, value=params.Value(integer=1))]
        ),
    ),
    "ParamService/RewindParam": Asked(
        "param.rewind",
        "dwh.orders.rows",
        "ml.price.model",
        lambda name: params.RewindParamRequest(name=name, to=params.Value(integer=1)),
    ),
    "ParamService/GetParams": Asked(
        "param.read",
        "dwh.orders.rows",
        "ml.price.model",
        lambda name: params.GetParamsRequest(names=[name]),
    ),
    "ParamService/WatchParams": Asked(
        "param.read",
        "dwh.orders.rows",
        "ml.price.model",
        lambda name: params.WatchParamsRequest(names=[name]),
    ),
    "ProcessService/StartProcess": Asked(
        "process.start",
        "publish",
        "fails",
        lambda name: processes.StartProcessRequest(type=name, args_json='{"page": 1}'),
    ),
    "ProcessService/GetProcess": Asked(
        "process.read",
        "publish",
        "fails",
        lambda name: processes.GetProcessRequest(ref=processes.Ref(type=name, id=ID)),
    ),
    "ProcessService/ListProcesses": Asked(
        "process.read",
        "publish",
        "fails",
        lambda name: processes.ListProcessesRequest(type=name),
    ),
    "ProcessService/SignalProcess": Asked(
        "process.signal",
        "publish",
        "fails",
        lambda name: processes.SignalProcessRequest(
            ref=processes.Ref(type=name, id=ID), name="approved", signal_id="1", payload_json="true"
        ),
    ),
    "ProcessService/CancelProcess": Asked(
        "process.cancel",
        "publish",
        "fails",
        lambda name: processes.CancelProcessRequest(ref=processes.Ref(type=name, id=ID)),
    ),
    "StateService/GetStates": Asked(
        "state.read",
        "listing/price",
        "listing/photos",
        lambda name: states.GetStatesRequest(**state(name), ids=["1"]),  # type: ignore[arg-type]
    ),
    "ActorService/PullTasks": Asked(
        "pull",
        "card.charge",
        "card.refund",
        lambda name: actors.PullTasksRequest(actors=[name], limit=1, pull_id="1"),
    ),
    "ActorService/BeatTasks": Asked(
        "pull",
        "card.charge",
        "card.refund",
        lambda name: actors.BeatTasksRequest(tickets=[tickets.ticket(name)]),
    ),
    "ActorService/SettleTasks": Asked(
        "pull",
        "card.charge",
        "card.refund",
        lambda name: actors.SettleTasksRequest(
            settlements=[actors.Settlement(ticket=tickets.ticket(name), release=actors.Release())]
        ),
    ),
    "StateService/SetState": Asked(
        "state.write",
        "listing/price",
        "listing/photos",
        lambda name: states.SetStateRequest(
            **state(name),
            state=states.State(id="1"),
            request_id="1",  # type: ignore[arg-type]
        ),
    ),
}


def send(channel: Any, method: str, request: Message, token: str | None) -> str:
    """The status of a call; of a stream, of its first answer."""
    metadata = () if token is None else (("authorization", f"Bearer {token}"),)
    path = f"/mainspring.v1.{method}"
    body = request.SerializeToString()
    try:
        if method.endswith("WatchParams"):
            stream = channel.unary_stream(path)(body, metadata=metadata, timeout=30)
            next(stream)
            stream.cancel()
        else:
            channel.unary_unary(path)(body, metadata=metadata, timeout=30)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


def test_every_method_is_in_the_matrix() -> None:
    there = {method.path for method in Services(Store(None)).methods()}  # type: ignore[arg-type]
    assert there == {f"/mainspring.v1.{name}" for name in CALLS}


def test_a_caller_may_do_what_his_scopes_say_and_nothing_else(
    served: Served, new_token: Callable[..., str]
) -> None:
    served.start()
    tickets.read(served.url)
    own = {asked.verb: asked.name for asked in CALLS.values()}
    by_scope = {
        "admin": new_token("admin"),
        **{verb: new_token(f"{verb}:{own.get(verb, 'x')}") for verb in VERBS},
    }
    wrong = []
    with grpc.insecure_channel(served.address) as channel:
        for method, asked in CALLS.items():
            for name in (asked.name, asked.foreign):
                for scope, token in by_scope.items():
                    allowed = scope == "admin" or (scope == asked.verb and name == asked.name)
                    status = send(channel, method, asked.request(name), token)
                    if (status == "PERMISSION_DENIED") is allowed or status == "INTERNAL":
                        wrong.append((method, name, scope, status))
                if (
                    status := send(channel, method, asked.request(name), None)
                ) != "UNAUTHENTICATED":
                    wrong.append((method, name, "nobody", status))
    assert wrong == []


@pytest.mark.parametrize(
    ("method", "request_", "scope"),
    [
        (
            "TaskService/EnqueueTasks",
            tasks.EnqueueTasksRequest(
                calls=[
                    tasks.Call(task="mail.note", args_json='{"text": "x"}'),
                    tasks.Call(task="bill.pay", args_json='{"amount": 1}'),
                ]
            ),
            "enqueue:mail.*",
        ),
        (
            "ParamService/GetParams",
            params.GetParamsRequest(names=["dwh.orders.rows", "ml.price.model"]),
            "param.read:dwh.*",
        ),
        (
            "ActorService/PullTasks",
            actors.PullTasksRequest(actors=["card.charge", "card.refund"], limit=1, pull_id="1"),
            "pull:*.charge",
        ),
    ],
    ids=["tasks", "params", "pulls"],
)
def test_one_foreign_item_among_own_ones_refuses_all(
    served: Served, new_token: Callable[..., str], method: str, request_: Message, scope: str
) -> None:
    served.start()
    with grpc.insecure_channel(served.address) as channel:
        assert send(channel, method, request_, new_token(scope)) == "PERMISSION_DENIED"
        assert send(channel, method, request_, new_token(scope.partition(":")[0])) == "OK"
