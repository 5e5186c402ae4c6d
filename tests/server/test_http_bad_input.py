"""What callers get wrong over HTTP, byte by byte: every answer says so, none of them is our fault."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from typing import Any
from uuid import uuid4

import pytest
from http_caller import HttpCaller, caller_of
from served_process import Served
from test_http_matrix import ASKED

from mainspring.server.http import protocol
from mainspring.server.http.routes.table import ROUTES

NOTE = "/v1/tasks/mail.note/calls"
VALUES: list[Any] = [
    *(None, True, -1, 1.5, 10**30, "", "\x00", "x\x00y", "ä" * 3000, [], {}, [[]], [None]),
    *({"a": {"b": []}}, "2030-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2030-01-01T00:00:00"),
]
FULL: dict[str, Any] = {
    "enqueueCall": {
        "args": {"text": "x"},
        "id": str(uuid4()),
        "key": "k",
        "group": "g",
        "delay": 1,
        "at": None,
        "priority": 3,
        "expires_at": "2036-01-01T00:00:00Z",
    },
    "enqueueCalls": {"calls": [{"task": "mail.note", "args": {"text": "x"}}]},
    "advanceParam": {"value": {"integer": 1}, "if_greater": False, "why": "w"},
    "advanceParams": {"params": [{"name": "dwh.orders.rows", "value": {"integer": 1}}]},
    "rewindParam": {"to": {"integer": 1}, "chunks": [{"integer": 1}], "why": "w"},
    "startProcess": {"args": {"page": 1}, "key": "k", "attrs": {"a": 1}, "at": None, "priority": 1},
    "signalProcess": {"payload": True},
    "pullTasks": {
        "actors": ["card.charge"],
        "pull_id": "1",
        "worker": "w",
        "limit": 1,
        "wait": 0,
        "again": False,
    },
    "beatTasks": {"tickets": ["x"]},
    "settleTasks": {
        "worker": "w",
        "settlements": [
            {"ticket": "x", "result": 1},
            {"ticket": "x", "decision": {}},
            {"ticket": "x", "release": True},
            {"ticket": "x", "failure": {"code": "c", "message": "m", "retry_after": 1}},
        ],
    },
    "setState": {"json": {"guess": 1}, "message": None, "schema": 1},
}
TEXTS = [
    *(b"", b"{", b"[]", b"1", b"null", b'"x"', b"\xff\xfe", b'{"args": {"text": "\xc3\x28"}}'),
    *(b'{"args": NaN}', b'{"args": {}} x', b"\xef\xbb\xbf{}", b'{"args": "\\ud800"}'),
    *(b'{"args": {"text": "\\u0000"}}', b'{"args": {"text": "\\ud800"}}', b'{"unknown": 1}'),
    b'{"key": "\\ud800"}',
    b'{"args": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b"[" * 100_000,
]


@pytest.fixture
def call(served: Served) -> HttpCaller:
    served.start_http()
    return caller_of(served)


def places(value: Any) -> list[list[Any]]:
    """The place of each value in a document."""
    found: list[list[Any]] = [[]]
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        found += [[key, *rest] for key, inner in items for rest in places(inner)]
    return found


def replaced(value: Any, place: list[Any], new: Any) -> Any:
    if not place:
        return new
    copy = json.loads(json.dumps(value))
    at = copy
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = new
    return copy


def test_whatever_a_field_is_the_answer_is_no_fault_of_ours(call: HttpCaller) -> None:
    """Every field of every body: unset, of another type, NUL, too long, out of range."""
    wrong, counts = [], Counter[int]()
    for route in ROUTES:
        if route.body is None:
            continue
        asked, body = ASKED[route.name], FULL[route.name]
        for place in places(body):
            for value in VALUES:
                sent = replaced(body, place, value)
                answer = call(route.verb, asked.path(asked.name), sent, headers=dict(asked.headers))
                counts[answer.status] += 1
                if answer.status >= 500:
                    wrong.append((route.name, place, value, answer))
                elif answer.status >= 400:
                    assert answer.code
    assert wrong == []
    assert counts[422] > 300


def test_whatever_a_path_or_a_query_is_the_answer_is_no_fault_of_ours(call: HttpCaller) -> None:
    texts = ["%00", "%FF", "%ED%A0%80", "x" * 3000, "..", "%2F", "%", "%zz", "%F0%9F%92%A9"]
    wrong = []
    for route in ROUTES:
        asked = ASKED[route.name]
        parts = asked.path(asked.name).partition("?")[0].split("/")
        for n in range(2, len(parts)):
            for text in texts:
                path = "/".join([*parts[:n], text, *parts[n + 1 :]])
                for query in ("", f"?wait={text}", f"?name={text}&limit={text}&newer_than={text}"):
                    body = FULL.get(route.name)
                    answer = call(route.verb, path + query, body, headers=dict(asked.headers))
                    if not 200 <= answer.status < 500:
                        wrong.append((route.verb, path + query, answer))
    assert wrong == []
    for query in ("wait=nan", "wait=inf", "wait=-1", "wait=61", "wait=1&wait=2", "unknown=1"):
        assert call("GET", f"{NOTE}/{uuid4()}?{query}").code == "invalid_request", query


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:30]))
def test_a_body_that_is_no_call_is_the_callers_fault(call: HttpCaller, text: bytes) -> None:
    answer = call("POST", NOTE, text=text)
    assert answer.status in (400, 422), answer
    assert answer.code in ("no_json", "invalid_request", "invalid_arguments")


def test_media_types_are_checked(call: HttpCaller) -> None:
    plain = call("POST", NOTE, text=b"{}", headers={"Content-Type": "text/plain"})
    assert (plain.status, plain.code) == (415, "unsupported_media_type")
    html = call("POST", NOTE, {"args": {"text": "x"}}, Accept="text/html")
    assert (html.status, html.code) == (406, "not_acceptable")
    zero = call("GET", f"{NOTE}/{uuid4()}", Accept="*/*, application/json;q=0")
    assert zero.status == 406
    some = call("GET", f"{NOTE}/{uuid4()}", Accept="text/html, application/*;q=0.1")
    assert some.status == 404
    extra = call("POST", f"{NOTE}/{uuid4()}/cancel", text=b"{}")
    assert (extra.status, extra.code) == (400, "no_body_wanted")


def test_the_same_id_twice_is_refused(call: HttpCaller) -> None:
    id = str(uuid4())
    calls = [{"task": "mail.note", "args": {"text": "x"}, "id": i} for i in (id, id.upper())]
    assert call("POST", "/v1/calls", {"calls": calls}).code == "invalid_request"
    differs = call("POST", NOTE, {"id": str(uuid4())}, Idempotency_Key=id)
    assert differs.code == "invalid_request"
    many = [{"task": "mail.note"}] * 1001
    assert call("POST", "/v1/calls", {"calls": many}).code == "invalid_request"


def test_what_is_too_large_is_refused_before_it_is_read(call: HttpCaller) -> None:
    large = call("POST", NOTE, {"args": {"text": "x" * (5 * 1024 * 1024)}})
    assert (large.status, large.code) == (413, "too_large")
    long = call("GET", "/v1/nothing", X_Long="x" * 20_000)
    assert (long.status, long.code) == (431, "too_large")
    far = call("GET", "/v1/" + "x" * 17_000)
    assert (far.status, far.code) == (414, "too_large")
    endless = call("GET", "/v1/nothing", X_Long="x" * 100_000)
    assert endless.status in (400, 431)


class Raw:
    """A connection on which a test writes what it likes."""

    def __init__(self, call: HttpCaller) -> None:
        host, _, port = call.address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=100)
        self.head = f"Host: {call.address}\r\nAuthorization: Bearer {call.token}\r\n"

    def send(self, text: str) -> None:
        self.socket.sendall(text.encode())

    def answer(self) -> str:
        """The first line, and all that follows until the server closes."""
        found = b""
        try:
            while part := self.socket.recv(65536):
                found += part
        except ConnectionResetError:
            pass
        self.socket.close()
        return found.decode()


SMUGGLED = [
    "POST {path} HTTP/1.1\r\n{head}Connection: close\r\nContent-Length: 5\r\n"
    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST {path} HTTP/1.1\r\n{head}Content-Length: 5\r\nContent-Length: 6\r\n\r\n{{}}",
    "POST {path} HTTP/1.1\r\n{head}Content-Length: -1\r\n\r\n",
    "POST {path} HTTP/1.1\r\n{head}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST {path} HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n",
    "POST {path} HTTP/1.1\r\n{head}Bad Header: x\r\n\r\n",
    "POST\r\n\r\n",
    "\x00\x01\x02\r\n\r\n",
    "GET {path} HTTP/1.1\r\nAuthorization: x\r\n\r\n",
]


@pytest.mark.parametrize("text", SMUGGLED, ids=range(len(SMUGGLED)))
def test_what_is_no_http_is_refused(call: HttpCaller, text: str) -> None:
    """A request that could be read as two is none."""
    raw = Raw(call)
    raw.send(text.format(path=NOTE, head=raw.head))
    answer = raw.answer()
    assert answer.startswith(("HTTP/1.1 400", "HTTP/1.1 403", "HTTP/1.1 501")), answer
    assert '"code":"no_http"' in answer
    assert caller_is_served(call)


def caller_is_served(call: HttpCaller) -> bool:
    return call("POST", NOTE, {"args": {"text": "x"}}).status == 201


def test_a_body_in_chunks_is_read(call: HttpCaller) -> None:
    raw = Raw(call)
    kind = "Content-Type: application/json\r\nConnection: close\r\n"
    raw.send(f"POST {NOTE} HTTP/1.1\r\n{raw.head}{kind}Transfer-Encoding: chunked\r\n\r\n")
    for part in ('{"args": ', '{"text": "x"}}'):
        raw.send(f"{len(part):x}\r\n{part}\r\n")
    raw.send("0\r\n\r\n")
    assert raw.answer().startswith("HTTP/1.1 201")


def test_a_chunked_body_that_is_too_large_is_refused(call: HttpCaller) -> None:
    raw = Raw(call)
    kind = "Content-Type: application/json\r\n"
    raw.send(f"POST {NOTE} HTTP/1.1\r\n{raw.head}{kind}Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(80):
        raw.send(f"{65536:x}\r\n{'x' * 65536}\r\n")
    assert raw.socket.recv(12) == b"HTTP/1.1 413"
    raw.socket.close()


def test_who_sends_slowly_is_dropped_and_holds_up_nobody(call: HttpCaller) -> None:
    """Slow loris: a request that does not become whole ends its connection, by our clock."""
    head = f"POST {NOTE} HTTP/1.1\r\n"
    kind = "Content-Type: application/json\r\nContent-Length: 100\r\n"
    slow = [Raw(call) for _ in range(3)]
    slow[1].send(f"{head}{slow[1].head}")
    slow[2].send(f'{head}{slow[2].head}{kind}\r\n{{"args"')
    answers: list[str] = []
    reading = [
        threading.Thread(target=lambda raw=raw: answers.append(raw.answer()), daemon=True)
        for raw in slow
    ]
    for thread in reading:
        thread.start()
    assert caller_is_served(call)
    for thread in reading:
        thread.join(protocol.READ_SECONDS + 25)
    assert sorted(text.partition("\r")[0] for text in answers) == [
        "",
        "",
        "HTTP/1.1 408 Request Timeout",
    ]


def test_pages_of_other_sites_and_foreign_names_are_refused(call: HttpCaller) -> None:
    """DNS rebinding comes under a foreign name; a foreign page says where it is from."""
    port = call.address.rpartition(":")[2]
    for host in ("evil.example.org", f"evil.example.org:{port}", "127.0.0.1.evil.org", ""):
        answer = call("GET", "/livez", headers={"Host": host})
        assert (answer.status, answer.code) == (403, "foreign_host")
    for headers in (
        {"Origin": "https://evil.example.org"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        answer = call("POST", NOTE, {"args": {"text": "x"}}, headers=headers)
        assert (answer.status, answer.code) == (403, "cross_site")
        assert "access-control-allow-origin" not in answer.headers
    own = {"Origin": f"http://{call.address}", "Sec-Fetch-Site": "same-origin"}
    assert call("POST", NOTE, {"args": {"text": "x"}}, headers=own).status == 201
    for host in (f"localhost:{port}", "LOCALHOST", f"[::1]:{port}"):
        assert call("GET", "/livez", headers={"Host": host}).status == 200
    preflight = call("OPTIONS", NOTE)
    assert (preflight.status, preflight.headers["allow"]) == (405, "POST")


def test_an_authorization_that_is_odd_is_refused(call: HttpCaller) -> None:
    odd = ["", "Bearer", "Basic x", f"Bearer {call.token} x", "Bearer \u00e4", "Bearer msp_x"]
    for text in odd:
        answer = HttpCaller(call.address, None)("GET", f"{NOTE}/{uuid4()}", Authorization=text)
        assert (answer.status, answer.code) == (401, "unauthenticated"), text
