"""The calls in Connect's form: protobuf's JSON or its bytes, over plain HTTP/1.1."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest
from http_caller import HttpCaller, caller_of
from served_process import Served

from mainspring.v1 import state_service_pb2 as states
from mainspring.v1 import task_service_pb2 as tasks

ENQUEUE = "/mainspring.v1.TaskService/EnqueueTasks"
PROTO = {"Content-Type": "application/proto"}


@pytest.fixture
def call(served: Served) -> HttpCaller:
    served.start_http()
    return caller_of(served)


def test_a_call_in_json_and_in_bytes_is_the_same(call: HttpCaller) -> None:
    id = str(uuid4())
    given = {"task": "mail.note", "argsJson": '{"text": "x"}', "id": id}
    made = call("POST", ENQUEUE, {"calls": [given]}, Connect_Protocol_Version="1")
    assert made.json == {"handles": [{"task": "mail.note", "id": id, "key": id, "isNew": True}]}
    request = tasks.EnqueueTasksRequest(
        calls=[tasks.Call(task="mail.note", args_json='{"text": "x"}', id=id)]
    )
    again = call("POST", ENQUEUE, text=request.SerializeToString(), headers=PROTO)
    [handle] = tasks.EnqueueTasksResponse.FromString(again.text).handles
    assert (again.headers["content-type"], handle.id, handle.is_new) == (
        "application/proto",
        id,
        False,
    )


def test_errors_are_connects(call: HttpCaller) -> None:
    get = "/mainspring.v1.TaskService/GetTask"
    absent = call("POST", get, {"task": "mail.note", "id": str(uuid4())})
    assert (absent.status, absent.json["code"], absent.json["reason"]) == (
        404,
        "not_found",
        "not_found",
    )
    nobody = HttpCaller(call.address, None)("POST", ENQUEUE, {})
    assert (nobody.status, nobody.json["code"]) == (401, "unauthenticated")
    for text in (b"{", b'{"unknown": 1}', b'{"calls": 1}', b"\xff", b"[" * 5000):
        wrong = call("POST", ENQUEUE, text=text)
        assert (wrong.status, wrong.json["code"]) == (400, "invalid_argument"), text
    wrong = call("POST", ENQUEUE, text=b"\xff\xff", headers=PROTO)
    assert (wrong.status, wrong.json["code"]) == (400, "invalid_argument")
    plain = call("POST", ENQUEUE, text=b"{}", headers={"Content-Type": "text/plain"})
    assert plain.status == 415
    late = call("POST", get, {"task": "mail.note", "id": str(uuid4())}, Connect_Timeout_Ms="soon")
    assert (late.status, late.json["code"]) == (400, "invalid_argument")
    assert call("GET", ENQUEUE).status == 405
    assert call("POST", "/mainspring.v1.ParamService/WatchParams", {}).status == 404


def test_a_caller_is_answered_within_the_time_that_he_has(call: HttpCaller) -> None:
    given = {"task": "mail.note", "argsJson": '{"text": "x"}'}
    [handle] = call("POST", ENQUEUE, {"calls": [given]}).json["handles"]
    request = {"task": "mail.note", "id": handle["id"], "wait": "60s"}
    late = call("POST", "/mainspring.v1.TaskService/GetTask", request, Connect_Timeout_Ms="50")
    assert (late.status, late.json["code"]) == (504, "deadline_exceeded")


def test_a_state_of_a_type_that_the_server_does_not_know_is_had_in_bytes(served: Served) -> None:
    """S11: protobuf's JSON of a message needs its type; the bytes do not."""
    served.start_http(place=None)
    call = caller_of(served)
    with psycopg.connect(served.url) as connection:
        connection.execute(
            "insert into mainspring.document (kind, key, body) values ('listing', 'a', '{}')"
        )
    state = {"message": {"type_url": "shop.Price", "value": "CAE="}}
    assert call("PUT", "/v1/states/listing/price/a", state, if_none_match="*").status == 200
    place = "/mainspring.v1.StateService/GetStates"
    told = call("POST", place, {"kind": "listing", "stage": "price", "ids": ["a"]})
    assert (told.status, told.json["reason"]) == (406, "not_acceptable")
    request = states.GetStatesRequest(kind="listing", stage="price", ids=["a"])
    answer = call("POST", place, text=request.SerializeToString(), headers=PROTO)
    [found] = states.GetStatesResponse.FromString(answer.text).states
    assert found.body.message.value == b"\x08\x01"
