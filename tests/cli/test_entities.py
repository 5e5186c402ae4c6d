"""`mainspring entities` and `mainspring why <kind> <id>`: a table for people, JSON for programs."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from mainspring import Mainspring, RetryPolicy, Untouched, Update
from mainspring.testing import run_until_idle
from stages import Stages

ONCE = RetryPolicy(attempts=1)


class Price:
    def should_process(self, entity: Any, state: Any) -> Any:
        return entity["price"] != entity["rank"]

    async def process(self, entity: Any, state: Any) -> Any:
        return Update(rank=entity["price"], state={"seen": entity["price"]})

    async def saved(self, event: Any) -> None:
        if event.entity["price"] == 13:
            raise ValueError("no 13")


@pytest.fixture
def site(database_url: str) -> Any:
    """Two listings that a worker has brought to rest: the second's event fails."""
    stages = Stages(database_url, Mainspring(database_url))

    async def prepare() -> None:
        kind = stages.kind()
        kind.stage(name="Price", retry=ONCE, interest=["price"])(Price())
        kind.stage(lambda entity: Untouched(visit_in=86_400), name="Daily", interest=["title"])
        async with stages.app:
            await stages.install()
            stages.add(1, price=7)
            stages.add(2, price=13)
            await run_until_idle(stages.app)

    asyncio.run(prepare())
    yield stages
    stages.close()


@pytest.fixture
def on(cli, database_url):
    return lambda *arguments: cli(*arguments, "--url", database_url)


def test_kinds_are_listed_with_what_lies_in_their_queues(on, site):
    (kind,) = on("entities", "list", "--json").json()
    shown = on("entities", "list")
    queues = on("entities", "stages", "listing", "--json").json()

    assert (kind["name"], kind["stages"], kind["consumers"]) == (
        "listing",
        ["Daily", "Price"],
        ["Price"],
    )
    assert (kind["scheduled"], kind["parked"]) == (2, 1)
    assert "public.listing" in shown.out
    assert {q["name"] for q in queues} >= {"listing", "listing/Price", "listing/Price~"}


def test_why_shows_queues_timers_states_and_who_changed_what(on, site):
    """S20"""
    answer = on("why", "listing", "1")
    known = on("why", "listing", "1", "--json").json()
    same = on("entities", "show", "listing", "001", "--json").json()

    assert answer.code == 0
    assert "rank 0 -> 7" in answer.out
    assert "from outside" in answer.out
    assert "asked" in answer.out
    (timer,) = known["queues"]
    assert (timer["entry"]["queue"], timer["entry"]["state"]) == ("listing/Daily", "scheduled")
    assert timer["cause"] == "scheduled"
    (state,) = known["states"]
    assert (state["stage"], state["body"]) == ("Price", {"seen": 7})
    saved = next(h for h in known["happened"] if h["changed"])
    assert (saved["who"], saved["changed"], saved["version"]) == ("Price", {"rank": [0, 7]}, 2)
    assert known["entity"]["rank"] == 7
    assert same["key"] == "1"


def test_a_state_that_is_nothing_in_python_is_shown_as_it_is(on, site):
    """S20: 0 and false are states."""
    site.query("update mainspring.state set body = '0' where key = '1'")

    assert re.search(r"Price\s+\d+\s+0\s", on("why", "listing", "1").out)


def test_an_event_that_fails_is_shown_and_skipped(on, site):
    """S7: skip is a command."""
    before = on("why", "listing", "2")
    skipped = on("entities", "skip", "listing", "2", "Price")
    again = on("entities", "skip", "listing", "2", "Price")

    assert "1 events wait for Price" in before.out
    assert "no 13" in before.out
    remedy = "restart it when its reason is gone: mainspring parked restart --queue 'listing!Price'"
    assert f"listing!Price: what to do: {remedy} --key 2" in before.out
    assert "listing/Daily: what to do" not in before.out
    assert skipped.code == 0
    assert (again.code, "no event of listing '2' waits" in again.err) == (4, True)
    assert site.query("select 1 from mainspring.event") == []
    visit = site.visit("listing!Price", 2)
    assert visit["parked_at"] is None


def test_entities_are_offered_peeked_checked_and_deleted(on, site):
    """S20"""
    offered = on("entities", "offer", "listing", "1", "--stage", "Price", "--json").json()
    again = on("entities", "offer", "listing", "1", "--stage", "Price")
    peeked = on("entities", "peek", "listing", "--stage", "Price", "--json").json()
    checked = on("entities", "check", "listing", "1", "--json").json()
    deleted = on("entities", "delete", "listing", "1", "--stage", "Price")
    gone = on("entities", "delete", "listing", "1", "--stage", "Price")

    assert offered["changed"] is True
    assert "it was due no later before" in again.out
    assert [p["key"] for p in peeked] == ["1"]
    assert [e["queue"] for e in checked] == ["listing/Price", "listing/Daily"]
    assert (deleted.code, gone.code) == (0, 4)


def test_a_crawl_is_begun_from_the_command_line(on, site):
    """S18"""
    tried = on("entities", "crawl", "listing", "--dry-run")
    begun = on("entities", "crawl", "listing", "--stage", "Price", "--rate", "5", "--json").json()
    listed = on("entities", "list")

    assert "dry run: 2 would be touched" in tried.out
    assert begun["order"] == {
        "kind": "listing",
        "stages": ["Price"],
        "rate": 5.0,
        "pause_if_lag": 5.0,
        "after_launches": None,
    }
    assert f"operation {begun['id']}" in listed.out


def test_a_stage_is_paused_limited_and_retired(on, site):
    on("entities", "pause", "listing", "--stage", "Price")
    paused = on("queues", "list", "--json").json()
    on("entities", "resume", "listing", "--stage", "Price")
    on("entities", "limit", "listing", "--stage", "Price", "--rate", "3", "--parallel", "2")
    queues = {q["name"]: q for q in on("queues", "list", "--json").json()}
    retired = on("entities", "retire", "listing", "--stage", "Daily")
    consumer = on("entities", "retire", "listing", "--consumer", "Price")
    (kind,) = on("entities", "list", "--json").json()

    assert [q["name"] for q in paused if q["paused_at"]] == ["listing/Price", "listing/Price~"]
    assert (queues["listing/Price"]["rate"], queues["listing/Price"]["concurrency"]) == (3.0, 2)
    assert "what waits in its queue stays" in retired.out
    assert "1 deliveries were dropped" in consumer.out
    assert (kind["stages"], kind["consumers"]) == (["Price"], [])


def test_what_is_not_there_is_said_with_exit_4(on, site):
    kind = on("entities", "show", "lising", "1")
    stage = on("entities", "offer", "listing", "1", "--stage", "Prise")
    entity = on("why", "listing", "99")

    assert (kind.code, "did you mean 'listing'" in kind.err) == (4, True)
    assert (stage.code, "did you mean 'Price'" in stage.err) == (4, True)
    assert (entity.code, "nothing is known of listing 99" in entity.out) == (4, True)


def test_wrong_usage_is_said_with_exit_2(on, site):
    answers = [
        on("entities", "offer", "listing", "one"),
        on("entities", "offer", "listing", "1", "--at", "soon"),
        on("entities", "delete", "listing", "1"),
        on("entities", "retire", "listing"),
        on("entities", "limit", "listing", "--stage", "Price"),
        on("entities", "crawl", "listing", "--rate", "-1"),
    ]

    assert [answer.code for answer in answers] == [2] * 6
    assert "no id of kind 'listing': 'one'" in answers[0].err


def test_questions_that_fail_are_counted_and_shown(on, database_url):
    """S8: the entity is queued all the same, and somebody should know."""
    stages = Stages(database_url, Mainspring(database_url))

    class Odd(Price):
        def should_process(self, entity: Any, state: Any) -> Any:
            raise ValueError("odd question")

    async def prepare() -> None:
        stages.kind().stage(name="Odd")(Odd())
        async with stages.app:
            await stages.install()
            stages.add(1)
            stages.add(2)
            await run_until_idle(stages.app)

    asyncio.run(prepare())
    stages.close()

    shown = on("entities", "stages", "listing").out

    assert "should_process of 'Odd' failed 2 and overran 0 times" in " ".join(shown.split())
    assert "odd question" in shown


def test_a_kind_that_no_code_has_is_dropped(on, site):
    dropped = on("entities", "drop", "listing")
    again = on("entities", "drop", "listing")

    assert dropped.out.strip() == (
        "kind 'listing' is forgotten, 3 visits with it; its entities are as they were"
    )
    assert again.code != 0
    assert "no kind of entities is named 'listing'" in again.err


@pytest.mark.parametrize("command", [["why"], ["entities", "show"], ["entities", "check"]])
@pytest.mark.parametrize("id", ["north,1", "north", '["north"]', '["north", true]'])
def test_an_id_of_several_columns_that_is_none_is_told_how_it_is_written(
    cli: Any, database_url: str, command: list[str], id: str
) -> None:
    """S25: and one that is none is not taken for an entity that is not there."""
    make_pairs(database_url)

    answer = cli(*command, "pair", id, "--url", database_url)

    assert answer.code == 2
    assert f"the id {id!r} is not a JSON array of 2 texts (region, number)" in answer.err
    assert 'write it as ["the region", "the number"]' in answer.err


def test_a_number_in_an_id_of_several_columns_may_be_written_as_one(
    cli: Any, database_url: str
) -> None:
    make_pairs(database_url)

    offered = cli("entities", "offer", "pair", '["north", 1]', "--url", database_url)
    found = cli("entities", "check", "pair", '["north", 1]', "--json", "--url", database_url)

    assert offered.code == 0
    assert [entry["queue"] for entry in found.json()] == ["pair"]


def make_pairs(url: str) -> None:
    """A kind with a key of two columns, and one entity of it."""
    stages = Stages(url, Mainspring(url))
    stages.query(
        "create table pair (region text, number integer, version bigint not null default 1, "
        "primary key (region, number))"
    )
    stages.app.entities("pair", table="public.pair", key=["region", "number"])

    async def prepare() -> None:
        async with stages.app:
            await stages.install()

    asyncio.run(prepare())
    stages.query("insert into pair (region, number) values ('north', 1)")
    stages.close()


def test_a_consumer_is_told_again_and_paused_by_its_name(on, site):
    """S7: resends, replays and pauses need no application."""
    counted = on("entities", "resend", "listing", "Price", "--dry-run", "--json").json()
    begun = on("entities", "resend", "listing", "Price", "--rate", "10", "--json").json()
    unknown = on("entities", "resend", "listing", "Prize")
    not_kept = on("entities", "replay", "listing", "Price", "--since", "1")
    paused = on("entities", "pause", "listing", "--consumer", "Price")
    both = on("entities", "pause", "listing", "--consumer", "Price", "--stage", "Price")

    assert (counted["state"], counted["total"]) == ("dry run", 2)
    assert (begun["kind"], begun["state"], begun["order"]["rate"]) == ("resend", "running", 10)
    assert "did you mean 'Price'" in unknown.err
    assert "keeps no events: declare it with keep_events=" in not_kept.err
    assert "what is sent to 'Price' of 'listing' is paused" in paused.out
    assert "a --stage or a --consumer, not both" in both.err
    is_paused = (
        "select 1 from mainspring.queue where name = 'listing!Price' and paused_at is not null"
    )
    assert site.query(is_paused)
    on("entities", "resume", "listing", "--consumer", "Price")
    assert not site.query(is_paused)
