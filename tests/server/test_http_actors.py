"""Actors over HTTP, in any language that speaks it: tasks pulled, kept, settled, given back."""

from __future__ import annotations

import threading
from typing import Any
from uuid import uuid4

import pytest
from http_caller import HttpCaller, caller_of
from served_process import Served


@pytest.fixture
def call(served: Served) -> HttpCaller:
    served.start_http()
    return caller_of(served)


def pull(call: HttpCaller, **more: Any) -> list[dict[str, Any]]:
    body = {"actors": ["card.charge"], "pull_id": str(uuid4()), "worker": "till", **more}
    answer = call("POST", "/v1/actors/pull", body)
    assert answer.status == 200, answer
    return list(answer.json["tasks"])


def settle(call: HttpCaller, **given: Any) -> str:
    answer = call("POST", "/v1/actors/settle", {"worker": "till", "settlements": [given]})
    assert answer.status == 200, answer
    return str(answer.json["settled"][0]["settled_as"])


def test_a_task_is_pulled_kept_and_settled_once(call: HttpCaller) -> None:
    """P3, P4: sent again the answer is known; the caller who waits for it has it."""
    url = call("POST", "/v1/tasks/card.charge/calls", {"args": {"order": 4}}).json["url"]
    order = {"limit": 5, "wait": 10, "pull_id": "one pull"}
    [task] = pull(call, **order)
    assert (task["actor"], task["args"], task["attempt"]) == ("card.charge", {"order": 4}, 1)
    [again] = pull(call, **order, again=True)  # the answer was lost: the same task
    assert again["task_id"] == task["task_id"]
    [beat] = call("POST", "/v1/actors/beat", {"tickets": [task["ticket"]]}).json["beats"]
    assert (beat["stop"], beat["held_until"] > task["held_until"]) == (None, True)
    done = {"ticket": task["ticket"], "result": "paid"}
    assert [settle(call, **done), settle(call, **done)] == ["accepted", "already"]
    [beat] = call("POST", "/v1/actors/beat", {"tickets": [task["ticket"]]}).json["beats"]
    assert beat == {"held_until": None, "stop": "gone"}
    assert call("GET", f"{url}?wait=30").json["result"] == "paid"


def test_a_pull_waits_for_a_task_and_who_hangs_up_holds_none(
    served: Served, call: HttpCaller
) -> None:
    """A caller that goes gives back: the next one has the task at its first attempt."""
    found: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: found.extend(pull(call, wait=60)))
    waiting.start()
    while b'calls_here{kind="wait"} 1' not in call("GET", "/metrics").text:
        pass
    call("POST", "/v1/tasks/card.charge/calls", {"args": {"order": 5}})
    waiting.join(60)
    [task] = found
    assert settle(call, ticket=task["ticket"], release=True) == "accepted"
    [again] = pull(call, wait=30)
    assert (again["args"], again["attempt"]) == ({"order": 5}, 1)
    failure = {"code": "declined", "message": "no cover", "final": True}
    assert settle(call, ticket=again["ticket"], failure=failure) == "accepted"


def test_a_settlement_that_says_nothing_or_two_things_is_refused(call: HttpCaller) -> None:
    for more in ({}, {"result": 1, "release": True}):
        body = {"settlements": [{"ticket": "x", **more}]}
        answer = call("POST", "/v1/actors/settle", body)
        assert (answer.status, answer.code) == (422, "invalid_request")
        assert answer.json["errors"][0]["field"] == "settlements[0]"
    forged = call("POST", "/v1/actors/beat", {"tickets": ["x"]})
    assert (forged.status, forged.code) == (422, "invalid_request")
