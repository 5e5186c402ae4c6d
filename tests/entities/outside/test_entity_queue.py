"""S20: the queues of entities, asked and changed directly, in Python and in SQL."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from mainspring import Kind, Untouched, Update
from mainspring.errors import InvalidKey, InvalidSetting, InvalidTime, UnknownKind, UnknownStage
from stages import Stages

SOON = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
async def listing(stages: Stages) -> Kind:
    kind = stages.kind()
    kind.stage(lambda entity: Untouched(), name="Look")
    kind.stage(lambda entity: Untouched(), name="Other")
    await stages.install()
    return kind


async def offered_at(clock_now: datetime, days: int) -> datetime:
    return clock_now + timedelta(days=days)


async def now(stages: Stages) -> datetime:
    found: datetime = stages.value("select mainspring.now()")
    return found


async def test_an_offer_says_whether_it_changed_anything(listing, stages):
    """S20, S3: the earliest time wins; every offer writes a new version (S23)."""
    at = await now(stages)
    far, near = at + timedelta(days=9), at + timedelta(days=3)

    answers = [await listing.offer(1, stage="Look", at=far)]
    first = stages.visit("listing/Look")
    answers.append(await listing.offer(1, stage="Look", at=far))
    second = stages.visit("listing/Look")
    answers.append(await listing.offer(1, stage="Look", at=near))
    answers.append(await listing.offer(1, stage="Look", at=far))
    answers.append(await listing.offer(1, stage="Look"))
    answers.append(await listing.offer(1, stage="Look"))

    assert answers == [True, False, True, False, True, False]
    assert first["version"] != second["version"]
    assert stages.visit("listing/Look")["due_at"] <= await now(stages)


async def test_an_offer_never_shortens_a_backoff_and_marks_a_parked_visit(listing, stages):
    """S3, S20"""
    await listing.offer(1, stage="Look", at=await now(stages) + timedelta(days=1))
    stages.query("update mainspring.visit set attempt = 2")
    assert await listing.offer(1, stage="Look") is False

    stages.query("update mainspring.visit set attempt = 0, parked_at = mainspring.now()")
    await listing.offer(1, stage="Look")
    row = stages.visit("listing/Look")
    assert (row["parked_at"] is not None, row["offered_while_parked"]) == (True, True)


async def test_an_offer_without_a_stage_asks_them_all(listing, stages):
    """S20: through the system stage, as after a change from outside."""
    stages.add(1)
    stages.query("delete from mainspring.visit")

    assert await listing.offer("001") is True

    assert stages.visit("listing")["payload"] == {"new": 1, "out": 1}
    await stages.run()
    assert stages.history("listing/Look")
    assert stages.history("listing/Other")


async def test_check_finds_an_entity_in_all_queues_and_lanes(listing, stages):
    """S20: the inverted lookup."""
    at = await now(stages)
    await listing.offer(7, stage="Look", at=at + timedelta(days=3))
    await listing.offer(7, stage="Other")
    for queue in ("listing~", "listing/Look~", "listing!Look"):
        stages.offer(queue, 7)
    stages.offer("listings", 7)  # another kind's
    stages.query(
        "update mainspring.visit set parked_at = mainspring.now() where queue = 'listing!Look'"
    )

    found = {entry.queue: entry for entry in await listing.check(7)}

    assert set(found) == {
        "listing/Look",
        "listing/Other",
        "listing~",
        "listing/Look~",
        "listing!Look",
    }
    assert (found["listing/Look"].stage, found["listing/Look"].lane) == ("Look", "live")
    assert found["listing/Look"].due_at == at + timedelta(days=3)
    assert found["listing/Look"].state == "scheduled"
    assert (found["listing/Look~"].stage, found["listing/Look~"].lane) == ("Look", "crawl")
    assert (found["listing!Look"].lane, found["listing!Look"].state) == ("relay", "parked")
    assert found["listing~"].stage is None


async def test_peek_shows_the_first_of_a_queue_in_order(listing, stages):
    """S20"""
    at = await now(stages)
    for id, days in ((1, 3), (2, 1), (3, 2)):
        await listing.offer(id, stage="Look", at=at + timedelta(days=days))
    await listing.offer(4, stage="Look")

    assert [p.key for p in await listing.peek("Look", 3)] == ["4", "2", "3"]
    assert await listing.peek("Other") == []
    assert await listing.peek() == []
    assert await listing.peek("Look", crawl=True) == []


async def test_delete_takes_an_entity_out_of_one_queue(listing, stages):
    """S20"""
    await listing.offer(1, stage="Look", at=await now(stages) + timedelta(days=1))

    assert await listing.delete_visit(1, "Look") is True
    assert await listing.delete_visit(1, "Look") is False
    assert stages.queues() == []


async def test_the_system_visit_is_deleted_by_force_only(listing, stages):
    """S20: it may carry a change that no stage has seen."""
    stages.add(1)

    with pytest.raises(InvalidSetting, match="say force=True"):
        await listing.delete_visit(1)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="force => true"):
        stages.query("select mainspring.delete_visit('listing', '1')")
    assert stages.queues() == ["listing"]

    assert await listing.delete_visit(1, force=True) is True
    assert stages.queues() == []


async def test_the_result_of_a_run_whose_visit_was_deleted_is_dropped(stages):
    """S20, S13: no save without its visit."""
    listing = stages.kind()
    began, go_on = asyncio.Event(), asyncio.Event()

    @listing.stage(name="Slow", interest=["title"])
    async def slow(entity: Any) -> Update:
        began.set()
        await go_on.wait()
        return Update(price=99)

    await stages.install()
    stages.add(1)
    async with stages.working() as worker:
        await asyncio.wait_for(began.wait(), 5)
        assert await listing.delete_visit(1, "Slow") is True
        go_on.set()
        await stages.rest(worker)

    assert stages.listing()["price"] == 0
    assert stages.queues() == []


async def test_the_same_in_sql(listing, stages):
    """S20"""
    stages.add(7)
    stages.query("delete from mainspring.visit")

    assert stages.value(
        "select mainspring.offer('listing', '7', 'Look', mainspring.now() + '1 day')"
    )
    assert not stages.value(
        "select mainspring.offer('listing', '7', 'Look', mainspring.now() + '2 days')"
    )
    assert stages.value("select mainspring.offer(kind => 'listing', id => '7')")
    checked = stages.query("select queue, state from mainspring.check_entity('listing', '007')")
    peeked = stages.query("select key from mainspring.peek('listing', 'Look', most => 5)")
    assert {row["queue"]: row["state"] for row in checked} == {
        "listing": "waiting",
        "listing/Look": "scheduled",
    }
    assert [row["key"] for row in peeked] == ["7"]
    assert stages.value("select mainspring.delete_visit('listing', '7', 'Look')")


async def test_an_offer_is_part_of_the_callers_transaction(listing, stages):
    """S20"""
    async with await psycopg.AsyncConnection.connect(stages.url) as connection:
        assert await listing.offer(1, stage="Look", on=connection) is True
        assert len(await listing.check(1, on=connection)) == 1
        await connection.rollback()

    assert stages.queues() == []


async def test_bad_input_is_refused_with_the_value_and_the_way_out(listing, stages):
    with pytest.raises(UnknownStage, match="no stage 'Lok'; did you mean 'Look'"):
        await listing.offer(1, stage="Lok")
    with pytest.raises(InvalidKey, match="no id of kind 'listing': 'seven'"):
        await listing.offer("seven")
    with pytest.raises(InvalidTime, match="with a time zone"):
        await listing.offer(1, at=datetime(2030, 1, 1))
    with pytest.raises(InvalidTime, match="at most 3660 days"):
        await listing.offer(1, stage="Look", at=SOON)
    with pytest.raises(InvalidSetting, match="limit must be 1 to 10000, got 0"):
        await listing.peek("Look", 0)
    stages.query("delete from mainspring.kind")
    with pytest.raises(UnknownKind, match="run mainspring migrate"):
        await listing.offer(1)
