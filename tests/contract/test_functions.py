"""X1: every function of the schema with its mode, its search_path and its grants, as the list beside
this file has it.

A function that is new or has changed fails here until somebody has looked at it and at the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.db.database import Database
from mainspring.db.schema import migrate
from mainspring.operate.statements import SQL
from roles import Roles, roles

LIST = Path(__file__).parent / "functions.txt"
_FUNCTIONS = """
select concat_ws(' ', p.oid::regprocedure, case when p.prosecdef then 'definer' else 'invoker' end,
    coalesce((select c from unnest(p.proconfig) c where c like 'search_path=%%'), 'no search_path'),
    coalesce((select 'granted to ' || string_agg(distinct case a.grantee when 0 then 'public' else 'a
      role' end, ', ')
      from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee <>
        p.proowner), 'granted to nobody')) as line
from pg_proc p where p.pronamespace = 'mainspring'::regnamespace
order by p.oid::regprocedure::text collate "C"
"""


def found(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute(_FUNCTIONS).fetchall()]


def test_every_function_is_as_the_list_says(database_url: str) -> None:
    lines = found(database_url)

    assert lines == LIST.read_text().splitlines(), "look at each, then write:\n" + "\n".join(lines)
    assert not [line for line in lines if "public" in line.rpartition("granted")[2]]


def exposed(url: str) -> list[tuple[str, str]]:
    with psycopg.connect(url) as connection:
        return [row[:2] for row in connection.execute(SQL["list_exposed"].text).fetchall()]


def test_nothing_is_open_to_everybody(database_url: str) -> None:
    assert exposed(database_url) == []


OPENED = [
    ("create function mainspring.f() returns int language sql return 1", "mainspring.f()", "open"),
    (
        "create function mainspring.f() returns int language sql security definer return 1;"
        "revoke execute on function mainspring.f() from public",
        "mainspring.f()",
        "definer",
    ),
    (
        "create function mainspring.f() returns int language sql security definer"
        " set search_path = pg_catalog return 1; revoke execute on function mainspring.f() from public",
        "mainspring.f()",
        "definer",
    ),
    ("grant select on mainspring.history to public", "mainspring.history", "open"),
    ("grant create on schema mainspring to public", "schema mainspring", "open"),
    (
        "create table mainspring.t (); alter table mainspring.t owner to pg_monitor",
        "mainspring.t",
        "owner",
    ),
]


@pytest.mark.parametrize(("text", "name", "fault"), OPENED)
async def test_what_is_opened_by_hand_is_named_by_the_doctor(
    app: Mainspring, database_url: str, text: str, name: str, fault: str
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(text.encode())

        assert (name, fault) in exposed(database_url)
        assert any(
            f.name == "exposed" and f.level == "bad" and name in f.text and f.remedy
            for f in await app.operator.doctor()
        )


@pytest.fixture
def before(database_url: str) -> Iterator[Roles]:
    """An installation of before rights: all functions are open, and nothing of migration 18 is there."""
    with roles(database_url) as found:
        found.run("drop table mainspring.captured, mainspring.entry, mainspring.leaving")
        found.run("delete from mainspring.migration where number = 18")
        found.run("grant execute on all functions in schema mainspring to public")
        found.run("insert into mainspring.queue (name) values ('greet')")
        found.run("insert into mainspring.kind (name, source) values ('thing', 'dao')")
        found.make("caller", "grant usage on schema mainspring to {role}")
        yield found
        found.run("delete from mainspring.visit; delete from mainspring.kind")


def can(cast: Roles, role: str, call: str) -> bool:
    with cast.session(role) as connection:
        try:
            connection.execute(f"select mainspring.{call}".encode())
        except psycopg.errors.InsufficientPrivilege:
            return False
    return True


CHANGED, OFFER = "changed('thing', '{1}')", "offer('thing', '1')"
WEB_OF_BEFORE = """
grant usage on schema mainspring to {role};
grant select on mainspring.migration, mainspring.install, mainspring.queue, mainspring.worker,
  mainspring.lease, mainspring.visit_status, mainspring.history, mainspring.history_run,
  mainspring.history_bundle to {role};
grant select, insert on mainspring.visit to {role};
"""


def test_a_migration_closes_what_the_release_before_left_open(before: Roles) -> None:
    """X1: installations that are there are closed by migrate; what a role was granted then goes on."""
    before.make("web", WEB_OF_BEFORE)
    before.make("filler", "grant insert on mainspring.visit to {role}")
    before.run(f"grant usage on schema mainspring to {before.name('filler')}")

    assert migrate.migrate(Database(before.url)) == [18]

    assert exposed(before.url) == []
    with before.session("web") as web:
        web.execute("select mainspring.now(), mainspring.wake('greet', now())")
        web.execute("select mainspring.enqueue('greet')")
        web.execute("select from mainspring.visit_status")
    asked = "result_of('greet', gen_random_uuid())"
    assert can(before, "web", asked)
    assert can(before, "filler", "enqueue('greet')")
    assert not can(before, "filler", asked)  # it never could read one
    assert can(before, "caller", CHANGED)
    assert can(before, "caller", OFFER)
    assert not can(before, "caller", "end_entities('thing', '{1}')")
    assert not can(before, "caller", "enqueue('greet')")


@pytest.mark.parametrize(
    ("revoked", "left"),
    [
        ("all functions in schema mainspring", set[str]()),
        ("function mainspring.offer(text, text, text, timestamptz)", {CHANGED}),
        ("function mainspring.changed(text, text[], text[])", {OFFER}),
    ],
)
def test_what_was_revoked_before_rights_is_not_given_back(
    before: Roles, revoked: str, left: set[str]
) -> None:
    """X1: of an installation that was closed in part each role keeps what it had, and no more."""
    before.run(f"revoke execute on {revoked} from public")

    migrate.migrate(Database(before.url))

    assert exposed(before.url) == []
    assert {call for call in (CHANGED, OFFER) if can(before, "caller", call)} == left


def test_a_later_migration_gives_nothing_to_whoever_has_the_schema(before: Roles) -> None:
    """X1: a function that is made anew is open until it is closed, and so is one opened by mistake."""
    before.run("revoke execute on all functions in schema mainspring from public")
    migrate.migrate(Database(before.url))
    before.run("grant execute on all functions in schema mainspring to public")

    migrate.migrate(Database(before.url))

    assert exposed(before.url) == []
    assert not can(before, "caller", CHANGED)
    assert not can(before, "caller", OFFER)


def test_what_another_role_opened_by_its_right_to_grant_is_closed(before: Roles) -> None:
    """X1: a revoke takes back only what its own role has given."""
    giver = before.make("giver", "grant usage on schema mainspring to {role}")
    before.run("revoke execute on function mainspring.clock() from public")
    before.run(f"grant execute on function mainspring.clock() to {giver} with grant option")
    with before.session("giver") as connection:
        connection.execute("grant execute on function mainspring.clock() to public")

    migrate.migrate(Database(before.url))

    assert exposed(before.url) == []
    assert can(before, "giver", "clock()")
    assert not can(before, "caller", "clock()")


async def test_triggers_of_the_release_before_are_registered_and_a_planted_one_is_not(
    app: Mainspring, database_url: str
) -> None:
    """X1: what was installed goes on seeing changes; a trigger on any other table does not begin to."""
    (migration,) = [m for m in migrate.migrations() if m.name == "rights"]
    start = migration.text.index("insert into mainspring.captured")
    register = migration.text[start : migration.text.index(";", start)]
    with psycopg.connect(database_url, autocommit=True) as connection:
        for table in ("goods", "planted"):
            connection.execute(
                f"create table {table} (id integer primary key, version bigint default 1)".encode()
            )
        app.entities("goods", table="public.goods", key="id")
        await app.migrate()
        connection.execute("delete from mainspring.captured")
        connection.execute(
            "create trigger t after insert on planted for each row execute function"
            " mainspring.capture_row('goods', '{id}', 'version', '{}', 'plain', 'quiet')"
        )

        connection.execute(register.encode())

        rows = connection.execute("select relid::text, kind from mainspring.captured").fetchall()
        assert rows == [("goods", "goods")]
        connection.execute("insert into goods values (1); insert into planted values (2)")
        assert connection.execute("select key from mainspring.visit").fetchall() == [("1",)]
