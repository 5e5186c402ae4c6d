"""T8: tasks over HTTP, from outside: enqueued, waited for, called off, once for their ids."""

from __future__ import annotations

import signal
import threading
from uuid import uuid4

import psycopg
import pytest
from http_caller import HttpCaller, caller_of
from served_process import Served


@pytest.fixture
def call(served: Served) -> HttpCaller:
    served.start_http()
    return caller_of(served)


def test_a_call_is_enqueued_waited_for_and_its_result_read(
    served: Served, call: HttpCaller
) -> None:
    made = call("POST", "/v1/tasks/mail.send/calls", {"args": {"to": "ann", "copies": 2}})
    assert made.status == 201
    assert made.json["is_new"] is True
    assert made.headers["location"] == made.json["url"]
    waiting = call("GET", made.json["url"]).json
    assert (waiting["state"], waiting["result"], waiting["error"]) == ("waiting", None, None)

    with served.worker():
        done = call("GET", made.json["url"] + "?wait=60").json

    assert (done["state"], done["result"]) == ("done", "sent to ann 2 times")
    assert done["id"] == made.json["id"]


def test_a_call_is_enqueued_once_for_its_key_though_the_server_is_killed(
    served: Served, call: HttpCaller
) -> None:
    """Idempotency-Key is the call's id: the same over servers, and after the call has ended."""
    key, path, body = str(uuid4()), "/v1/tasks/mail.send/calls", {"args": {"to": "bob"}}
    first = call("POST", path, body, Idempotency_Key=key)
    served.kill()
    served.start_http()
    again = call("POST", path, body, Idempotency_Key=f'"{key.upper()}"')
    with served.worker():
        assert call("GET", f"{path}/{key}?wait=60").json["state"] == "done"
        served.kill(signal.SIGTERM)
        served.start_http()
        after = call("POST", path, {**body, "id": key})

    answers = [(one.status, one.json["is_new"], one.json["id"]) for one in (first, again, after)]
    assert answers == [(201, True, key), (200, False, key), (200, False, key)]
    with psycopg.connect(served.url) as connection:
        assert connection.execute("select count(*) from sent").fetchone() == (1,)


def test_calls_are_enqueued_together_or_not_at_all(call: HttpCaller) -> None:
    calls = [
        {"task": "mail.note", "args": {"text": "a"}, "delay": 3600},
        {"task": "bill.pay", "args": {"amount": 1}, "at": "2036-01-31T12:00:00+02:00"},
        {"task": "mail.note", "args": {"text": "b"}, "key": "k/ä", "priority": 1},
    ]
    made = call("POST", "/v1/calls", {"calls": calls})
    assert made.status == 200
    states = [call("GET", one["url"]).json for one in made.json["calls"]]
    assert [(one["task"], one["state"]) for one in states] == [
        ("mail.note", "scheduled"),
        ("bill.pay", "scheduled"),
        ("mail.note", "waiting"),
    ]
    bad = [*calls[:1], {"task": "mail.note", "args": {"text": 1}}]
    refused = call("POST", "/v1/calls", {"calls": bad})
    assert (refused.status, refused.code) == (422, "invalid_arguments")


def test_a_call_with_a_key_is_there_once(call: HttpCaller) -> None:
    body = {"args": {"text": "x"}, "key": "a b/ä?&", "group": "g"}
    first, second = (call("POST", "/v1/tasks/mail.note/calls", body) for _ in range(2))
    assert (first.status, second.status) == (201, 200)
    assert first.json["id"] == second.json["id"]
    assert call("GET", second.headers["location"]).json["state"] == "waiting"


def test_a_call_is_called_off(call: HttpCaller) -> None:
    url = call("POST", "/v1/tasks/mail.note/calls", {"args": {"text": "x"}}).json["url"]
    assert call("POST", f"{url}/cancel").json["state"] == "cancelled"
    assert call("POST", f"{url}/cancel").json["state"] == "cancelled"
    told = call("GET", url).json
    assert (told["state"], told["error"]["code"]) == ("cancelled", "cancelled")


def test_who_waits_is_answered_when_the_call_ends(call: HttpCaller) -> None:
    """Not at the end of the wait: the test's own limit is below it."""
    url = call("POST", "/v1/tasks/mail.note/calls", {"args": {"text": "x"}}).json["url"]
    states: list[str] = []
    waiting = threading.Thread(
        target=lambda: states.append(call("GET", f"{url}?wait=60").json["state"])
    )
    waiting.start()
    call("POST", f"{url}/cancel")
    waiting.join(30)
    assert states == ["cancelled"]


def test_a_parked_call_says_why(served: Served, call: HttpCaller) -> None:
    url = call("POST", "/v1/tasks/mail.broken/calls", {}).json["url"]
    with served.worker():
        told = call("GET", f"{url}?wait=60").json
    assert (told["state"], told["result"]) == ("parked", None)
    assert "the letter has no stamp" in told["error"]["message"]


def test_what_is_not_there_and_what_is_wrong_are_told(call: HttpCaller) -> None:
    absent = call("GET", f"/v1/tasks/mail.note/calls/{uuid4()}")
    assert (absent.status, absent.code) == (404, "not_found")
    wrong = call("GET", "/v1/tasks/mail.note/calls/x")
    assert (wrong.status, wrong.code) == (422, "invalid_request")
    assert wrong.json["errors"][0]["field"] == "id"
    path = call("GET", "/v1/nothing")
    assert (path.status, path.code) == (404, "unknown_path")
    verb = call("DELETE", "/v1/tasks/mail.note/calls")
    assert (verb.status, verb.code, verb.headers["allow"]) == (405, "method_not_allowed", "POST")


def test_nobody_comes_without_a_token(served: Served, call: HttpCaller) -> None:
    nobody = HttpCaller(call.address, None)
    denied = nobody("POST", "/v1/tasks/mail.note/calls", {"args": {"text": "x"}})
    assert (denied.status, denied.code) == (401, "unauthenticated")
    assert denied.headers["www-authenticate"] == 'Bearer realm="mainspring"'
    stranger = HttpCaller(call.address, "msp_000000000000_" + "x" * 43)
    denied = stranger("GET", f"/v1/tasks/mail.note/calls/{uuid4()}")
    assert denied.status == 401
    assert denied.headers["www-authenticate"].endswith('error="invalid_token"')


def test_a_caller_without_the_scope_is_told_which(served: Served, new_token: object) -> None:
    assert callable(new_token)
    served.start_http()
    reader = HttpCaller(served.http_address, new_token("task.read"))
    denied = reader("POST", "/v1/tasks/mail.note/calls", {"args": {"text": "x"}})
    assert (denied.status, denied.code) == (403, "forbidden")
    assert 'scope="enqueue:mail.note"' in denied.headers["www-authenticate"]
