"""S11 over gRPC: states of stages read, and replaced by compare-and-set, once for each request."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
import server_app
from google.protobuf.duration_pb2 import Duration
from google.protobuf.wrappers_pb2 import StringValue
from served_process import Served

from mainspring.client import Client, RemoteError
from mainspring.client import states as requests


@pytest.fixture
def client(served: Served) -> Client:
    async def put() -> None:
        async with server_app.app:
            for id in ("1", "2"):
                await server_app.listing.put(id, {"title": "a house"})

    asyncio.run(put())
    served.start()
    return served.client()


def test_a_state_is_set_once_for_a_request(client: Client, served: Served) -> None:
    """S11: the new version is answered; sent again, the same; then whoever was faster has won."""
    call = requests.set_one("listing", "price", "1", {"guess": 5}, 0, 1)
    assert [(s.value, s.version) for s in client.states.get("listing", "price", ["1"])] == [
        (None, 0)
    ]
    done, version = client.send(call)
    served.kill()
    served.start()
    assert (done, client.send(call)) == (True, (True, version))
    assert [
        (s.id, s.value, s.version) for s in client.states.get("listing", "price", ["2", "1"])
    ] == [
        ("2", None, 0),
        ("1", {"guess": 5}, version),
    ]
    with psycopg.connect(served.url) as connection:
        asked = connection.execute(
            "select payload from mainspring.visit where key = '1'"
        ).fetchall()
    assert [payload["ask:price"] for (payload,) in asked] == [1]  # the stage is asked again

    assert client.states.set("listing", "price", "1", {"guess": 6}, version=0) == (False, version)
    other, newer = client.states.set("listing", "price", "1", None, version=version)
    assert other
    assert newer > version
    assert client.send(call) == (False, newer)
    assert client.states.get("listing", "price", ["1"])[0].value is None


def test_a_save_of_the_stage_itself_ends_a_requests_right(client: Client, served: Served) -> None:
    """S11: the version that the request made is no longer there, whoever replaced it."""
    call = requests.set_one("listing", "price", "1", {"guess": 5}, 0, 1)
    client.send(call)
    with psycopg.connect(served.url, autocommit=True) as connection:
        connection.execute(
            "update mainspring.state set version = nextval('mainspring.state_version')"
        )
        row = connection.execute("select version from mainspring.state").fetchone()
    assert row is not None
    assert client.send(call) == (False, row[0])


def test_a_message_comes_back_as_it_was(served: Served) -> None:
    served.start(place=None)
    client = served.client()
    with psycopg.connect(served.url, autocommit=True) as connection:
        connection.execute(
            "insert into mainspring.document (kind, key, body) values ('listing', '1', '{}')"
        )
    done, _ = client.states.set(
        "listing", "price", "1", StringValue(value="x"), version=0, schema=3
    )
    [state] = client.states.get("listing", "price", ["1"])
    found = StringValue()
    assert done
    assert state.value.Unpack(found)
    assert not state.value.Unpack(Duration())
    assert (found.value, state.schema) == ("x", 3)


def test_what_is_not_there_is_told(client: Client) -> None:
    def refused(code: str, status: str) -> pytest.RaisesExc[RemoteError]:
        return pytest.raises(RemoteError, check=lambda e: (e.code, e.status) == (code, status))

    with refused("not_found", "NOT_FOUND"):
        client.states.get("listng", "price", ["1"])
    with refused("unknown_stage", "NOT_FOUND"):
        client.states.get("listing", "prize", ["1"])
    with refused("unknown_stage", "NOT_FOUND"):
        client.states.set("listing", "prize", "1", {}, version=0)
    with refused("not_found", "NOT_FOUND"):
        client.states.set("listing", "price", "9", {}, version=0)
    with refused("newer_state", "FAILED_PRECONDITION"):
        client.states.set("listing", "price", "1", {}, version=0, schema=7)
