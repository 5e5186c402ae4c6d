"""Why a visit has not run: every cause by its name, with its facts."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from mainspring import Mainspring
from mainspring.errors import NotFound
from mainspring.kernel.outcome import Done
from mainspring.operate.why import VISIT_REMEDIES, Cause
from visits import QUEUE, queue


async def causes(app: Mainspring, key: str = "a", name: str = QUEUE) -> dict[str, Cause]:
    return {cause.name: cause for cause in (await app.operator.why(name, key)).causes}


async def test_a_visit_that_nothing_holds_back_is_about_to_run(visits, me, app):
    visits.offer("a", "b")

    assert {"about_to_run"} == set(await causes(app, "b"))
    assert {0, 1} == {(await causes(app, key))["about_to_run"].facts["ahead"] for key in "ab"}


async def test_a_future_time_and_a_backoff_are_told_apart(visits, me, app):
    visits.offer("a", "b", after=60)
    visits.change("b", attempt=2, error="OSError: down\nframes")

    scheduled, backoff = await causes(app, "a"), await causes(app, "b")

    assert 55 < scheduled["scheduled"].facts["seconds"] <= 60
    facts = backoff["backoff"].facts
    assert (facts["failures"], facts["attempt"]) == (2, 3)
    assert "OSError: down" in backoff["backoff"].text


async def test_a_parked_visit_shows_its_error(visits, me, app):
    visits.offer("a")
    visits.change("a", parked_at=visits.now(), error="ValueError: no", attempt=10)

    found = await causes(app)

    assert {"parked"} == set(found)
    assert found["parked"].facts["attempt"] == 10


async def test_a_paused_queue_and_an_expired_visit(visits, me, app):
    visits.offer("a")
    visits.change("a", expires_at=visits.now() - timedelta(seconds=1))
    await app.operator.pause(QUEUE)

    found = await causes(app)

    assert {"paused", "expired"} == set(found)
    assert found["paused"].remedy == f"mainspring queues resume {QUEUE}"


async def test_a_held_visit_shows_who_runs_it_until_when(visits, me, app):
    visits.offer("a")
    visits.hold(me, visits.start("a"), work_timeout=60)

    running = (await causes(app))["running"]

    assert (me, "here", 1) == tuple(running.facts[name] for name in ("holder", "host", "process"))
    assert running.facts["until"] - running.facts["since"] == timedelta(seconds=60)


async def test_a_worker_that_is_silent_is_named_with_how_long(visits, me, app):
    visits.offer("a", "b")
    visits.hold(me, visits.start("a"))
    visits.query("update mainspring.worker set beat_at = beat_at - interval '40 seconds'")

    running, waiting = (await causes(app))["running"], (await causes(app, "b"))["owner_silent"]

    assert 40 <= running.facts["silent_seconds"] < 50
    assert "that worker has been silent for 4" in running.text
    assert 40 <= waiting.facts["silent_seconds"] < 50
    (shown,) = (await app.operator.status()).workers
    assert 40 <= shown.silent_seconds < 50

    visits.beat(me, slots=4, free=4)

    assert (await causes(app))["running"].facts["silent_seconds"] < 5
    assert {"about_to_run"} == set(await causes(app, "b"))


async def test_a_hold_of_a_dead_worker_is_an_orphan(visits, me, app):
    visits.offer("a")
    visits.hold(me, visits.start("a"))
    visits.declare_dead(me)

    assert {"orphaned"} == set(await causes(app))


async def test_what_a_dead_worker_had_read_is_a_suspect(visits, me, app):
    """Such visits are tried a few at a time; what came later is not among them."""
    visits.offer("a")
    visits.read(me)
    visits.offer("b", after=0.001)
    visits.declare_dead(me)
    visits.take(visits.join())

    assert {"suspect"} == set(await causes(app, "a"))
    assert "suspect" not in await causes(app, "b")


async def test_a_busy_group_shows_the_run_that_keeps_it(visits, me, app):
    visits.register(queue(group_concurrency=1))
    visits.offer("a", "b", group="acme")
    visits.hold(me, visits.start("b"))

    busy = (await causes(app))["group_busy"]

    assert ("acme", "b", me) == tuple(busy.facts[name] for name in ("group", "key", "holder"))


async def test_a_queue_at_its_limit(visits, me, app):
    visits.register(queue(concurrency=1))
    visits.offer("a", "b")
    visits.hold(me, visits.start("b"))

    assert (await causes(app))["queue_full"].facts == {"running": 1, "limit": 1}


async def test_a_key_whose_turn_another_queue_has(visits, me, app):
    visits.register(queue(turns="order"), queue("crawl", turns="order"))
    visits.offer("a")
    visits.offer("a", queue="crawl")
    visits.hold(me, visits.start(visits.visit("a", "crawl")))
    visits.query("update mainspring.worker set queues = '{ring,crawl}'")

    assert (await causes(app))["turn_busy"].facts["queue"] == "crawl"


async def test_no_worker_serves_the_queue(visits, app):
    visits.offer("a")
    alone = await causes(app)
    visits.join(queues=["other"])
    beside = await causes(app)

    assert {"no_worker"} == set(alone)
    assert tuple(c["no_worker"].facts["pool_workers"] for c in (alone, beside)) == (0, 1)


async def test_a_shard_without_an_owner(visits, app):
    visits.offer("a")
    visits.join()

    assert {"no_owner"} == set(await causes(app))


async def test_a_shard_whose_owner_does_not_know_the_queue(visits, me, app):
    """In a rolling deploy, an old worker reads the shard of a visit that only new code can run."""
    visits.register(queue("new"))
    visits.join(queues=[QUEUE, "new"])
    visits.offer("a", queue="new")

    (cause,) = (await causes(app, name="new")).values()

    assert (cause.name, cause.facts["owner"]) == ("owner_lacks_queue", me)
    assert cause.remedy.startswith("nothing, if it is gone in a moment")

    visits.join(queues=[QUEUE], knows_bands=False)
    (cause,) = (await causes(app, name="new")).values()
    assert cause.remedy.startswith("replace the 1 worker of the release before")


async def test_in_a_pool_that_is_cut_the_owner_is_that_of_the_queue_s_band(visits, me, app):
    """T2: whoever has the rest of the shard does not matter."""
    visits.register(queue("new"))
    other = visits.join(queues=[QUEUE, "new"])
    visits.offer("a", queue="new")
    name = "default\x1fnew"
    visits.query(
        "insert into mainspring.band (name, pool, queues) values (%s, 'default', '{new}')", name
    )
    visits.query(
        "insert into mainspring.lease (pool, shard) select %s, generate_series(0, 1023)", name
    )
    visits.query("update mainspring.lease set worker_id = %s where pool = 'default'", UUID(int=0))

    assert set(await causes(app, name="new")) == {"no_owner"}

    visits.query("update mainspring.lease set worker_id = %s where pool = %s", other, name)
    assert set(await causes(app, name="new")) == {"about_to_run"}
    leased = "select leased_by from mainspring.visit_status"
    assert visits.value(leased) == other
    visits.query("delete from mainspring.lease where pool = %s", name)
    visits.query("update mainspring.lease set worker_id = null")


async def test_a_renamed_task_is_kept_and_reported(visits, me, app):
    visits.offer("a", queue="old_name")

    assert {"unknown_queue"} == set(await causes(app, name="old_name"))
    status = await app.operator.status()
    assert [(q.name, q.known) for q in status.unserved] == [("old_name", False)]


async def test_a_visit_that_is_gone_shows_its_last_runs(visits, me, app):
    visits.offer("a")
    visits.settle(me, (visits.start("a"), Done()))

    answer = await app.operator.why(QUEUE, "a")

    assert answer.causes[0].facts["outcome"] == "done"
    assert [run.outcome for run in answer.last_runs] == ["done"]


async def test_a_queue_that_never_was_names_the_nearest(visits, app):
    (cause,) = (await app.operator.why("rings", "a")).causes

    assert cause.text == "no queue is named 'rings'; did you mean 'ring'?"


async def test_a_queue_that_is_near_to_none_names_those_that_are_there(visits, app):
    visits.register(*(queue(f"queue {n}") for n in range(7)))

    (cause,) = (await app.operator.why("xyz", "a")).causes

    assert cause.text == (
        "no queue is named 'xyz'; there are 'queue 0', 'queue 1', 'queue 2', 'queue 3', 'queue 4' "
        "and 3 more"
    )


async def test_a_queue_that_only_visits_have_is_known_and_waits_for_its_declaration(visits, app):
    visits.offer("a", queue="charge_card")

    (gone,) = (await app.operator.why("charge_card", "b")).causes
    (near,) = (await app.operator.why("charge_cart", "b")).causes
    with pytest.raises(NotFound) as refused:
        await app.operator.limit("charge_card", concurrency=3)

    assert gone.text == "there is no such visit, and none is in history"
    assert near.text == "no queue is named 'charge_cart'; did you mean 'charge_card'?"
    assert str(refused.value) == (
        "queue 'charge_card' has visits, but no worker has declared it yet: mainspring migrate "
        "module:app, or start a worker"
    )


@pytest.mark.parametrize("name", VISIT_REMEDIES)
def test_every_cause_has_a_remedy(name):
    assert Cause(name, "").remedy
