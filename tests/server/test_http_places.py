"""What a server is asked besides its calls: alive, ready, metrics, its description."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path

from http_caller import HttpCaller, caller_of
from openapi_spec_validator import validate
from served_process import Served

from mainspring.server.http import openapi

KEPT = Path(openapi.__file__).with_name("openapi.json")


def test_the_description_is_what_the_routes_say_and_is_valid(served: Served) -> None:
    """Write it anew with `make openapi`."""
    assert KEPT.read_text() == openapi.text()
    served.start_http()
    told = HttpCaller(served.http_address, None)("GET", "/openapi.json")
    assert (told.status, told.headers["content-type"]) == (200, "application/json")
    assert told.text == KEPT.read_bytes()
    validate(told.json)


def test_everybody_may_ask_whether_it_is_alive_and_ready(served: Served) -> None:
    served.start_http()
    nobody = HttpCaller(served.http_address, None)
    assert [nobody("GET", path).text for path in ("/livez", "/readyz")] == [b"alive\n", b"ready\n"]
    head = nobody("HEAD", "/readyz")
    assert (head.status, head.text) == (200, b"")
    assert nobody("POST", "/livez").code == "method_not_allowed"


def test_metrics_are_for_those_with_the_scope(
    served: Served, new_token: Callable[..., str]
) -> None:
    served.start_http()
    call = caller_of(served)
    call("POST", "/v1/tasks/mail.note/calls", {"args": {"text": "x"}})
    call("POST", "/v1/tasks/mail.note/calls", {"args": {"text": 1}})
    assert HttpCaller(served.http_address, None)("GET", "/metrics").status == 401
    reader = HttpCaller(served.http_address, new_token("task.read"))("GET", "/metrics")
    assert (reader.status, reader.code) == (403, "forbidden")

    told = HttpCaller(served.http_address, new_token("metrics"))("GET", "/metrics")

    assert told.headers["content-type"].startswith("application/openmetrics-text")
    lines = told.text.decode().splitlines()
    assert 'mainspring_visits{queue="mail.note",state="waiting"} 1' in lines
    calls = 'mainspring_server_calls_total{transport="http",call="enqueueCall",status='
    assert f'{calls}"201"}} 1' in lines
    assert f'{calls}"422"}} 1' in lines
    assert "mainspring_server_ready 1" in lines
    assert lines[-1] == "# EOF"
    assert lines.count("# EOF") == 1


def test_a_server_that_stops_answers_those_who_wait(served: Served) -> None:
    """SIGTERM ends a long poll with what is known; the exit is in order."""
    served.start_http()
    call = caller_of(served)
    url = call("POST", "/v1/tasks/mail.note/calls", {"args": {"text": "x"}}).json["url"]
    states: list[str] = []
    waiting = threading.Thread(
        target=lambda: states.append(call("GET", f"{url}?wait=60").json["state"])
    )
    waiting.start()
    while b'calls_here{kind="wait"} 1' not in call("GET", "/metrics").text:
        pass
    assert served.kill(signal.SIGTERM) == 0
    waiting.join(30)
    assert states == ["waiting"]
