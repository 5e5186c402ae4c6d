"""T8: tasks over gRPC, from outside: a server process, a worker process, a client, and a kill between."""

from __future__ import annotations

import signal
import threading
from uuid import uuid4

import psycopg
import pytest
from served_process import Served

from mainspring.client import RemoteError, ServerAway, TaskRef
from mainspring.errors import ResultTimeout, TaskFailed


def sent(served: Served) -> list[str]:
    with psycopg.connect(served.url) as connection:
        rows = connection.execute("select receiver from sent order by receiver").fetchall()
    return [receiver for (receiver,) in rows]


def test_a_task_is_enqueued_and_waited_for_across_a_kill_of_the_server(served: Served) -> None:
    """T8: the id makes it one call, before, during and after it ran, whatever server is asked."""
    served.start()
    client, id = served.client(), str(uuid4())
    first = client.tasks.enqueue("mail.send", {"to": "ann"}, id=id)
    assert (first.id, first.key, first.is_new) == (id, id, True)
    served.kill()
    served.start()
    again = client.tasks.enqueue("mail.send", {"to": "ann"}, id=id)
    assert (again.id, again.is_new) == (id, False)

    with served.worker():
        assert client.tasks.result(first, timeout=30) == "sent to ann 1 times"
        served.kill()
        served.start()
        after = client.tasks.enqueue("mail.send", {"to": "ann"}, id=id)
        assert (after.id, after.is_new) == (id, False)
        other = client.tasks.enqueue("mail.send", {"to": "bob", "copies": 2})
        assert client.tasks.result(other, timeout=30) == "sent to bob 2 times"

    assert sent(served) == ["ann", "bob"]


def test_a_call_is_repeated_while_the_server_is_away(served: Served) -> None:
    """T8: UNAVAILABLE is sent again under the same id, and nothing else is."""
    served.start()
    client = served.client(timeout=60)
    client.tasks.enqueue("mail.note", {"text": "first"})
    served.kill()
    found: list[TaskRef] = []
    waiting = threading.Thread(
        target=lambda: found.append(client.tasks.enqueue("mail.note", {"text": "second"}))
    )
    waiting.start()
    served.start()
    waiting.join(60)

    assert [call.is_new for call in found] == [True]
    with psycopg.connect(served.url) as connection:
        count = connection.execute("select count(*) from mainspring.visit").fetchone()
    assert count == (2,)


def test_a_server_that_stays_away_is_told(served: Served) -> None:
    served.start()
    client = served.client(timeout=0.5)
    served.kill()

    with pytest.raises(ServerAway) as told:
        client.tasks.enqueue("mail.note", {"text": "nobody hears"})
    assert told.value.status == "UNAVAILABLE"


def test_what_is_done_twice_in_one_bundle_of_history_is_still_one_call(served: Served) -> None:
    """T8: runs that ended well are kept in bundles; their ids are known there too."""
    served.start()
    client = served.client()
    ids = [str(uuid4()) for _ in range(50)]
    calls = [client.tasks.enqueue("mail.note", {"text": "x"}, id=id) for id in ids[:2]]
    with served.worker():
        more = [client.tasks.enqueue("mail.note", {"text": "x"}, id=id) for id in ids[2:]]
        for call in calls + more:
            assert client.tasks.result(call, timeout=30) == "x"

    again = [client.tasks.enqueue("mail.note", {"text": "x"}, id=id) for id in ids]

    assert not any(call.is_new for call in again)
    with psycopg.connect(served.url) as connection:
        assert connection.execute("select count(*) from mainspring.visit").fetchone() == (0,)


def test_states_results_and_errors_of_tasks(served: Served) -> None:
    """T8: parked and cancelled calls end a wait; a run under way is told to end."""
    served.start()
    client = served.client()
    later = client.tasks.enqueue("mail.note", {"text": "later"}, delay=3600.0)
    assert client.tasks.get(later).state == "scheduled"
    with pytest.raises(ResultTimeout):
        client.tasks.result(later, timeout=0.2)
    assert client.tasks.cancel(later) == "cancelled"
    assert client.tasks.cancel(later) == "cancelled"
    with pytest.raises(TaskFailed, match="cancelled by local"):
        client.tasks.result(later, timeout=5)

    with served.worker():
        broken = client.tasks.enqueue("mail.broken")
        with pytest.raises(TaskFailed, match="the letter has no stamp") as failed:
            client.tasks.result(broken, timeout=30)
        assert failed.value.outcome == "parked"
        running = client.tasks.enqueue("bill.pay", {"amount": 3})
        while client.tasks.get(running).state != "running":
            pass
        assert client.tasks.cancel(running) in ("running", "cancelled")  # the word is quick
        with pytest.raises(TaskFailed, match="cancelled by local"):
            client.tasks.result(running, timeout=30)
        assert client.tasks.cancel(running) == "cancelled"
        (served.folder / "gate").touch()
        done = client.tasks.enqueue("bill.pay", {"amount": 3})
        assert client.tasks.result(done, timeout=30) == 3
        assert client.tasks.cancel(done) == "done"
    assert client.tasks.cancel(broken) == "cancelled"


def test_a_key_is_one_call_at_a_time(served: Served) -> None:
    served.start()
    client = served.client()
    first = client.tasks.enqueue("mail.note", {"text": "a"}, key="k", group="g")
    second = client.tasks.enqueue("mail.note", {"text": "b"}, key="k", group="g")
    assert (second.id, second.is_new) == (first.id, False)
    assert client.tasks.get(second).state == "waiting"
    with served.worker():
        assert client.tasks.result(second, timeout=30) == "a"
    third = client.tasks.enqueue("mail.note", {"text": "c"}, key="k", group="g", id=first.id)
    assert third.is_new is False  # the id is known, whatever the key is free for


def test_many_are_enqueued_all_or_none(served: Served) -> None:
    served.start()
    client = served.client()
    calls = client.tasks.enqueue_many("mail.note", [{"text": str(n)} for n in range(1000)])
    assert len({call.id for call in calls}) == 1000
    with pytest.raises(RemoteError, match="text") as wrong:
        client.tasks.enqueue_many("mail.note", [{"text": "good"}, {"text": 3}])
    assert (wrong.value.code, wrong.value.status) == ("invalid_arguments", "INVALID_ARGUMENT")
    with pytest.raises(RemoteError, match="has 1001 items, the limit is 1000"):
        client.tasks.enqueue_many("mail.note", [{"text": "x"}] * 1001)
    with psycopg.connect(served.url) as connection:
        assert connection.execute("select count(*) from mainspring.visit").fetchone() == (1000,)


def test_a_server_without_code_enqueues_by_name(served: Served) -> None:
    """T8: arguments are checked when they run."""
    served.start(place=None)
    client = served.client()
    with pytest.raises(RemoteError) as unknown:
        client.tasks.enqueue("mail.sent", {"to": "ann"})
    assert (unknown.value.code, unknown.value.status) == ("not_found", "NOT_FOUND")
    assert str(unknown.value) == "unknown task 'mail.sent' (NOT_FOUND)"
    good = client.tasks.enqueue("mail.send", {"to": "ann"})
    wrong = client.tasks.enqueue("mail.note", {"words": "x"})
    with served.worker():
        assert client.tasks.result(good, timeout=30) == "sent to ann 1 times"
        while (found := client.tasks.get(wrong)).error is None:
            pass
        assert "do not fit its signature" in found.error
        assert client.tasks.cancel(wrong) == "cancelled"


def test_a_server_that_is_told_to_stop_answers_who_waits(served: Served) -> None:
    served.start()
    client = served.client()
    call = client.tasks.enqueue("mail.note", {"text": "x"})
    states: list[str] = []
    waiting = threading.Thread(target=lambda: states.append(client.tasks.get(call, wait=50).state))
    waiting.start()
    with psycopg.connect(served.url, autocommit=True) as connection:
        look = "select count(*) from pg_stat_activity where query ~ 'result_of' and pid <> pg_backend_pid()"
        while connection.execute(look).fetchone() == (0,):
            pass

    assert served.kill(signal.SIGTERM) == 0

    waiting.join(20)
    assert states == ["waiting"]
