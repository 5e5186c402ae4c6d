"""A server that is killed, or cut off, just after a hold's commit and just after a settle's commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from served_process import Served

from mainspring.client import Client, RemoteError
from mainspring.testing import Clock
from tcp_proxy import tcp_proxy

Said = Callable[[str, bytes], bool]
ROWS = "select pass is not null, attempt from mainspring.visit where queue = 'card.charge'"
DONE = (
    "select count(*) from mainspring.history_run where queue = 'card.charge' and outcome = 'done'"
)


def rows(url: str) -> list[tuple[Any, ...]]:
    """The actor's visits: whether each is held, and its attempts."""
    with psycopg.connect(url) as connection:
        return connection.execute(ROWS).fetchall()


def done(url: str) -> int:
    with psycopg.connect(url) as connection:
        [(count,)] = connection.execute(DONE).fetchall()
    return int(count)


def start_to_die(served: Served, monkeypatch: pytest.MonkeyPatch, step: str) -> Client:
    """A server that dies at a step, and a caller who sends nothing twice by himself."""
    with monkeypatch.context() as patch:
        patch.setenv("MAINSPRING_DIE_AT", step)
        served.start()
    return served.client(timeout=60)


def restarted(served: Served) -> Client:
    assert served.process is not None
    assert served.process.wait(60) == -9  # at its step, by its own hand
    assert served.process.stdout is not None
    served.process.stdout.close()
    served.start()
    return served.client(timeout=60)


def test_a_server_killed_after_the_commit_of_a_hold_answers_again_elsewhere(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariants 5, 7, 11: held, and never told: whoever knows the pull has it, at its first attempt."""
    client = start_to_die(served, monkeypatch, "pull.held")
    call = client.tasks.enqueue("card.charge", {"order": 4})
    with pytest.raises(RemoteError):
        client.actors.pull("card.charge", limit=5, pull_id="lost")
    assert rows(served.url) == [(True, 0)]

    client = restarted(served)
    assert client.actors.pull("card.charge", limit=5).tasks == []  # it is out
    [task] = client.actors.pull("card.charge", limit=5, pull_id="lost", again=True).tasks
    assert (task.args, task.attempt) == ({"order": 4}, 1)
    assert client.actors.complete(task.ticket, "paid").settled_as == "accepted"
    assert client.tasks.result(call, timeout=30) == "paid"


def test_a_hold_that_nobody_was_told_of_ends_by_its_time(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 5: the server died with it, and its caller too: a worker recovers the task."""
    client = start_to_die(served, monkeypatch, "pull.held")
    client.tasks.enqueue("card.charge", {"order": 4})
    with pytest.raises(RemoteError):
        client.actors.pull("card.charge", pull_id="lost")
    client = restarted(served)
    Clock(served.url).advance_sync(61)
    with served.worker():
        [task] = client.actors.pull("card.charge", wait=60).tasks
    assert task.attempt == 1
    assert client.actors.complete(task.ticket, "paid").settled_as == "accepted"


@pytest.mark.parametrize("is_step", [False, True])
def test_a_server_killed_after_the_commit_of_an_answer_has_taken_it(
    served: Served, monkeypatch: pytest.MonkeyPatch, is_step: bool
) -> None:
    """Invariants 6, 7, 11: sent again it is ALREADY; another answer changes nothing."""
    client = start_to_die(served, monkeypatch, "answers.committed")
    if is_step:
        ref: Any = client.processes.start("shop", {"order": 7})
        with served.worker():
            [task] = client.actors.pull("card.charge", wait=60).tasks
    else:
        ref = client.tasks.enqueue("card.charge", {"order": 7})
        [task] = client.actors.pull("card.charge").tasks
    impatient = served.client(timeout=2)  # it gives up before anybody is there again
    with pytest.raises(RemoteError):
        impatient.actors.complete(task.ticket, "paid")
    assert (rows(served.url), done(served.url)) == ([], 1)

    client = restarted(served)
    assert client.actors.complete(task.ticket, "paid").settled_as == "already"
    assert client.actors.beat([task.ticket])[0].stop == "gone"
    assert done(served.url) == 1
    with served.worker():
        asked = client.processes if is_step else client.tasks
        assert asked.result(ref, timeout=60) == "paid"


def test_a_pull_whose_answer_is_cut_off_on_its_way_is_answered_again(served: Served) -> None:
    """Invariants 5, 7: held once, by this pull or by nobody; asked again it is the same."""
    served.start()
    client = served.client(timeout=60)
    host, _, port = served.address.rpartition(":")
    with tcp_proxy(host, int(port)) as proxy, Client(proxy.address, token=served.token) as cut:
        client.tasks.enqueue("card.charge", {"order": 4})
        assert cut.actors.pull("card.refund").tasks == []  # it is connected
        proxy.cut_when(lambda to, data: to == "to_client" and b"card.charge" in data)
        with pytest.raises(RemoteError):
            cut.actors.pull("card.charge", pull_id="lost")
        proxy.cut_when(None)
        [task] = cut.actors.pull("card.charge", pull_id="lost", again=True, wait=20).tasks
        assert task.attempt == 1
        assert rows(served.url) == [(True, 0)]
        assert client.actors.pull("card.charge").tasks == []
        assert cut.actors.complete(task.ticket, "paid").settled_as == "accepted"


def test_an_answer_whose_receipt_is_cut_off_counts_once(served: Served) -> None:
    """Invariants 6, 7: the caller sends it again by himself, and hears that it was taken."""
    served.start()
    client = served.client(timeout=60)
    host, _, port = served.address.rpartition(":")
    call = client.tasks.enqueue("card.charge", {"order": 4})
    [task] = client.actors.pull("card.charge").tasks
    with tcp_proxy(host, int(port)) as proxy, Client(proxy.address, token=served.token) as cut:
        assert cut.actors.beat([task.ticket])[0].stop is None
        proxy.cut_when(once(lambda to, data: to == "to_client" and rows(served.url) == []))
        assert cut.actors.complete(task.ticket, "paid").settled_as == "already"
        assert proxy.connections == 2
    assert done(served.url) == 1
    assert client.tasks.result(call, timeout=30) == "paid"


@pytest.mark.parametrize("is_step", [False, True])
def test_a_commit_whose_word_is_lost_is_looked_up_in_history(
    registered: str, tmp_path: Any, is_step: bool
) -> None:
    """Rule 16: PostgreSQL has committed, and the server never heard: ALREADY, not a second answer."""
    place = conninfo_to_dict(registered)
    host, port = str(place.get("host", "/tmp")), int(place.get("port", 5432))
    with tcp_proxy(host, port) as proxy:
        through = psycopg.conninfo.make_conninfo(
            registered, host="127.0.0.1", port=proxy.port, sslmode="disable"
        )
        served = Served(through, tmp_path)
        try:
            served.start()
            client = served.client(timeout=60)
            if is_step:
                client.processes.start("shop", {"order": 7})
                with served.worker():
                    [task] = client.actors.pull("card.charge", wait=60).tasks
            else:
                client.tasks.enqueue("card.charge", {"order": 7})
                [task] = client.actors.pull("card.charge").tasks
            cut = once(lambda to, data: to == "to_client" and rows(registered) == [])
            proxy.cut_when(cut)
            assert client.actors.complete(task.ticket, "paid").settled_as == "already"
            assert cut.came  # type: ignore[attr-defined]
        finally:
            proxy.cut_when(None)
            served.close()
    assert done(registered) == 1


def test_a_session_that_ends_within_the_commit_of_an_answer_has_settled_nothing(
    served: Served,
) -> None:
    """Rule 16: its outcome is unknown, history does not have it, and it is sent again: ACCEPTED."""
    served.start()
    client = served.client(timeout=60)
    call = client.tasks.enqueue("card.charge", {"order": 7})
    [task] = client.actors.pull("card.charge").tasks
    with psycopg.connect(served.url, autocommit=True) as connection:
        connection.execute(ENDS_ONCE)
    assert client.actors.complete(task.ticket, "paid").settled_as == "accepted"
    with psycopg.connect(served.url, autocommit=True) as connection:
        assert connection.execute("select last_value, is_called from public.ends").fetchone() == (
            2,
            True,
        )
    assert done(served.url) == 1
    assert client.tasks.result(call, timeout=30) == "paid"


# Within the first COMMIT that a visit's end is part of, the session ends; a sequence is not rolled back.
ENDS_ONCE = """
create sequence public.ends;
create function public.end_it() returns trigger language plpgsql as $$
begin
  if nextval('public.ends') = 1 then
    perform pg_terminate_backend(pg_backend_pid());
  end if;
  return null;
end $$;
create constraint trigger end_it after delete on mainspring.visit deferrable initially deferred
  for each row execute function public.end_it();
"""


def once(matches: Said) -> Said:
    """The first match alone."""

    def first(to: str, data: bytes) -> bool:
        if found.came or not matches(to, data):  # type: ignore[attr-defined]
            return False
        found.came = True  # type: ignore[attr-defined]
        return True

    found: Any = first
    found.came = False
    return found  # type: ignore[no-any-return]
