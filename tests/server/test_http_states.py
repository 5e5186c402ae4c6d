"""S11 over HTTP: states of stages read, and replaced by compare-and-set with ETag and If-Match."""

from __future__ import annotations

import asyncio
from base64 import b64encode

import pytest
import server_app
from google.protobuf.duration_pb2 import Duration
from http_caller import HttpCaller, caller_of
from served_process import Served

PRICE = "/v1/states/listing/price"


@pytest.fixture
def call(served: Served) -> HttpCaller:
    async def put() -> None:
        async with server_app.app:
            for id in ("1", "a/b ä"):
                await server_app.listing.put(id, {"title": "a house"})

    asyncio.run(put())
    served.start_http()
    return caller_of(served)


def test_a_state_is_replaced_by_who_saw_its_version(served: Served, call: HttpCaller) -> None:
    """S11: the new version is answered; who was slower is told which version won."""
    none = call("GET", f"{PRICE}/1")
    assert (none.status, none.code) == (404, "not_found")
    first = call("PUT", f"{PRICE}/1", {"json": {"guess": 5}}, If_None_Match="*")
    tag = first.headers["etag"]
    assert (first.status, tag) == (200, f'"{first.json["version"]}"')
    found = call("GET", f"{PRICE}/1")
    assert (found.json["json"], found.headers["etag"]) == ({"guess": 5}, tag)
    assert call("GET", f"{PRICE}/1", If_None_Match=tag).status == 304

    late = call("PUT", f"{PRICE}/1", {"json": {"guess": 6}}, If_None_Match="*")
    assert (late.status, late.code) == (412, "moved_on")
    assert (late.headers["etag"], late.json["version"]) == (tag, first.json["version"])

    newer = call("PUT", f"{PRICE}/1", {}, If_Match=tag)
    assert newer.json["version"] > first.json["version"]
    assert call("PUT", f"{PRICE}/1", {"json": 1}, If_Match=tag).status == 412
    assert call("GET", f"{PRICE}/1").json["json"] is None


def test_a_write_is_known_by_its_idempotency_key(served: Served, call: HttpCaller) -> None:
    """Sent again it is answered as done, by another server too, until somebody else has written."""
    headers = {"If-None-Match": "*", "Idempotency-Key": "write 1"}
    first = call("PUT", f"{PRICE}/1", {"json": {"guess": 5}}, headers=headers)
    served.kill()
    served.start_http()
    again = call("PUT", f"{PRICE}/1", {"json": {"guess": 5}}, headers=headers)
    assert (first.status, again.status, again.json) == (200, 200, first.json)
    call("PUT", f"{PRICE}/1", {"json": {"guess": 6}}, If_Match=first.headers["etag"])
    assert call("PUT", f"{PRICE}/1", {"json": {"guess": 5}}, headers=headers).status == 412


def test_a_write_says_what_it_replaces(call: HttpCaller) -> None:
    for headers in ({}, {"If-Match": "*"}, {"If-Match": '"1"', "If-None-Match": "*"}):
        refused = call("PUT", f"{PRICE}/1", {"json": {}}, headers=headers)
        assert (refused.status, refused.code) == (428, "precondition_required")
    for tag in ("1", '"x"', '"1", "2"', '"99999999999999999999999"'):
        refused = call("PUT", f"{PRICE}/1", {"json": {}}, If_Match=tag)
        assert (refused.status, refused.code) == (422, "invalid_request")


def test_states_of_several_entities_are_read_together(call: HttpCaller) -> None:
    call("PUT", f"{PRICE}/a%2Fb%20%C3%A4", {"json": {"guess": 1}}, If_None_Match="*")
    found = call("GET", f"{PRICE}?id=1&id=a%2Fb+%C3%A4").json["states"]
    assert [(one["id"], one["version"] > 0, one["json"]) for one in found] == [
        ("1", False, None),
        ("a/b ä", True, {"guess": 1}),
    ]


def test_a_message_is_kept_as_it_is(served: Served, call: HttpCaller) -> None:
    """A stage of another language may keep a protobuf message; nobody here knows its type."""
    served.kill()
    served.start_http(place=None)
    value = b64encode(Duration(seconds=3).SerializeToString()).decode()
    type_url = "type.googleapis.com/google.protobuf.Duration"
    message = {"type_url": type_url, "value": value}
    made = call("PUT", f"{PRICE}/1", {"message": message, "schema": 2}, If_None_Match="*")
    assert made.status == 200, made
    found = call("GET", f"{PRICE}/1").json
    assert (found["message"], found["schema"], found["json"]) == (message, 2, None)


def test_what_is_not_there_is_told(call: HttpCaller) -> None:
    stage = call("GET", "/v1/states/listing/prize/1")
    assert (stage.status, stage.code) == (404, "unknown_stage")
    entity = call("PUT", f"{PRICE}/2", {"json": {}}, If_None_Match="*")
    assert (entity.status, entity.code) == (404, "not_found")
