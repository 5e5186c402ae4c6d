"""What callers get wrong, through real gRPC: every answer says so, and none of them is our fault."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from served_process import Served
from test_access_matrix import CALLS
from tickets import tickets

from mainspring.v1 import actor_service_pb2 as actors
from mainspring.v1 import body_pb2 as body
from mainspring.v1 import param_service_pb2 as params
from mainspring.v1 import process_service_pb2 as processes
from mainspring.v1 import state_service_pb2 as states
from mainspring.v1 import task_service_pb2 as tasks

Send = Callable[[str, bytes], tuple[str, str]]
LARGE = 5 * 1024 * 1024
BAD_TEXTS = [
    *("", "\x00", "x\x00y", "ä" * 3000, "'; drop table sent; --", "\u202e", "\U0010ffff", "%s"),
    *("../../etc", "*", "0", "null"),
]
BAD_JSON = [
    *("{", "[]", "1", '"x"', "null", '{"text": "\\u0000"}', '{"text": "\\ud800"}', '{"@": "x"}'),
    *('{"text": ' + "[" * 5000 + "]" * 5000 + "}", '{"a": 1e999}', '{"text": NaN}', "\ufeff{}"),
    '{"text": "' + "x" * (2 * 1024 * 1024) + '"}',
]


@pytest.fixture
def send(served: Served) -> Iterator[Send]:
    """Send bytes to a method; the status and the error's code."""
    served.start()
    tickets.read(served.url)
    real = tickets.ticket("card.charge").encode()
    metadata = (("authorization", f"Bearer {served.token}"),)
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(served.address, options=options) as channel:

        def call(method: str, request: bytes) -> tuple[str, str]:
            path = f"/mainspring.v1.{method}"
            if method.endswith("SettleTasks"):
                request = with_ticket(request, real)
            try:
                if method.endswith("WatchParams"):
                    stream = channel.unary_stream(path)(request, metadata=metadata, timeout=60)
                    next(stream)
                    stream.cancel()
                else:
                    channel.unary_unary(path)(request, metadata=metadata, timeout=60)
            except grpc.RpcError as error:
                trailers: dict[str, Any] = dict(error.trailing_metadata() or ())
                return str(error.code().name), str(trailers.get("mainspring-code", ""))
            return "OK", ""

        yield call


SEALED = "a ticket of the database"  # put in its place once there is one


def with_ticket(request: bytes, real: bytes) -> bytes:
    """A request with a real ticket in the place of the word for one."""
    try:
        read = actors.SettleTasksRequest.FromString(request)
    except Exception:  # no message at all
        return request
    for settlement in read.settlements:
        if settlement.ticket == SEALED:
            settlement.ticket = real.decode()
    return read.SerializeToString()


FULL: dict[str, Message] = {
    "TaskService/EnqueueTasks": tasks.EnqueueTasksRequest(
        calls=[
            tasks.Call(
                task="mail.note",
                args_json='{"text": "x"}',
                id=str(uuid4()),
                key="k",
                group="g",
                priority=3,
            )
        ]
    ),
    "TaskService/GetTask": tasks.GetTaskRequest(task="mail.note", id=str(uuid4()), key="k"),
    "TaskService/CancelTask": tasks.CancelTaskRequest(task="mail.note", id=str(uuid4()), key="k"),
    "ParamService/AdvanceParams": params.AdvanceParamsRequest(
        params=[params.Param(name="dwh.orders.rows", value=params.Value(integer=1))], why="w"
    ),
    "ParamService/RewindParam": params.RewindParamRequest(
        name="dwh.orders.rows", to=params.Value(integer=1), why="w", revision=1
    ),
    "ParamService/GetParams": params.GetParamsRequest(names=["dwh.orders.rows"]),
    "ParamService/WatchParams": params.WatchParamsRequest(names=["dwh.orders.rows"]),
    "ProcessService/StartProcess": processes.StartProcessRequest(
        type="publish", key="k", args_json='{"page": 1}', attrs_json='{"a": 1}', priority=3
    ),
    "ProcessService/GetProcess": processes.GetProcessRequest(
        ref=processes.Ref(type="publish", key="k")
    ),
    "ProcessService/ListProcesses": processes.ListProcessesRequest(
        type="publish", state="open", attrs_json='{"a": 1}', limit=3, cursor="x"
    ),
    "ProcessService/SignalProcess": processes.SignalProcessRequest(
        ref=processes.Ref(type="publish", key="k"),
        name="approved",
        signal_id="s",
        payload_json="true",
    ),
    "ProcessService/CancelProcess": processes.CancelProcessRequest(
        ref=processes.Ref(type="publish", key="k")
    ),
    "ActorService/PullTasks": actors.PullTasksRequest(
        actors=["card.charge"], limit=3, worker="w", pull_id="p"
    ),
    "ActorService/BeatTasks": actors.BeatTasksRequest(tickets=["x"]),
    "ActorService/SettleTasks": actors.SettleTasksRequest(
        worker="w",
        settlements=[
            actors.Settlement(ticket=SEALED, result_json="1"),
            actors.Settlement(ticket=SEALED, decision_json='{"result": "1"}'),
            actors.Settlement(ticket=SEALED, failure=body.Problem(code="c", message="m")),
        ],
    ),
    "StateService/GetStates": states.GetStatesRequest(kind="listing", stage="price", ids=["1"]),
    "StateService/SetState": states.SetStateRequest(
        kind="listing",
        stage="price",
        state=states.State(id="1", body=body.Body(json="{}"), schema=1),
        request_id="r",
    ),
}


def texts(message: Message) -> Iterator[tuple[Message, str]]:
    """Every text of a message, however deep."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                yield from texts(inner)
        elif field.type == field.TYPE_STRING and not field.is_repeated:
            yield message, field.name


def changed(request: Message, place: int, value: str) -> Message:
    """The request with one of its texts replaced."""
    copy = type(request)()
    copy.CopyFrom(request)
    holder, name = list(texts(copy))[place]
    setattr(holder, name, value)
    return copy


def test_every_method_has_a_full_request() -> None:
    assert FULL.keys() == CALLS.keys()


def test_whatever_a_text_is_the_answer_is_no_fault_of_ours(send: Send) -> None:
    """Every text of every request: unset, NUL, too long, SQL, no UUID, no JSON, too deep, too large."""
    wrong, counts = [], Counter[str]()
    for method, request in FULL.items():
        for place, (_, name) in enumerate(texts(request)):
            values = BAD_JSON if name.endswith("json") else BAD_TEXTS
            for value in values:
                status, code = send(method, changed(request, place, value).SerializeToString())
                counts[status] += 1
                if status in ("INTERNAL", "UNKNOWN", "UNAVAILABLE", "DEADLINE_EXCEEDED"):
                    wrong.append((method, name, value[:30], status, code))
                nul = "\x00" in value or "\\u0000" in value or "\\ud800" in value
                if method.endswith("SettleTasks") and name not in ("ticket", "worker"):
                    nul = False  # each answer is judged for itself: INVALID
                if nul and status != "INVALID_ARGUMENT":
                    wrong.append((method, name, value[:30], status, code))
    assert wrong == []
    assert counts["INVALID_ARGUMENT"] > 200


def test_an_empty_message_is_refused_by_each_call(send: Send) -> None:
    """Every field unset: never a default."""
    found = {method: send(method, b"") for method in FULL}
    assert found == dict.fromkeys(FULL, ("INVALID_ARGUMENT", "invalid_request"))


@pytest.mark.parametrize(
    "request_",
    [
        b"\xff\xff\xff",
        b"\x0a\x05\x0a\x03\xed\xa0\x80",  # a lone surrogate in the task of a call
        b"\x0a\x04\x0a\x02\xc3\x28",
        b"\x0a\xff\xff\xff\xff\x0f",
    ],
    ids=["noise", "surrogate", "utf-8", "length"],
)
def test_bytes_that_are_no_message_are_the_callers_fault(send: Send, request_: bytes) -> None:
    assert send("TaskService/EnqueueTasks", request_) == ("INVALID_ARGUMENT", "invalid_request")


def test_random_bytes_are_the_callers_fault(send: Send) -> None:
    drawn = random.Random(7)
    statuses = Counter(
        send(method, drawn.randbytes(drawn.randrange(1, 60)))[0]
        for method in FULL
        for _ in range(30)
    )
    assert set(statuses) <= {"INVALID_ARGUMENT", "NOT_FOUND"}


def test_what_is_too_large_is_refused_before_it_is_read(send: Send) -> None:
    call = tasks.Call(task="mail.note", args_json='{"text": "' + "x" * LARGE + '"}')
    request = tasks.EnqueueTasksRequest(calls=[call])
    assert send("TaskService/EnqueueTasks", request.SerializeToString())[0] == "RESOURCE_EXHAUSTED"


def call(**fields: Any) -> Message:
    given = {"task": "mail.note", "args_json": '{"text": "x"}', **fields}
    return tasks.EnqueueTasksRequest(calls=[json_format.ParseDict(given, tasks.Call())])


SAME = str(uuid4())
REFUSED: list[tuple[str, str, Message]] = [
    *(
        (
            f"a limit of {limit}",
            "ActorService/PullTasks",
            actors.PullTasksRequest(actors=["card.charge"], limit=limit, pull_id="p"),
        )
        for limit in (0, -1, 101, 2**31 - 1)
    ),
    (
        "actors twice",
        "ActorService/PullTasks",
        actors.PullTasksRequest(actors=["card.charge"] * 2, limit=1, pull_id="p"),
    ),
    (
        "an actor that workers serve",
        "ActorService/PullTasks",
        actors.PullTasksRequest(actors=["mail.note"], limit=1, pull_id="p"),
    ),
    (
        "too many tickets",
        "ActorService/BeatTasks",
        actors.BeatTasksRequest(tickets=["x"] * 1001),
    ),
    ("at and delay", "TaskService/EnqueueTasks", call(at="2030-01-01T00:00:00Z", delay="3s")),
    ("delay below", "TaskService/EnqueueTasks", call(delay="-3s")),
    ("delay above", "TaskService/EnqueueTasks", call(delay="315576000000s")),
    ("priority below", "TaskService/EnqueueTasks", call(priority=-1)),
    ("priority above", "TaskService/EnqueueTasks", call(priority=10)),
    ("year 1", "TaskService/EnqueueTasks", call(at="0001-01-01T00:00:00Z")),
    ("year 9999", "TaskService/EnqueueTasks", call(expiresAt="9999-12-31T23:59:59Z")),
    (
        "ids twice",
        "TaskService/EnqueueTasks",
        tasks.EnqueueTasksRequest(
            calls=[
                tasks.Call(task="mail.note", args_json='{"text": "x"}', id=id)
                for id in (SAME, SAME.upper())
            ]
        ),
    ),
    (
        "params twice",
        "ParamService/AdvanceParams",
        params.AdvanceParamsRequest(
            params=[
                params.Param(name="dwh.orders.rows", value=params.Value(integer=n)) for n in (1, 2)
            ]
        ),
    ),
    ("names twice", "ParamService/GetParams", params.GetParamsRequest(names=["a.b", "a.b"])),
    (
        "no value",
        "ParamService/AdvanceParams",
        params.AdvanceParamsRequest(params=[params.Param(name="dwh.orders.rows")]),
    ),
    (
        "an empty value",
        "ParamService/AdvanceParams",
        params.AdvanceParamsRequest(
            params=[params.Param(name="dwh.orders.rows", value=params.Value())]
        ),
    ),
    (
        "a kind that is unknown here",  # field 9 of the oneof, of a newer release
        "ParamService/AdvanceParams",
        params.AdvanceParamsRequest(
            params=[
                params.Param(name="dwh.orders.rows", value=params.Value.FromString(b"\x48\x01"))
            ]
        ),
    ),
    (
        "a body without a form",
        "StateService/SetState",
        states.SetStateRequest(
            kind="listing",
            stage="price",
            state=states.State(id="1", body=body.Body()),
            request_id="r",
        ),
    ),
    (
        "a version below",
        "StateService/SetState",
        states.SetStateRequest(
            kind="listing", stage="price", state=states.State(id="1", version=-1), request_id="r"
        ),
    ),
    (
        "key and id",
        "ProcessService/StartProcess",
        processes.StartProcessRequest(type="publish", key="k", id=SAME, args_json='{"page": 1}'),
    ),
    (
        "a wait too long",
        "TaskService/GetTask",
        json_format.ParseDict(
            {"task": "mail.note", "id": SAME, "wait": "61s"}, tasks.GetTaskRequest()
        ),
    ),
]


def test_what_contradicts_itself_or_is_out_of_range_is_refused(send: Send) -> None:
    found = {
        name: send(method, request.SerializeToString())[0] for name, method, request in REFUSED
    }
    assert found == dict.fromkeys(found, "INVALID_ARGUMENT")


def test_an_error_carries_its_reason_as_google_rpc_has_it(served: Served) -> None:
    """ErrorInfo with our code, and the field that is at fault: any language reads it."""
    served.start()
    metadata = (("authorization", f"Bearer {served.token}"),)
    with grpc.insecure_channel(served.address) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/mainspring.v1.TaskService/GetTask")(
                tasks.GetTaskRequest(task="mail.note", id="x").SerializeToString(),
                metadata=metadata,
            )
        with pytest.raises(grpc.RpcError) as absent:
            channel.unary_unary("/mainspring.v1.ActorService/PullTasks")(b"", metadata=metadata)
    status: Any = rpc_status.from_call(caught.value)
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(bad)
    assert (info.reason, info.domain) == ("invalid_request", "mainspring")
    assert [violation.field for violation in bad.field_violations] == ["id"]
    assert absent.value.code() is grpc.StatusCode.INVALID_ARGUMENT
