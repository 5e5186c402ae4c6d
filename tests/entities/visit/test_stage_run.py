"""The stage visit: what is loaded, processed, saved and settled, and what happens in between."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from mainspring import Untouched, Update, now
from mainspring.retry_policy import RetryPolicy
from mainspring.testing import Clock, wait_until
from stages import Stages

ONCE = RetryPolicy(attempts=1)


@dataclass
class Listing:
    id: int
    title: str
    price: int
    rank: int
    hits: int

    @property
    def words(self) -> int:
        return len(self.title.split())


async def test_a_created_and_a_changed_entity_come_to_the_stage(stages: Stages) -> None:
    """S1: created, changed, and timer are the events."""
    seen = []
    listing = stages.kind()

    @listing.stage
    async def look(found: dict[str, Any]) -> Untouched:
        seen.append(found["title"])
        return Untouched()

    await stages.install()
    async with stages.working() as worker:
        stages.add(1, title="a")
        await stages.rest(worker)
        stages.change(title="b")
        await stages.rest(worker)

    assert seen == ["a", "b"]
    assert stages.queues() == []


async def test_an_entity_is_in_a_stages_queue_once_and_fields_are_united(stages: Stages) -> None:
    """S3: changes merge into one visit that knows all fields that changed (trap 4)."""
    listing = stages.kind()

    @listing.stage(reads=["title"])
    async def look(found: dict[str, Any]) -> Untouched:
        return Untouched()

    await stages.install()
    stages.add(1)
    await stages.run()
    stages.change(title="b")
    stages.change(price=3)
    stages.change(title="c")

    visit = stages.visit("listing")

    assert visit is not None
    assert visit["payload"] == {"f:title": 1, "f:price": 1, "out": 1, "v": 4}
    assert stages.queues() == ["listing"]


async def test_a_stage_is_given_only_what_it_declares(stages: Stages) -> None:
    """S6: reads, writes and the key, with the model's own methods; the rest is an error."""
    seen: list[Any] = []
    listing = stages.kind(model=Listing)

    @listing.stage(reads=["title"], writes=["price"], retry=ONCE)
    async def look(found: Listing) -> Update:
        seen.append((found.id, found.title, found.price, found.words))
        return Update(replace(found, price=found.words))

    @listing.stage(reads=["title"], retry=ONCE)
    async def curious(found: Listing) -> Untouched:
        return Untouched(state=found.hits)

    await stages.install()
    stages.add(1, title="a red car", hits=7)
    await stages.run()

    assert seen == [(1, "a red car", 0, 3)]
    assert stages.listing()["price"] == 3
    visit = stages.visit("listing/curious")
    assert visit is not None
    assert "looks at 'hits', which it does not declare: add it to reads=" in visit["error"]


async def test_an_update_that_changes_nothing_is_untouched(stages: Stages) -> None:
    """S13: nothing changed, so nothing is written and no one is asked."""
    listing = stages.kind(model=Listing)

    @listing.stage
    async def same(found: Listing) -> Update:
        return Update(replace(found))

    await stages.install()
    stages.add(1, title="a")
    await stages.run()

    assert stages.listing()["version"] == 1
    assert len(stages.history("listing")) == 1


async def test_a_save_asks_the_other_stages_but_not_its_own(stages: Stages) -> None:
    """S13: a stage is not asked about the version that its own save made, unless it opts in."""
    runs = []
    listing = stages.kind()

    def counting(name: str, **given: Any) -> None:
        @listing.stage(name=name, **given)
        async def run(found: dict[str, Any]) -> Update | Untouched:
            runs.append(name)
            return Update(price=3) if name == "writes" else Untouched()

    counting("writes")
    counting("reads all")
    counting("of interest", interest=["price"])
    counting("not of interest", interest=["title"])
    await stages.install()
    stages.add(1)
    await stages.run()

    assert sorted(runs) == [
        "not of interest",
        *["of interest"] * runs.count("of interest"),
        *["reads all"] * runs.count("reads all"),
        "writes",
    ]
    assert runs.index("writes") < len(runs) - 1
    asked = stages.history("listing")[-1]["result"]["asked"]
    assert "writes" not in asked
    assert "not of interest" not in asked


async def test_a_stage_that_sees_its_own_writes_is_asked_about_them(stages: Stages) -> None:
    """S13: sees_own."""
    prices = []
    listing = stages.kind()

    @listing.stage(sees_own=True)
    async def climb(found: dict[str, Any]) -> Update | Untouched:
        prices.append(found["price"])
        return Update(price=found["price"] + 1) if found["price"] < 3 else Untouched()

    await stages.install()
    stages.add(1)
    await stages.run()

    assert prices == [0, 1, 2, 3]


async def test_changes_outside_its_interest_do_not_even_ask_a_stage(stages: Stages) -> None:
    """S17: interest, and timers regardless."""
    asked = []
    listing = stages.kind()

    @listing.stage(interest=["price"])
    class Picky:
        def should_process(self, found: dict[str, Any], state: Any) -> bool:
            asked.append(found["price"])
            return False

        async def process(self, found: dict[str, Any], state: Any) -> Untouched:
            return Untouched()

    await stages.install()
    stages.add(1)
    async with stages.working() as worker:
        await stages.rest(worker)
        stages.change(title="other")
        await stages.rest(worker)
        stages.change(price=5)
        await stages.rest(worker)

    assert asked == [0, 5]


async def test_ignored_columns_ask_nobody(stages: Stages) -> None:
    asked = []
    listing = stages.kind(ignore=["hits"])

    @listing.stage
    async def look(found: dict[str, Any]) -> Update | Untouched:
        asked.append(found["hits"])
        return Update(hits=found["hits"] + 1)

    await stages.install()
    stages.add(1)
    async with stages.working() as worker:
        await stages.rest(worker)
        stages.change(hits=5)
        await stages.rest(worker)

    assert asked == [0]
    assert stages.listing()["hits"] == 5


async def test_a_timer_brings_the_entity_back_by_itself(stages: Stages, clock: Clock) -> None:
    """S4: a stage schedules itself for any time; the clock that stages see has then come."""
    seen = []
    listing = stages.kind()

    @listing.stage
    async def later(found: dict[str, Any]) -> Untouched:
        seen.append(now())
        return Untouched(visit_in=timedelta(days=180)) if len(seen) == 1 else Untouched()

    await stages.install()
    stages.add(1)
    await stages.run()
    visit = stages.visit("listing/later")
    assert visit is not None
    due_at = visit["due_at"]

    await stages.run()
    assert len(seen) == 1

    await clock.advance(timedelta(days=181))
    await stages.run()

    assert len(seen) == 2
    assert seen[1] >= due_at
    assert stages.queues() == []


async def test_no_time_removes_the_entry_and_its_timer(stages: Stages) -> None:
    """S9: an outcome restates its timer, or has none."""
    listing = stages.kind()

    @listing.stage
    async def once(found: dict[str, Any]) -> Untouched:
        return Untouched(visit_in=3600) if found["title"] == "first" else Untouched()

    await stages.install()
    stages.add(1, title="first")
    await stages.run()
    assert stages.queues() == ["listing/once"]

    stages.change(title="second")
    await stages.run()

    assert stages.queues() == []


async def test_a_time_from_should_process_brings_a_visit_forward_and_never_puts_it_off(
    stages: Stages, clock: Clock
) -> None:
    """S8: yes, no, or a time; the earliest time wins (S3), no never removes a timer."""
    listing = stages.kind()

    @listing.stage
    class Timed:
        def should_process(self, found: dict[str, Any], state: Any) -> Any:
            return now() + timedelta(days=found["rank"]) if found["rank"] else False

        async def process(self, found: dict[str, Any], state: Any) -> Untouched:
            return Untouched()

    await stages.install()
    stages.add(1, rank=10)
    await stages.run()
    visit = stages.visit("listing/Timed")
    assert visit is not None
    first = visit["due_at"]
    for rank, expected in ((20, first), (0, first)):
        stages.change(rank=rank)
        await stages.run()
        visit = stages.visit("listing/Timed")
        assert visit is not None
        assert visit["due_at"] == expected
    stages.change(rank=5)
    await stages.run()
    visit = stages.visit("listing/Timed")
    assert visit is not None
    assert first - visit["due_at"] > timedelta(days=4)


async def test_state_and_entity_change_together(stages: Stages) -> None:
    """S5: private typed state per entity, saved with the entity and given to the next run."""

    @dataclass
    class Seen:
        titles: list[str]

    listing = stages.kind(model=Listing)

    @listing.stage(state=Seen)
    async def remember(found: Listing, state: Seen | None) -> Update:
        titles = [*(state.titles if state else []), found.title]
        return Update(price=len(titles), state=Seen(titles))

    await stages.install()
    stages.add(1, title="a")
    await stages.run()
    stages.change(title="b")
    await stages.run()

    state = stages.state("remember")
    assert state is not None
    assert state["body"] == {"titles": ["a", "b"]}
    assert stages.listing()["price"] == 2
    assert stages.history("listing/remember")[-1]["result"] == {
        "version": 4,
        "state": state["version"],
        "changed": {"price": [1, 2]},
    }


async def test_plain_functions_run_in_threads_and_see_the_engines_time(stages: Stages) -> None:
    listing = stages.kind()

    @listing.stage
    def slow(found: dict[str, Any]) -> Update:
        return Update(note=now().tzname())

    await stages.install()
    stages.add(1)
    await stages.run()

    assert stages.listing()["note"] == "UTC"


async def test_an_offer_that_comes_during_the_run_is_followed_by_another_run(
    stages: Stages,
) -> None:
    """S23: the save stands, the entry stays due, and is run again (whatever its time)."""
    listing = stages.kind()
    seen = []
    gate, started = asyncio.Event(), asyncio.Event()

    @listing.stage
    async def look(found: dict[str, Any]) -> Update:
        seen.append(found["price"])
        started.set()
        await gate.wait()
        return Update(note="seen")

    await stages.install()
    stages.add(1)
    async with stages.working() as worker:
        await started.wait()
        stages.offer("listing/look")
        gate.set()
        await stages.rest(worker)

    assert len(seen) == 2
    assert stages.listing()["note"] == "seen"
    assert [row["superseded"] for row in stages.history("listing/look")] == [True, False]


async def test_a_change_during_the_run_reruns_the_stage_on_the_fresh_entity(stages: Stages) -> None:
    """S6: the save is checked against the version that was loaded; no update is lost."""
    listing = stages.kind()
    seen = []

    @listing.stage
    async def copy(found: dict[str, Any]) -> Update:
        seen.append(found["title"])
        if len(seen) == 1:
            stages.change(title="b", hits=5)
        return Update(note=found["title"])

    await stages.install()
    stages.add(1, title="a")
    await stages.run()

    assert seen[:2] == ["a", "b"]
    row = stages.listing()
    assert (row["note"], row["hits"]) == ("b", 5)
    assert stages.queues() == []


async def test_a_conflict_counts_no_attempt_and_reruns_only_its_entity(stages: Stages) -> None:
    """S6, S24: many saves in one statement, each checked for its own version."""
    listing = stages.kind()
    runs: list[int] = []
    gate = asyncio.Event()

    @listing.stage(retry=ONCE)
    async def mark(found: dict[str, Any]) -> Update:
        runs.append(found["id"])
        await gate.wait()
        return Update(note=str(found["price"]))

    await stages.install()
    stages.add(*range(1, 21))
    async with stages.working() as worker:
        await wait_until(lambda: len(runs) == 20)
        stages.change(7, price=1)
        gate.set()
        await stages.rest(worker)

    assert runs.count(7) >= 2
    assert set(runs) - {7} == set(range(1, 21)) - {7}
    assert all(runs.count(id) == 1 for id in range(1, 21) if id != 7)
    assert stages.listing(7)["note"] == "1"
    assert stages.value("select count(*) from listing where note = '0'") == 19


async def test_loads_and_saves_of_many_share_their_statements(stages: Stages) -> None:
    """S24: batches."""
    listing = stages.kind()

    @listing.stage
    async def mark(found: dict[str, Any]) -> Update:
        return Update(note="x")

    await stages.install()
    stages.query("insert into listing (id) select n from generate_series(1, 400) n")
    await stages.run(concurrency=200)

    assert stages.value("select count(*) from listing where note = 'x'") == 400
    assert stages.value("select count(distinct xmin::text) from listing") <= 40


async def test_one_stage_of_an_entity_runs_at_a_time_the_system_stage_included(
    stages: Stages,
) -> None:
    """S14: in turns; another entity's stages run beside."""
    listing = stages.kind()
    running: list[int] = []
    most = {"one": 0, "all": 0}

    async def process(found: dict[str, Any]) -> Untouched:
        running.append(found["id"])
        most["one"] = max(most["one"], running.count(found["id"]))
        most["all"] = max(most["all"], len(running))
        await asyncio.sleep(0.02)
        running.remove(found["id"])
        return Untouched()

    for name in "abc":
        listing.stage(name=name)(process)
    await stages.install()
    stages.add(1, 2, 3)
    await stages.run()

    assert most["one"] == 1
    assert most["all"] > 1


async def test_stages_of_one_entity_may_run_in_parallel_where_the_kind_says_so(
    stages: Stages,
) -> None:
    """S22: parallel, with a random delay on each offer; their saves do not lose each other's."""
    listing = stages.kind(serial=False, jitter=0.05)
    together = asyncio.Barrier(2)

    def declare(name: str, field: str) -> None:
        @listing.stage(name=name, reads=["title"], writes=[field])
        async def write(found: dict[str, Any]) -> Update:
            async with asyncio.timeout(5):
                await together.wait()
            return Update(**{field: 7})

    declare("a", "price")
    declare("b", "rank")
    await stages.install()
    stages.add(1)
    # The jitter puts the offers a little ahead: until then nothing is due, which is not the end.
    async with stages.working() as worker:
        await wait_until(lambda: stages.listing()["version"] == 3)
        await stages.rest(worker)

    row = stages.listing()
    assert (row["price"], row["rank"], row["version"]) == (7, 7, 3)
    due = [stages.history(f"listing/{name}")[0]["due_at"] for name in "ab"]
    assert due[0] != due[1]


async def test_a_stage_may_run_beside_the_others_where_it_says_so(stages: Stages) -> None:
    """S14, S22: one that takes no turns runs while another of its entity does, and its jitter counts."""
    listing = stages.kind()
    together = asyncio.Barrier(2)

    async def meet(found: dict[str, Any]) -> Untouched:
        async with asyncio.timeout(30):
            await together.wait()
        return Untouched()

    listing.stage(name="in turn")(meet)
    listing.stage(name="beside", serial=False, jitter=0.05)(meet)
    await stages.install()
    stages.add(1)
    async with stages.working() as worker:
        await wait_until(lambda: bool(stages.history("listing/beside")))
        await stages.rest(worker)

    [beside], [in_turn] = stages.history("listing/beside"), stages.history("listing/in turn")
    assert beside["due_at"] > in_turn["due_at"]
    assert (beside["attempt"], in_turn["attempt"]) == (1, 1)


async def test_a_slow_or_failing_stage_takes_nothing_from_another(stages: Stages) -> None:
    """S2: each stage has its own queue."""
    listing = stages.kind()
    gate = asyncio.Event()

    @listing.stage(parallel=1)
    async def slow(found: dict[str, Any]) -> Untouched:
        await gate.wait()
        return Untouched()

    @listing.stage(retry=ONCE)
    async def failing(found: dict[str, Any]) -> Untouched:
        raise ValueError("no")

    @listing.stage
    async def fast(found: dict[str, Any]) -> Update:
        return Update(note="done")

    await stages.install()
    stages.query("insert into listing (id) select n from generate_series(1, 60) n")
    done = "select count(*) from listing where note = 'done'"
    async with stages.working(concurrency=8) as worker:
        await wait_until(lambda: stages.value(done) >= 59, timeout=15)
        gate.set()
        await stages.rest(worker, timeout=20)

    assert stages.value(done) == 60
    parked = "select count(*) from mainspring.visit where parked_at is not null"
    assert stages.value(parked) == 60


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_a_slow_stage_without_a_limit_leaves_room_for_others(
    stages: Stages, plain: bool
) -> None:
    """S2: whatever it has waiting, it does not take the last slots."""
    listing, gate, open_ = stages.kind(), asyncio.Event(), threading.Event()

    async def wait(found: dict[str, Any]) -> Untouched:
        await gate.wait()
        return Untouched()

    def wait_plainly(found: dict[str, Any]) -> Untouched:
        open_.wait()
        return Untouched()

    listing.stage(name="Slow", interest=["title"])(wait_plainly if plain else wait)

    @listing.stage(interest=["price"])
    async def fast(found: dict[str, Any]) -> Update:
        return Update(note="done")

    await stages.install()
    stages.query("insert into listing (id) select n from generate_series(1, 60) n")
    stages.query("delete from mainspring.visit")
    stages.query("update listing set title = 'x' where id <= 40")
    async with stages.working(concurrency=8) as worker:
        try:
            await wait_until(lambda: len(worker.owned.active()) == 6, timeout=15)
            stages.query("update listing set price = 1 where id > 40")
            done = "select count(*) from listing where note = 'done'"
            await wait_until(lambda: stages.value(done) == 20, timeout=15)
        finally:
            gate.set()
            open_.set()
        await stages.rest(worker, timeout=20)


async def test_the_load_on_a_stage_is_limited_across_workers(stages: Stages) -> None:
    """S19: a maximum of parallel calls, over all instances."""
    listing = stages.kind()
    running, most = 0, 0

    @listing.stage(parallel=2)
    async def careful(found: dict[str, Any]) -> Untouched:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return Untouched()

    await stages.install()
    stages.query("insert into listing (id) select n from generate_series(1, 30) n")
    async with stages.working() as first, stages.working() as second:
        await stages.rest(first, timeout=30)
        await stages.rest(second, timeout=30)

    assert most == 2


async def test_a_rate_limits_the_starts_of_process(stages: Stages) -> None:
    """S19: a rate."""
    listing = stages.kind()
    starts = []

    @listing.stage(rate=40)
    async def paced(found: dict[str, Any]) -> Untouched:
        starts.append(asyncio.get_running_loop().time())
        return Untouched()

    await stages.install()
    stages.query("insert into listing (id) select n from generate_series(1, 20) n")
    await stages.run()

    assert len(starts) == 20
    assert starts[-1] - starts[0] >= 0.3


@pytest.mark.parametrize("table", ["text", "uuid", "composite"])
async def test_ids_of_any_type_come_to_their_stage(stages: Stages, table: str) -> None:
    """S25."""
    key = {"text": "code text primary key", "uuid": "code uuid primary key"}.get(
        table, "code text, region integer, primary key (region, code)"
    )
    stages.query(f"create table thing ({key}, note text, version bigint default 1)")
    columns = ["region", "code"] if table == "composite" else ["code"]
    thing = stages.kind("thing", table="public.thing", key=columns)
    seen = []

    @thing.stage
    async def mark(found: dict[str, Any]) -> Update:
        seen.append(found["code"])
        return Update(note="seen")

    await stages.install()
    code = "8c0a6b0e-0b5e-4b5e-8b5e-0b5e4b5e8b5e" if table == "uuid" else 'it"s, [1] %s'
    if table == "composite":
        stages.query("insert into thing (region, code) values (7, %s)", code)
    else:
        stages.query("insert into thing (code) values (%s)", code)
    await stages.run()

    assert seen == [code]
    assert stages.value("select note from thing") == "seen"


@pytest.mark.parametrize("reads", [None, ["price", "tags"]])
async def test_a_stage_may_change_what_it_was_given_and_return_it(
    stages: Stages, reads: list[str] | None
) -> None:
    """S6: what it returns is compared with what was loaded, not with an object that is its own."""

    @dataclass
    class Tagged:
        id: int
        price: int
        tags: list[str]

    stages.query("alter table listing add tags text[] not null default '{}'")
    listing = stages.kind(model=Tagged)

    @listing.stage(reads=reads)
    async def whole(found: Tagged) -> Update:
        found.price = 5
        return Update(found)

    @listing.stage(reads=reads)
    async def part(found: Tagged) -> Update:
        if "new" not in found.tags:
            found.tags.append("new")
        return Update(tags=found.tags)

    await stages.install()
    stages.add(1)
    await stages.run()

    assert (stages.listing()["price"], stages.listing()["tags"]) == (5, ["new"])


async def test_a_stage_reads_fields_that_have_another_name_in_the_table(stages: Stages) -> None:
    class Renamed(msgspec.Struct, rename={"name": "title"}):
        id: int
        name: str
        price: int = 0

    listing = stages.kind(model=Renamed)

    @listing.stage(reads=["title"], writes=["price"])
    async def count(found: Renamed) -> Update:
        return Update(price=len(found.name))

    await stages.install()
    stages.add(1, title="sofa")
    await stages.run()

    assert stages.listing()["price"] == 4
