"""The traps of the stage protocol: each was met, or found by a search; each is played on a real server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from mainspring import Untouched, Update
from mainspring.retry_policy import RetryPolicy
from mainspring.testing import wait_until
from stages import Stages

ONCE = RetryPolicy(attempts=1)


class Gated:
    """A stage whose runs wait until the test lets them go on."""

    def __init__(self, answer: Callable[[dict[str, Any], Any], Any]) -> None:
        self.answer = answer
        self.seen: list[dict[str, Any]] = []
        self.gate = asyncio.Event()
        self.first_only = True

    async def process(self, found: dict[str, Any], state: Any) -> Any:
        self.seen.append(found)
        if not self.first_only or len(self.seen) == 1:
            await self.gate.wait()
        return self.answer(found, state)


async def during_first_run(stages: Stages, stage: Gated, action: Callable[[], None]) -> None:
    """Let the stage's first run load, do something, let it end, and wait for rest."""
    async with stages.working() as worker:
        await wait_until(lambda: bool(stage.seen))
        action()
        stage.gate.set()
        await stages.rest(worker)


async def test_untouched_is_compared_with_the_entity_and_a_due_stage_gets_a_new_token(
    stages: Stages,
) -> None:
    """S15, trap 1: a change and its whole system visit during an untouched run are not missed."""
    listing = stages.kind(serial=False)
    stage = Gated(lambda found, state: Untouched(visit_in=3600))
    listing.stage(name="look")(stage)
    await stages.install()
    stages.add(1, title="a")

    async with stages.working() as worker:
        await wait_until(lambda: bool(stage.seen))
        stages.change(title="b")
        # The system visit comes and goes; the stage is due already, so it is not asked.
        await wait_until(lambda: len(stages.history("listing")) == 2)
        assert stages.history("listing")[-1]["result"] == {"asked": {"look": "due"}}
        stage.gate.set()
        await stages.rest(worker)

    assert [found["title"] for found in stage.seen] == ["a", "b"]


async def test_an_entity_is_loaded_after_its_token_was_read(stages: Stages) -> None:
    """S13, trap 2: visits that ask while a load is under way share the next one, never that one."""
    listing = stages.kind()
    seen: list[str] = []

    @listing.stage
    async def look(found: dict[str, Any]) -> Untouched:
        seen.append(found["title"])
        return Untouched()

    await stages.install()
    stages.add(1, title="0")
    async with stages.working() as worker:
        for n in range(1, 30):
            stages.change(title=str(n))
        await stages.rest(worker)

    assert seen[-1] == "29"


async def test_a_users_write_that_merges_with_a_stages_save_is_seen_by_that_stage(
    stages: Stages,
) -> None:
    """S13, trap 3: only the version that its own save made is a stage's own."""
    listing = stages.kind()
    seen: list[str] = []

    @listing.stage
    async def own(found: dict[str, Any]) -> Update:
        seen.append(found["title"])
        return Update(note=found["title"])

    await stages.install()
    stages.add(1, title="a")
    await stages.run()
    # As if the save's system visit had waited while a user wrote.
    stages.change(title="b")
    stages.offer("listing", payload={"by:own": 2, "v": 2, "chain": {"n": 1, "at": 0}})
    await stages.run()

    assert seen == ["a", "b"]


async def test_an_outside_change_of_state_is_not_overwritten(stages: Stages) -> None:
    """S11, trap 5: the stage's save compares the state's version."""
    listing = stages.kind()
    stage = Gated(
        lambda found, state: Untouched(
            state=state if isinstance(state, dict) else {"by": "stage", "was": state}
        )
    )
    listing.stage(name="keep")(stage)
    await stages.install()
    stages.add(1)

    def outsider() -> None:
        sql = "select mainspring.set_state('listing', '1', 'keep', 0, '\"outsider\"')"
        assert stages.value(sql) is True

    await during_first_run(stages, stage, outsider)

    state = stages.state("keep")
    assert state is not None
    assert state["body"] == {"by": "stage", "was": "outsider"}


async def test_a_state_is_not_stored_beside_a_newer_entity(stages: Stages) -> None:
    """S13, trap 5: a save of state alone compares and locks the entity's row, too."""
    listing = stages.kind()
    stage = Gated(lambda found, state: Untouched(state=found["title"]))
    listing.stage(name="keep")(stage)
    await stages.install()
    stages.add(1, title="a")

    await during_first_run(stages, stage, lambda: stages.change(title="b"))

    state = stages.state("keep")
    assert state is not None
    assert state["body"] == "b"


async def test_an_entity_that_was_deleted_and_created_again_is_another(stages: Stages) -> None:
    """S13, trap 6: version 1 again, but another row; the old result is dropped, the new one is asked."""
    listing = stages.kind()
    stage = Gated(lambda found, state: Update(note=found["title"], state=found["title"]))
    listing.stage(name="copy")(stage)
    await stages.install()
    stages.add(1, title="old")

    def recreate() -> None:
        stages.query("delete from listing where id = 1")
        stages.add(1, title="new")

    await during_first_run(stages, stage, recreate)

    row, state = stages.listing(), stages.state("copy")
    assert (row["note"], row["version"]) == ("new", 2)
    assert state is not None
    assert state["body"] == "new"


async def test_what_was_written_past_the_trigger_is_not_overwritten(stages: Stages) -> None:
    """S21, trap 6: the row changed and its version did not; xmin tells."""
    listing = stages.kind()
    stage = Gated(lambda found, state: Update(hits=found["hits"] + 1))
    listing.stage(name="count")(stage)
    await stages.install()
    stages.add(1, hits=10)

    def bypass() -> None:
        stages.query("set session_replication_role = replica")
        stages.change(hits=20)
        stages.query("reset session_replication_role")

    await during_first_run(stages, stage, bypass)

    assert stages.listing()["hits"] == 21
    assert [found["hits"] for found in stage.seen] == [10, 20]


async def test_a_trigger_that_vetoes_the_save_fails_its_visit_and_nothing_else(
    stages: Stages,
) -> None:
    """S7, trap 14: no state, no event, no settle of what was not saved; the others are saved."""
    stages.query(
        "create function veto() returns trigger language plpgsql as $$ "
        "begin if new.title = 'keep' then return null; end if; return new; end $$"
    )
    stages.query(
        "create trigger a_veto before update on listing for each row execute function veto()"
    )
    listing = stages.kind()
    listing.stage(name="write", retry=ONCE)(
        Gated(lambda found, state: Update(note="x", state="saved"))
    )
    stage = listing.stages["write"].target
    stage.gate.set()
    await stages.install()
    stages.add(1, 3, title="a")
    stages.add(2, title="keep")
    await stages.run()

    assert [stages.listing(id)["note"] for id in (1, 2, 3)] == ["x", None, "x"]
    assert [stages.state("write", id) is not None for id in (1, 2, 3)] == [True, False, True]
    visit = stages.visit("listing/write", 2)
    assert visit is not None
    assert visit["parked_at"] is not None
    assert "a trigger on the table kept note of '2' as it was" in visit["error"]


async def test_a_stage_is_asked_about_what_a_trigger_made_of_its_save(stages: Stages) -> None:
    """S13, trap 14: its own is only what it wrote itself."""
    stages.query(
        "create function alter_price() returns trigger language plpgsql as $$ "
        "begin if new.price > 10 then new.price := 10; end if; return new; end $$"
    )
    stages.query(
        "create trigger a_price before update on listing "
        "for each row execute function alter_price()"
    )
    listing = stages.kind()
    seen = []

    @listing.stage
    async def raise_(found: dict[str, Any]) -> Update | Untouched:
        seen.append(found["price"])
        return Update(price=99) if found["price"] == 0 else Untouched()

    await stages.install()
    stages.add(1)
    await stages.run()

    assert seen == [0, 10]
    assert stages.listing()["price"] == 10


async def test_two_saves_of_one_entity_never_share_a_statement(stages: Stages) -> None:
    """S24, trap 15: one of the two would be lost, and both settled."""
    listing = stages.kind(serial=False)
    both = asyncio.Barrier(2)

    def declare(name: str) -> None:
        @listing.stage(name=name)
        async def add(found: dict[str, Any], state: Any) -> Any:
            if state is not None:
                return Untouched()
            if not both.broken and both.n_waiting < 2 and found["hits"] == 0:
                await both.wait()
            return Update(hits=found["hits"] + 1, state=True)

    declare("a")
    declare("b")
    await stages.install()
    stages.add(1)
    await stages.run()

    assert stages.listing()["hits"] == 2


def waits_for_a_lock(stages: Stages) -> bool:
    """Whether some session of the engine waits for what another has locked."""
    return bool(
        stages.value(
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' "
            "and datname = current_database() and application_name like 'mainspring%%'"
        )
    )


async def test_the_engine_gives_way_to_a_user_who_locks_the_other_way_round(stages: Stages) -> None:
    """S6, trap 16: a user offers, then writes; the engine waits shortly and never wins a deadlock."""
    listing = stages.kind()
    stage = Gated(lambda found, state: Update(note="engine"))
    listing.stage(name="write")(stage)
    await stages.install()
    stages.add(1)

    async with stages.working() as worker:
        await wait_until(lambda: bool(stage.seen))
        with stages.transaction() as user:
            user.execute("select mainspring.changed('listing', array['1'])")
            stage.gate.set()
            await wait_until(lambda: waits_for_a_lock(stages))  # it has the row, not the visit
            user.execute("update listing set hits = 1 where id = 1")
            user.commit()
        await stages.rest(worker)

    row = stages.listing()
    assert (row["note"], row["hits"]) == ("engine", 1)


@pytest.mark.parametrize("when", ["immediately", "at the commit"])
async def test_a_save_that_the_database_refuses_fails_alone(stages: Stages, when: str) -> None:
    """S6, trap 18: an error of a user's trigger or of a deferred constraint; the batch is halved."""
    stages.query(
        "create function refuse() returns trigger language plpgsql as $$ "
        "begin if new.note = '13' then raise exception 'thirteen is refused'; end if; return null; end $$"
    )
    deferred = "constraint" if when == "at the commit" else ""
    stages.query(
        f"create {deferred} trigger refuse after update on listing "
        f"{'deferrable initially deferred' if deferred else ''} for each row execute function refuse()"
    )
    listing = stages.kind()

    @listing.stage(retry=ONCE)
    async def mark(found: dict[str, Any]) -> Update:
        return Update(note=str(found["id"]), state=found["id"])

    await stages.install()
    stages.add(*range(1, 31))
    await stages.run()

    assert stages.value("select count(*) from listing where note = id::text") == 29
    assert stages.value("select count(*) from mainspring.state") == 29
    parked = stages.query("select key, error from mainspring.visit where parked_at is not null")
    assert [row["key"] for row in parked] == ["13"]
    assert "thirteen is refused" in parked[0]["error"]


async def test_a_locked_row_holds_up_nobody_else(stages: Stages) -> None:
    """S6, trap 19: a user's open transaction on one entity; the others are saved meanwhile."""
    listing = stages.kind()

    @listing.stage
    async def mark(found: dict[str, Any]) -> Update:
        return Update(note="x")

    await stages.install()
    stages.add(*range(1, 11))
    with stages.transaction() as user:
        user.execute("select from listing where id = 5 for update")
        async with stages.working() as worker:
            await wait_until(
                lambda: stages.value("select count(*) from listing where note = 'x'") == 9
            )
            user.rollback()
            await stages.rest(worker)

    assert stages.value("select count(*) from listing where note = 'x'") == 10
    assert len(stages.history("listing/mark", 5)) == 1  # sent again, not run again


async def test_numbers_of_events_rise_in_the_order_of_commits(stages: Stages) -> None:
    """S7, trap 23: drawn while the entity's row is locked, from a sequence without a cache."""
    cached = stages.query(
        "select seqcache from pg_sequence where seqrelid in "
        "('mainspring.event_number'::regclass, 'mainspring.state_version'::regclass)"
    )
    assert [row["seqcache"] for row in cached] == [1, 1]
    listing = stages.kind(serial=False)

    def declare(name: str) -> None:
        class Stage:
            async def process(self, found: dict[str, Any], state: Any) -> Any:
                return Update(hits=found["hits"] + 1) if found["hits"] < 6 else Untouched()

            async def saved(self, event: Any) -> None: ...

        listing.stage(name=name, sees_own=True)(Stage)

    declare("a")
    declare("b")
    await stages.install()
    numbers: list[Any] = []
    stages.query("create table heard (number bigint, version bigint)")
    stages.query(
        "create function hear() returns trigger language plpgsql as $$ "
        "begin insert into heard values (new.number, new.entity_version); return null; end $$"
    )
    stages.query(
        "create trigger hear after insert on mainspring.event for each row execute function hear()"
    )
    stages.add(1)
    await stages.run()

    numbers = stages.query("select number, version from heard order by version")
    assert len(numbers) == 6
    assert [n["number"] for n in numbers] == sorted(n["number"] for n in numbers)


async def test_numbers_jump_ahead_when_the_server_is_another_one(stages: Stages) -> None:
    """S7, trap 24: after a failover to a standby that missed commits, no number comes back."""
    listing = stages.kind()

    @listing.stage
    async def keep(found: dict[str, Any]) -> Untouched:
        return Untouched(state=found["price"])

    await stages.install()
    stages.add(1)
    await stages.run()
    before = stages.state("keep")
    assert before is not None
    stages.query("update mainspring.install set timeline = timeline + 1")
    stages.change(price=3)
    await stages.run()

    after = stages.state("keep")
    assert after is not None
    assert after["version"] - before["version"] > 1_000_000


async def test_an_offer_never_shortens_a_backoff(stages: Stages) -> None:
    """S3, trap 26: a failing stage is not retried at the rate of changes."""
    listing = stages.kind()
    runs = []

    @listing.stage(retry=RetryPolicy(first=600))
    async def failing(found: dict[str, Any]) -> Untouched:
        runs.append(found["price"])
        raise ValueError("not now")

    await stages.install()
    stages.add(1)
    await stages.run()
    for price in range(5):
        stages.change(price=price + 1)
        await stages.run()

    assert runs == [0]
    visit = stages.visit("listing/failing")
    assert visit is not None
    assert visit["attempt"] == 1


async def test_a_patch_is_rebased_when_nobody_touched_what_it_read_or_wrote(stages: Stages) -> None:
    """S6, trap 27: the save goes on the newer row, and process is not run again."""
    listing = stages.kind()
    stage = Gated(lambda found, state: Update(price=len(found["title"]), state="seen"))
    listing.stage(name="price", reads=["title"], writes=["price"])(stage)
    await stages.install()
    stages.add(1, title="abc")

    await during_first_run(stages, stage, lambda: stages.change(hits=5, note="x"))

    row = stages.listing()
    assert (row["price"], row["hits"], row["note"]) == (3, 5, "x")
    assert len(stage.seen) == 1
    assert stages.state("price") is not None


@pytest.mark.parametrize("field", ["title", "price", "rank"])
async def test_a_patch_is_not_rebased_when_somebody_did(stages: Stages, field: str) -> None:
    """S6: read, written or of interest: then it is run again."""
    listing = stages.kind()
    stage = Gated(lambda found, state: Update(price=len(found["title"])))
    listing.stage(name="price", reads=["title"], writes=["price"], interest=["rank"])(stage)
    await stages.install()
    stages.add(1, title="abc")

    value = "abcd" if field == "title" else 9
    await during_first_run(stages, stage, lambda: stages.change(**{field: value}))

    assert len(stage.seen) >= 2
    assert stages.listing()["price"] == (4 if field == "title" else 3)


async def test_a_stage_that_a_worker_does_not_know_is_offered_unasked(stages: Stages) -> None:
    """S26, trap 31: during a rolling deploy the catalogue says which stages there are."""
    listing = stages.kind()

    @listing.stage
    async def known(found: dict[str, Any]) -> Untouched:
        return Untouched()

    await stages.install()
    stages.query(
        "insert into mainspring.stage (kind, name, interest) "
        "values ('listing', 'newer', '{title}'), ('listing', 'other', '{price}')"
    )
    stages.add(1)
    await stages.run()
    stages.query("delete from mainspring.visit")
    stages.change(title="b")
    await stages.run()

    assert stages.queues() == ["listing/newer"]
    assert stages.history("listing")[-1]["result"] == {"asked": {"known": True, "newer": "unknown"}}


async def test_only_the_columns_of_the_patch_are_written(stages: Stages) -> None:
    """S6, trap 33: no `update of` trigger of another column fires, generated columns do no harm."""
    stages.query(
        "alter table listing add column size integer generated always as (length(title)) stored"
    )
    stages.query("create table fired (what text)")
    stages.query(
        "create function fire() returns trigger language plpgsql as $$ "
        "begin insert into fired values (tg_argv[0]); return null; end $$"
    )
    for column in ("title", "price"):
        stages.query(
            f"create trigger of_{column} after update of {column} on listing "
            f"for each row execute function fire('{column}')"
        )
    listing = stages.kind()

    @listing.stage
    async def whole(found: dict[str, Any]) -> Update:
        return Update({**found, "price": found["size"]})

    await stages.install()
    stages.add(1, title="abc")
    await stages.run()

    assert stages.listing()["price"] == 3
    assert stages.query("select what from fired") == [{"what": "price"}]


async def test_no_save_without_its_visit(stages: Stages) -> None:
    """S13, trap 34: the entry was deleted during the run, so the result is dropped."""
    listing = stages.kind()
    stage = Gated(lambda found, state: Update(note="x", state="x"))
    listing.stage(name="write")(stage)
    await stages.install()
    stages.add(1)

    await during_first_run(
        stages,
        stage,
        lambda: stages.query("delete from mainspring.visit where queue = 'listing/write'"),
    )

    assert stages.listing()["note"] is None
    assert stages.state("write") is None


async def test_a_delete_during_the_run_ends_it_without_a_trace(stages: Stages) -> None:
    """S21: nothing of a deleted entity is left, and its result is dropped."""
    listing = stages.kind()
    stage = Gated(lambda found, state: Update(note="x", state="x", visit_in=3600))
    listing.stage(name="write")(stage)
    await stages.install()
    stages.add(1)

    await during_first_run(stages, stage, lambda: stages.query("delete from listing"))

    assert stages.queues() == []
    assert stages.state("write") is None


async def test_a_row_that_is_not_found_ends_the_visit_and_leaves_the_state(stages: Stages) -> None:
    """S21, trap 22: hidden is not deleted."""
    listing = stages.kind(capture="call")

    @listing.stage
    async def keep(found: dict[str, Any]) -> Untouched:
        return Untouched(state="kept")

    await stages.install()
    stages.add(1)
    await listing.changed([1])
    await stages.run()
    stages.query("delete from listing")
    await listing.changed([1])
    await stages.run()

    assert stages.queues() == []
    assert stages.state("keep") is not None
    assert stages.history("listing")[-1]["result"] == "missing"


@pytest.mark.parametrize("writes", [10, pytest.param(30, marks=pytest.mark.slow)])
async def test_no_update_is_lost_by_sums(stages: Stages, writes: int) -> None:
    """S6: outsiders and stages add to one row, with and without the trigger; every one counts."""
    listing = stages.kind(serial=False)
    stop = threading.Event()
    written = {"hits": 0, "past": 0}

    def declare(name: str) -> None:
        @listing.stage(name=name, reads=["title", "rank"], writes=["rank"])
        async def add(found: dict[str, Any], state: Any) -> Any:
            await asyncio.sleep(0)
            return Update(rank=found["rank"] + 1, state=(state or 0) + 1)

    declare("a")
    declare("b")
    await stages.install()
    stages.add(1, 2)

    def outsider(past: bool) -> None:
        with psycopg.connect(stages.url, autocommit=True) as connection:
            if past:
                connection.execute("set session_replication_role = replica")
            while not stop.is_set():
                column = "price" if past else "hits"
                connection.execute(
                    f"update listing set {column} = {column} + 1, title = title || 'x' where id = 1"
                )
                written["past" if past else "hits"] += 1
                stop.wait(0.005)  # the stages get a turn too, else thousands of writes pile up

    threads = [threading.Thread(target=outsider, args=(past,)) for past in (False, True)]
    async with stages.working() as worker:
        for thread in threads:
            thread.start()
        await wait_until(lambda: min(written.values()) > writes, timeout=20)
        stop.set()
        for thread in threads:
            thread.join()
        await stages.rest(worker, timeout=90)

    row = stages.listing()
    assert (row["hits"], row["price"]) == (written["hits"], written["past"])
    counted = stages.value("select sum(body::text::int) from mainspring.state where key = '1'")
    assert row["rank"] == counted > 0
