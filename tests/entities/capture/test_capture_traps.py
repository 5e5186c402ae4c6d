"""Capture: what a naive trigger gets wrong. No write of a user's may ever fail because of us."""

from __future__ import annotations

import time

import psycopg
import pytest

from offered import fields, offered
from stages import Stages


async def installed(stages: Stages, **settings):
    kind = stages.kind(**settings)
    await stages.install()
    return kind


async def test_a_bulk_update_after_single_ones_in_a_session_is_not_quadratic(
    stages: Stages,
) -> None:
    """S21: a plan kept from one row must not serve many (static SQL took over a minute here)."""
    await installed(stages)
    stages.query("insert into listing (id) select n from generate_series(1, 20000) n")
    for id in range(1, 8):
        stages.change(id, title="x")
    stages.query("set statement_timeout = '20s'")
    began = time.monotonic()

    stages.query("update listing set price = price + 1")

    assert time.monotonic() - began < 20
    assert len(offered(stages)) == 20_000


@pytest.mark.parametrize("many", [False, True])
async def test_columns_that_come_go_or_change_under_the_trigger_break_no_write(
    stages: Stages, many: bool
) -> None:
    """S21: the capture goes on after any ALTER, without a migration."""
    await installed(stages)
    stages.add(1, 2)

    def write(column: str, value: str) -> None:
        stages.query(f"update listing set {column} = {value} where id = 1 or {many}")

    write("title", "'a'")
    assert fields(stages)["1"] == {"new", "title"}
    stages.query("alter table listing drop column note")
    write("title", "'b'")
    assert fields(stages)["1"] == {"title"}
    stages.query("alter table listing rename column title to headline")
    write("headline", "'c'")
    assert fields(stages)["1"] == {"headline"}
    stages.query("alter table listing add column colour text")
    write("colour", "'red'")
    assert fields(stages)["1"] == {"colour"}
    stages.query("alter table listing alter column price type numeric(9,2) using price")
    write("price", "price + 1")
    assert fields(stages)["1"] == {"price"}
    stages.query("alter table listing alter column id type integer")
    write("hits", "7")
    assert fields(stages)["1"] == {"hits"}
    assert stages.listing()["version"] == 7


async def test_a_version_column_that_is_dropped_or_renamed_breaks_no_write(stages: Stages) -> None:
    """S21: a user's write goes on without us."""
    await installed(stages)
    stages.add(1, 2)

    stages.query("alter table listing rename column version to edition")
    stages.change(1, title="a")
    stages.query("update listing set title = 'b'")
    stages.add(3)
    stages.query("alter table listing drop column edition")
    stages.change(1, title="c")
    stages.query("update listing set title = 'd'")
    stages.add(4)

    assert set(offered(stages)) == {"1", "2", "3", "4"}


@pytest.mark.parametrize("capture", ["statement", "row"])
async def test_a_key_column_that_is_renamed_breaks_no_write_and_warns(
    stages: Stages, capture: str
) -> None:
    await installed(stages, capture=capture)
    stages.add(1, 2)
    warnings: list[str] = []
    stages.connection.add_notice_handler(lambda d: warnings.append(d.message_primary or ""))

    stages.query("alter table listing rename column id to number")
    stages.query("update listing set title = 'a' where number = 1")
    stages.query("update listing set title = 'b'")
    stages.query("insert into listing (number) values (3)")
    stages.query("delete from listing")

    assert len(warnings) >= 4
    assert all("has no column {id} any more" in warning for warning in warnings)


async def test_a_table_with_more_columns_than_a_function_has_arguments(stages: Stages) -> None:
    columns = ", ".join(f"c{n} integer" for n in range(300))
    stages.query(f"create table wide (id integer primary key, {columns})")
    stages.kind("wide", table="wide", version="xmin")
    await stages.install()
    stages.query("insert into wide (id) select n from generate_series(1, 3) n")
    offered(stages, "wide")

    stages.query("update wide set c7 = 1, c299 = 2")

    assert fields(stages, "wide")["3"] == {"c7", "c299"}


async def test_columns_named_as_our_own_aliases(stages: Stages) -> None:
    columns = ("n", "o", "r", "s", "c", "i", "key", "keys", "kind", "payload", "diff", "start", "v")
    listed = ", ".join(f"{name} integer" for name in columns)
    stages.query(f"create table alias (t text primary key, {listed}, is_new int4range)")
    for capture in ("statement", "row"):
        name = f"alias_{capture}"
        stages.kind(name, table="alias", key="t", version="xmin", capture=capture)
    await stages.install()
    kinds = ("alias_statement", "alias_row")
    stages.query("insert into mainspring.consumer (kind, name) values (%s, 'c'), (%s, 'c')", *kinds)
    stages.query("insert into alias (t) values ('a'), ('b')")
    stages.query("insert into alias (t) values ('c')")

    for name in columns:
        stages.query(f"update alias set {name} = 1 where t = 'a'")
        stages.query(f"update alias set {name} = 2")
    stages.query("update alias set is_new = '[1,2)'")
    for kind in kinds:
        assert fields(stages, kind)["b"] == {"new", "is_new", *columns}
    stages.query("delete from alias where t = 'c'")
    stages.query("truncate alias")

    assert stages.value("select count(*) from mainspring.event") == 6


async def test_columns_whose_names_need_quoting(stages: Stages) -> None:
    stages.query('create table odd ("The ""Id" text primary key, "a\\b\'c" text, version integer)')
    stages.kind("odd", table="public.odd", key='The "Id', ignore=["a\\b'c"])
    await stages.install()
    stages.query("insert into odd values ('x\"y\\z'), ('''')")
    assert set(offered(stages, "odd")) == {'x"y\\z', "'"}

    stages.query("""update odd set "a\\b'c" = 'new'""")
    assert offered(stages, "odd") == {}
    stages.query("alter table odd add column \"it's %%I\" text default ''")
    stages.query("update odd set \"it's %%I\" = 'changed'")

    assert fields(stages, "odd")["'"] == {"it's %I"}
    before = stages.query("select oid from pg_trigger order by oid")
    await stages.install()
    assert stages.query("select oid from pg_trigger order by oid") == before
    assert [f.level for f in await stages.app.operator.doctor() if f.name == "capture"] == ["ok"]


@pytest.mark.parametrize("many", [False, True])
async def test_differences_are_found_by_image_not_by_equality(stages: Stages, many: bool) -> None:
    """S21: types without equality, values that are equal and yet not the same."""
    stages.query(
        "alter table listing add j json, add x point, add n numeric, add p char(9), "
        "add e double precision, add b bytea, add r int4range, add a integer[]"
    )
    await installed(stages)
    stages.query(
        "insert into listing (id, j, x, n, e) select n, '{}', '(1,1)', 1.0, 0.1 "
        "from generate_series(1, 2) n"
    )
    offered(stages)

    for column, value in {
        "j": """'{"a":1}'""",
        "x": "'(1,2)'",
        "n": "1.00",
        "p": "'a'",
        "e": "0.1::float8 + 1e-17 * 2",
        "b": "'\\x00'",
        "r": "'[1,2]'",
        "a": "'{1,null}'",
    }.items():
        stages.query(f"update listing set {column} = {value} where id = 1 or {many}")
        assert fields(stages)["1"] == {column}


async def test_equal_under_a_collation_is_still_a_change(stages: Stages) -> None:
    try:
        stages.query(
            "create collation blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server has no ICU")
    stages.query("alter table listing alter column title type text collate blind")
    await installed(stages)
    stages.query("insert into listing (id, title) values (1, 'red'), (2, 'red')")
    offered(stages)

    stages.query("update listing set title = 'RED'")

    assert fields(stages) == {"1": {"title"}, "2": {"title"}}


async def test_what_json_cannot_hold_breaks_no_write(stages: Stages) -> None:
    """A json column may have a NUL escape, which jsonb refuses."""
    stages.query("alter table listing add j json")
    await installed(stages)
    bad = '{"a": "\\u0000"}'

    stages.query("insert into listing (id, j) values (1, %s)", bad)
    stages.change(1, title="a")
    assert fields(stages) == {"1": {"new", "title"}}
    stages.query("delete from listing")

    assert offered(stages) == {}


@pytest.mark.parametrize("capture", ["statement", "row"])
async def test_a_key_that_cannot_be_a_visits_key_breaks_no_write(
    stages: Stages, capture: str
) -> None:
    stages.query("create table named (name text primary key, n integer)")
    stages.kind("named", table="public.named", key="name", version="xmin", capture=capture)
    await stages.install()

    stages.query("insert into named values ('', 0)")
    stages.query("insert into named values (%s, 0), ('ok', 0)", "x" * 2000)
    stages.query("update named set n = 1")
    stages.query("update named set n = 2 where name = ''")
    stages.query("delete from named where name <> 'ok'")

    assert set(offered(stages, "named")) == {"ok"}


@pytest.mark.parametrize("capture", ["statement", "row"])
async def test_a_changed_key_is_an_entity_gone_and_another_come(
    stages: Stages, capture: str
) -> None:
    """S21: a key update ends the old entity's visits and state and offers the new one."""
    await installed(stages, capture=capture)
    stages.add(1, 2, 3)
    give_state(stages, 1, 2, 3)
    offered(stages)

    stages.query("update listing set id = 10 where id = 1")
    stages.query("update listing set id = id + 10 where id < 4")

    assert offered(stages) == {str(n): {"new": 1, "out": 1, "v": 2} for n in (10, 12, 13)}
    assert stages.query("select key from mainspring.state") == []


def give_state(stages: Stages, *keys: int) -> None:
    """What a stage has of these entities: a state, and a visit to come."""
    for key in map(str, keys):
        stages.query(
            "insert into mainspring.state (shard, kind, key, stage, body) "
            "values (mainspring.shard(%s, 1024), 'listing', %s, 'price', '{}')",
            key,
            key,
        )
        stages.offer("listing/price", key)


async def test_keys_that_change_places_keep_both_entities(stages: Stages) -> None:
    """A deferrable key would be needed for a true swap: through a third value it is the same."""
    await installed(stages)
    stages.add(1, 2)
    with stages.transaction() as other:
        other.execute("update listing set id = 3 where id = 1")
        other.execute("update listing set id = 1 where id = 2")
        other.execute("update listing set id = 2 where id = 3")
        other.commit()

    assert fields(stages) == {"1": {"new"}, "2": {"new"}}


@pytest.mark.parametrize("capture", ["statement", "row"])
async def test_the_engines_own_save_is_not_captured_but_what_users_triggers_write_is(
    stages: Stages, capture: str
) -> None:
    """S13: suppressed at depth one only; the version is counted all the same."""
    await installed(stages, capture=capture)
    stages.add(1, 2)
    offered(stages)
    stages.query(
        "create function cascade() returns trigger language plpgsql as $$ begin "
        "if pg_trigger_depth() = 1 then update listing set hits = hits + 1 where id = 2; end if; "
        "return null; end $$"
    )
    stages.query(
        "create trigger cascade after update on listing for each row execute function cascade()"
    )
    with stages.transaction() as engine:
        engine.execute("set local mainspring.engine = 'on'")
        engine.execute("update listing set price = 5 where id = 1")
        engine.commit()

    assert offered(stages) == {"2": {"f:hits": 1, "out": 1, "v": 2}}
    assert stages.listing(1)["version"] == 2


async def test_a_repeatable_read_writer_must_send_again_when_the_visit_moved(
    stages: Stages,
) -> None:
    """A known limit: 40001 although nobody touched the entity; the second time it goes through."""
    await installed(stages)
    stages.add(1)
    with stages.transaction() as other:
        other.execute("set transaction isolation level repeatable read")
        other.execute("select 1 from listing")
        stages.query("update mainspring.visit set changed_at = clock_timestamp()")
        with pytest.raises(psycopg.errors.SerializationFailure):
            other.execute("update listing set title = 'a'")
        other.rollback()
        other.execute("update listing set title = 'a'")
        other.commit()

    assert fields(stages) == {"1": {"new", "title"}}


async def test_a_kind_may_be_told_not_to_notify(stages: Stages, database_url: str) -> None:
    """S21: NOTIFY in writers' transactions can be switched off per kind; else one a transaction."""
    stages.query("create table calm (id integer primary key, n integer)")
    stages.kind("calm", table="calm", version="xmin", notify=False)
    await installed(stages)
    stages.query(
        "insert into mainspring.worker (id, pool, queues, slots, asleep, host, process) "
        "values (gen_random_uuid(), 'default', '{listing,calm}', 1, true, 'here', 1)"
    )
    with psycopg.connect(database_url, autocommit=True) as ear:
        ear.execute("listen mainspring")
        with stages.transaction() as other:
            other.execute("insert into calm values (1), (2)")
            other.execute("update calm set n = 1 where id = 1")
            other.commit()
            other.execute("insert into listing (id) values (1)")
            other.execute("insert into listing (id) values (2), (3)")
            other.execute("update listing set price = 1 where id = 1")
            other.commit()
        heard = [note.payload for note in ear.notifies(timeout=5, stop_after=1)]
        heard += [note.payload for note in ear.notifies(timeout=0.2)]
    stages.query("delete from mainspring.worker")

    assert len(heard) == 1
    assert heard[0].endswith(" listing")


async def test_only_a_visit_that_was_not_due_already_wakes_a_sleeper(
    stages: Stages, database_url: str
) -> None:
    """S3: whoever merges into a visit that waits tells nobody: it was told of. One that has waited for
    over a second is told of again (its offer may have been committed long after it looked for sleepers); a
    waiting timer that is brought forward is told of, one in its backoff is not brought forward."""
    await installed(stages)
    stages.query(
        "insert into mainspring.worker (id, pool, queues, slots, asleep, host, process) "
        "values (gen_random_uuid(), 'default', '{listing}', 1, true, 'here', 1)"
    )
    steps = {
        "new": "insert into listing (id) values (1)",
        "waits": "update mainspring.visit set due_at = now() - interval '0.3 seconds'",
        "merged": "update listing set price = price + 1 where id = 1",
        "waits long": "update mainspring.visit set due_at = now() - interval '1.1 seconds'",
        "told again": "update listing set price = price + 1 where id = 1",
        "put off": "update mainspring.visit set due_at = now() + interval '1 hour'",
        "brought forward": "update listing set price = price + 1 where id = 1",
        "failed": "update mainspring.visit set due_at = now() + interval '1 hour', attempt = 1",
        "in its backoff": "update listing set price = price + 1 where id = 1",
    }
    heard = []
    with psycopg.connect(database_url, autocommit=True) as ear:
        ear.execute("listen mainspring")
        for name, statement in steps.items():
            stages.query(statement)
            ear.execute("select 1")  # brings what was said before it
            heard += [name for _ in ear.notifies(timeout=0)]
    stages.query("delete from mainspring.worker")

    assert heard == ["new", "told again", "brought forward"]


async def test_an_id_has_one_text_whatever_the_sessions_settings(stages: Stages) -> None:
    """S25: times, bytes, floats and intervals print the same for every writer, by every way in."""
    types = {
        "timestamptz": "2026-03-29 01:30:00+00",
        "bytea": "\\xdead",
        "float8": "0.30000000000000004",
        "interval": "1 mon 2 days",
        "date": "2026-01-02",
        "numeric(8,2)": "7.50",
        "char(4)": "ab",
        "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    }
    odd = (
        "set timezone = 'Asia/Tokyo'; set datestyle = 'German'; set bytea_output = 'escape'; "
        "set extra_float_digits = -5; set intervalstyle = 'iso_8601'"
    )
    kinds = {}
    for n, type_ in enumerate(types):
        stages.query(f"create table k{n} (id {type_} primary key, a integer)")
        kinds[type_] = stages.kind(f"k{n}", table=f"k{n}", version="xmin")
    await stages.install()
    stages.query(odd)

    for n, (type_, text) in enumerate(types.items()):
        expected = {text}
        stages.query(f"insert into k{n} values ('{text}')")
        assert set(offered(stages, f"k{n}")) == expected, type_
        stages.query(f"update k{n} set a = 1")
        assert set(offered(stages, f"k{n}")) == expected, type_
        stages.query(f"select mainspring.changed('k{n}', array['{text}'])")
        await kinds[type_].changed(text)
        assert set(offered(stages, f"k{n}")) == expected, type_
        stages.query(f"delete from k{n}")
        assert offered(stages, f"k{n}") == {}


async def test_a_delete_ends_visits_and_state_but_not_what_is_undelivered(stages: Stages) -> None:
    """S21: a delete ends the entity's visits and state, tells consumers, and keeps the undelivered."""
    await installed(stages)
    stages.add(1, 2, 3)
    give_state(stages, 1, 2, 3)
    stages.query(
        "insert into mainspring.consumer (kind, name) values ('listing', 'kafka'); "
        "insert into mainspring.consumer (kind, name, retired_at) values ('listing', 'old', now())"
    )
    stages.offer("listing!kafka", 1, {"undelivered": 1})
    stages.offer("other", 1)

    stages.query("delete from listing where id = 1")
    assert stages.queues(1) == ["listing!kafka", "other"]
    assert stages.queues(2) == ["listing", "listing/price"]
    stages.query("delete from listing")

    assert stages.queues(2) == ["listing!kafka"]
    assert stages.query("select * from mainspring.state") == []
    events = stages.query("select key, what, entity_version, body, number from mainspring.event")
    assert [
        (e["key"], e["what"], e["entity_version"]) for e in sorted(events, key=lambda e: e["key"])
    ] == [
        ("1", "deleted", 1),
        ("2", "deleted", 1),
        ("3", "deleted", 1),
    ]
    assert events[0]["body"]["entity"]["id"] in (1, 2, 3)
    told = stages.query("select consumer, key, number from mainspring.delivery")
    assert {(d["consumer"], d["key"], d["number"]) for d in told} == {
        ("kafka", e["key"], e["number"]) for e in events
    }


async def test_an_entity_created_again_begins_anew(stages: Stages) -> None:
    """A library that deletes and inserts instead of updating ends state and timers at each save."""
    await installed(stages)
    stages.add(1)
    give_state(stages, 1)
    with stages.transaction() as other:
        other.execute("delete from listing")
        other.execute("insert into listing (id, title) values (1, 'again')")
        other.commit()

    assert stages.queues(1) == ["listing"]
    assert stages.state("price") is None
    assert offered(stages) == {"1": {"new": 1, "out": 1, "v": 1}}


@pytest.mark.parametrize("told", [False, True])
async def test_a_truncate_ends_all_entities(stages: Stages, told: bool) -> None:
    """S21: TRUNCATE is a delete of all."""
    await installed(stages)
    stages.add(1, 2)
    give_state(stages, 1, 2)
    stages.query("select mainspring.offer_visits('listings', array['1'], array['{}'::jsonb])")
    if told:
        stages.query("insert into mainspring.consumer (kind, name) values ('listing', 'kafka')")

    stages.query("truncate listing")

    assert stages.query("select * from mainspring.state") == []
    rest = {r["queue"] for r in stages.query("select queue from mainspring.visit")}
    assert rest == ({"listings", "listing!kafka"} if told else {"listings"})
    assert len(stages.query("select * from mainspring.event where what = 'deleted'")) == 2 * told


async def test_generated_columns_do_not_count_as_changes_before_they_are_there(
    stages: Stages,
) -> None:
    """S21: the version is not counted up by an update that changes nothing."""
    stages.query("alter table listing add total integer generated always as (price * 2) stored")
    await installed(stages)
    stages.add(1, price=1)
    offered(stages)

    stages.query("update listing set title = title")
    assert stages.listing()["version"] == 1
    stages.change(1, price=4)
    assert offered(stages) == {"1": {"f:price": 1, "f:total": 1, "out": 1, "v": 2}}
    stages.query("alter table listing drop column total")
    stages.change(1, price=5)

    assert offered(stages) == {"1": {"f:price": 1, "out": 1, "v": 3}}


async def test_a_version_at_its_types_end_breaks_no_write(stages: Stages) -> None:
    stages.query("alter table listing alter column version type integer")
    await installed(stages)
    stages.query("insert into listing (id, version) values (1, 2147483647)")

    stages.change(1, title="a")

    assert stages.listing()["version"] == 1


async def test_triggers_of_the_users_that_fire_before_are_counted_in(stages: Stages) -> None:
    """The version trigger fires last: what others change in a write counts, what they undo does not."""
    await installed(stages)
    stages.query(
        "create function undo() returns trigger language plpgsql as $$ begin "
        "new.title := old.title; new.note := case when new.price <> old.price then 'seen' end; "
        "return new; end $$"
    )
    stages.query(
        "create trigger undo before update on listing for each row execute function undo()"
    )
    stages.add(1)
    offered(stages)

    stages.change(1, title="b")
    assert stages.listing()["version"] == 1
    assert offered(stages) == {}
    stages.change(1, price=2)

    assert offered(stages) == {"1": {"f:price": 1, "f:note": 1, "out": 1, "v": 2}}


async def test_a_role_that_may_only_write_the_table_is_captured(stages: Stages) -> None:
    """The functions run as their owner: a writer needs no right on our tables."""
    await installed(stages)
    role = f"writer_{stages.connection.info.backend_pid}"
    stages.query(f"create role {role}")
    stages.query(f"grant select, insert, update, delete, truncate on listing to {role}")
    try:
        stages.query(f"set role {role}")
        stages.add(1, 2)
        stages.change(1, title="a")
        stages.query("update listing set title = 'b'")
        stages.query("delete from listing where id = 2")
        stages.query("reset role")
        assert set(offered(stages)) == {"1"}
        stages.query(f"set role {role}")
        stages.query("truncate listing")
    finally:
        stages.query("reset role")
        stages.query(f"drop owned by {role}")
        stages.query(f"drop role {role}")
    assert offered(stages) == {}


async def test_nothing_is_captured_where_triggers_are_off_unless_always(stages: Stages) -> None:
    """S21: what a trigger cannot see; capture="always" sees what logical replication applies."""
    await installed(stages)
    stages.query("create table always (id integer primary key, n integer, version bigint)")
    stages.kind("always", table="always", capture="always")
    await stages.install()

    stages.query("set session_replication_role = replica")
    stages.add(1)
    stages.query("insert into always values (1)")
    stages.query("update always set n = 1")
    stages.query("set session_replication_role = origin")

    assert offered(stages) == {}
    assert offered(stages, "always") == {"1": {"new": 1, "f:n": 1, "out": 1, "v": 2}}
