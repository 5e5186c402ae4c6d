"""Processes over HTTP: started once, signalled once, waited for, listed page by page."""

from __future__ import annotations

from uuid import uuid4

import pytest
from http_caller import HttpCaller, caller_of
from served_process import Served


@pytest.fixture
def call(served: Served) -> HttpCaller:
    served.start_http()
    return caller_of(served)


def test_a_process_is_started_signalled_and_waited_for(served: Served, call: HttpCaller) -> None:
    body = {"args": {"page": 3}, "key": "page/3 ä", "attrs": {"team": "web"}}
    first, again = (call("POST", "/v1/processes/publish", body) for _ in range(2))
    assert [(one.status, one.json["is_new"]) for one in (first, again)] == [
        (201, True),
        (200, False),
    ]
    url = first.headers["location"]
    with served.worker():
        sent = [
            call("POST", f"{url}/signals/approved", {"payload": True}, Idempotency_Key="ok 1")
            for _ in range(2)
        ]
        done = call("GET", "/v1/processes/publish/key:page%2F3%20%C3%A4?wait=60").json
    assert [one.json["is_new"] for one in sent] == [True, False]
    assert (done["state"], done["has_result"]) == ("finished", True)
    assert done["result"] == "page 3 is out"
    assert done["id"] == first.json["id"]


def test_a_start_is_known_by_the_id_that_its_caller_made(call: HttpCaller) -> None:
    key = str(uuid4())
    first, again = (
        call("POST", "/v1/processes/publish", {"args": {"page": 1}}, Idempotency_Key=key)
        for _ in range(2)
    )
    assert (first.status, again.status, again.json["id"]) == (201, 200, first.json["id"])
    other = call("POST", "/v1/processes/publish", {"args": {"page": 2}}, Idempotency_Key=key)
    assert (other.status, other.code) == (409, "id_in_use")


def test_a_process_is_called_off(served: Served, call: HttpCaller) -> None:
    url = call("POST", "/v1/processes/publish", {"args": {"page": 1}}).json["url"]
    assert call("POST", f"{url}/cancel").json == {"requested": True}
    with served.worker():
        told = call("GET", f"{url}?wait=60").json
    assert (told["state"], told["has_result"], told["result"]) == ("cancelled", False, None)
    assert "cancelled" in told["problem"]["message"]
    assert call("POST", f"{url}/cancel").json == {"requested": False}


def test_processes_are_listed_page_by_page_newest_first(call: HttpCaller) -> None:
    made = [
        call(
            "POST",
            "/v1/processes/publish",
            {"args": {"page": n}, "key": str(n), "attrs": {"even": n % 2 == 0}},
        ).json["id"]
        for n in range(5)
    ]
    call("POST", "/v1/processes/fails", {"args": {"page": 1}})
    pages, cursor = [], ""
    while cursor is not None:
        page = call("GET", f"/v1/processes/publish?limit=2&cursor={cursor}").json
        pages.append([one["id"] for one in page["processes"]])
        cursor = page["next_cursor"]
    newest = made[::-1]
    assert pages == [newest[:2], newest[2:4], newest[4:]]
    even = call("GET", "/v1/processes/publish?attrs=%7B%22even%22:true%7D&state=open").json
    assert [one["key"] for one in even["processes"]] == ["4", "2", "0"]
    assert even["next_cursor"] is None
    bad = call("GET", "/v1/processes/publish?cursor=x")
    assert (bad.status, bad.json["errors"][0]["field"]) == (422, "cursor")


def test_what_is_missing_is_told(call: HttpCaller) -> None:
    url = f"/v1/processes/publish/{uuid4()}"
    absent = call("GET", url)
    assert (absent.status, absent.code) == (404, "not_found")
    unknown = call("POST", "/v1/processes/publsh", {})
    assert (unknown.status, unknown.code) == (404, "unknown_process")
    unsaid = call("POST", f"{url}/signals/approved", {"payload": True})
    assert (unsaid.status, unsaid.code) == (428, "precondition_required")
    wrong = call("POST", "/v1/processes/publish", {"args": {"page": "one"}})
    assert (wrong.status, wrong.code) == (422, "invalid_arguments")


def test_nobody_outside_sends_the_signals_of_the_engine(call: HttpCaller) -> None:
    """P15: by them locks are granted: a right to signal is none to take a lock out of turn."""
    url = f"/v1/processes/publish/{uuid4()}/signals/%40lock%2Fx%2F0"
    forged = call("POST", url, {"payload": None}, Idempotency_Key="granted")
    assert (forged.status, forged.json["errors"][0]["field"]) == (422, "name")
