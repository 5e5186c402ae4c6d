"""Edits: entities read, changed and written from outside, many at once, and no update lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
import pytest

from mainspring import Change, Kind, Mainspring, Untouched, Update
from mainspring.errors import (
    DatabaseUnavailable,
    InvalidKey,
    InvalidOutcome,
    MainspringError,
    NotFound,
    SaveRefused,
    UndeclaredField,
    UnreadableEntity,
)
from mainspring.testing import wait_until
from stages import Stages


def one_more(found: dict[str, Any]) -> Update:
    return Update(hits=found["hits"] + 1)


@pytest.fixture
async def listing(stages: Stages) -> Kind:
    kind = stages.kind()
    await stages.install()
    return kind


async def test_an_edit_writes_what_the_function_makes_of_the_entity(
    stages: Stages, listing: Kind
) -> None:
    """S21: an edit raises the version and offers the entity like any write."""
    stages.add(1, price=3)
    stages.query("delete from mainspring.visit")

    found = await listing.edit(1, lambda found: Update(price=found["price"] * 2, title="twice"))

    assert (found["price"], found["title"], found["version"]) == (6, "twice", 2)
    row = stages.query("select price, title, version from listing")[0]
    assert tuple(row.values()) == (6, "twice", 2)
    visit = stages.visit("listing")
    assert visit is not None
    assert visit["payload"] == {"f:price": 1, "f:title": 1, "out": 1, "v": 2}


async def test_an_edit_that_changes_nothing_writes_nothing(stages: Stages, listing: Kind) -> None:
    stages.add(1, price=3)
    stages.query("delete from mainspring.visit")

    assert (await listing.edit(1, lambda found: Untouched()))["price"] == 3
    assert (await listing.edit(1, lambda found: Update(price=3)))["price"] == 3

    assert stages.query("select version from listing")[0]["version"] == 1
    assert stages.visit("listing") is None


async def test_no_edit_is_lost_among_many_and_other_writers(stages: Stages, listing: Kind) -> None:
    """S13: edits of two applications and plain SQL on the same few rows, all of them counted."""
    for id in (1, 2, 3):
        stages.add(id)
    other = Mainspring(stages.url)
    theirs = other.entities("listing", table="public.listing", key="id")

    async def plain(id: int) -> None:
        async with await psycopg.AsyncConnection.connect(stages.url, autocommit=True) as outside:
            for _ in range(20):
                await outside.execute("update listing set hits = hits + 1 where id = %s", (id,))

    async with other:
        await asyncio.gather(
            *(listing.edit(n % 3 + 1, one_more) for n in range(150)),
            *(theirs.edit(n % 3 + 1, one_more) for n in range(150)),
            *(plain(id) for id in (1, 2, 3)),
        )

    rows = stages.query("select hits from listing order by id")
    assert [row["hits"] for row in rows] == [120, 120, 120]


async def test_edits_that_come_together_are_one_transaction(stages: Stages, listing: Kind) -> None:
    for id in range(1, 21):
        stages.add(id)
    await listing.edit(1, one_more)  # the table has been looked at

    await asyncio.gather(*(listing.edit(id, one_more) for id in range(1, 21)))

    writers = stages.query("select count(distinct xmin::text) as n from listing")
    assert writers[0]["n"] == 1


async def test_edits_of_one_entity_that_come_together_are_one_write(
    stages: Stages, listing: Kind
) -> None:
    """Each is made on what the one before it made; two texts of an id are one entity (S25)."""
    stages.add(1)
    await listing.edit(1, one_more)  # the table has been looked at

    found = await asyncio.gather(*(listing.edit(id, one_more) for id in (1, "1", 1, "01", 1)))

    assert [row["hits"] for row in found] == [6, 6, 6, 6, 6]
    row = stages.query("select hits, version from listing")[0]
    assert tuple(row.values()) == (6, 3)


async def test_an_edit_of_a_locked_row_waits_and_the_others_do_not(
    stages: Stages, listing: Kind
) -> None:
    """S2: somebody's open transaction holds up the edits of its own row alone."""
    stages.add(1)
    stages.add(2)
    with psycopg.connect(stages.url) as outside:
        outside.execute("update listing set hits = 100 where id = 1")
        held = asyncio.create_task(listing.edit(1, one_more))
        assert (await listing.edit(2, one_more))["hits"] == 1
        given_up = asyncio.create_task(listing.edit(1, one_more))
        assert (await listing.edit(2, one_more))["hits"] == 2
        assert not held.done()
        given_up.cancel()

    assert (await held)["hits"] == 101
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert stages.query("select hits from listing where id = 1")[0]["hits"] == 101


async def test_what_one_edit_breaks_stops_no_other(stages: Stages, listing: Kind) -> None:
    stages.query("alter table listing add check (price < 100)")
    stages.query("alter table listing alter price type numeric(5, 2)")
    await stages.install()
    for id in range(1, 9):
        stages.add(id)

    def priced(price: float) -> Any:
        return lambda found: Update(price=price)

    def broken(found: Any) -> Update:
        raise RuntimeError("no price today")

    changes = [priced(1), priced(100), broken, priced(10_000), priced(5), lambda found: None]
    edits = [listing.edit(id, change) for id, change in enumerate(changes, 1)]
    found = await asyncio.gather(
        *edits, listing.edit(99, one_more), listing.edit("x", one_more), return_exceptions=True
    )

    assert [answer["price"] for answer in (found[0], found[4])] == [1, 5]
    said = {n: f"{type(found[n]).__name__}: {found[n]}" for n in (1, 2, 3, 5, 6, 7)}
    assert said[1].startswith(
        "SaveRefused: the database refused the edit of listing '2': new row for relation "
        '"listing" violates check constraint'
    )
    assert said[2] == "RuntimeError: no price today"
    assert "numeric field overflow" in said[3]
    assert said[5] == (
        "InvalidOutcome: the change of an edit must be a plain function that returns Update(...) or "
        "Untouched(), got None"
    )
    assert said[6] == "NotFound: kind 'listing' has no entity '99'"
    assert said[7].startswith("InvalidKey: no id of kind 'listing': 'x'")
    assert stages.query("select count(*) as n from listing where version > 1")[0]["n"] == 2


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda found: Update(id=5), UndeclaredField, "changes 'id', which cannot be written"),
        (lambda found: Update(version=5), UndeclaredField, "changes 'version', which cannot be"),
        (
            lambda found: Update(prise=5),
            UndeclaredField,
            "'prise', a field that the entity does not",
        ),
        (
            lambda found: Update(price=5, state=1),
            InvalidOutcome,
            "an edit changes the entity alone",
        ),
        (lambda found: Untouched(visit_in=5), InvalidOutcome, "an edit changes the entity alone"),
        (lambda found: Update(title="\ud800"), InvalidOutcome, "half a character"),
        (lambda found: Update(title=object()), InvalidOutcome, "field 'title' cannot be written"),
    ],
)
async def test_what_an_edit_cannot_do_is_refused(
    stages: Stages, listing: Kind, change: Any, error: type[MainspringError], words: str
) -> None:
    stages.add(1)

    with pytest.raises(error, match=words):
        await listing.edit(1, change)

    assert stages.query("select version from listing")[0]["version"] == 1


async def test_an_async_function_is_refused(stages: Stages, listing: Kind) -> None:
    stages.add(1)

    async def change(found: Any) -> Update:
        return Update(price=1)

    with pytest.raises(
        InvalidOutcome, match=r"must be a plain function that returns .*, got coroutine"
    ):
        await listing.edit(1, change)  # type: ignore[arg-type]


async def test_a_row_that_a_trigger_vetoes_is_told(stages: Stages, listing: Kind) -> None:
    stages.query("""
        create function veto() returns trigger language plpgsql as 'begin return null; end';
        create trigger veto before update on listing for each row execute function veto()
    """)
    stages.add(1)

    with pytest.raises(
        SaveRefused, match="listing '1' changed no row: a trigger on the table kept"
    ):
        await listing.edit(1, one_more)


async def test_a_row_that_does_not_fit_the_model_is_told(stages: Stages) -> None:
    @dataclass
    class Priced:
        id: int
        note: int  # text in the table

    kind = stages.kind(model=Priced)
    await stages.install()
    stages.query("insert into listing (id, note) values (1, 'dear')")

    with pytest.raises(UnreadableEntity, match="listing '1' does not fit model Priced"):
        await kind.edit(1, lambda found: Update(note=5))


async def test_an_edit_where_no_trigger_is_says_what_changed(stages: Stages) -> None:
    """S21: with capture="call" the edit announces itself, in its own transaction."""
    kind = stages.kind(capture="call", ignore=["hits"])
    await stages.install()
    stages.add(1)
    stages.add(2)
    stages.query("delete from mainspring.visit")

    await kind.edit(1, lambda found: Update(price=5, hits=1))
    await kind.edit(2, one_more)

    visit = stages.visit("listing")
    assert visit is not None
    assert visit["payload"] == {"f:price": 1, "out": 1, "v": 2}
    assert len(stages.query("select key from mainspring.visit")) == 1  # nobody minds hits


async def test_documents_are_edited_too(stages: Stages) -> None:
    @dataclass
    class Draft:
        title: str
        words: int = 0

    drafts = stages.app.documents("draft", model=Draft)
    await stages.install()
    await drafts.put("a", Draft("one"))

    def longer(found: Draft) -> Update:
        return Update(Draft(found.title, found.words + 1))

    await asyncio.gather(*(drafts.edit("a", longer) for _ in range(10)))

    found = await drafts.get("a")
    assert found is not None
    assert found[0] == Draft("one", 10)


class Counters:
    """A DAO that compares versions and waits for locks, as the guide's does."""

    async def load(self, connection: Any, ids: Sequence[str]) -> Mapping[str, tuple[Any, int]]:
        query = "select id::text, hits, version from listing where id::text = any($1)"
        return {
            row["id"]: ({"id": row["id"], "hits": row["hits"]}, row["version"])
            for row in await connection.fetch(query, list(ids))
        }

    async def update(self, connection: Any, changes: Sequence[Change[Any]]) -> Mapping[str, int]:
        written = {}
        for change in changes:
            query = (
                "select version from listing where id::text = $1 and version = $2 for no key update"
            )
            values = [change.id, change.version]
            if change.patch:
                query = (
                    "update listing set hits = $3, version = version + 1 "
                    "where id::text = $1 and version = $2 returning version"
                )
                values.append(change.patch["hits"])
            if (version := await connection.fetchval(query, *values)) is not None:
                written[change.id] = version
        return written


async def test_entities_of_a_dao_are_edited_too(stages: Stages) -> None:
    """S24: version-checked and one by one, beside a writer that takes the same row."""
    kind = stages.app.entities("counter", dao=Counters())
    await stages.install()
    stages.add(1)

    async def plain() -> None:
        async with await psycopg.AsyncConnection.connect(stages.url, autocommit=True) as outside:
            for _ in range(20):
                await outside.execute("update listing set hits = hits + 1, version = version + 1")

    await asyncio.gather(*(kind.edit(1, one_more) for _ in range(20)), plain())

    assert stages.query("select hits from listing")[0]["hits"] == 40
    visit = stages.visit("counter")
    assert visit is not None
    assert visit["payload"].keys() == {"f:hits", "out", "v"}


async def test_an_edit_whose_commit_nobody_answered_is_not_made_again(
    stages: Stages, listing: Kind
) -> None:
    """The connection is killed while an edit is being written: its caller is told, and it counts at most
    once. The next edit has a new connection."""
    stages.add(1)
    await listing.edit(1, one_more)
    stages.query("""
        create function wait() returns trigger language plpgsql as
        'begin perform pg_advisory_xact_lock(77); return new; end';
        create trigger wait before update on listing for each row execute function wait()
    """)
    with psycopg.connect(stages.url, autocommit=True) as outside:
        outside.execute("select pg_advisory_lock(77)")
        edits = [asyncio.create_task(listing.edit(1, one_more)) for _ in range(3)]
        waiting = "select pid from pg_stat_activity where wait_event = 'advisory'"
        await wait_until(lambda: bool(stages.query(waiting)))
        stages.query(f"select pg_terminate_backend(pid) from ({waiting}) w")
        outside.execute("select pg_advisory_unlock(77)")
        found = await asyncio.gather(*edits, return_exceptions=True)

    lost = [error for error in found if isinstance(error, BaseException)]
    assert lost
    assert all(
        isinstance(
            e, asyncpg.PostgresError | OSError | DatabaseUnavailable | asyncpg.InterfaceError
        )
        for e in lost
    )
    hits = 1 + len(found) - len(lost)
    assert stages.query("select hits from listing")[0]["hits"] == hits
    assert (await listing.edit(1, one_more))["hits"] == hits + 1


async def test_stages_follow_edits(stages: Stages) -> None:
    """S13: a stage that writes beside edits of the same row takes nothing from them."""
    kind = stages.kind()

    @kind.stage(reads=["hits"], writes=["rank"])
    async def rank(found: dict[str, Any]) -> Update:
        return Update(rank=2 * found["hits"])

    await stages.install()
    stages.add(1)
    async with stages.working():
        await asyncio.gather(*(kind.edit(1, one_more) for _ in range(100)))
    await stages.run()

    row = stages.query("select hits, rank from listing")[0]
    assert tuple(row.values()) == (100, 200)


async def test_an_id_of_the_wrong_type_is_refused(stages: Stages, listing: Kind) -> None:
    stages.add(1)
    with pytest.raises(InvalidKey):
        await listing.edit("no number", one_more)
    with pytest.raises(InvalidKey, match="must not be empty"):
        await listing.edit("", one_more)
    with pytest.raises(NotFound):
        await listing.edit(2, one_more)


async def together(kind: Kind, *edits: tuple[int, Any]) -> list[Any]:
    """What becomes of edits that are sure to come in one batch."""
    await kind.edit(1, lambda found: Untouched())  # the table has been looked at
    async with asyncio.timeout(30):
        return await asyncio.gather(
            *(kind.edit(id, change) for id, change in edits), return_exceptions=True
        )


@pytest.mark.parametrize("error", [StopIteration, asyncio.CancelledError, RecursionError])
async def test_whatever_a_function_raises_stops_no_other(
    stages: Stages, listing: Kind, error: type[BaseException]
) -> None:
    """A future takes no StopIteration, and CancelledError is not the writer's own."""
    stages.add(1, 2, 3)

    def broken(found: Any) -> Update:
        raise error

    found = await together(listing, (1, one_more), (2, broken), (3, one_more))

    assert (found[0]["hits"], found[2]["hits"]) == (1, 1)
    assert isinstance(found[1], BaseException)


async def test_a_value_that_cannot_be_encoded_stops_no_other(stages: Stages, listing: Kind) -> None:
    stages.query("alter table listing add facts jsonb")
    stages.add(1, 2, 3)

    def half(found: Any) -> Update:
        return Update(facts={"\ud800": 1})

    found = await together(listing, (1, one_more), (2, half), (3, one_more))

    assert (found[0]["hits"], found[2]["hits"]) == (1, 1)
    assert isinstance(found[1], InvalidOutcome)


async def test_a_model_that_fails_on_what_was_written_stops_no_other(stages: Stages) -> None:
    @dataclass
    class Priced:
        id: int
        hits: int
        price: int

        def __post_init__(self) -> None:
            if self.price == 66:
                raise LookupError("no such price")

    kind = stages.kind(model=Priced)
    stages.query("""
        create function dearer() returns trigger language plpgsql as
        'begin if new.price = 65 then new.price = 66; end if; return new; end';
        create trigger dearer before update on listing for each row execute function dearer()
    """)
    await stages.install()
    stages.add(1, 2, 3)

    def hit(found: Priced) -> Update:
        return Update(hits=found.hits + 1)

    found = await together(kind, (1, hit), (2, lambda found: Update(price=65)), (3, hit))

    assert (found[0].hits, found[2].hits) == (1, 1)
    assert isinstance(found[1], LookupError)


async def test_a_function_runs_in_the_context_of_its_caller(stages: Stages, listing: Kind) -> None:
    """Not in that of the caller whose edit began the batch."""
    stages.add(1, 2)
    user: ContextVar[str] = ContextVar("user")

    async def sign(id: int, name: str) -> Any:
        user.set(name)
        return await listing.edit(id, lambda found: Update(note=user.get()))

    await listing.edit(1, one_more)  # the table has been looked at
    found = await asyncio.gather(*(asyncio.create_task(sign(*one)) for one in ((1, "a"), (2, "b"))))

    assert [row["note"] for row in found] == ["a", "b"]


async def test_a_veto_of_one_edit_is_no_veto_of_the_next(stages: Stages, listing: Kind) -> None:
    """Two edits of one entity, of which a trigger minds the first."""
    stages.query("""
        create function veto() returns trigger language plpgsql as
        'begin if new.price > 100 then return null; end if; return new; end';
        create trigger veto before update on listing for each row execute function veto()
    """)
    stages.add(1)

    dear = (1, lambda found: Update(price=200))
    found = await together(listing, (1, one_more), dear, (1, one_more))

    assert isinstance(found[1], SaveRefused)
    assert [found[0]["hits"], found[2]["hits"]] == [1, 2]
    assert (stages.listing()["price"], stages.listing()["hits"]) == (0, 2)
    visit = stages.visit("listing")
    assert visit is not None
    assert visit["payload"]["v"] == stages.listing()["version"]


async def test_an_edit_sees_generated_columns_of_the_one_before_it(stages: Stages) -> None:
    """S13: as if each had a transaction of its own."""
    stages.query("alter table listing add twice int generated always as (hits * 2) stored")
    kind = stages.kind()
    await stages.install()
    stages.add(1)

    await together(kind, (1, one_more), (1, lambda found: Update(rank=found["twice"])))

    assert stages.listing()["rank"] == 2


async def test_an_edit_sees_what_the_one_before_it_wrote_as_it_is_stored(
    stages: Stages, listing: Kind
) -> None:
    """The column makes a number of a text; the edit that follows has nothing to do with it."""
    stages.add(1)

    found = await together(listing, (1, lambda found: Update(hits="5")), (1, one_more))

    assert not isinstance(found[1], Exception)
    assert stages.listing()["hits"] == 6


async def test_an_edit_that_the_server_cancels_stops_no_other(
    stages: Stages, listing: Kind
) -> None:
    """A statement timeout is answered: it is known that nothing was saved."""
    stages.query("""
        create function late() returns trigger language plpgsql as
        'begin if new.price = 65 then raise query_canceled; end if; return new; end';
        create trigger late before update on listing for each row execute function late()
    """)
    stages.add(1, 2, 3)

    late = (2, lambda found: Update(price=65))
    found = await together(listing, (1, one_more), late, (3, one_more))

    assert (found[0]["hits"], found[2]["hits"]) == (1, 1)
    assert isinstance(found[1], SaveRefused)


async def test_an_edit_that_meets_a_deadlock_comes_again(stages: Stages, listing: Kind) -> None:
    """But not for ever: a trigger may say so each time."""
    stages.query("""
        create sequence tries;
        create function meet() returns trigger language plpgsql as
        'begin if new.price = 65 or nextval(''tries'') < 5 then raise deadlock_detected; end if;
        return new; end';
        create trigger meet before update on listing for each row execute function meet()
    """)
    stages.add(1, 2, 3)

    always = (3, lambda found: Update(price=65))
    found = await together(listing, (1, one_more), (2, one_more), always)

    assert (found[0]["hits"], found[1]["hits"]) == (1, 1)
    assert isinstance(found[2], SaveRefused)


async def test_an_edit_follows_a_table_that_was_altered(stages: Stages, listing: Kind) -> None:
    """A column that came, one of another name and one of another type, after the first edit."""
    stages.add(1)
    await listing.edit(1, one_more)

    stages.query("alter table listing add fresh integer")
    assert (await listing.edit(1, lambda found: Update(fresh=5)))["fresh"] == 5
    stages.query("alter table listing rename price to cost")
    assert (await listing.edit(1, lambda found: Update(cost=6)))["cost"] == 6
    stages.query("alter table listing alter cost type numeric(10, 2)")
    assert (await listing.edit(1, lambda found: Update(cost=6.25)))["cost"] == 6.25
    stages.query("alter table listing drop cost")
    with pytest.raises(UndeclaredField, match="'cost', a field that the entity does not have"):
        await listing.edit(1, lambda found: Update(cost=7))


async def test_what_a_trigger_writes_to_another_edited_entity_is_not_lost(
    stages: Stages, listing: Kind
) -> None:
    """S13: the edit of one entity has a trigger write another, which is edited in the same transaction."""
    stages.query("""
        create function dearer() returns trigger language plpgsql as
        'begin if new.id = 1 then update listing set price = price + 1 where id = 2; end if;
        return new; end';
        create trigger dearer after update on listing for each row execute function dearer()
    """)
    stages.add(1, 2)

    def ten_more(found: dict[str, Any]) -> Update:
        return Update(price=found["price"] + 10)

    found = await together(listing, (1, one_more), (2, ten_more), (2, ten_more))

    assert stages.listing(2)["price"] == 21
    assert [row["price"] for row in found[1:]] == [21, 21]
