"""Every route, by every scope, on an object of its own and on a foreign one (invariant 13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

from http_caller import HttpCaller
from served_process import Served
from tickets import tickets

from mainspring.server.access.scopes import VERBS
from mainspring.server.http.routes.table import ROUTES

ID = str(uuid4())


class RouteAsked(NamedTuple):
    """A route: its scope's verb, an own and a foreign name, and its request about a name."""

    verb: str
    name: str
    foreign: str
    path: Callable[[str], str]
    body: Callable[[str], object] = lambda name: None
    headers: Mapping[str, str] = MappingProxyType({})


TASKS = ("mail.note", "bill.pay")
ACTORS = ("card.charge", "card.refund")
PARAMS = ("dwh.orders.rows", "ml.price.model")
PROCESSES = ("publish", "fails")
STATES = ("listing/price", "listing/photos")
ASKED = {
    "enqueueCall": RouteAsked(
        "enqueue", *TASKS, lambda name: f"/v1/tasks/{name}/calls", lambda name: {"args": {}}
    ),
    "enqueueCalls": RouteAsked(
        "enqueue", *TASKS, lambda name: "/v1/calls", lambda name: {"calls": [{"task": name}]}
    ),
    "getCall": RouteAsked("task.read", *TASKS, lambda name: f"/v1/tasks/{name}/calls/{ID}"),
    "cancelCall": RouteAsked(
        "task.cancel", *TASKS, lambda name: f"/v1/tasks/{name}/calls/{ID}/cancel"
    ),
    "getParam": RouteAsked("param.read", *PARAMS, lambda name: f"/v1/params/{name}"),
    "getParams": RouteAsked("param.read", *PARAMS, lambda name: f"/v1/params?name={name}"),
    "advanceParam": RouteAsked(
        "param.advance",
        *PARAMS,
        lambda name: f"/v1/params/{name}",
        lambda name: {"value": {"integer": 1}},
    ),
    "advanceParams": RouteAsked(
        "param.advance",
        *PARAMS,
        lambda name: "/v1/params",
        lambda name: {"params": [{"name": name, "value": {"integer": 1}}]},
    ),
    "rewindParam": RouteAsked(
        "param.rewind",
        *PARAMS,
        lambda name: f"/v1/params/{name}/rewind",
        lambda name: {"to": {"integer": 1}},
        {"If-Match": "*"},
    ),
    "startProcess": RouteAsked(
        "process.start",
        *PROCESSES,
        lambda name: f"/v1/processes/{name}",
        lambda name: {"args": {"page": 1}},
    ),
    "listProcesses": RouteAsked("process.read", *PROCESSES, lambda name: f"/v1/processes/{name}"),
    "getProcess": RouteAsked("process.read", *PROCESSES, lambda name: f"/v1/processes/{name}/{ID}"),
    "signalProcess": RouteAsked(
        "process.signal",
        *PROCESSES,
        lambda name: f"/v1/processes/{name}/{ID}/signals/approved",
        lambda name: {"payload": True},
        {"Idempotency-Key": "1"},
    ),
    "cancelProcess": RouteAsked(
        "process.cancel", *PROCESSES, lambda name: f"/v1/processes/{name}/{ID}/cancel"
    ),
    "pullTasks": RouteAsked(
        "pull",
        *ACTORS,
        lambda name: "/v1/actors/pull",
        lambda name: {"actors": [name], "pull_id": "1"},
    ),
    "beatTasks": RouteAsked(
        "pull",
        *ACTORS,
        lambda name: "/v1/actors/beat",
        lambda name: {"tickets": [tickets.ticket(name)]},
    ),
    "settleTasks": RouteAsked(
        "pull",
        *ACTORS,
        lambda name: "/v1/actors/settle",
        lambda name: {"settlements": [{"ticket": tickets.ticket(name), "release": True}]},
    ),
    "getState": RouteAsked("state.read", *STATES, lambda name: f"/v1/states/{name}/1"),
    "getStates": RouteAsked("state.read", *STATES, lambda name: f"/v1/states/{name}?id=1"),
    "setState": RouteAsked(
        "state.write",
        *STATES,
        lambda name: f"/v1/states/{name}/1",
        lambda name: {"json": {}},
        {"If-None-Match": "*"},
    ),
}


def test_every_route_is_in_the_matrix() -> None:
    assert {route.name for route in ROUTES} == ASKED.keys()


def test_a_caller_may_do_over_http_what_his_scopes_say_and_nothing_else(
    served: Served, new_token: Callable[..., str]
) -> None:
    served.start_http()
    tickets.read(served.url)
    own = {asked.verb: asked.name for asked in ASKED.values()}
    callers = {
        "admin": HttpCaller(served.http_address, new_token("admin")),
        **{
            verb: HttpCaller(served.http_address, new_token(f"{verb}:{own.get(verb, 'x')}"))
            for verb in VERBS
        },
        "nobody": HttpCaller(served.http_address, None),
    }
    wrong: list[Any] = []
    for route in ROUTES:
        asked = ASKED[route.name]
        for name in (asked.name, asked.foreign):
            for scope, call in callers.items():
                allowed = scope == "admin" or (scope == asked.verb and name == asked.name)
                answer = call(
                    route.verb, asked.path(name), asked.body(name), headers=dict(asked.headers)
                )
                refused = 401 if scope == "nobody" else 403
                if (answer.status == refused) is allowed or answer.status >= 500:
                    wrong.append((route.name, name, scope, answer.status))
    assert wrong == []


def test_what_is_mistyped_names_nothing_that_is_there(
    served: Served, new_token: Callable[..., str]
) -> None:
    """The nearest name is a help to who declared it; a caller may have no scope for it."""
    served.start_http()
    scopes = ("state.write:listing/prize", "process.start:publsh", "param.advance:dwh.orders.rws")
    call = HttpCaller(served.http_address, new_token(*scopes, "enqueue:mail.sent"))
    for verb, path, body in (
        ("PUT", "/v1/states/listing/prize/a", {"json": 1}),
        ("POST", "/v1/processes/publsh", {"args": {"page": 1}}),
        ("POST", "/v1/tasks/mail.sent/calls", {"args": {"to": "ann"}}),
        ("PUT", "/v1/params/dwh.orders.rws", {"value": {"integer": 1}}),
    ):
        answer = call(verb, path, body, if_none_match="*")
        assert answer.status == 404, answer
        assert "did you mean" not in answer.json["detail"]
