"""T8: a call is enqueued once for its id, however its repetition meets the end of the first."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from mainspring.client.messages import new_id

ENQUEUE = """
select id::text, key, is_new from mainspring.enqueue_calls(
  %(tasks)s::text[], array_fill('{}'::text, array[%(n)s]), array_fill(null::timestamptz, array[%(n)s]),
  array_fill(null::interval, array[%(n)s]), array_fill(null::timestamptz, array[%(n)s]),
  array_fill(null::integer, array[%(n)s]), %(groups)s::text[], %(keys)s::text[], %(ids)s::uuid[])
"""
END = """
select id from mainspring.cancel_visits(
  array(select shard from mainspring.visit where id = %(id)s),
  array(select key from mainspring.visit where id = %(id)s), array['ring'], 'ended', false)
"""


class Calls:
    """The function on a connection."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)

    def enqueue(self, *ids: str, group: str | None = None, key: str | None = None) -> list[bool]:
        n = len(ids)
        values: dict[str, Any] = {"tasks": ["ring"] * n, "n": n, "ids": list(ids)}
        values |= {"groups": [group] * n, "keys": [key] * n}
        rows = self.connection.execute(ENQUEUE, values).fetchall()
        return [is_new for _, _, is_new in rows]

    def end(self, id: str) -> None:
        """As a settle does: the visit goes, and history has it, in one commit."""
        assert self.connection.execute(END, {"id": id}).fetchall() == [(UUID(id),)]

    def count(self) -> int:
        row = self.connection.execute("select count(*) from mainspring.visit").fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
def calls(database_url: str) -> Iterator[Calls]:
    found = Calls(database_url)
    found.connection.execute("insert into mainspring.queue (name) values ('ring')")
    yield found
    found.connection.close()


@pytest.mark.parametrize("make", [lambda: str(uuid4()), new_id], ids=["version 4", "version 7"])
def test_a_call_is_known_while_it_waits_and_when_it_has_ended(calls: Calls, make: Any) -> None:
    id, other = make(), make()
    assert calls.enqueue(id) == [True]
    assert calls.enqueue(id, other) == [False, True]
    calls.end(id)
    assert calls.enqueue(other, id) == [False, False]
    assert calls.enqueue(id, group="g") == [False]
    assert calls.enqueue(other, group="g") == [False]  # it waits on another shard
    assert calls.count() == 1


def test_an_id_from_the_future_is_looked_for_everywhere(calls: Calls) -> None:
    """A caller whose clock is ahead by years must not have his calls run twice."""
    moment = datetime.now(UTC) + timedelta(days=700)
    stamp = int(moment.timestamp() * 1000).to_bytes(6, "big")
    id = str(UUID(bytes=stamp + bytes.fromhex("7000") + uuid4().bytes[8:]))
    assert calls.enqueue(id) == [True]
    calls.end(id)
    assert calls.enqueue(id) == [False]


def test_a_key_answers_who_has_it_and_an_id_stays_known(calls: Calls) -> None:
    first, second = str(uuid4()), str(uuid4())
    assert calls.enqueue(first, key="k") == [True]
    assert calls.enqueue(second, key="k") == [False]
    calls.end(first)
    assert calls.enqueue(first, key="k") == [False]
    assert calls.enqueue(second, key="k") == [True]


def test_a_repetition_that_meets_the_end_waits_for_it_and_adds_nothing(
    calls: Calls, database_url: str
) -> None:
    """The insert waits for the settle's commit; the look into history comes after it."""
    id = str(uuid4())
    calls.enqueue(id)
    found: list[list[bool]] = []

    def repeat() -> None:
        again = Calls(database_url)
        found.append(again.enqueue(id))
        again.connection.close()

    repeating = threading.Thread(target=repeat)
    with calls.connection.transaction():
        calls.end(id)
        repeating.start()
        waits = "select count(*) from pg_locks where not granted"
        with psycopg.connect(database_url, autocommit=True) as watching:
            deadline = time.monotonic() + 30
            while watching.execute(waits).fetchone() == (0,):
                assert time.monotonic() < deadline
    repeating.join(30)

    assert found == [[False]]
    assert calls.count() == 0


def test_many_repetitions_at_once_are_one_call(calls: Calls, database_url: str) -> None:
    ids = [str(uuid4()) for _ in range(50)]
    found: list[list[bool]] = []

    def send(order: list[str]) -> None:
        own = Calls(database_url)
        news = dict(zip(order, own.enqueue(*order), strict=True))
        found.append([news[id] for id in ids])
        own.connection.close()

    threads = [threading.Thread(target=send, args=(ids[:: 1 - 2 * (n % 2)],)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert [sum(each) for each in zip(*found, strict=True)] == [1] * 50
    assert calls.count() == 50
