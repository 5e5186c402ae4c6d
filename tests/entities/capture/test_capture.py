"""Capture: every change of a user's table offers the entity, in the user's own transaction."""

from __future__ import annotations

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.errors import InvalidKey, UnknownKind
from mainspring.ids import shard_of
from offered import offered
from stages import Stages


@pytest.fixture
async def listing(stages: Stages):
    """A kind with its triggers on the table `listing`."""
    kind = stages.kind(ignore=["hits"])
    await stages.install()
    return kind


async def test_an_insert_offers_the_new_entity(stages: Stages, listing) -> None:
    """S21: a create offers the entity in the same transaction."""
    with stages.transaction() as other:
        other.execute("insert into listing (id) values (1)")
        assert stages.visit("listing") is None

    assert offered(stages) == {"1": {"new": 1, "out": 1, "v": 1}}


async def test_an_update_bumps_the_version_and_says_which_fields_changed(stages, listing) -> None:
    """S21: an update bumps the version and offers the entity with what changed."""
    stages.add(1, 2)
    offered(stages)

    stages.change(1, title="red", price=3)

    assert offered(stages) == {"1": {"f:title": 1, "f:price": 1, "out": 1, "v": 2}}
    assert stages.listing(1)["version"] == 2
    assert stages.listing(2)["version"] == 1


async def test_many_rows_in_one_statement_are_offered_each_with_its_own_fields(
    stages, listing
) -> None:
    """S21: one or many."""
    stages.query("insert into listing (id, price) select n, n from generate_series(1, 50) n")
    assert offered(stages) == {str(n): {"new": 1, "out": 1, "v": 1} for n in range(1, 51)}

    stages.query(
        "update listing set price = case when id < 26 then 0 else price end, note = 'x' where id > 10"
    )

    found = offered(stages)
    assert {str(n) for n in range(11, 51)} == set(found)
    assert found["11"] == {"f:price": 1, "f:note": 1, "out": 1, "v": 2}
    assert found["40"] == {"f:note": 1, "out": 1, "v": 2}


@pytest.mark.parametrize("count", [1, 3])
async def test_what_changes_nothing_or_only_ignored_columns_offers_nothing(
    stages, listing, count
) -> None:
    stages.add(*range(1, count + 1))
    offered(stages)

    stages.query("update listing set title = title")
    assert stages.value("select max(version) from listing") == 1
    stages.query("update listing set hits = hits + 1")
    assert stages.value("select min(version) from listing") == 2
    stages.query("update listing set version = 77")

    assert offered(stages) == {}
    assert stages.value("select min(version) from listing") == 3


async def test_a_library_that_counts_the_version_itself_gets_the_same_number(
    stages, listing
) -> None:
    """S21: by whatever code and library."""
    stages.add(1)

    stages.query("update listing set title = 'a', version = version + 1 where id = 1")

    assert stages.listing()["version"] == 2


async def test_a_version_that_is_inserted_as_null_becomes_one(stages, listing) -> None:
    stages.query("insert into listing (id, version) values (1, null)")

    assert stages.listing()["version"] == 1


async def test_an_upsert_a_merge_and_a_copy_are_seen(stages, listing) -> None:
    """S21: by whatever statement."""
    upsert = (
        "insert into listing (id, price) values (1, %s) on conflict (id) do update set price = %s"
    )
    stages.query(upsert, 5, 5)
    assert offered(stages) == {"1": {"new": 1, "out": 1, "v": 1}}
    stages.query(upsert, 6, 6)
    assert offered(stages) == {"1": {"f:price": 1, "out": 1, "v": 2}}

    stages.query(
        "merge into listing l using (values (1, 'm'), (2, 'n')) s(id, title) on l.id = s.id "
        "when matched then update set title = s.title when not matched then insert (id, title) "
        "values (s.id, s.title)"
    )
    assert offered(stages) == {
        "1": {"f:title": 1, "out": 1, "v": 3},
        "2": {"new": 1, "out": 1, "v": 1},
    }
    with stages.connection.cursor() as cursor, cursor.copy("copy listing (id) from stdin") as copy:
        copy.write_row((7,))
    assert set(offered(stages)) == {"7"}


async def test_changes_that_are_not_looked_at_yet_unite(stages, listing) -> None:
    """S3: changed fields are united, never replaced."""
    stages.add(1)
    offered(stages)
    stages.change(1, title="a")
    before = stages.visit("listing")
    stages.change(1, price=1)
    after = stages.visit("listing")

    assert after["payload"] == {"f:title": 1, "f:price": 1, "out": 1, "v": 3}
    assert before["version"] != after["version"]
    assert before["due_at"] == after["due_at"]


async def test_a_change_never_shortens_a_backoff_and_marks_a_parked_visit(stages, listing) -> None:
    """S3: the capture merges as the kernel's own offer does."""
    stages.add(1, 2)
    stages.query(
        "update mainspring.visit set attempt = 2, due_at = due_at + interval '1 hour', "
        "parked_at = case when key = '2' then now() end"
    )
    times = {r["key"]: r["due_at"] for r in stages.query("select * from mainspring.visit")}

    stages.query("update listing set title = 'x'")
    stages.change(1, title="y")

    rows = {r["key"]: r for r in stages.query("select * from mainspring.visit")}
    assert {key: row["due_at"] for key, row in rows.items()} == times
    assert [rows[key]["offered_while_parked"] for key in ("1", "2")] == [False, True]


async def test_visits_lie_in_the_shard_of_their_id_as_python_computes_it(stages, listing) -> None:
    """S12: the shard is the same in SQL and in Python, by every way in."""
    stages.add(1)
    stages.query("insert into listing (id) select n from generate_series(2, 40) n")
    await listing.changed([41])

    rows = stages.query("select key, shard from mainspring.visit")

    assert len(rows) == 41
    assert {row["key"]: row["shard"] for row in rows} == {
        str(n): shard_of(str(n), 1024) for n in range(1, 42)
    }


async def test_nothing_is_offered_by_what_is_rolled_back(stages, listing) -> None:
    with stages.transaction() as other:
        other.execute("insert into listing (id) values (1)")
        other.rollback()

    assert offered(stages) == {}


async def test_a_bulk_writer_may_stand_behind_live_changes(stages, listing) -> None:
    """S18: a bulk job's visits go to the crawl lane, with its priority."""
    stages.add(1, 2, 3)
    offered(stages)
    with stages.transaction() as other:
        other.execute("set local mainspring.lane = 'crawl'")
        other.execute("update listing set title = 'x' where id = 1")
        other.execute("update listing set title = 'x' where id > 1")
        other.commit()

    rows = stages.query("select key, queue, priority from mainspring.visit order by key")

    assert rows == [{"key": str(n), "queue": "listing~", "priority": 2} for n in (1, 2, 3)]


async def test_a_kind_without_a_version_column_is_captured_without_a_version(stages) -> None:
    """S26: xmin as the lock, no column needed."""
    stages.query("alter table listing drop column version")
    stages.kind(version="xmin")
    await stages.install()
    stages.add(1, 2)
    assert offered(stages)["1"] == {"new": 1, "out": 1}

    stages.change(1, title="a")
    assert offered(stages) == {"1": {"f:title": 1, "out": 1}}
    stages.query("update listing set title = 'b'")

    assert offered(stages)["2"] == {"f:title": 1, "out": 1}


async def test_changes_can_be_announced_by_a_call_in_the_writers_transaction(
    stages: Stages,
) -> None:
    """S21: for code that wants no trigger there is an explicit call."""
    listing = stages.kind(capture="call")
    await stages.install()
    stages.add(1, 2, 3)
    assert offered(stages) == {}

    with psycopg.connect(stages.url) as own:
        listing.changed_sync([1, 2], fields=["price"], on=own)
        assert stages.queues() == []
        own.commit()
    async with await psycopg.AsyncConnection.connect(stages.url) as own:
        await listing.changed([2], fields=["title"], on=own)
    await listing.changed("003")
    stages.query("select mainspring.changed('listing', array['1', '+1'], array['note'])")

    assert offered(stages) == {
        "1": {"f:price": 1, "f:note": 1, "out": 1},
        "2": {"f:price": 1, "f:title": 1, "out": 1},
        "3": {"new": 1, "out": 1},
    }


async def test_ids_that_are_no_ids_are_refused_when_they_are_announced(stages, listing) -> None:
    """S25: an id that does not fit its column's type is refused with its value."""
    with pytest.raises(InvalidKey, match=r"no id of kind 'listing': 'seven'"):
        await listing.changed("seven")
    with pytest.raises(InvalidKey, match="must not be empty"):
        await listing.changed("")
    with pytest.raises(InvalidKey, match="no id of kind 'listing'"):
        listing.changed_sync([10**30])

    assert offered(stages) == {}


async def test_a_kind_that_nobody_registered_is_named(stages, app: Mainspring) -> None:
    kind = stages.kind()

    with pytest.raises(UnknownKind, match="mainspring migrate module:app"):
        await kind.changed(1)
