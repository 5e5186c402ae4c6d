"""Params over HTTP: set forward, waited for, moved back by whoever saw what they were."""

from __future__ import annotations

import threading

import pytest
from http_caller import Got, HttpCaller, caller_of
from served_process import Served

ROWS = "/v1/params/dwh.orders.rows"


@pytest.fixture
def call(served: Served) -> HttpCaller:
    served.start_http()
    return caller_of(served)


def test_a_param_is_set_forward_and_read(call: HttpCaller) -> None:
    first = call("PUT", ROWS, {"value": {"integer": 7}, "why": "nightly"})
    again = call("PUT", ROWS, {"value": {"integer": 7}})
    found = call("GET", ROWS)

    assert [first.json["moved"], again.json["moved"]] == [True, False]
    assert found.json["value"] == {"integer": 7}
    assert found.json["changed_by"] == "local"
    assert found.headers["etag"] == f'"{found.json["revision"]}"'


def test_a_lower_value_is_refused_or_left_alone(call: HttpCaller) -> None:
    call("PUT", ROWS, {"value": {"integer": 7}})
    refused = call("PUT", ROWS, {"value": {"integer": 6}})
    assert (refused.status, refused.code) == (409, "went_back")
    left = call("PUT", ROWS, {"value": {"integer": 6}, "if_greater": True})
    assert (left.status, left.json["moved"]) == (200, False)


def test_params_are_set_forward_together_or_not_at_all(call: HttpCaller) -> None:
    loaded = {"name": "dwh.orders.loaded_to", "value": {"instant": "2030-01-31T12:00:00Z"}}
    rows = {"name": "dwh.orders.rows", "value": {"integer": 1}}
    model = {"name": "ml.price.model", "value": {"version": "v7"}}
    moved = call("PATCH", "/v1/params", {"params": [loaded, rows, model]})
    assert [one["moved"] for one in moved.json["params"]] == [True, True, True]
    lower = {**rows, "value": {"integer": 0}}
    newer = {**model, "value": {"version": "v8"}}
    assert call("PATCH", "/v1/params", {"params": [newer, lower]}).status == 409
    found = call("GET", "/v1/params?name=ml.price.model&name=dwh.orders.loaded_to").json
    assert [one["value"] for one in found["params"]] == [
        {"version": "v7"},
        {"instant": "2030-01-31T12:00:00Z"},
    ]


@pytest.mark.parametrize("by", ["newer_than", "if-none-match", "several"])
def test_who_waits_is_answered_when_a_param_moves(call: HttpCaller, by: str) -> None:
    call("PUT", ROWS, {"value": {"integer": 1}})
    seen = call("GET", ROWS)
    revision, answers = seen.json["revision"], list[Got]()
    if by == "if-none-match":
        path, headers = f"{ROWS}?wait=60", {"If-None-Match": seen.headers["etag"]}
    elif by == "newer_than":
        path, headers = f"{ROWS}?wait=60&newer_than={revision}", {}
    else:
        path, headers = f"/v1/params?name=dwh.orders.rows&newer_than={revision}&wait=60", {}
    waiting = threading.Thread(target=lambda: answers.append(call("GET", path, headers=headers)))
    waiting.start()
    call("PUT", ROWS, {"value": {"integer": 2}})
    waiting.join(30)
    found = answers[0].json["params"][0] if by == "several" else answers[0].json
    assert found["value"] == {"integer": 2}
    assert found["revision"] > revision


def test_a_param_that_has_not_moved_is_not_sent_again(call: HttpCaller) -> None:
    call("PUT", ROWS, {"value": {"integer": 1}})
    seen = call("GET", ROWS)
    same = call("GET", ROWS, If_None_Match=seen.headers["etag"])
    assert (same.status, same.text, same.headers["etag"]) == (304, b"", seen.headers["etag"])


def test_a_param_is_moved_back_by_who_saw_its_revision(call: HttpCaller) -> None:
    call("PUT", ROWS, {"value": {"integer": 5}})
    tag = call("GET", ROWS).headers["etag"]
    back = {"to": {"integer": 2}, "why": "restated"}
    unsaid = call("POST", f"{ROWS}/rewind", back)
    assert (unsaid.status, unsaid.code) == (428, "precondition_required")
    assert call("POST", f"{ROWS}/rewind", back, If_Match=tag).json == {"affected": []}
    call("PUT", ROWS, {"value": {"integer": 9}})
    late = call("POST", f"{ROWS}/rewind", back, If_Match=tag)
    assert (late.status, late.code) == (412, "moved_on")
    assert call("GET", ROWS).json["value"] == {"integer": 9}
    assert call("POST", f"{ROWS}/rewind", back, If_Match="*").status == 200


def test_a_param_that_is_not_there_is_told(call: HttpCaller) -> None:
    absent = call("GET", "/v1/params/dwh.orders.nothing")
    assert (absent.status, absent.code) == (404, "unknown_param")
    unsaid = call("PUT", ROWS, {"value": {}})
    assert (unsaid.status, unsaid.json["errors"][0]["field"]) == (422, "value")
    both = call("PUT", ROWS, {"value": {"integer": 1, "version": "1"}})
    assert (both.status, both.code) == (422, "invalid_request")
