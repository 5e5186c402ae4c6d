"""R1, R13 over gRPC: params advanced, moved back, read, waited for and watched."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest
from served_process import Served

from mainspring.client import Client, ParamValue, RemoteError

LOADED, ROWS, MODEL = "dwh.orders.loaded_to", "dwh.orders.rows", "ml.price.model"
MARCH = datetime(2026, 3, 10, 1, 2, 3, 456789, tzinfo=UTC)


@pytest.fixture
def client(served: Served) -> Client:
    served.start()
    return served.client()


def refused(client: Client, code: str, status: str) -> pytest.RaisesExc[RemoteError]:
    return pytest.raises(
        RemoteError, check=lambda error: (error.code, error.status) == (code, status)
    )


def test_params_of_each_kind_are_advanced_and_read(client: Client) -> None:
    """R1: an equal value moves nothing, so an advance may be sent again; who and why is kept."""
    values = {LOADED: MARCH, ROWS: 7, MODEL: "v1"}
    assert client.params.advance(values, why="loaded") == dict.fromkeys(values, True)
    assert client.params.advance(values) == dict.fromkeys(values, False)

    found, revision = client.params.get([LOADED, ROWS, MODEL])

    assert {param.name: param.value for param in found} == values
    assert [param.changed_by for param in found] == ["local"] * 3
    assert [param.revision for param in found] == [1, 1, 1]
    assert revision == 3


def test_a_value_that_goes_back_is_refused_all_or_none(client: Client) -> None:
    """R13: unless it may be greater already."""
    client.params.advance({ROWS: 7})
    with refused(client, "went_back", "FAILED_PRECONDITION"):
        client.params.advance({MODEL: "v9", ROWS: 6})
    assert client.params.get([MODEL])[0][0].value is None
    assert client.params.advance({ROWS: 6, MODEL: "v9"}, if_greater=True) == {
        ROWS: False,
        MODEL: True,
    }


def test_what_cannot_be_set_is_told(client: Client) -> None:
    with refused(client, "unknown_param", "NOT_FOUND"):
        client.params.advance({"dwh.orders.row": 7})
    with refused(client, "unknown_param", "NOT_FOUND"):
        client.params.get([ROWS, "dwh.orders.row"])
    with refused(client, "invalid_value", "INVALID_ARGUMENT"):
        client.params.advance({ROWS: "seven"})
    with refused(client, "invalid_setting", "INVALID_ARGUMENT"):
        client.params.advance({"nodot": 7})


def test_a_rewind_that_is_sent_again_after_an_advance_does_nothing(client: Client) -> None:
    """R13: it names the revision that its caller saw."""
    client.params.advance({ROWS: 9})
    [seen], _ = client.params.get([ROWS])
    assert client.params.rewind(ROWS, 5, revision=seen.revision, why="restated") == []
    client.params.advance({ROWS: 8})
    with refused(client, "moved_on", "FAILED_PRECONDITION"):
        client.params.rewind(ROWS, 5, revision=seen.revision)
    assert client.params.get([ROWS])[0][0].value == 8
    assert client.params.rewind(ROWS, 6) == []  # whatever it is
    with refused(client, "invalid_value", "INVALID_ARGUMENT"):
        client.params.rewind(ROWS, 7)


def test_a_wait_ends_when_one_of_them_moves(client: Client) -> None:
    """One loop looks for all who wait."""
    client.params.advance({ROWS: 1})
    _, revision = client.params.get([ROWS, MODEL])
    assert client.params.get([ROWS, MODEL], wait=0.1, newer_than=revision)[1] == revision
    found: list[tuple[list[ParamValue], int]] = []

    def wait() -> None:
        found.append(client.params.get([ROWS, MODEL], wait=50, newer_than=revision))

    waiting = [threading.Thread(target=wait) for _ in range(20)]
    for thread in waiting:
        thread.start()
    client.params.advance({MODEL: "v2"})
    for thread in waiting:
        thread.join(30)

    assert [(len(params), params[1].value) for params, _ in found] == [(2, "v2")] * 20


def test_a_stream_begins_with_all_and_goes_on_with_what_moved(client: Client) -> None:
    client.params.advance({ROWS: 1})
    stream = client.params.watch([ROWS, MODEL])
    first = next(stream)
    assert [(param.name, param.value) for param in first] == [(ROWS, 1), (MODEL, None)]
    client.params.advance({MODEL: "v2"})
    assert [(param.name, param.value) for param in next(stream)] == [(MODEL, "v2")]
    client.params.advance({ROWS: 2})
    assert [(param.name, param.value) for param in next(stream)] == [(ROWS, 2)]
    stream.close()
