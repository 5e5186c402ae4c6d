"""S18: the whole base is asked about again, beside the live changes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from mainspring import Kind, Mainspring, Untouched, Update
from mainspring.entities import crawl
from mainspring.entities.crawl import CrawlOrder
from mainspring.entities.declare.kind_settings import Crawl
from mainspring.entities.runtime import kind_queues
from mainspring.errors import InvalidKind, InvalidSetting, NotFound, UnknownStage
from mainspring.jobs import operation
from mainspring.testing import wait_until, watch
from stages import Stages
from visits import known_keys

DAY = timedelta(days=1)
WAITS = """
select error from mainspring.visit where queue = 'mainspring.operation' and error is not null
"""


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "PAGE", 5)
    monkeypatch.setattr(crawl, "LOOK_AGAIN", 0.02)


class Seen:
    """A stage that notes what it is asked about and what it processes."""

    def __init__(self, answer: Any = True, outcome: Any = None) -> None:
        self.answer = answer
        self.outcome = outcome or Untouched()
        self.asked: list[int] = []
        self.processed: list[int] = []

    def should_process(self, entity: Any, state: Any) -> Any:
        self.asked.append(entity["id"])
        return self.answer

    async def process(self, entity: Any, state: Any) -> Any:
        self.processed.append(entity["id"])
        return self.outcome


def clear(stages: Stages) -> None:
    """As if the stages had seen everything there is."""
    stages.query("delete from mainspring.visit")


async def done(app: Mainspring, id: int | None) -> bool:
    assert id is not None
    return (await app.operator.operation(id)).state == "done"


async def crawled(stages: Stages, kind: Kind, *names: str, **order: Any) -> Any:
    begun = await kind.crawl(names or None, **order)
    async with stages.working() as worker:
        await wait_until(lambda: done(stages.app, begun.id), 15)
        await stages.rest(worker)
    return await stages.app.operator.operation(begun.id)


async def test_a_crawl_asks_every_stage_about_every_entity(stages):
    """S18: by numbers, not by their texts (trap 30)."""
    kind, look, other = stages.kind(), Seen(), Seen(answer=False)
    kind.stage(name="Look")(look)
    kind.stage(name="Other")(other)
    await stages.install()
    ids = [1, 2, 9, 10, 11, 99, 100, 101, 1000, 2000, 10_000, -5]
    stages.add(*ids)
    clear(stages)

    ended = await crawled(stages, kind)

    assert sorted(look.asked) == sorted(other.asked) == sorted(look.processed) == sorted(ids)
    assert other.processed == []
    assert (ended.done, ended.total, ended.failed, ended.source) == (12, 12, 0, "application")
    assert stages.query("select * from mainspring.visit") == []
    assert await stages.app.operator.operation_items(ended.id) == []


async def test_a_crawl_of_one_stage_asks_that_one_only(stages):
    """S18"""
    kind, look, other = stages.kind(), Seen(), Seen()
    kind.stage(name="Look")(look)
    kind.stage(name="Other")(other)
    await stages.install()
    stages.add(*range(7))
    clear(stages)

    await crawled(stages, kind, "Other")

    assert (look.asked, sorted(other.processed)) == ([], list(range(7)))


async def test_a_crawl_finds_what_no_trigger_saw(stages):
    """S21: triggers switched off."""
    kind = stages.kind()

    @kind.stage(name="Double", reads=["price"], writes=["rank"])
    async def double(entity: Any) -> Update:
        return Update(rank=2 * entity["price"])

    await stages.install()
    with stages.transaction() as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute("insert into listing (id, price) values (1, 21)")
        connection.commit()
    assert stages.queues() == []

    await crawled(stages, kind)

    assert stages.listing()["rank"] == 42


async def test_a_crawl_removes_no_live_timer_and_its_time_is_offered(stages):
    """S9, S18 (trap 29): rows of its own."""
    kind = stages.kind()
    forgetful, planner = Seen(outcome=Untouched()), Seen(outcome=Untouched(visit_in=2 * DAY))
    kind.stage(name="Forgetful")(forgetful)
    kind.stage(name="Planner")(planner)
    await stages.install()
    stages.add(1)
    clear(stages)
    now = stages.value("select mainspring.now()")
    await kind.offer(1, stage="Forgetful", at=now + 9 * DAY)
    await kind.offer(1, stage="Planner", at=now + 9 * DAY)

    await crawled(stages, kind)

    assert (forgetful.processed, planner.processed) == ([1], [1])
    assert stages.visit("listing/Forgetful")["due_at"] == now + 9 * DAY
    assert now + 2 * DAY <= stages.visit("listing/Planner")["due_at"] < now + 3 * DAY
    assert stages.visit("listing/Planner")["priority"] == 5
    assert stages.queues() == ["listing/Forgetful", "listing/Planner"]


async def test_a_time_that_a_crawl_is_answered_is_a_live_timer(stages):
    """S18, S8: a lane full of timers would stand still for ever."""
    kind = stages.kind()
    now = stages.value("select mainspring.now()")
    kind.stage(name="Later")(Seen(answer=now + 3 * DAY))
    await stages.install()
    stages.add(*range(30))
    clear(stages)

    ended = await crawled(stages, kind)

    rows = stages.query("select distinct queue, priority, due_at from mainspring.visit")
    assert [tuple(row.values()) for row in rows] == [("listing/Later", 5, now + 3 * DAY)]
    assert ended.done == 30


async def test_crawl_visits_have_the_lower_priority(stages):
    """S18, S3: a crawl's offer is never merged into the live lane."""
    kind = stages.kind()
    kind.stage(lambda entity: Untouched(), name="Look")
    await stages.install()
    stages.add(*range(3))

    database, pool = await stages.app.database(), await stages.app.pool()
    async with pool.connection(transaction=True) as connection:
        await crawl._offer(database, connection, CrawlOrder("listing"), ["0", "1", "2"])

    rows = stages.query("select queue, priority from mainspring.visit order by queue, key")
    assert [tuple(r.values()) for r in rows] == [("listing", 5)] * 3 + [("listing~", 2)] * 3


async def test_a_crawl_waits_while_its_own_visits_are_not_processed(stages):
    """S18: no flood; two steps ahead at most."""
    kind, gate = stages.kind(), asyncio.Event()

    @kind.stage(name="Slow")
    async def slow(entity: Any) -> Untouched:
        await gate.wait()
        return Untouched()

    await stages.install()
    stages.add(*range(60))
    clear(stages)
    begun = await kind.crawl()

    async with stages.working() as worker:
        await wait_until(lambda: bool(stages.query(WAITS)), 10)
        assert "visits of the crawl wait already" in stages.value(WAITS)
        lane = "select count(*) from mainspring.visit where queue like 'listing%%~'"
        assert stages.value(lane) <= 3 * operation.PAGE + 2 * 50
        assert (await stages.app.operator.operation(begun.id)).done < 60
        gate.set()
        await wait_until(lambda: done(stages.app, begun.id), 15)
        await stages.rest(worker)


@pytest.mark.parametrize("why", ["removed", "paused"])
async def test_a_crawl_goes_on_past_a_stage_that_takes_nothing(stages, why):
    """S18, S26: what waits for a stage that no code has, or that is paused, waits; the others do not."""
    kind, look = stages.kind(), Seen()
    kind.stage(name="Look")(look)
    kind.stage(name="Gone")(Seen())
    await stages.install()
    stages.add(*range(23))
    clear(stages)
    if why == "removed":
        del kind.stages["Gone"]
    else:
        async with stages.working():
            for queue in ("listing/Gone", "listing/Gone~"):
                await stages.app.operator.pause(queue)

    ended = await crawled(stages, kind)

    assert ended.done == 23
    assert sorted(look.processed) == list(range(23))
    waiting = "select count(*) from mainspring.visit where queue = 'listing/Gone~'"
    assert stages.value(waiting) == 23


async def test_a_crawl_waits_while_live_visits_lag(stages):
    """S18"""
    kind, look, slow = stages.kind(), Seen(), asyncio.Event()
    kind.stage(name="Look")(look)

    @kind.stage(name="Slow", parallel=1, interest=["title"])
    async def wait(entity: Any) -> Untouched:
        await slow.wait()
        return Untouched()

    await stages.install()
    stages.add(*range(8))
    clear(stages)
    begun = await kind.crawl(["Look"], pause_if_lag=0.1)
    for id in (1, 2, 3):
        await kind.offer(id, stage="Slow")
    stages.query("update mainspring.visit set due_at = due_at - interval '1 minute'")

    async with stages.working() as worker:
        await wait_until(lambda: bool(stages.query(WAITS)), 10)
        assert "live visits lag by" in stages.value(WAITS)
        assert look.asked == []
        slow.set()
        await wait_until(lambda: done(stages.app, begun.id), 15)
        await stages.rest(worker)

    assert sorted(look.processed) == list(range(8))


async def test_a_crawl_keeps_to_its_rate(stages):
    """S18"""
    kind = stages.kind()
    kind.stage(Seen(), name="Look")
    await stages.install()
    stages.add(*range(13))
    clear(stages)
    began = asyncio.get_running_loop().time()

    await crawled(stages, kind, rate=10)

    assert asyncio.get_running_loop().time() - began > 0.8


async def test_a_crawl_that_was_paused_goes_on_where_it_stood(stages):
    """S18"""
    kind, look = stages.kind(), Seen()
    kind.stage(name="Look")(look)
    await stages.install()
    stages.add(*range(12))
    clear(stages)
    begun = await kind.crawl(rate=5)
    operator = stages.app.operator

    async with stages.working() as worker:
        await wait_until(lambda: bool(look.processed))
        await operator.pause_operation(begun.id)
        await wait_until(lambda: stages.due() == 0)
        first = len(look.processed)
        await operator.resume_operation(begun.id)
        await wait_until(lambda: done(stages.app, begun.id), 15)
        await stages.rest(worker)

    assert 0 < first < 12
    assert sorted(look.processed) == list(range(12))


async def test_an_entity_whose_live_visit_is_due_is_left_to_it(stages):
    """S18"""
    kind, look = stages.kind(), Seen()
    kind.stage(name="Look")(look)
    await stages.install()
    stages.add(1)
    clear(stages)
    stages.offer("listing/Look~", 1)
    await kind.offer(1, stage="Look")
    stages.query("update mainspring.queue set paused_at = now() where name = 'listing/Look'")

    async with stages.working():
        await wait_until(lambda: stages.queues() == ["listing/Look"])

    assert look.processed == []
    assert stages.history("listing/Look~")[0]["result"] == "due already"


@pytest.mark.parametrize("serial", [True, False])
async def test_a_live_run_that_began_before_the_crawl_is_followed_by_another(stages, serial):
    """S15, S18: due already may mean under way: its visit gets a new version, beside the others too."""
    kind, began, go_on, runs = stages.kind(), asyncio.Event(), asyncio.Event(), []

    async def look(found, state):
        runs.append(found["id"])
        began.set()
        await go_on.wait()
        return Untouched()

    kind.stage(name="Look", serial=serial)(look)
    await stages.install()
    stages.add(1)
    async with stages.working() as worker:
        await began.wait()
        stages.offer("listing/Look~")
        taken = ("listing/Look~", "1")
        await wait_until(
            lambda: taken in known_keys(worker.buffer) or stages.history("listing/Look~")
        )
        go_on.set()
        await stages.rest(worker)

    assert runs == [1, 1]


async def test_a_schedule_crawls_again_and_again(stages, clock):
    """S18"""
    kind, look = stages.kind(crawl=Crawl(every=7 * DAY)), Seen()
    kind.stage(name="Look")(look)
    await stages.install()
    stages.add(1)
    await stages.run()
    assert len(look.processed) == 1

    for times in (2, 3):
        await clock.advance(7 * DAY)
        async with stages.working():
            await wait_until(lambda n=times: len(look.processed) == n, 10)

    (row, *_) = stages.query("select source from mainspring.operation")
    assert row["source"] == "schedule"
    await stages.run()
    assert stages.queues("listing") == ["mainspring.crawl"]


async def test_a_schedule_that_is_gone_ends(stages, clock):
    """S18"""
    kind = stages.kind(crawl=Crawl(every=DAY))
    kind.stage(lambda entity: Untouched(), name="Look")
    await stages.install()
    await stages.run()
    stages.query("update mainspring.kind set crawl_every = null")
    object.__setattr__(kind.settings, "crawl", Crawl())

    await clock.advance(2 * DAY)
    await stages.run()

    assert stages.queues("listing") == []
    assert stages.query("select * from mainspring.operation") == []


async def test_a_new_stage_is_crawled_for(stages):
    """S26: two beats after it came, only it is asked."""
    kind, look, late = stages.kind(), Seen(), Seen()
    kind.stage(name="Look")(look)
    await stages.install()
    stages.add(*range(3))
    await stages.run()
    look.asked.clear()

    kind.stage(name="Late")(late)
    async with stages.working() as worker:
        await wait_until(lambda: len(late.processed) == 3, 15)
        await stages.rest(worker)

    assert look.asked == []


async def test_a_crawl_for_a_new_stage_is_an_offer_to_one_that_is_parked(stages):
    """S26: whoever frees it is told that another stage is waiting; it is asked for both."""
    kind = stages.kind()
    kind.stage(name="first")(Seen())
    await stages.install()
    stages.add(1)
    crawl_soon = "select mainspring.crawl_soon('listing', %s)"
    stages.query(crawl_soon, ["first"])
    stages.query("update mainspring.visit set parked_at = now() where key = 'listing/new'")

    stages.query(crawl_soon, ["second"])

    [crawl_visit] = stages.query("select * from mainspring.visit where key = 'listing/new'")
    assert crawl_visit["parked_at"] is not None
    assert crawl_visit["offered_while_parked"]
    assert crawl_visit["payload"] == {"ask:first": 1, "ask:second": 1}
    clear(stages)


async def test_a_crawl_for_a_new_stage_does_not_put_off_the_schedule(stages, clock):
    """S18, S26: else a kind that gets a stage every week is never crawled as a whole."""
    kind, look, late = stages.kind(crawl=Crawl(every=7 * DAY)), Seen(), Seen()
    kind.stage(name="Look")(look)
    await stages.install()
    stages.add(1)
    await stages.run()
    await clock.advance(6 * DAY)
    kind.stage(name="Late")(late)
    async with stages.working() as worker:
        await clock.advance(60)
        await wait_until(lambda: len(late.processed) == 1, 15)
        await stages.rest(worker)
    assert len(look.processed) == 1

    await clock.advance(DAY)
    async with stages.working() as worker:
        await wait_until(lambda: len(look.processed) == 2, 15)
        await stages.rest(worker)


def test_a_crawl_has_the_share_that_its_kind_declares(app):
    """S18: of the slots, by its two lanes' queues alike."""
    kind = app.entities("listing", table="listing", crawl=Crawl(share=0.1))
    kind.stage(Seen(), name="Look")

    shares = {queue.name: queue.share for queue in kind_queues(kind)}

    assert shares == {
        "listing": None,
        "listing~": 0.1,
        "listing/Look": None,
        "listing/Look~": 0.1,
    }


@pytest.mark.parametrize("step", ["settle.sending", "settle.answered"])
async def test_a_step_whose_answer_is_lost_repeats_and_skips_nothing(stages, step):
    """S18: the resume point is stored with the offers."""
    kind, look = stages.kind(), Seen()
    kind.stage(name="Look")(look)
    await stages.install()
    stages.add(*range(23))
    clear(stages)
    failures = iter([ConnectionError("cut")] * 4)

    def cut() -> None:
        if error := next(failures, None):
            raise error

    async with watch() as seen:
        seen.at(step, cut)
        ended = await crawled(stages, kind)

    assert (sorted(set(look.processed)), ended.done) == (list(range(23)), 23)


@pytest.mark.parametrize(
    ("table", "key", "rows"),
    [
        ("id text primary key", "id", "('b'), ('a'), ('B'), ('é'), ('10'), ('9')"),
        (
            "a int, b text, primary key (a, b)",
            ["a", "b"],
            "(1, 'x'), (1, 'y'), (2, 'a'), (10, 'b')",
        ),
        ("id timestamptz primary key", "id", "('2026-01-01 00:00+03'), ('2025-06-01 00:00+00')"),
        ("id uuid primary key", "id", "(gen_random_uuid()), (gen_random_uuid())"),
        ("id numeric primary key", "id", "(1.50), (1.5e3), (-7)"),
    ],
    ids=["text", "composite", "timestamptz", "uuid", "numeric"],
)
async def test_keys_of_any_type_are_paged_in_their_own_order(stages, table, key, rows, monkeypatch):
    """S25 (trap 30): with pages of one."""
    monkeypatch.setattr(operation, "PAGE", 1)
    stages.query(f"create table thing ({table}, version bigint not null default 1)")
    stages.query(
        "alter database "
        + stages.value("select current_database()")
        + " set datestyle = 'SQL, DMY'"
    )
    kind = stages.kind("thing", table="public.thing", key=key)
    ids: list[Any] = []

    @kind.stage(name="Look")
    async def look(entity: Any) -> Untouched:
        ids.append(kind.id_of(entity))
        return Untouched()

    await stages.install()
    columns = table.partition(",")[0].split()[0] if key == "id" else "a, b"
    stages.query(f"insert into thing ({columns}) values {rows}")
    captured = sorted(r["key"] for r in stages.query("select key from mainspring.visit"))
    clear(stages)

    ended = await crawled(stages, kind)

    assert ended.done == len(captured) == len(ids)
    rows_ = stages.query("select distinct key from mainspring.history where queue = 'thing~'")
    assert sorted(row["key"] for row in rows_) == captured


async def test_a_crawl_leaves_out_rows_whose_key_no_visit_can_have(stages):
    """S18, S25: as the triggers do; one such row would stop every crawl of its kind for ever."""
    stages.query("create table thing (id text primary key, version bigint not null default 1)")
    kind = stages.kind("thing", table="public.thing")
    ids: list[str] = []

    @kind.stage(name="Look")
    async def look(entity: Any) -> Untouched:
        ids.append(entity["id"])
        return Untouched()

    await stages.install()
    stages.query(
        "insert into thing (id) select chr(97 + n) from generate_series(0, 11) n"
        " union values (''), (repeat('b', 1301)), (("  # the last fits in its own index just so
        "   select left(string_agg(md5(n::text), ''), 2690) from generate_series(1, 99) n))"
    )
    clear(stages)

    ended = await crawled(stages, kind)

    assert sorted(ids) == list("abcdefghijkl")
    assert (ended.done, ended.total, ended.failed) == (12, 12, 0)


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_crawl_of_some_stages_does_not_stand_for_the_scheduled_one(stages, clock, is_whole):
    """S18: one of the whole kind does."""
    kind, look, other = stages.kind(crawl=Crawl(every=7 * DAY)), Seen(), Seen()
    kind.stage(name="Look")(look)
    kind.stage(name="Other")(other)
    await stages.install()
    stages.add(1)
    await stages.run()
    begun = await kind.crawl(None if is_whole else ["Other"])
    await stages.app.operator.pause_operation(begun.id)

    await clock.advance(7 * DAY)
    async with stages.working() as worker:
        await wait_until(lambda: bool(stages.history("mainspring.crawl", "listing")), 15)
        await stages.rest(worker)

    assert len(look.processed) == (1 if is_whole else 2)


async def test_documents_are_crawled_too(stages):
    """S26"""
    kind = stages.app.documents("draft")
    seen: list[str] = []

    @kind.stage(name="Look")
    async def look(entity: Any) -> Untouched:
        seen.append(entity["title"])
        return Untouched()

    await stages.install()
    for n in range(7):
        stages.query(
            "insert into mainspring.document (kind, key, body) values ('draft', %s, %s::jsonb)",
            str(n),
            f'{{"title": "t{n}"}}',
        )
    clear(stages)

    ended = await crawled(stages, kind)

    assert sorted(seen) == [f"t{n}" for n in range(7)]
    assert ended.total == 7


class Shelf:
    """A DAO over the table that knows its ids in order, or does not."""

    async def load(self, connection: Any, ids: Any) -> dict[str, Any]:
        query = "select id, version from listing where id = any($1::text[]::bigint[])"
        rows = await connection.fetch(query, list(ids))
        return {str(row["id"]): ({"id": str(row["id"])}, row["version"]) for row in rows}

    async def update(self, connection: Any, changes: Any) -> dict[str, int]:
        return {change.id: change.version for change in changes}


class OrderedShelf(Shelf):
    async def ids(self, connection: Any, after: str | None, limit: int) -> list[str]:
        query = "select id from listing where id > $1::bigint order by id limit $2"
        rows = await connection.fetch(query, int(after or -1), limit)
        return [str(row["id"]) for row in rows]


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_dao_says_which_ids_there_are(stages, ordered, clock):
    """S18, S24"""
    kind = stages.app.entities("shelf", dao=OrderedShelf() if ordered else Shelf())
    seen: list[int] = []

    @kind.stage(name="Look")
    async def look(entity: Any) -> Untouched:
        seen.append(int(entity["id"]))
        return Untouched()

    await stages.install()
    stages.add(*range(12))

    if ordered:
        assert (await crawled(stages, kind)).done == 12
        assert sorted(seen) == list(range(12))
        return
    begun = await kind.crawl()

    async def failed() -> bool:
        await clock.advance(120)
        return (await stages.app.operator.operation(begun.id)).state == "failed"

    async with stages.working():
        await wait_until(failed, 20, every=0.05)
    assert "without ids(connection, after, limit)" in (
        (await stages.app.operator.operation(begun.id)).error or ""
    )


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_new_stage_is_crawled_for_if_the_dao_says_which_ids_there_are(
    stages, ordered, clock
):
    """S26: a DAO that cannot say it is left alone, and no operation fails for it."""
    kind = stages.app.entities("shelf", dao=OrderedShelf() if ordered else Shelf())
    seen: list[int] = []

    @kind.stage(name="Late")
    async def late(entity: Any) -> Untouched:
        seen.append(int(entity["id"]))
        return Untouched()

    stages.add(*range(3))
    await stages.install()
    planned = "select count(*) from mainspring.visit where key = 'shelf/new'"
    async with stages.working() as worker:
        await wait_until(lambda: stages.value(planned) == 1)
        await clock.advance(60)
        await wait_until(lambda: stages.value(planned) == 0, 15)
        if ordered:
            await wait_until(lambda: len(seen) == 3, 15)
        await stages.rest(worker)

    assert sorted(seen) == ([0, 1, 2] if ordered else [])
    operations = await stages.app.operator.operations()
    assert [operation.state for operation in operations] == (["done"] if ordered else [])


async def test_a_kind_of_another_pool_is_crawled_too(stages):
    """S18: crawls begin in the default pool, as all operations do; visits run in the kind's own."""
    kind, look = stages.kind(pool="slow"), Seen()
    kind.stage(name="Look")(look)
    await stages.install()
    stages.add(*range(3))
    clear(stages)
    await stages.app.operator.entities.crawl("listing", source="ann")

    async with stages.working(lease=10.0), stages.working(lease=10.0, pool="slow"):
        await wait_until(lambda: len(look.processed) == 3, 15)
        await wait_until(lambda: stages.due() == 0, 10)


async def test_what_is_wrong_is_said(stages):
    kind = stages.kind()
    kind.stage(lambda entity: Untouched(), name="Look")

    with pytest.raises(NotFound, match="no kind of entities is named 'listing'"):
        await kind.crawl()
    await stages.install()
    with pytest.raises(UnknownStage, match="did you mean 'Look'"):
        await kind.crawl(["Lok"])
    with pytest.raises(InvalidSetting, match="rate of a crawl must be"):
        await kind.crawl(rate=-1)
    with pytest.raises(InvalidSetting, match="names no stage to ask; leave stages out to ask all"):
        await kind.crawl([])
    with pytest.raises(InvalidSetting, match="every must be a timedelta"):
        Crawl(every=7)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="share of a crawl"):
        Crawl(share=0)
    with pytest.raises(InvalidKind, match=r"crawl must be Crawl\(every=...\)"):
        stages.kind("other", crawl=DAY)


async def test_a_crawl_for_a_deploy_waits_for_the_old_workers_under_any_id(stages, visits):
    """S18: who comes back after it was declared dead has the old code. Containers share host and number."""
    kind, look = stages.kind(), Seen()
    kind.stage(name="Look")(look)
    await stages.install()
    stages.add(1, 2, 3)
    clear(stages)
    launch = uuid4()
    known, before = (
        visits.join(pool="heavy", queues=["listing"], launch=at) for at in (launch, None)
    )
    begun = await kind.crawl(after_deploy=True)
    visits.query("delete from mainspring.worker where id = %s", known)
    back = visits.join(pool="heavy", queues=["listing"], launch=launch)

    async with stages.working() as worker:
        waits = "workers from before the deploy still run: here:1"
        await wait_until(lambda: stages.query(WAITS) == [{"error": f"{waits}, here:1"}], 15)
        visits.query("delete from mainspring.worker where id = %s", before)
        await wait_until(lambda: stages.query(WAITS) == [{"error": waits}], 15)
        assert look.asked == []
        visits.join(pool="heavy", queues=["listing"], launch=uuid4())
        visits.query("delete from mainspring.worker where id = %s", back)
        await wait_until(lambda: done(stages.app, begun.id), 15)
        await stages.rest(worker)

    assert sorted(look.processed) == [1, 2, 3], (
        "the new worker at the same place keeps nothing back"
    )
