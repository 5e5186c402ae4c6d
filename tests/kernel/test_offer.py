"""Offer: a visit is added, or merged into the one that is there."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from mainspring.kernel.outcome import Done, Parked, Retry
from visits import Visits


def test_an_offer_adds_a_visit_that_is_due_now(visits: Visits) -> None:
    answer = visits.offer("a", payload={"x": 1})

    row = visits.row("a")
    assert row is not None
    assert answer[0]["is_new"]
    assert (row["payload"], row["attempt"], row["priority"]) == ({"x": 1}, 0, 5)
    assert row["due_at"] <= visits.now()


def test_an_offer_in_the_past_is_due_now(visits: Visits) -> None:
    before = visits.now()

    visits.offer("a", after=-3600)

    assert visits.row("a")["due_at"] >= before - timedelta(seconds=1)


@pytest.mark.parametrize(
    ("key", "due_at", "priority"),
    [
        ("a", "infinity", 5),
        ("a", "-infinity", 5),
        ("a", "now", 10),
        ("a", "now", -1),
        ("", "now", 5),
    ],
)
def test_a_visit_that_could_never_be_read_is_a_violation(
    visits: Visits, key: str, due_at: str, priority: int
) -> None:
    """Nobody who takes values from a user lets it through; the table itself does, for speed."""
    visits.query(
        "insert into mainspring.visit (shard, key, queue, id, due_at, priority, version, payload)"
        " values (0, %s, 'ring', gen_random_uuid(), %s, %s, 1, '{}')",
        key,
        due_at,
        priority,
    )

    [found] = visits.query("select rule from mainspring.violation")
    visits.query("delete from mainspring.visit")

    assert found["rule"] == "a visit can never be read: its key, its time or its priority is none"


def test_of_two_offers_the_earliest_time_wins(visits: Visits) -> None:
    visits.offer("a", after=100)
    visits.offer("a", after=50)
    early = visits.row("a")["due_at"]

    visits.offer("a", after=200)

    assert visits.row("a")["due_at"] == early
    assert early < visits.now() + timedelta(seconds=60)


def test_an_offer_never_shortens_a_backoff(visits: Visits, me) -> None:
    visits.offer("a")
    visits.settle(me, (visits.start("a"), Retry(after=100, error_type="E", error="no")))
    due_at = visits.row("a")["due_at"]

    visits.offer("a")

    assert visits.row("a")["due_at"] == due_at
    assert visits.keys(me) == []


def test_the_higher_priority_wins(visits: Visits) -> None:
    visits.offer("a", priority=3)
    visits.offer("a", priority=7)
    visits.offer("a", priority=5)

    assert visits.row("a")["priority"] == 7


def test_payloads_are_united(visits: Visits) -> None:
    visits.offer("a", payload={"x": 1, "y": 1})
    visits.offer("a", payload={"y": 2, "z": 3})

    assert visits.row("a")["payload"] == {"x": 1, "y": 2, "z": 3}


def test_the_id_of_the_first_offer_stays(visits: Visits) -> None:
    first = visits.offer("a")[0]
    second = visits.offer("a")[0]

    assert second["id"] == first["id"]
    assert (first["is_new"], second["is_new"]) == (True, False)


def test_an_offer_to_a_parked_visit_marks_it_and_leaves_it_parked(visits: Visits, me) -> None:
    visits.offer("a")
    visits.settle(me, (visits.start("a"), Parked(error_type="E", error="no")))

    visits.offer("a", payload={"more": True})

    row = visits.row("a")
    assert row["parked_at"] is not None
    assert row["offered_while_parked"]
    assert row["payload"] == {"more": True}
    assert visits.keys(me) == []


def test_every_offer_writes_a_new_version(visits: Visits) -> None:
    """Even one that changes nothing: it is how a run under way learns that something happened."""
    seen = set()
    for _ in range(5):
        visits.offer("a")
        seen.add(visits.row("a")["version"])

    assert len(seen) == 5


def test_an_offer_during_a_run_keeps_the_visit_due(visits: Visits, me) -> None:
    visits.offer("a")
    run = visits.start("a")

    visits.offer("a", after=3600)

    assert visits.settle(me, (run, Done())) == ["superseded"]
    assert visits.keys(me) == ["a"]


def test_one_key_in_two_queues_is_two_visits(visits: Visits) -> None:
    visits.offer("a")
    visits.offer("a", queue="other")

    assert visits.value("select count(*) from mainspring.visit where key = 'a'") == 2


def test_many_offers_are_one_statement_in_lock_order(visits: Visits) -> None:
    keys = [f"key {n}" for n in range(200)]

    answers = visits.offer(*keys)
    again = visits.offer(*reversed(keys))

    assert all(row["is_new"] for row in answers)
    assert not any(row["is_new"] for row in again)
    assert visits.value("select count(*) from mainspring.visit") == 200


def test_two_crossing_bulk_offers_do_not_deadlock(visits: Visits, mainspring_url: str) -> None:
    """Both upsert in the order of (shard, key, queue), whatever the order they were given in."""
    import threading

    keys = [f"key {n}" for n in range(100)]
    failed: list[BaseException] = []

    def offer(order: list[str]) -> None:
        other = Visits(mainspring_url)
        try:
            for _ in range(5):
                other.offer(*order)
        except psycopg.Error as error:
            failed.append(error)
        finally:
            other.close()

    threads = [threading.Thread(target=offer, args=(o,)) for o in (keys, keys[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [e for e in failed if not isinstance(e, psycopg.errors.LockNotAvailable)] == []


def test_an_offer_notifies_only_when_somebody_sleeps(visits: Visits, me, mainspring_url) -> None:
    with psycopg.connect(mainspring_url, autocommit=True) as listening:
        listening.execute("listen mainspring")

        visits.offer("awake")
        visits.call("sleep", asleep=True, worker_id=me)
        visits.offer("b", "c")
        heard = list(listening.notifies(timeout=1, stop_after=1))
        more = list(listening.notifies(timeout=0.05))

    assert [n.payload.partition(" ")[2] for n in heard] == ["ring"]
    assert more == []
