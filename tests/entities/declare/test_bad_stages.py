"""Bad input and bad luck: what a stage, a table or a user does wrong, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from mainspring import Untouched, Update
from mainspring.entities.declare.model import is_equal
from mainspring.entities.save import loop_guard as guard
from mainspring.entities.save.conflicts import NAMED_AFTER, Conflicts
from mainspring.entities.source.rows import Loaded
from mainspring.errors import InvalidKind, InvalidStage, UnreadableState
from mainspring.kernel.outcome import Again
from mainspring.kernel.visit import Visit
from mainspring.retry_policy import RetryPolicy
from mainspring.testing import wait_until
from stages import Stages

ONCE = RetryPolicy(attempts=1)


@dataclass
class Draft:
    title: str
    price: int = 0


async def untouched(found: Any) -> Untouched:
    return Untouched()


@pytest.mark.parametrize("setting", ["reads", "writes", "interest"])
async def test_an_unknown_column_is_refused_at_the_start(stages: Stages, setting: str) -> None:
    listing = stages.kind()
    listing.stage(name="typo", **{setting: ["titel"]})(untouched)

    with pytest.raises(
        InvalidKind, match=r"has no column 'titel'.*of stage 'typo'.*did you mean 'title'"
    ):
        async with stages.app.worker():
            pass


@pytest.mark.parametrize("setting", ["reads", "writes", "interest"])
async def test_a_column_that_is_near_to_none_is_refused_with_all_there_are(
    stages: Stages, setting: str
) -> None:
    listing = stages.kind()
    listing.stage(name="typo", **{setting: ["weight"]})(untouched)

    with pytest.raises(InvalidKind, match=r"'weight'.*; it has id, title, price, rank, hits, note"):
        await stages.install()


async def test_a_worker_that_is_refused_has_registered_nothing(stages: Stages) -> None:
    """S26: others go by the catalogue; a stage that nobody can run is not in it, and takes over none."""
    listing = stages.kind()
    listing.stage(name="price")(untouched)
    await stages.install()

    async with stages.next_release():
        listing = stages.kind()
        listing.stage(name="cost", was=["price"], writes=["prize"])(untouched)
        with pytest.raises(InvalidKind, match=r"'prize' \(writes of stage 'cost'\).*mean 'price'"):
            async with stages.app.worker():
                pass

    found = stages.query("select name from mainspring.stage")
    assert found == [{"name": "price"}]


@pytest.mark.parametrize("column", ["size", "id", "version"])
async def test_a_column_that_nobody_can_write_is_refused_at_the_start(
    stages: Stages, column: str
) -> None:
    stages.query(
        "alter table listing add column size integer generated always as (length(title)) stored"
    )
    listing = stages.kind()
    listing.stage(name="wrong", writes=[column])(untouched)

    with pytest.raises(InvalidStage, match=f"'wrong' of kind 'listing' cannot write '{column}'"):
        async with stages.app.worker():
            pass


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, "must return Untouched(...) or Update(...), got None"),
        ({"price": 3}, "must return Untouched(...) or Update(...), got dict of price: int"),
        (
            Update(title="x"),
            "changes 'title', which it does not declare; add it to writes= (now: price)",
        ),
        (Update(nonsense=1), "changes 'nonsense', a field that the entity does not have"),
        (Update(price="much"), "invalid input syntax for type integer; nothing was saved"),
        (Update(price=10**12), "out of range for type integer"),
        (Update(price=object()), "field 'price' cannot be written"),
        (Untouched(state=object()), "the state of stage 'wrong' cannot be written"),
        (Untouched(visit_at=datetime(2100, 1, 1, tzinfo=UTC)), "at most 3660 days from now"),
        (Update(price=None), "violates not-null constraint"),
    ],
)
async def test_a_wrong_outcome_fails_its_visit_and_changes_nothing(
    stages: Stages, answer: Any, error: str
) -> None:
    listing = stages.kind()

    @listing.stage(writes=["price"], retry=ONCE)
    async def wrong(found: dict[str, Any]) -> Any:
        return answer if found["id"] == 1 else Update(price=7)

    await stages.install()
    stages.add(1, 2)
    await stages.run()

    visit = stages.visit("listing/wrong")
    assert visit is not None
    assert visit["parked_at"] is not None
    assert error in visit["error"]
    assert (stages.listing(1)["version"], stages.listing(2)["price"]) == (1, 7)
    assert stages.state("wrong") is None


async def test_a_refusal_of_the_database_names_stage_entity_fields_and_constraint(
    stages: Stages,
) -> None:
    stages.query("alter table listing add constraint fair check (price < 100)")
    listing = stages.kind()

    # A policy goes by the server's own error.
    @listing.stage(
        writes=["price", "title"], retry=RetryPolicy(give_up_on=(asyncpg.CheckViolationError,))
    )
    async def price(found: dict[str, Any]) -> Update:
        return Update(price=500 if found["id"] == 2 else 5, title="sofa")

    await stages.install()
    with stages.connection.transaction():
        stages.add(1, 2, 3)
    await stages.run()

    visit = stages.visit("listing/price", 2)
    assert visit is not None
    assert visit["parked_at"] is not None
    first, _, rest = visit["error"].partition("\n")
    assert first == (
        "asyncpg.exceptions.CheckViolationError: the database refused the save of stage 'price' for "
        "listing '2' (price: int, title: str): new row for relation \"listing\" violates check "
        'constraint "fair"; nothing was saved: let the stage return what the table takes, or change '
        "the table"
    )
    assert "sofa" not in rest
    assert [stages.listing(id)["price"] for id in (1, 2, 3)] == [5, 0, 5]


async def test_a_trigger_that_raises_is_named_by_the_visit_that_it_failed(stages: Stages) -> None:
    stages.query(
        "create function guard_price() returns trigger language plpgsql as "
        "$$ begin raise exception 'price %% is odd', new.price; end $$"
    )
    stages.query(
        "create trigger g before update on listing for each row execute function guard_price()"
    )
    listing = stages.kind()

    @listing.stage(writes=["price"], retry=ONCE)
    async def price(found: dict[str, Any]) -> Update:
        return Update(price=7)

    await stages.install()
    stages.add(1)
    await stages.run()

    visit = stages.visit("listing/price")
    assert visit is not None
    assert (
        "of stage 'price' for listing '1' (price: int): price 7 is odd; nothing" in visit["error"]
    )
    assert "\nCONTEXT: PL/pgSQL function guard_price() line 1 at RAISE" in visit["error"]


async def test_a_state_that_no_longer_decodes_is_parked_and_not_lost(stages: Stages) -> None:
    """S5: the visit waits for an operator, the state stays as it is."""

    @dataclass
    class Price:
        cents: int

    listing = stages.kind()

    @listing.stage(state=Price)
    async def price(found: dict[str, Any], state: Price | None) -> Update:
        return Update(price=1, state=Price(1))

    await stages.install()
    stages.add(1)
    stages.query(
        "insert into mainspring.state (shard, kind, key, stage, body) select "
        "mainspring.shard('1', shard_count), 'listing', '1', 'price', '{\"euros\": 5}' "
        "from mainspring.install"
    )
    await stages.run()

    visit, state = stages.visit("listing/price"), stages.state("price")
    assert visit is not None
    assert visit["parked_at"] is not None
    assert "give the stage an upgrade for it, or set the state anew" in visit["error"]
    assert state is not None
    assert state["body"] == {"euros": 5}
    assert stages.listing()["price"] == 0
    with pytest.raises(UnreadableState, match=rf"it has version {state['version']}\)$"):
        await listing.state("price", 1)
    assert await listing.set_state("price", 1, Price(5), state["version"])


async def test_an_entity_that_does_not_fit_the_model_is_parked(stages: Stages) -> None:
    @dataclass
    class Strict:
        id: int
        note: str  # never null, says the model

    listing = stages.kind(model=Strict)

    @listing.stage
    async def look(found: Strict) -> Untouched:
        return Untouched()

    await stages.install()
    stages.add(1)
    stages.add(2, note="x")
    await stages.run()

    visit = stages.visit("listing/look", 1)
    assert visit is not None
    assert "Expected `str`, got `null`" in visit["error"]
    assert stages.queues(2) == []


@pytest.mark.parametrize("kind", ["circle", "runaway"])
async def test_stages_that_set_each_other_off_are_stopped_and_the_others_go_on(
    stages: Stages, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S16: the save that would close the circle is not written; its stage is parked for that entity."""
    monkeypatch.setattr(guard, "MOST_HOPS", 30)
    listing = stages.kind()

    @listing.stage(interest=["price"], sees_own=True)
    async def up(found: dict[str, Any]) -> Any:
        if found["id"] != 1:
            return Untouched()
        if kind == "runaway":
            return Update(price=found["price"] + 1)
        return Update(price=1 - found["price"])

    @listing.stage(reads=["title"], writes=["note"])
    async def copy(found: dict[str, Any]) -> Update:
        return Update(note=found["title"])

    await stages.install()
    stages.add(1, 2, title="a")
    parked = "select count(*) from mainspring.visit where parked_at is not null"
    async with stages.working() as worker:
        await wait_until(lambda: stages.value(parked) == 1, timeout=60)
        await stages.rest(worker)

    visit = stages.visit("listing/up")
    assert visit is not None
    assert visit["parked_at"] is not None, visit
    if kind == "circle":
        assert "came round 3 times: up: price" in visit["error"]
        assert stages.listing()["version"] < 25
    else:
        assert "30 times without an event from outside" in visit["error"]
    assert stages.queues() == ["listing/up"]
    assert [stages.listing(id)["note"] for id in (1, 2)] == ["a", "a"]

    stages.change(title="b", price=5)
    await stages.run()

    visit = stages.visit("listing/up")
    assert visit is not None
    assert visit["offered_while_parked"]
    assert stages.listing()["note"] == "b"


async def test_a_busy_entity_is_not_taken_for_a_loop(stages: Stages) -> None:
    """S16, trap 28: outside writes begin the chain anew, however many there are."""
    listing = stages.kind()

    @listing.stage(interest=["title"], writes=["price"])
    async def flip(found: dict[str, Any]) -> Update:
        return Update(price=1 - found["price"])

    await stages.install()
    stages.add(1)
    async with stages.working() as worker:
        for n in range(16):
            stages.change(title=str(n))
            await stages.rest(worker)

    assert stages.queues() == []
    assert (
        len(stages.history("listing/flip")) >= 16
    )  # the first change may have met the insert's visit


def loaded(**fields: int) -> Loaded:
    import json

    return Loaded("1", fields.get("version"), "1", json.dumps(fields))


def test_conflicts_rerun_at_once_then_wait_longer_and_are_named() -> None:
    """S6, trap 27: a slow stage on a busy entity backs off, and says which fields keep moving."""
    visit = Visit(
        0,
        "1",
        "listing/slow",
        None,
        None,
        5,
        datetime.now(UTC).timestamp(),
        1,
        0,
        0,
        None,
        "{}",  # type: ignore[arg-type]
    )
    conflicts = Conflicts()
    waits: list[float] = []
    error: str | None = None
    for n in range(NAMED_AFTER + 5):
        verdict = conflicts.met(visit, loaded(price=n, rank=0, version=n))
        conflicts.loaded(visit, loaded(price=n + 1, rank=0, version=n + 1))
        if n == 0:
            assert verdict == "rerun"
            continue
        assert isinstance(verdict, Again)
        waits.append(verdict.after)
        error = verdict.error

    assert waits[0] <= 0.05
    assert 2 < waits[-1] <= 5
    assert error is not None
    assert "others changed price, version while it ran" in error
    conflicts.over(visit)
    assert conflicts.met(visit, loaded(version=1)) == "rerun"


@pytest.mark.parametrize("reads", [None, ["title"]])
async def test_an_update_of_a_state_that_may_be_the_entitys_own_field_is_refused(
    stages: Stages, reads: list[str] | None
) -> None:
    """S5: nobody's private state is replaced by what was meant for a column."""
    stages.query("alter table listing add column state text")
    kind = stages.kind()

    @kind.stage(reads=reads, writes=["state"], retry=ONCE)
    async def approve(listing: dict[str, Any]) -> Update:
        return Update(state="approved")

    @kind.stage(writes=["state"])
    async def patch(listing: dict[str, Any]) -> Update:
        return Update(patch={"state": "seen"})

    await stages.install()
    stages.add(1)
    await stages.run()

    visit = stages.visit("listing/approve")
    assert visit is not None
    assert "Update(state=...) of stage 'approve' may mean its private state" in visit["error"]
    assert stages.state("approve") is None
    assert stages.listing()["state"] == "seen"


async def test_a_stage_that_declares_its_reads_is_given_no_other_field_of_a_dict(
    stages: Stages,
) -> None:
    """S6: its patch is rebased over changes of what it did not read, so it must not read it."""
    kind = stages.kind()
    seen = []

    @kind.stage(reads=["title"], writes=["price"])
    async def price(listing: dict[str, Any]) -> Untouched:
        seen.append(dict(listing))
        return Untouched()

    @kind.stage(reads=["hits"], retry=ONCE)
    async def peep(listing: dict[str, Any]) -> Untouched:
        return Untouched(state=listing["title"])

    await stages.install()
    stages.add(1, title="a", hits=3)
    await stages.run()

    assert seen == [{"id": 1, "title": "a", "price": 0}]
    visit = stages.visit("listing/peep")
    assert visit is not None
    assert "stage 'peep' looks at 'title', which it does not declare" in visit["error"]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (False, 0, False),
        ([1, {"a": [0]}], [1, {"a": [False]}], False),
        ([1, {"a": [0]}], [1, {"a": [0.0]}], True),
        ({"a": None}, {"a": None}, True),
        ("1", 1, False),
    ],
)
def test_values_are_compared_as_json_has_them(before: Any, after: Any, same: bool) -> None:
    """S6: what equals the loaded value is no change, and nothing else is."""
    assert is_equal(before, after) is same


async def test_a_document_may_change_from_a_number_to_a_truth(stages: Stages) -> None:
    drafts = stages.app.documents("draft")

    @drafts.stage
    async def settle(draft: dict[str, Any]) -> Update:
        return Update(done=bool(draft["done"]))

    await stages.install()
    await drafts.put("a", {"done": 1})
    await stages.run()

    assert stages.query("select body::text from mainspring.document") == [
        {"body": '{"done": true}'}
    ]


async def test_a_column_that_goes_under_a_worker_fails_whom_it_concerns_by_name(
    stages: Stages,
) -> None:
    """S26: the stage that reads it fails and is kept; a start with that code is refused."""
    kind = stages.kind()
    seen = []

    @kind.stage(name="reads", reads=["note"], retry=ONCE)
    async def reads(listing: dict[str, Any]) -> Untouched:
        seen.append(listing)
        return Untouched()

    await stages.install()
    stages.add(1)
    async with stages.working() as worker:
        await stages.rest(worker)
        assert len(seen) == 1
        stages.query("alter table listing drop column hits")  # nobody's
        stages.change(note="x")
        await wait_until(lambda: len(seen) == 2)
        await stages.rest(worker)
        stages.query("alter table listing rename column note to remark")
        stages.change(title="y")  # nobody's still
        await stages.rest(worker)
        stages.change(remark="y")  # whose is it?
        await wait_until(lambda: _error(stages) is not None)

    assert "column t.note does not exist" in str(_error(stages))
    with pytest.raises(InvalidKind, match="has no column 'note'"):
        await stages.run()
    stages.query("alter table listing rename column remark to note")
    stages.change(note="z")
    async with stages.working():
        await wait_until(lambda: len(seen) == 3)  # after the backoff of its failure
    assert len(seen) == 3


def _error(stages: Stages) -> Any:
    """Of the system visit, which loads what any stage reads."""
    return (stages.visit("listing") or {}).get("error")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (
            Update(title=5),
            "the model Draft does not take: 'title' as int: Expected `str`, got `int`",
        ),
        (Update(price=None), "'price' as None: Expected `int`, got `null`"),
        (Update(Draft("a", price="much")), "'price' as str: Expected `int`, got `str`"),  # type: ignore[arg-type]
    ],
)
async def test_a_value_that_the_model_does_not_take_fails_its_visit(
    stages: Stages, answer: Any, error: str
) -> None:
    """S13, bad input: stored as it is, it would be the end of the entity for every stage."""
    drafts = stages.app.documents("draft", model=Draft)

    @drafts.stage(retry=ONCE)
    async def wrong(draft: Draft) -> Any:
        return answer

    await stages.install()
    await drafts.put("a", Draft("a"))
    await stages.run()

    visit = stages.visit("draft/wrong", "a")
    assert visit is not None
    assert error in visit["error"]
    assert await drafts.get("a") == (Draft("a"), 1)


async def test_a_number_that_is_none_stays_what_it_is(stages: Stages) -> None:
    """S6: JSON has no NaN and would make it null; a whole entity does not change one that it had."""
    stages.query(
        "create table reading (id integer primary key, a float8, b numeric, note text, version bigint)"
    )
    kind = stages.kind("reading", table="reading", model=Reading)

    @kind.stage(interest=["a"])
    async def measure(reading: Reading) -> Update:
        if reading.id == 1:
            return Update(a=float("nan"), b=float("-inf"))
        return Update(replace(reading, note="seen"))

    await stages.install()
    stages.query("insert into reading (id, a) values (1, 1), (2, 'NaN')")
    await stages.run()

    assert stages.query("select id, a::text, b::text, note from reading order by id") == [
        {"id": 1, "a": "NaN", "b": "-Infinity", "note": None},
        {"id": 2, "a": "NaN", "b": None, "note": "seen"},
    ]
    assert len(stages.history("reading/measure", 2)) == 1


@dataclass
class Reading:
    id: int
    a: float | None
    b: Any = None
    note: str | None = None


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ({"titel": "x"}, "changes 'titel', a field that the entity does not have; did you mean"),
        ({"id": 7}, "changes 'id', which cannot be written: it is the key"),
        ({"version": 7}, "changes 'version', which cannot be written: it is the key, the version"),
        ({"title": ["a", "\ud800"]}, "half a character (a lone surrogate) in field 'title'"),
        ({"note": {"a": [float("inf")]}}, "a number that JSON does not have in field 'note'"),
    ],
)
async def test_a_patch_that_cannot_be_written_says_why(
    stages: Stages, patch: dict[str, Any], said: str
) -> None:
    """S6: and does not advise to declare what would be refused."""
    kind = stages.kind()

    @kind.stage(retry=ONCE)
    async def write(listing: dict[str, Any]) -> Update:
        return Update(patch=patch)

    await stages.install()
    stages.add(1)
    await stages.run()

    visit = stages.visit("listing/write")
    assert visit is not None
    assert said in visit["error"]


async def test_a_row_that_does_not_fit_the_model_is_parked_by_name(stages: Stages) -> None:
    @dataclass
    class Priced:
        id: int
        price: int

    stages.query("alter table listing alter price drop not null")
    listing = stages.kind(model=Priced)
    listing.stage(name="price", reads=["price"])(untouched)
    await stages.install()
    stages.add(1, price=None)
    await stages.run()

    visit = stages.visit("listing/price")
    assert visit is not None
    assert visit["parked_at"] is not None
    assert visit["error"].startswith(
        "mainspring.errors.UnreadableEntity: listing '1' does not fit model Priced: Expected `int`, got "
        "`null` - at `$.price`; correct the entity, or let the model take it as it is, then restart"
    )


async def test_a_whole_entity_of_a_part_with_a_field_more_is_told_as_what_it_is(
    stages: Stages,
) -> None:
    """S6: not the TypeError of the library that builds it."""

    @dataclass
    class Some:
        id: int
        title: str
        price: int

    listing = stages.kind(model=Some)

    @listing.stage(reads=["title"], retry=RetryPolicy(attempts=1))
    async def wide(found: Some) -> Update:
        return Update(replace(found, price=7))

    await stages.install()
    stages.add(1)
    await stages.run()

    visit = stages.visit("listing/wide")
    assert visit is not None
    assert "UndeclaredField: stage 'wide' puts 'price' into the entity" in visit["error"]
