"""Parked visits: found by filter, restarted with their id, deleted with a word in history."""

from __future__ import annotations

from uuid import UUID

import pytest

from mainspring import Mainspring
from mainspring.errors import NotFound
from mainspring.kernel.outcome import Parked
from mainspring.operate.history import HistoryFilter
from mainspring.operate.parked import ParkedFilter
from visits import QUEUE, Visits, queue


def park(visits: Visits, me: UUID, *keys: str, error: str = "ValueError: no", **options: object):
    visits.offer(*keys, **options)  # type: ignore[arg-type]
    name = str(options.get("queue", QUEUE))
    outcome = Parked(error_type=error.split(":")[0], error=error)
    for key in keys:
        visits.settle(me, (visits.start(visits.visit(key, name)), outcome))


async def test_parked_visits_are_listed_newest_first_with_payload_and_error(visits, me, app):
    park(visits, me, "a", payload={"n": 1})
    park(visits, me, "b", error="OSError: gone")

    found = await app.operator.parked()

    assert [visit.key for visit in found] == ["b", "a"]
    assert (found[0].error_type, found[0].error) == ("OSError", "OSError: gone")
    assert found[1].payload == {"n": 1}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (ParkedFilter(queue="other"), {"c"}),
        (ParkedFilter(key="a"), {"a"}),
        (ParkedFilter(group="acme"), {"b"}),
        (ParkedFilter(error="TIMED out"), {"b"}),
        (ParkedFilter(error_type="ValueError"), {"a", "c"}),
        (ParkedFilter(queue="nowhere"), set()),
    ],
)
async def test_parked_visits_are_found_by_each_filter(visits, me, app, wanted, expected):
    visits.register(queue("other"))
    park(visits, me, "a")
    park(visits, me, "b", error="TimeoutError: timed out", group="acme")
    park(visits, me, "c", queue="other")

    found = {visit.key for visit in await app.operator.parked(wanted)}

    assert expected == found
    assert len(expected) == await app.operator.count_parked(wanted)


async def test_pages_of_parked_visits_join_without_gap_or_repeat(visits, me, app):
    visits.register(queue("other"))
    park(visits, me, "a", "b", "c")
    park(visits, me, "d", "b", queue="other")
    visits.query("update mainspring.visit set parked_at = date_trunc('day', parked_at)")

    seen: list[tuple[str, str]] = []
    before = None
    while page := await app.operator.parked(limit=2, before=before):
        seen += [(visit.queue, visit.key) for visit in page]
        before = page[-1].position

    assert 5 == len(seen) == len(set(seen))


async def test_parked_visits_are_counted_by_queue_and_error(visits, me, app):
    park(visits, me, "a", "b")
    park(visits, me, "c", error="the worker that ran it died (3 of 3): x")
    visits.change("c", crashes=3, error_type=None, fingerprint=None)

    groups = await app.operator.parked_groups()

    assert [(g.error_type, g.count) for g in groups] == [("ValueError", 2), ("WorkerDied", 1)]


async def test_errors_that_differ_by_their_values_alone_are_one_group(visits, me, app):
    """P10 for tasks: grouped by type, text without its values, and place."""
    park(
        visits, me, "a", error='ValueError: order 17 is void\n  File "/x/pay.py", line 7, in charge'
    )
    park(
        visits,
        me,
        "b",
        error='ValueError: order 4711 is void\n  File "/y/pay.py", line 9, in charge',
    )
    park(
        visits, me, "c", error='ValueError: order 3 is late\n  File "/x/pay.py", line 7, in charge'
    )
    alike, other = await app.operator.parked_groups()
    assert (alike.count, other.count, other.error_type) == (2, 1, "ValueError")
    assert alike.example is not None
    assert "order 4711 is void" in alike.example  # the last one
    wanted = ParkedFilter(fingerprint=alike.fingerprint)
    assert await app.operator.count_parked(wanted) == 2
    assert [v.key for v in await app.operator.parked(wanted)] == ["b", "a"]
    (found,) = await app.operator.parked_groups(ParkedFilter(error="VOID"))
    assert (found.count, found.fingerprint) == (2, alike.fingerprint)


async def test_what_a_worker_of_the_release_before_has_parked_is_counted_by_its_text(
    visits, me, app
):
    """It writes no type, and finds none of an earlier time: a restart has cleared it."""
    park(visits, me, "a", error="OSError: gone")
    await app.operator.restart(QUEUE, "a")
    assert visits.row("a")["error_type"] is visits.row("a")["fingerprint"] is None
    visits.query("update mainspring.visit set parked_at = mainspring.now(), error = 'KeyError: 7'")
    (group,) = await app.operator.parked_groups()
    assert (group.error_type, group.fingerprint, group.example) == ("KeyError", None, "KeyError: 7")
    assert await app.operator.count_parked(ParkedFilter(error_type="KeyError")) == 1
    assert await app.operator.count_parked(ParkedFilter(error_type="OSError")) == 0


async def test_a_restarted_visit_is_due_at_once_with_its_id_and_a_clean_slate(visits, me, app):
    """T6: the idempotency key is the same after a restart."""
    park(visits, me, "a")
    before = visits.row("a")

    await app.operator.restart(QUEUE, "a")

    after = visits.row("a")
    assert before["id"] == after["id"]
    assert before["version"] != after["version"]
    assert tuple(after[name] for name in ("attempt", "crashes", "error", "parked_at")) == (
        0,
        0,
        None,
        None,
    )
    assert visits.keys(me) == ["a"]


async def test_a_restart_gives_a_fresh_id_on_demand(visits, me, app):
    """T6"""
    park(visits, me, "a")
    before = visits.row("a")["id"]

    await app.operator.restart(QUEUE, "a", fresh_id=True)

    assert before != visits.row("a")["id"]


async def test_restarting_what_is_not_parked_says_what_it_is(visits, me, app):
    visits.offer("a")

    with pytest.raises(NotFound, match="no parked visit 'a'; it is waiting"):
        await app.operator.restart(QUEUE, "a")


async def test_a_deleted_visit_is_cancelled_in_history(visits, me, app):
    """T7: whoever asks for its result is told."""
    park(visits, me, "a", payload={"n": 1})

    await app.operator.delete(QUEUE, "a")

    assert visits.row("a") is None
    outcomes = [run.outcome for run in await app.operator.history(HistoryFilter(key="a"))]
    assert outcomes == ["cancelled", "parked"]


async def test_a_run_of_another_layer_cannot_be_called_off(visits, me, app):
    visits.query("update mainspring.queue set kind = 'stage'")
    visits.offer("a", "b")
    visits.hold(me, visits.start("b"))

    await app.operator.cancel(QUEUE, "a")
    with pytest.raises(ValueError, match="'b' of queue 'ring' runs"):
        await app.operator.cancel(QUEUE, "b")

    assert visits.row("a") is None
    assert visits.row("b") is not None


async def test_a_settle_after_a_cancellation_changes_nothing(visits, me, app: Mainspring):
    """T6: a visit is settled exactly once."""
    visits.offer("a")
    run = visits.start("a")

    await app.operator.cancel(QUEUE, "a")
    park_answer = visits.settle(me, (run, Parked(error_type="E", error="E: late")))

    assert park_answer == ["gone"]
    assert [row["outcome"] for row in visits.history("a")] == ["cancelled"]
