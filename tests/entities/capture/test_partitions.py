"""Partitioned tables: writes through the parent and by partition, moves, and what no trigger sees."""

from __future__ import annotations

import pytest

from mainspring.entities.kind import Kind
from offered import fields, offered
from stages import Stages

TABLES = """
create table ad (region text, id integer, n integer, version bigint default 1, primary key (region, id))
  partition by list (region);
create table ad_north partition of ad for values in ('n');
create table ad_rest (id integer not null, version bigint default 1, region text not null, n integer);
alter table ad attach partition ad_rest default
"""


def key(region: str, id: int) -> str:
    return f'["{region}", "{id}"]'


@pytest.fixture(params=["statement", "row"])
async def ad(stages: Stages, request: pytest.FixtureRequest) -> Kind:
    """A kind with a composite key on a table whose partitions have their columns in another order."""
    for text in TABLES.split(";"):
        stages.query(text)
    kind = stages.kind("ad", table="ad", key=["region", "id"], capture=request.param)
    await stages.install()
    return kind


def give_state(stages: Stages, text: str) -> None:
    stages.query(
        "insert into mainspring.state (shard, kind, key, stage, body) "
        "values (mainspring.shard(%s, 1024), 'ad', %s, 'price', '{}')",
        text,
        text,
    )


async def test_writes_through_the_parent_and_by_partition_are_seen_once(
    stages: Stages, ad: Kind
) -> None:
    """S21: whichever name the writer uses."""
    stages.query("insert into ad values ('n', 1, 0), ('s', 2, 0)")
    stages.query("insert into ad_rest (region, id, n) values ('s', 3, 0)")
    assert offered(stages, "ad") == {
        key(*pair): {"new": 1, "out": 1, "v": 1} for pair in (("n", 1), ("s", 2), ("s", 3))
    }

    stages.query("update ad set n = 1 where id = 1")
    stages.query("update ad_rest set n = 2")
    assert offered(stages, "ad") == {
        key(*pair): {"f:n": 1, "out": 1, "v": 2} for pair in (("n", 1), ("s", 2), ("s", 3))
    }
    stages.query("delete from ad_north")
    stages.query("delete from ad where id = 2")

    assert stages.query("select count(*) as n from ad")[0]["n"] == 1


@pytest.mark.parametrize("capture", ["statement", "row"])
@pytest.mark.parametrize("many", [False, True])
async def test_a_row_that_moves_to_another_partition_keeps_its_state(
    stages: Stages, capture: str, many: bool
) -> None:
    """S21: a move is an update, though row triggers see a delete and an insert."""
    for text in TABLES.split(";"):
        stages.query(text)
    stages.kind("ad", table="ad", key="id", capture=capture)
    await stages.install()
    stages.query("insert into ad values ('n', 1, 0), ('n', 2, 0), ('s', 3, 0)")
    offered(stages, "ad")
    give_state(stages, "1")
    give_state(stages, "3")

    stages.query(f"update ad set region = 's' where id = 1 or {many} and id = 2")

    expected = {"f:region": 1} if capture == "statement" else {"new": 1}
    moved = {"1", "2"} if many else {"1"}
    assert offered(stages, "ad") == {id: {**expected, "out": 1, "v": 2} for id in moved}
    assert stages.value("select count(*) from mainspring.state") == 2
    stages.query("delete from ad where id = 1")
    stages.query("delete from ad_rest")
    assert stages.value("select count(*) from mainspring.state") == 0


async def test_what_left_a_partition_and_came_into_none_is_deleted(stages: Stages) -> None:
    """S21: the table is not looked into; whether a row moved is known when the transaction ends."""
    for text in TABLES.split(";"):
        stages.query(text)
    stages.kind("ad", table="ad", key="id", capture="row")
    await stages.install()
    stages.query("insert into ad values ('n', 1, 0), ('n', 2, 0)")
    give_state(stages, "1")
    give_state(stages, "2")
    offered(stages, "ad")

    with stages.transaction() as writer:
        writer.execute("delete from ad")
        writer.execute("insert into ad values ('s', 1, 0)")
        writer.execute("savepoint before")
        writer.execute("insert into ad values ('s', 2, 0)")
        writer.execute("rollback to savepoint before")
        writer.commit()

    assert stages.query("select key from mainspring.state") == [{"key": "1"}]
    assert set(offered(stages, "ad")) == {"1"}
    assert stages.value("select count(*) from mainspring.leaving") == 0


async def test_a_truncate_of_one_partition_ends_its_entities_only(stages: Stages, ad: Kind) -> None:
    """S21: TRUNCATE of a partition, and of the whole."""
    stages.query("insert into ad values ('n', 1, 0), ('s', 2, 0)")
    give_state(stages, key("n", 1))
    give_state(stages, key("s", 2))
    stages.query("insert into mainspring.consumer (kind, name) values ('ad', 'kafka')")

    stages.query("truncate ad_north")
    assert set(fields(stages, "ad")) == {key("s", 2)}
    assert [r["key"] for r in stages.query("select key from mainspring.state")] == [key("s", 2)]
    stages.query("truncate ad")

    assert stages.query("select key from mainspring.state") == []
    events = stages.query("select key, what from mainspring.event order by number")
    assert events == [
        {"key": key("n", 1), "what": "deleted"},
        {"key": key("s", 2), "what": "deleted"},
    ]


async def test_an_attached_partition_is_not_seen_until_its_rows_are_written(
    stages: Stages, ad: Kind
) -> None:
    """S21: what a trigger cannot see is found by a crawl; later writes are seen."""
    stages.query("alter table ad detach partition ad_rest")
    stages.query("insert into ad_rest (region, id) values ('w', 9)")
    stages.query("alter table ad attach partition ad_rest default")
    seen = set(offered(stages, "ad"))
    stages.query("update ad set n = 5")

    assert seen in (set(), {key("w", 9)})
    assert set(offered(stages, "ad")) == {key("w", 9)}


async def test_a_partition_that_came_later_is_captured_through_the_parent(
    stages: Stages, ad: Kind
) -> None:
    """The doctor names it, and the next migration gives it its triggers."""
    stages.query("create table ad_west partition of ad for values in ('w')")
    stages.query("insert into ad values ('w', 1, 0)")
    assert set(offered(stages, "ad")) == {key("w", 1)}
    found = [f for f in await stages.app.operator.doctor() if f.name == "capture"]
    if ad.settings.capture == "statement":
        assert any("ad_west" in f.text and "missing" in f.text for f in found)
    else:
        assert any("ad_west" in f.text for f in found)  # the truncate's

    await stages.install()
    stages.query("update ad_west set n = 7")

    assert set(offered(stages, "ad")) == {key("w", 1)}
    assert all(f.level == "ok" for f in await stages.app.operator.doctor() if f.name == "capture")
