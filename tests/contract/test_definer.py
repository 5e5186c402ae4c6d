"""X2: no code of a table's or a type's owner ever runs as the owner of the schema.

Every way that a table's owner has to put code in our way notes who it runs as.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from mainspring import Mainspring
from roles import Roles, roles

# An immutable function may not write, so what is seen goes to a setting of the session.
TRAPS = """
create function shop.note(how text) returns boolean language plpgsql immutable as $$ begin
  perform set_config('shop.seen', concat(current_setting('shop.seen', true), ' ', how, '=',
    current_user), false);
  return true; end $$;
create type shop.mood as enum ('calm', 'wild');
create function shop.mood_json(shop.mood) returns json language plpgsql as $$ begin
  perform shop.note('json'); return '"x"'; end $$;
create cast (shop.mood as json) with function shop.mood_json(shop.mood);
create function shop.mood_text(shop.mood) returns text language plpgsql as $$ begin
  perform shop.note('text'); return 'x'; end $$;
create cast (shop.mood as text) with function shop.mood_text(shop.mood) as implicit;
create function shop.mood_eq(shop.mood, shop.mood) returns boolean language plpgsql immutable as $$ begin
  return shop.note('equal'); end $$;
create operator shop.= (leftarg = shop.mood, rightarg = shop.mood, function = shop.mood_eq);
create operator shop.*<> (leftarg = shop.mood, rightarg = shop.mood, function = shop.mood_eq);
create domain shop.code as text check (shop.note('domain'));
create domain shop.feeling as shop.mood check (shop.note('feeling'));
create type shop.pair as (a shop.mood, b integer);
create function shop.pair_json(shop.pair) returns json language plpgsql as $$ begin
  perform shop.note('pair'); return '"x"'; end $$;
create cast (shop.pair as json) with function shop.pair_json(shop.pair);
create type shop.moods as range (subtype = shop.mood);
"""
COLUMNS = """
  id integer not null, region text not null default 'n', mood shop.mood default 'calm', code shop.code
    default 'c',
  feeling shop.feeling default 'calm', pair shop.pair default row('calm', 1), many shop.mood[] default
    '{calm}',
  moods shop.moods default '[calm,wild]', made shop.mood generated always as ('wild'::shop.mood) stored,
  version bigint not null default 1
"""
TABLES = f"""
create table shop.plain ({COLUMNS}, primary key (id));
create index on shop.plain ((shop.note('index')));
create table shop.parted ({COLUMNS}, primary key (id, region)) partition by list (region);
create table shop.parted_n partition of shop.parted for values in ('n');
create table shop.parted_s partition of shop.parted for values in ('s');
create index on shop.parted_n ((shop.note('index')));
create table shop.coded (id shop.code primary key, mood shop.mood default 'calm', version bigint not
  null default 1);
create index on shop.coded ((shop.note('index')));
create table shop.moody (id shop.mood primary key, version bigint not null default 1);
"""


@pytest.fixture
def cast(database_url: str) -> Iterator[Roles]:
    """The owner of a schema of traps, and a writer without any right of ours."""
    with roles(database_url) as found:
        villain = found.make("villain")
        found.make("writer")
        found.run(f"create schema shop authorization {villain}")
        with found.session("villain") as connection:
            connection.execute((TRAPS + TABLES).encode())
            connection.execute(
                f"grant usage on schema shop to {found.name('writer')};"
                f"grant all on all tables in schema shop to {found.name('writer')}".encode()
            )
        yield found


async def installed(app: Mainspring, cast: Roles, **settings: Any) -> None:
    """Kinds on all the tables, each with somebody who listens to what is deleted."""
    app.entities("plain", table="shop.plain", key="id", **settings)
    app.entities("parted", table="shop.parted", key="id", **settings)
    app.entities("coded", table="shop.coded", key="id", **settings)
    app.entities("moody", table="shop.moody", key="id", **settings)
    await app.migrate()
    cast.run(
        "insert into mainspring.consumer (kind, name, declared) select k.name, 'ear', '{}' from"
        " mainspring.kind k"
    )


def seen(connection: psycopg.Connection[Any]) -> set[str]:
    """Who the traps ran as, until now."""
    row = connection.execute("select current_setting('shop.seen', true)").fetchone()
    assert row is not None
    connection.execute("select set_config('shop.seen', '', false)")
    return set((row[0] or "").split())


WRITES = [
    "insert into shop.{0} (id) values (1)",
    "insert into shop.{0} (id) select n from generate_series(2, 9) n",
    "update shop.{0} set mood = 'wild', feeling = 'wild', pair = row('wild', 2) where id = 1",
    "update shop.{0} set mood = 'wild', many = '{{wild,calm}}' where id in (3, 4)",
    "update shop.{0} set id = 100 where id = 9",
    "update shop.{0} set id = id + 200 where id in (7, 8)",
    "update shop.{0} set region = 's' where id = 3",
    "update shop.{0} set region = 's' where id in (4, 5)",
    "delete from shop.{0} where id = 1",
    "delete from shop.{0} where id in (2, 3)",
    "truncate shop.{0}",
]


@pytest.mark.parametrize("capture", ["statement", "row"])
@pytest.mark.parametrize("role", ["villain", "writer"])
async def test_a_write_runs_no_code_of_others_as_the_owner(
    app: Mainspring, cast: Roles, role: str, capture: str
) -> None:
    """X2: one row and many, inserts, updates, moves, deletes, truncates."""
    await installed(app, cast, capture=capture)
    with cast.session(role) as connection:
        for table in ("plain", "parted"):
            for write in WRITES:
                connection.execute(write.format(table).encode())
                ran = seen(connection)
                assert {who.partition("=")[2] for who in ran} <= {cast.name(role)}, write
        connection.execute("insert into shop.coded (id) values ('a'), ('b')")
        connection.execute("insert into shop.moody values ('calm')")
        connection.execute("update shop.coded set mood = 'wild'")
        connection.execute("delete from shop.moody")
        connection.execute("truncate shop.coded")
        assert {who.partition("=")[2] for who in seen(connection)} <= {cast.name(role)}
    ended = cast.value("select count(*) from mainspring.event where kind = 'plain'")
    assert ended == 12  # all that went, and the three whose key changed: it was seen
    deleted = cast.value(
        "select body -> 'entity' from mainspring.event where kind = 'plain' order by number limit 1"
    )
    assert (deleted["id"], deleted["mood"], deleted["feeling"]) == (9, "calm", "calm")


@pytest.mark.parametrize("capture", ["statement", "row"])
async def test_a_key_of_an_own_type_is_its_label(
    app: Mainspring, cast: Roles, capture: str
) -> None:
    """X2: by the type's output, never by its owner's cast."""
    await installed(app, cast, capture=capture)
    with cast.session("writer") as connection:
        connection.execute("insert into shop.moody values ('calm')")
        connection.execute("insert into shop.coded values ('one')")
    keys = cast.owner.execute(
        "select queue, key from mainspring.visit where queue in ('moody', 'coded') order by 1"
    ).fetchall()

    assert keys == [{"queue": "coded", "key": "one"}, {"queue": "moody", "key": "calm"}]


GRANTS = """
grant usage on schema mainspring to {role};
grant execute on function mainspring.changed(text, text[], text[]), mainspring.offer(text, text, text,
  timestamptz),
  mainspring.canonical_keys(text, text[]), mainspring.key_of(text), mainspring.key_part(bigint, text,
    integer),
  mainspring.key_expression(oid, text[], text), mainspring.own_column(text, text, oid, boolean),
  mainspring.prints_equals_alike(oid, text[], text[]), mainspring.offer_changed(text, text[], text[]),
  mainspring.offer_entity(text, text, text, timestamptz) to {role};
"""
REPLACE = """
alter table shop.coded rename to hidden;
create view shop.coded as select id, mood, version from shop.hidden where shop.note('view');
"""
POLICY = """
alter table shop.coded enable row level security;
alter table shop.coded force row level security;
create policy p on shop.coded using (shop.note('policy'));
"""


@pytest.mark.parametrize("also", ["", REPLACE, POLICY])
async def test_an_offer_by_id_runs_code_of_others_as_the_caller(
    app: Mainspring, cast: Roles, also: str
) -> None:
    """X2: a domain's check, a cast, an index, a policy, a view in the place of the table."""
    await installed(app, cast)
    cast.run(GRANTS.replace("{role}", cast.name("villain")))
    with cast.session("villain") as connection:
        connection.execute("insert into shop.coded values ('one')")
        connection.execute(also.encode())
        seen(connection)
        assert connection.execute("select mainspring.offer('coded', 'one')").fetchone()
        assert connection.execute("select mainspring.changed('coded', '{one,two}')").fetchone()
        connection.execute("select mainspring.changed('moody', '{calm}')")
        ran = seen(connection)
    assert ran, "the traps did not spring, so the test shows nothing"
    assert {who.partition("=")[2] for who in ran} == {cast.name("villain")}
    assert {row["key"] for row in cast.owner.execute("select key from mainspring.visit")} >= {
        "one",
        "two",
    }


async def test_a_type_that_became_hostile_after_the_installation_is_printed_by_its_output(
    app: Mainspring, cast: Roles
) -> None:
    """X2: what a trigger was made for may have changed when it fires."""
    with cast.session("villain") as connection:
        connection.execute(
            "create table shop.late (id integer primary key, mood text, version bigint)"
        )
        app.entities("late", table="shop.late", key="id")
        await app.migrate()
        connection.execute("insert into shop.late values (1, 'calm')")
        connection.execute(
            "alter table shop.late alter column mood type shop.mood using mood::shop.mood"
        )
        seen(connection)
        connection.execute("update shop.late set mood = 'wild'")
        assert seen(connection) == set()
    payload = cast.value("select payload from mainspring.visit where queue = 'late'")
    assert payload["f:mood"] == 1


async def test_a_capture_made_for_other_columns_prints_these_as_safely(
    app: Mainspring, cast: Roles
) -> None:
    """X2: a function that was generated knows its columns; others are looked up when it fires."""
    await installed(app, cast)
    with cast.session("villain") as connection:
        connection.execute("insert into shop.plain (id) values (1)")
        connection.execute("alter table shop.plain add column later shop.mood default 'calm'")
        connection.execute("alter table shop.plain alter column region drop default")
        connection.execute(
            "alter table shop.plain alter column region type shop.mood using 'calm'::shop.mood"
        )
        connection.execute(
            "delete from shop.plain; insert into shop.plain (id, region) values (2, 'calm')"
        )
        seen(connection)
        connection.execute("update shop.plain set later = 'wild', region = 'wild'")
        assert {who.partition("=")[2] for who in seen(connection)} <= {cast.name("villain")}
    payload = cast.value("select payload from mainspring.visit where queue = 'plain'")
    assert (payload["f:later"], payload["f:region"]) == (1, 1)
    assert cast.value("select count(*) from pg_proc where proname = 'capture_of_plain'") == 1


async def test_a_bulk_update_of_own_types_is_not_quadratic(app: Mainspring, cast: Roles) -> None:
    """X2: whether one row changed is told by two, not by every pair of old and new."""
    await installed(app, cast)
    with cast.session("writer") as connection:
        connection.execute("set statement_timeout = '20s'")
        connection.execute("insert into shop.plain (id) select n from generate_series(1, 3000) n")
        connection.execute("update shop.plain set mood = 'wild'")
        connection.execute("delete from shop.plain")


async def test_a_writer_cannot_switch_the_capture_off(app: Mainspring, cast: Roles) -> None:
    """X4b: a setting is no proof; the engine's own mark counts for a worker's role alone."""
    await installed(app, cast)
    with cast.session("writer") as connection:
        connection.execute("set mainspring.engine = 'on'")
        connection.execute("insert into shop.plain (id) values (1)")
    assert cast.value("select count(*) from mainspring.visit where queue = 'plain'") == 1

    cast.run(f"grant update on mainspring.lease to {cast.name('writer')}")
    with cast.session("writer") as connection:
        connection.execute("set mainspring.engine = 'on'")
        connection.execute("insert into shop.plain (id) values (2)")
    assert cast.value("select count(*) from mainspring.visit where queue = 'plain'") == 1


async def test_a_trigger_sees_only_the_table_that_is_registered_for_its_kind(
    app: Mainspring, cast: Roles
) -> None:
    """X1: even with the right to make one, nobody writes in another kind's name; his write goes on."""
    await installed(app, cast)
    villain = cast.name("villain")
    cast.run(f"grant usage on schema mainspring to {villain}")
    cast.run(f"grant execute on all functions in schema mainspring to {villain}")
    with cast.session("villain") as connection:
        warnings: list[str] = []
        connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary or ""))
        connection.execute("create temp table t (id integer, version text)")
        arguments = "'plain', '{id}', 'version', '{}', 'plain', 'quiet'"
        for text in (
            "create trigger a after insert on t referencing new table as new_rows for each statement"
            f" execute function mainspring.capture({arguments})",
            f"create trigger b after insert on t for each row execute function"
            f" mainspring.capture_row({arguments})",
            f"create trigger c before truncate on t execute function mainspring.capture_clear({arguments})",
            "create trigger d after insert on t referencing new table as new_rows for each statement"
            " execute function mainspring.capture_document()",
            "create trigger e before truncate on t execute function mainspring.clear_documents()",
            "create trigger f after insert on t for each row execute function mainspring.capture_left()",
        ):
            connection.execute(text.encode())
        connection.execute("""insert into t values (1, '1,"account":"mallory"'), (2, '2')""")
        connection.execute("truncate t")
    assert cast.value("select count(*) from mainspring.visit") == 0
    assert len(warnings) == 8
    assert all("is not registered for kind" in text for text in warnings)
