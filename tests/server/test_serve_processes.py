"""Processes over gRPC: started once, signalled once, waited for, cancelled."""

from __future__ import annotations

import pytest
from served_process import Served

from mainspring.client import Client, ProcessRef, RemoteError
from mainspring.client import processes as requests
from mainspring.errors import ProcessFailed, ResultTimeout


@pytest.fixture
def client(served: Served) -> Client:
    served.start()
    return served.client()


def test_a_process_is_started_signalled_and_waited_for(client: Client, served: Served) -> None:
    """P15: each call is sent twice, and done once, across a kill of the server."""
    started = client.processes.start("publish", {"page": 3}, key="page-3", attrs={"shop": 1})
    served.kill()
    served.start()
    again = client.processes.start("publish", {"page": 3}, key="page-3")
    assert (started.is_new, again.is_new, again.id) == (True, False, started.id)
    with pytest.raises(RemoteError) as other:
        client.processes.start("publish", {"page": 4}, key="page-3")
    assert (other.value.code, other.value.status) == ("id_in_use", "ALREADY_EXISTS")

    with served.worker():
        with pytest.raises(ResultTimeout):
            client.processes.result(started, timeout=0.1)
        by_key = ProcessRef("publish", key="page-3")
        assert client.processes.signal(by_key, "approved", True, id="click") is True
        assert client.processes.signal(started, "approved", True, id="click") is False
        assert client.processes.result(by_key, timeout=30) == "page 3 is out"
        while client.processes.get(started).state == "open":
            pass

    assert client.processes.signal(started, "approved", True, id="click") is False
    with pytest.raises(RemoteError) as late:
        client.processes.signal(started, "approved", True, id="another click")
    assert (late.value.code, late.value.status) == ("refused", "FAILED_PRECONDITION")
    assert client.processes.cancel(started) is False


def test_a_start_without_a_key_is_one_by_its_callers_id(client: Client) -> None:
    call = requests.start("publish", {"page": 1}, key=None, attrs=None, at=None, priority=None)
    first, second = client.send(call), client.send(call)
    assert (first.is_new, second.is_new, second.id) == (True, False, first.id)


def test_a_process_that_fails_or_is_cancelled_says_so(client: Client, served: Served) -> None:
    with served.worker():
        waiting = client.processes.start("publish", {"page": 1})
        assert client.processes.get(waiting).state == "open"
        assert client.processes.cancel(waiting) is True
        with pytest.raises(ProcessFailed, match="cancelled"):
            client.processes.result(waiting, timeout=30)
        assert client.processes.cancel(waiting) is False


def test_what_does_not_fit_is_told(client: Client) -> None:
    def refused(code: str, status: str) -> pytest.RaisesExc[RemoteError]:
        return pytest.raises(RemoteError, check=lambda e: (e.code, e.status) == (code, status))

    started = client.processes.start("publish", {"page": 1})
    with refused("unknown_process", "NOT_FOUND"):
        client.processes.start("publsh", {"page": 1})
    with refused("invalid_arguments", "INVALID_ARGUMENT"):
        client.processes.start("publish", {"page": "one"})
    with refused("invalid_arguments", "INVALID_ARGUMENT"):
        client.processes.start("publish", {"page": 1}, attrs={"list": [1]})
    with refused("invalid_arguments", "INVALID_ARGUMENT"):
        client.processes.signal(started, "approved", "maybe")
    with refused("not_found", "NOT_FOUND"):  # by the id, of another type
        client.processes.get(ProcessRef("printed", id=started.id))
    with refused("not_found", "NOT_FOUND"):
        client.processes.signal(ProcessRef("publish", key="nobody"), "approved", True)


def test_a_server_without_code_starts_by_name(served: Served) -> None:
    served.start(place=None)
    client = served.client()
    started = client.processes.start("publish", {"page": 5}, key="five")
    client.processes.signal(started, "approved", True)
    with served.worker():
        assert client.processes.result(started, timeout=30) == "page 5 is out"
