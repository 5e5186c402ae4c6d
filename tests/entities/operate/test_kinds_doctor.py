"""The doctor of kinds: triggers that are gone, off or not as declared are named with a remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mainspring import Mainspring
from mainspring.db.schema import rights
from mainspring.db.tx import SyncTx
from mainspring.entities.install import inspect_kind
from mainspring.entities.kind import Kind
from mainspring.entities.operate.doctor import judge_kind
from mainspring.operate.doctor import Finding
from offered import offered
from stages import Stages


async def captures(stages: Stages, name: str = "capture") -> list[Finding]:
    return [f for f in await stages.app.operator.doctor() if f.name == name]


@pytest.fixture
async def listing(stages: Stages):
    kind = stages.kind()
    await stages.install()
    return kind


async def test_a_kind_whose_triggers_stand_is_well(stages: Stages, listing: Kind) -> None:
    (finding,) = await captures(stages)

    assert finding.level == "ok"
    assert "kind 'listing' sees every change of public.listing" in finding.text


@pytest.mark.parametrize("name", ["bump", "insert", "update", "delete", "clear"])
async def test_a_trigger_dropped_by_hand_is_named_and_made_again(
    stages: Stages, listing: Kind, name: str
) -> None:
    """S21: so no one can forget it."""
    stages.query(f"drop trigger zz_mainspring_listing_{name} on listing")

    (finding,) = await captures(stages)

    assert finding.level == "bad"
    assert (
        f'triggers are missing, changes are not seen: zz_mainspring_listing_{name} on "public"'
        in finding.text
    )
    assert finding.remedy.startswith("run mainspring migrate module:app, then")
    await stages.install()
    assert [f.level for f in await captures(stages)] == ["ok"]


async def test_a_disabled_trigger_is_named(stages: Stages, listing: Kind) -> None:
    stages.query("alter table listing disable trigger all")

    (finding,) = await captures(stages)

    assert (finding.level, "are disabled" in finding.text) == ("bad", True)
    await stages.install()
    stages.add(1)
    assert set(offered(stages)) == {"1"}


async def test_a_trigger_that_is_not_as_declared_is_named(stages: Stages, listing: Kind) -> None:
    stages.query("update mainspring.kind set ignored = '{title}'")

    found = await captures(stages)

    assert [f.level for f in found] == ["warn"]
    assert "are not as declared" in found[0].text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("drop table listing", "there is no table"),
        ("alter table listing drop constraint listing_pkey", "no primary key or unique index"),
        ("alter table listing drop column version", "has no version column"),
        ("alter table listing rename column id to number", r"has no column 'id'"),
    ],
)
async def test_a_table_changed_under_its_kind_is_named(
    stages: Stages, listing: Kind, change: str, said: str
) -> None:
    stages.query(change)

    (finding,) = await captures(stages)

    assert finding.level == "bad"
    assert said in finding.text


async def test_row_security_that_hides_rows_from_the_worker_is_named(
    stages: Stages, listing: Kind
) -> None:
    """S21: a row that is merely not found is not a delete; but an operator should know."""
    stages.query("alter table listing enable row level security")
    stages.query("create role reader")
    try:
        stages.query("grant select on listing to reader")
        stages.query("set role reader")
        shape = inspect_kind(SyncTx(stages.connection), listing)
        stages.query("reset role")
    finally:
        stages.query("drop owned by reader")
        stages.query("drop role reader")

    found = {f.name: f for f in judge_kind(listing.settings, shape, [])}

    assert found["row_security"].level == "warn"
    assert "taken for missing" in found["row_security"].text
    assert await captures(stages, "row_security") == []  # the tests' own role sees all


@pytest.mark.parametrize("type_", ["text", "varchar(20)", "char(5)", "label"])
async def test_a_row_whose_key_is_empty_is_counted_with_what_to_do(
    stages: Stages, type_: str
) -> None:
    """S25: the triggers left it out with a warning that nobody read."""
    stages.query("create domain label as text")
    stages.query(f"create table thing (id {type_} primary key, version bigint not null default 1)")
    stages.kind("thing", table="public.thing")
    stages.kind("listing")
    await stages.install()
    stages.query("insert into thing (id) values ('a'), ('b')")
    assert await captures(stages, "empty_key") == []
    stages.query("insert into thing (id) values ('')")

    (finding,) = await captures(stages, "empty_key")

    assert finding.level == "warn"
    assert finding.text == (
        "kind 'thing': 1 of the rows of public.thing have an empty id, which no visit can have: no "
        "stage sees them, no crawl finds them"
    )
    assert finding.remedy == (
        "give them an id or delete them (where id = ''), and keep new ones out: "
        "alter table public.thing add check (id <> '')"
    )


async def test_each_partition_may_have_a_row_whose_key_is_empty(stages: Stages) -> None:
    """S25: and a key of several columns is never empty."""
    stages.query(
        "create table thing (id text, place integer, version bigint not null default 1,"
        " primary key (id, place)) partition by list (place)"
    )
    for place in (1, 2, 3):
        stages.query(f"create table thing_{place} partition of thing for values in ({place})")
    stages.kind("thing", table="public.thing")
    stages.kind("other", table="public.thing", key=("id", "place"))
    await stages.install()
    stages.query("insert into thing (id, place) values ('', 1), ('', 2), ('a', 3)")

    (finding,) = await captures(stages, "empty_key")

    assert finding.text.startswith("kind 'thing': 2 of the rows of public.thing have an empty id")


async def test_empty_keys_are_looked_for_without_waiting(stages: Stages) -> None:
    """An operator asks the doctor while something is wrong: it must not hang or fail then."""
    stages.query("create table thing (id text primary key, version bigint not null default 1)")
    stages.kind("thing", table="public.thing")
    await stages.install()
    stages.query("insert into thing (id) values ('')")

    with stages.transaction() as connection:
        connection.execute("lock table thing in access exclusive mode")
        assert await captures(stages, "empty_key") == []

    assert len(await captures(stages, "empty_key")) == 1


async def test_a_role_that_may_not_run_stages_is_told_which_rights_it_lacks(
    stages: Stages, listing: Kind
) -> None:
    """T11: the rights that a role needs are documented and checked."""
    role = f"clerk_{stages.connection.info.backend_pid}"
    stages.query(f"create role {role} login")
    stages.connection.execute(rights.operator(role).encode())
    app = Mainspring(stages.url.replace("postgres@", f"{role}@", 1))
    try:
        found = [f for f in await app.operator.doctor() if "run stages" in f.text]
    finally:
        await app.close()
        stages.query(f"drop owned by {role}")
        stages.query(f"drop role {role}")

    assert [f.level for f in found] == ["warn"]
    assert "INSERT on mainspring.state" in found[0].text


async def test_a_worker_that_starts_without_triggers_says_so(
    stages: Stages, listing: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    stages.query("drop trigger zz_mainspring_listing_update on listing")

    async with stages.app.worker():
        pass

    (record,) = [r for r in caplog.records if r.msg == "capture.faulty"]
    assert vars(record)["fault"] == "missing"
    assert vars(record)["kind"] == "listing"


async def test_on_a_private_database_a_worker_installs_the_triggers(
    stages: Stages, listing: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    """S21: nobody can forget it where nobody would think of a migration."""
    stages.query("drop trigger zz_mainspring_listing_update on listing")
    stages.app._database = replace(await stages.app.database(), private_in="here")

    async with stages.app.worker():
        pass

    assert "capture.faulty" not in [r.msg for r in caplog.records]
