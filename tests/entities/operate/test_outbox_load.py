"""What waits for consumers, as metrics and the doctor say it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from outbox import SHARDS, Outbox

from mainspring import Mainspring
from mainspring.entities.operate.outbox import MANY_EVENTS, OutboxLoad, judge_outbox
from mainspring.entities.statements import SQL

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


async def test_what_waits_for_each_consumer_is_counted_with_its_age(
    mainspring_url: str, app: Mainspring
) -> None:
    """S7: the number and the oldest, of each consumer for itself."""
    outbox = Outbox(mainspring_url, sinks=("fast", "slow"))
    for key in range(1, 6):
        for _ in range(3):
            outbox.save(str(key))
    outbox.query(
        "update mainspring.event set created_at = created_at - interval '2 hours' where key = '2'"
    )
    outbox.query("delete from mainspring.delivery where consumer = 'fast' and key <> '4'")
    fast, slow = await app.operator.entities.outbox()
    assert (fast.consumer, fast.waiting, fast.capped) == ("fast", 3, False)
    assert (slow.consumer, slow.waiting, slow.capped) == ("slow", 15, False)
    assert fast.oldest_at is not None
    assert slow.oldest_at is not None
    assert fast.oldest_at - slow.oldest_at > timedelta(hours=1.9)
    text = await app.metrics()
    assert 'mainspring_events_waiting{kind="box",consumer="slow"} 15' in text
    assert 'mainspring_events_waiting_seconds{kind="box",consumer="slow"} 7' in text
    findings = [f for f in await app.operator.doctor() if f.name == "outbox"]
    assert [f.level for f in findings] == ["warn"]
    assert findings[0].text.startswith(
        "15 events wait for consumer 'slow' of kind 'box', the oldest"
    )


def test_the_oldest_is_found_without_reading_all_that_waits(mainspring_url: str) -> None:
    """An outbox of a million is looked at with each scrape of the metrics."""
    outbox = Outbox(mainspring_url, sinks=("fast", "slow"))
    outbox.query(
        "insert into mainspring.event (shard, kind, key, number, stage, what)"
        " select i %% %s, 'box', i::text, i, 'Stage', 'state' from generate_series(1, 30000) i",
        SHARDS,
    )
    outbox.query(
        "insert into mainspring.delivery (shard, kind, key, consumer, number)"
        " select shard, kind, key, c.name, number from mainspring.event,"
        " (values ('slow', 0), ('fast', 29000)) as c(name, after) where number > c.after"
    )
    outbox.query("vacuum analyze mainspring.event, mainspring.delivery")
    text = SQL["list_outbox"].text.replace("%(most)s", "%s")
    found = outbox.query(text, *[MANY_EVENTS] * text.count("%s"))
    assert [(name, waiting) for _, name, waiting, *_ in found] == [("fast", 1000), ("slow", 30000)]
    assert all(oldest is not None for *_, oldest in found)
    plan = outbox.query(f"explain {text}", *[MANY_EVENTS] * text.count("%s"))
    outbox.query("truncate mainspring.event, mainspring.delivery")
    assert [line for (line,) in plan if "Seq Scan on event" in line] == []


@pytest.mark.parametrize(
    ("waiting", "capped", "hours", "level"),
    [
        (0, False, None, "ok"),
        (5, False, 0.9, "ok"),
        (5, False, 1.1, "warn"),
        (MANY_EVENTS, True, 0.1, "warn"),
    ],
)
def test_the_doctor_warns_at_a_million_or_an_hour(
    waiting: int, capped: bool, hours: float | None, level: str
) -> None:
    oldest = None if hours is None else NOW - timedelta(hours=hours)
    [found] = judge_outbox([OutboxLoad("box", "slow", waiting, capped, oldest)], NOW)
    assert found.level == level
    if capped:
        assert "1,000,000 or more events wait" in found.text
