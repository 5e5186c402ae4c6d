"""Kinds: what can be declared, on which tables, and what is said about the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import psycopg
import pytest

from mainspring import Mainspring, Untouched, Update
from mainspring.db.database import Database
from mainspring.entities.declare.dao import Change, one_by_one
from mainspring.entities.install import install_kinds
from mainspring.errors import (
    DuplicateKind,
    DuplicateTask,
    InvalidKind,
    MigrationFailed,
    MissingRights,
)
from offered import offered
from stages import Stages


@dataclass
class Listing:
    id: int
    title: str
    version: int = 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "needs a table or a dao, got neither"),
        ({"table": "t", "dao": object()}, "needs a table or a dao, not both"),
        ({"dao": object()}, r"a dao needs load\(connection, ids\)"),
        ({"table": ""}, "name the table with its schema"),
        ({"table": "t", "key": []}, "needs a key"),
        ({"table": "t", "key": ["a", "a"]}, "named twice"),
        ({"table": "t", "key": "version"}, "cannot be key and version"),
        ({"table": "t", "capture": "magic"}, "capture must be one of statement, row"),
        ({"table": "t", "ignore": "title"}, "ignore must be a list"),
        ({"table": "t", "model": int}, "model must be a dataclass"),
        ({"table": "t", "model": Listing, "key": "number"}, "has no field 'number'"),
        ({"table": "t", "jitter": 2.0}, "jitter is for kinds whose stages run in parallel"),
        ({"table": "t", "jitter": -1}, "jitter must be 0 to 3600"),
        ({"table": "t", "pool": ""}, "pool must have a name"),
    ],
)
def test_what_cannot_be_a_kind_is_refused_when_it_is_declared(
    settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidKind, match=said):
        Mainspring().entities("listing", **settings)


@pytest.mark.parametrize("name", ["", "1st", "a/b", "a~", "a!b", "a b", "x" * 41, 7])
def test_names_that_would_confuse_queues_are_refused(name: Any) -> None:
    with pytest.raises(InvalidKind, match="a kind's name must begin with a letter"):
        Mainspring().entities(name, table="t")


def nothing() -> None: ...


def test_kinds_and_tasks_share_their_names() -> None:
    app = Mainspring()
    app.entities("listing", table="t")

    with pytest.raises(DuplicateKind, match="declared twice"):
        app.documents("listing")
    with pytest.raises(DuplicateTask, match="is a kind of entities already"):
        app.task(nothing, name="listing")
    app.task(name="mail")(nothing)
    with pytest.raises(DuplicateKind, match="is a task already"):
        app.entities("mail", table="t")


@pytest.mark.parametrize(
    ("change", "settings", "said"),
    [
        ("drop table listing", {}, "there is no table 'public.listing'; create it before"),
        ("alter table listing drop constraint listing_pkey", {}, "no primary key or unique index"),
        ("", {"key": "title"}, r"is exactly \(title\); add one: alter table public.listing"),
        ("", {"key": "no"}, r"has no column 'no' \(key\)"),
        ("", {"key": "idd"}, "did you mean 'id'"),
        ("", {"version": "revision"}, "no version column 'revision'; alter table .*'xmin'"),
        ("", {"version": "title"}, "must be a plain bigint or integer, got pg_catalog.text"),
        (
            "alter table listing alter column version type smallint",
            {},
            "must be a plain bigint or integer, got pg_catalog.int2",
        ),
        ("", {"ignore": ["titel"]}, r"has no column 'titel' \(ignore\); did you mean 'title'"),
        (
            "alter table listing add u integer unique",
            {"key": "u"},
            "key column 'u' of 'public.listing' may be null",
        ),
        (
            "create view seen as select * from listing",
            {"table": "seen"},
            "'public.seen' is not a table",
        ),
        (
            "alter table listing drop column title",
            {"model": Listing},
            "model Listing needs a field 'title'",
        ),
    ],
)
async def test_a_table_that_cannot_carry_the_kind_is_refused_by_migrate(
    stages: Stages, change: str, settings: dict[str, Any], said: str
) -> None:
    """S26: any table with a key and an integer version column, or xmin."""
    if change:
        stages.query(change)
    stages.kind(**settings)

    with pytest.raises(InvalidKind, match=said):
        await stages.install()


async def test_a_worker_refuses_the_same_at_its_start(stages: Stages) -> None:
    stages.kind(key="title")

    with pytest.raises(InvalidKind, match="no primary key or unique index"):
        async with stages.app.worker():
            pass


async def test_a_second_migration_changes_no_trigger(stages: Stages) -> None:
    """S21: installed and upgraded by migrate, without a lock where nothing changes."""
    stages.kind()
    await stages.install()
    before = stages.query("select oid, tgname from pg_trigger order by 1")
    with stages.transaction() as other:
        other.execute("update listing set title = 'x'")  # would keep a trigger from being made

        await stages.install()

    assert stages.query("select oid, tgname from pg_trigger order by 1") == before


async def test_a_changed_declaration_changes_its_triggers(stages: Stages) -> None:
    stages.kind(ignore=["hits"])
    await stages.install()
    again = Mainspring(stages.url)
    again.entities("listing", table="listing", ignore=["title"], capture="row", notify=False)

    await again.migrate()
    await again.close()
    stages.add(1)
    offered(stages)
    stages.change(1, title="a")
    assert offered(stages) == {}
    stages.change(1, hits=1)

    assert offered(stages) == {"1": {"f:hits": 1, "out": 1, "v": 3}}
    names = {
        r["tgname"] for r in stages.query("select tgname from pg_trigger where not tgisinternal")
    }
    assert {n for n in names if n.startswith("zz_")} == {
        f"zz_mainspring_listing_{n}"
        for n in ("bump", "first", "row", "a_clear", "b_clear", "clear")
    }
    kept = stages.query("select capture, ignored, notify from mainspring.kind")
    assert kept == [{"capture": "row", "ignored": ["title"], "notify": False}]


async def test_two_kinds_on_one_table_each_see_its_changes(stages: Stages) -> None:
    stages.kind("listing")
    stages.kind("audit", ignore=["title"])
    await stages.install()
    stages.add(1)
    offered(stages), offered(stages, "audit")

    stages.change(1, title="a")

    assert offered(stages) == {"1": {"f:title": 1, "out": 1, "v": 2}}
    assert offered(stages, "audit") == {}


@pytest.mark.parametrize("capture", ["statement", "row"])
async def test_what_a_stage_saves_is_a_change_to_another_kind_on_its_table(
    stages: Stages, capture: str
) -> None:
    """S21: the engine offers its own saves to the kind that it saves for, and to no other."""
    listing, audit = stages.kind("listing"), stages.kind("audit", capture=capture)
    seen = []

    @listing.stage(interest=["title"])
    async def appraise(found: dict[str, Any]) -> Update:
        return Update(price=7)

    @audit.stage(interest=["price"])
    async def watch(found: dict[str, Any]) -> Untouched:
        seen.append(found["price"])
        return Untouched()

    await stages.install()
    stages.add(1)
    offered(stages), offered(stages, "audit")
    stages.change(1, title="a car")
    await stages.run()

    assert seen == [7]
    assert [row["result"]["asked"] for row in stages.history("listing")] == [
        {"appraise": True},
        {},
    ]


async def test_the_printed_sql_installs_the_same_triggers(stages: Stages) -> None:
    """S21: or printed as SQL, for other tools to apply."""
    stages.kind()
    text = stages.app.script_sync(after=2)
    script = text[text.index("-- kind listing on") :]
    definitions = (
        "select pg_get_triggerdef(oid) as text from pg_trigger where not tgisinternal "
        "and tgrelid = 'listing'::regclass order by 1"
    )
    stages.connection.execute(script.encode())
    printed = stages.query(definitions)
    await stages.install()

    assert printed
    assert stages.query(definitions) == printed


async def test_a_table_in_use_is_not_waited_for_for_ever(stages: Stages, monkeypatch) -> None:
    """Writers would queue up behind a migration that waits: it gives up and says so."""
    monkeypatch.setattr("mainspring.entities.install._LOCK_WAIT", "50ms")
    stages.kind()
    with stages.transaction() as other:
        other.execute("update listing set title = 'x'")

        with pytest.raises(MigrationFailed, match=r"was in use for 50ms.*run the migration again"):
            await stages.install()


async def test_a_role_that_may_not_make_triggers_is_told(stages: Stages) -> None:
    """T11: the rights that installing needs are named."""
    kind = stages.kind()
    role = f"migrator_{stages.connection.info.backend_pid}"
    stages.query(f"create role {role}")
    stages.query(f"grant usage on schema mainspring to {role}")
    stages.query(f"grant all on all tables in schema mainspring to {role}")
    stages.query(f"grant execute on all functions in schema mainspring to {role}")
    try:
        with psycopg.connect(stages.url, autocommit=True) as other:
            other.execute(f"set role {role}".encode())
            with pytest.raises(MissingRights, match=r"may not create triggers on \"public\""):
                install_kinds(Database(stages.url), other, [kind])
    finally:
        stages.query(f"drop owned by {role}")
        stages.query(f"drop role {role}")


def test_models_decode_rows_and_encode_entities() -> None:
    class Ad(msgspec.Struct):
        id: int
        when: str = msgspec.field(name="at", default="")

    app = Mainspring()
    plain = app.entities("plain", table="t")
    data = app.entities("data", table="t", model=Listing)
    struct = app.entities("struct", table="t", model=Ad)

    row = {"id": 7, "title": "a", "version": 3, "extra": 1}
    assert plain.decode(row) == row
    assert data.decode(row) == Listing(7, "a", 3)
    assert data.encode(Listing(7, "a", 3)) == {"id": 7, "title": "a", "version": 3}
    assert struct.encode(Ad(1, "x")) == {"id": 1, "at": "x"}
    assert [k.id_of(e) for k, e in ((plain, row), (data, Listing(7, "")), (struct, Ad(9)))] == [
        "7",
        "7",
        "9",
    ]


class OneAtATime:
    """A DAO of one entity, over a dict."""

    def __init__(self) -> None:
        self.rows = {"a": ({"id": "a"}, 1)}

    async def load(self, connection: Any, id: str) -> tuple[Any, int] | None:
        return self.rows.get(id)

    async def update(self, connection: Any, change: Change[Any]) -> int | None:
        if change.id not in self.rows or self.rows[change.id][1] != change.version:
            return None
        self.rows[change.id] = (change.entity, change.version + 1)
        return change.version + 1


async def test_a_dao_of_one_entity_serves_many() -> None:
    """S24: one by one where the user's DAO must do it."""
    dao = one_by_one(OneAtATime())
    kind = Mainspring().entities("order", dao=dao)

    assert await dao.load(None, ["a", "b"]) == {"a": ({"id": "a"}, 1)}
    assert await dao.update(None, [Change("a", 1, {"id": "a", "n": 2}, {"n": 2})]) == {"a": 2}
    assert await dao.update(None, [Change("a", 1, {}), Change("b", 1, {})]) == {}
    assert (kind.settings.source, kind.settings.capture) == ("dao", "call")
