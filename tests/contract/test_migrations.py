"""The schema is made and upgraded by migrations, safely, and its dump is checked in (T11)."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import mainspring.db.schema
from mainspring import Mainspring
from mainspring.db import database as connect
from mainspring.db.database import Database, check_server
from mainspring.db.schema import migrate
from mainspring.db.schema.dump import dump
from mainspring.errors import (
    DatabaseUnavailable,
    MigrationFailed,
    MissingRights,
    SchemaError,
    UnsupportedServer,
)
from mainspring.testing import TestServer

SCHEMA = Path(mainspring.db.schema.__file__).parent / "schema.sql"
KNOWN = [migration.number for migration in migrate.migrations()]


@pytest.fixture
def empty(mainspring_server: TestServer):
    """A database without our schema."""
    with mainspring_server.database(migrated=False) as url:
        yield url


def test_the_checked_in_schema_is_what_the_migrations_make(
    empty: str, mainspring_server: TestServer
) -> None:
    if "(PostgreSQL) 18" not in mainspring_server.version():
        pytest.skip("the dump is written by PostgreSQL 18")
    migrate.migrate(Database(empty))

    assert dump(empty) == SCHEMA.read_text(), "the schema has changed: run make schema"


def test_a_second_migration_finds_nothing_to_do(empty: str) -> None:
    assert migrate.migrate(Database(empty)) == KNOWN
    assert migrate.migrate(Database(empty)) == []


def test_two_migrators_that_race_apply_each_file_once(empty: str) -> None:
    applied: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: applied.append(migrate.migrate(Database(empty))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(applied) == sorted([[], [], [], KNOWN])


def test_a_migration_that_fails_changes_nothing(empty: str, monkeypatch) -> None:
    bad = migrate.Migration(
        KNOWN[-1] + 1, "bad", "create table mainspring.half (n int); select 1/0"
    )
    good = migrate.migrations()
    monkeypatch.setattr(migrate, "migrations", lambda: [*good, bad])

    with pytest.raises(MigrationFailed, match=r"nothing was changed.*division by zero"):
        migrate.migrate(Database(empty))

    with psycopg.connect(empty) as connection:
        row = connection.execute("select to_regnamespace('mainspring')").fetchone()
    assert row == (None,)


@pytest.fixture
def next_migration(monkeypatch):
    """Adds a migration to those that the code knows."""

    def add(text: str) -> None:
        known = migrate.migrations()
        added = migrate.Migration(KNOWN[-1] + 1, "next", text)
        monkeypatch.setattr(migrate, "migrations", lambda: [*known, added])

    return add


def test_nobody_waits_behind_a_migration_that_waits(database_url: str, next_migration) -> None:
    """T11: a long reader (a backup, a report) keeps the migration waiting, and nobody else."""
    next_migration("alter table mainspring.visit add column later integer")
    applied: list[list[int]] = []
    thread = threading.Thread(
        target=lambda: applied.append(migrate.migrate(Database(database_url)))
    )
    with psycopg.connect(database_url) as reader:
        reader.execute("select from mainspring.visit")
        thread.start()
        with psycopg.connect(database_url, autocommit=True) as other:
            while not other.execute(_WAITING).fetchone():
                pass
            other.execute("set statement_timeout = '5s'")  # the migration would wait for longer
            other.execute("select from mainspring.visit")
        assert applied == []
    thread.join(30)

    assert applied == [[KNOWN[-1] + 1]]


_WAITING = """
select 1 from pg_stat_activity
where application_name like 'mainspring:migrate%' and wait_event_type = 'Lock'
  and datname = current_database()
"""


@pytest.fixture
def at_11(empty: str) -> str:
    """The schema of before bundles, as far as these tests need it, with a day of history."""
    folder = Path(mainspring.db.schema.__file__).parent / "functions"
    views, _, _ = (folder / "views.sql").read_text().partition("-- Reactive tasks in numbers")
    bands = r"case when l\.worker_id <> .*? end as leased_by"  # which came later
    views = re.sub(bands, "l.worker_id as leased_by", views, flags=re.DOTALL)
    expiry = "case when v.called_off is null then v.expires_at end as expires_at"  # so did this
    views = views.replace(expiry, "v.expires_at").replace(",\n    v.called_off\n", "\n")
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("create schema mainspring")
        connection.execute(migrate._LEDGER)
        for migration in migrate.migrations()[:11]:
            connection.execute(migration.text.encode())
            connection.execute(
                "insert into mainspring.migration (number, name) values (%s, %s)",
                (migration.number, migration.name),
            )
        connection.execute(((folder / "now.sql").read_text() + views).encode())
        connection.execute(
            "create table mainspring.history_2001_02_03 partition of mainspring.history"
            " for values from ('2001-02-03') to ('2001-02-04')"
        )
    return empty


def test_bundles_come_while_many_ask_for_results(at_11: str) -> None:
    """T11: each of them has visit_status and then wants history, so the migration takes them in that order;
    the other way round it got through only when nobody asked."""
    applied: list[list[int]] = []
    thread = threading.Thread(target=lambda: applied.append(migrate.migrate(Database(at_11))))
    with psycopg.connect(at_11) as asking:
        asking.execute("select from mainspring.visit_status")
        thread.start()
        with psycopg.connect(at_11, autocommit=True) as other:
            while not other.execute(_WAITING).fetchone():
                pass
        asking.execute("set local lock_timeout = '100ms'")
        asking.execute("select from mainspring.history")
    thread.join(30)

    assert applied == [KNOWN[11:]]


def test_the_release_before_finds_days_that_it_can_make_no_more(at_11: str) -> None:
    """T11: it makes none of a view, and does not start without those of the next week."""
    days = """
    select d.day
    from (select (now() at time zone 'UTC')::date as today) t,
      generate_series(today - 1, today + 14, '1 day') as d(day)
    where to_regclass('mainspring.' || to_char(d.day, '"history_"YYYY_MM_DD')) is null
    """
    with psycopg.connect(at_11, autocommit=True) as connection:
        connection.execute(
            "insert into mainspring.history (day, run, id, queue, key, priority, attempt, outcome,"
            " worker_id, created_at, due_at, started_at, ended_at, duration_ms, payload)"
            " select (now() at time zone 'UTC')::date + 3, 1, u, 'ring', 'key', 5, 1, 'done', u, now(),"
            " now(), now(), now(), 0, '{}' from gen_random_uuid() u"
        )

        assert migrate.migrate(Database(at_11)) == KNOWN[11:]

        [(missing,)] = connection.execute(days).fetchall()
        kept = connection.execute("select day from mainspring.history").fetchall()
        assert kept == [(missing.date(),)]


def test_a_migration_that_cannot_have_its_table_says_why(
    database_url: str, next_migration, monkeypatch
) -> None:
    """T11: who is in the way is to be found."""
    next_migration("alter table mainspring.visit add column later integer")
    monkeypatch.setattr(migrate, "PATIENCE_SECONDS", 0.0)
    with psycopg.connect(database_url) as reader:
        reader.execute("select from mainspring.visit")

        with pytest.raises(MigrationFailed, match=r"nothing was changed.*a long transaction has"):
            migrate.migrate(Database(database_url))


def test_a_migration_behind_another_does_not_call_that_one_in_the_way(
    database_url: str, monkeypatch
) -> None:
    """T11: whoever ended it would lose what it has built so far."""
    monkeypatch.setattr(migrate, "PATIENCE_SECONDS", 0.0)
    with psycopg.connect(database_url) as first:
        first.execute("select from mainspring.install for update")

        with pytest.raises(
            MigrationFailed, match=r"nothing was changed: another migration.*let it"
        ):
            migrate.migrate(Database(database_url))


def test_a_migration_of_a_great_table_may_take_its_time(database_url: str, next_migration) -> None:
    """T11: one that is cancelled after a minute could never be applied."""
    next_migration("do $$ begin assert current_setting('statement_timeout') = '0'; end $$")

    assert migrate.migrate(Database(database_url)) == [KNOWN[-1] + 1]


def test_the_printed_script_makes_the_same_schema(empty: str, mainspring_server) -> None:
    """For other tools to apply."""
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(migrate.script().encode())
    with mainspring_server.database(migrated=False) as other:
        migrate.migrate(Database(other))

        assert dump(empty) == dump(other)
    assert migrate.migrate(Database(empty)) == []


def test_a_printed_script_that_does_not_fit_changes_nothing(empty: str) -> None:
    """X6: a second time, or from another migration on: one transaction, and the reason."""
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(migrate.script().encode())
        before = dump(empty)

        with pytest.raises(
            psycopg.errors.RaiseException,
            match=rf"the schema is at migration {KNOWN[-1]}, and this script begins after 0",
        ):
            connection.execute(migrate.script().encode())
        connection.execute("rollback")
        connection.execute(migrate.script(KNOWN[-1]).encode())  # functions may come again

        assert dump(empty) == before
    text = migrate.script()
    assert text.index("begin;") < text.index("set local lock_timeout") < text.index("for update")
    assert text.endswith("commit;\n")


@pytest.fixture
def squatter(empty: str) -> Iterator[str]:
    """A role that has made a schema of our name, with a trap in it; who the trap ran as is noted."""
    with psycopg.connect(empty, autocommit=True) as connection:
        name = f"squatter_{connection.info.backend_pid}"
        connection.execute(f"create role {name} login".encode())
        connection.execute(
            f"""
            create schema mainspring authorization {name}; set role {name};
            create table mainspring.migration (number integer primary key, name text, applied_at
              timestamptz);
            create table mainspring.caught (who text);
            create function mainspring.trap() returns trigger language plpgsql as
              'begin insert into mainspring.caught values (current_user); return new; end';
            create trigger trap before insert on mainspring.migration
              for each row execute function mainspring.trap();
            reset role""".encode()
        )
        yield name
        connection.execute(f"drop owned by {name} cascade; drop role {name}".encode())


def test_a_strangers_schema_is_not_migrated_into(empty: str, squatter: str) -> None:
    """X6: not even by a superuser; nothing in it is run."""
    with pytest.raises(MissingRights, match=f"belongs to role '{squatter}'.*drop it"):
        migrate.migrate(Database(empty))

    with psycopg.connect(empty) as connection:
        with pytest.raises(psycopg.errors.RaiseException, match=f"belongs to role {squatter}"):
            connection.execute(migrate.script().encode())
        connection.rollback()
        assert connection.execute("select * from mainspring.caught").fetchall() == []


def test_a_table_of_a_strangers_in_the_own_schema_is_not_written_to(empty: str) -> None:
    """X6: whoever may create in the schema could have made the ledger, with a trigger on it."""
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("create schema mainspring")
        connection.execute("create table mainspring.migration (number integer, name text)")
        connection.execute("alter table mainspring.migration owner to pg_monitor")

    with pytest.raises(MissingRights, match="belongs to role 'pg_monitor'"):
        migrate.migrate(Database(empty))


def test_a_migration_waits_for_nobody_without_rights(stranger: str, database_url: str) -> None:
    """X4b: an advisory lock can be had by everybody; the row of install only by the owner."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("grant usage on schema mainspring to stranger")
        connection.execute("grant select on mainspring.install, mainspring.migration to stranger")
    with psycopg.connect(stranger) as squatting:
        squatting.execute(
            "select pg_advisory_lock(n) from (values (1835100526), (1835100527)) l(n)"
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege), squatting.transaction():
            squatting.execute("select from mainspring.install for update")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), squatting.transaction():
            squatting.execute("lock table mainspring.install in exclusive mode")

        assert migrate.migrate(Database(database_url)) == []


def test_migrations_are_numbered_without_gaps() -> None:
    assert list(range(1, len(KNOWN) + 1)) == KNOWN


async def test_a_database_without_the_schema_is_refused_with_the_remedy(empty: str) -> None:
    app = Mainspring(empty)

    with pytest.raises(SchemaError, match="run mainspring migrate"):
        await app.database()


async def test_a_schema_newer_than_the_code_is_not_migrated(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into mainspring.migration values (9999, 'future')")
    app = Mainspring(database_url)

    with pytest.raises(SchemaError, match=r"migration 9999, this code knows \d+: upgrade"):
        await app.migrate()

    await app.close()


async def test_older_code_runs_beside_a_newer_schema(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("insert into mainspring.migration values (9999, 'future')")

    async with Mainspring(database_url) as app:
        task = app.task(_nothing)
        await task.enqueue()


async def _nothing() -> None: ...


@pytest.fixture
def stranger(database_url: str, mainspring_server: TestServer):
    """The address of the database for a role without any rights."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("create role stranger login")
        yield database_url.replace("postgres@", "stranger@")
        connection.execute("drop owned by stranger")
        connection.execute("drop role stranger")


async def test_a_role_without_rights_is_told_what_it_needs(stranger: str) -> None:
    app = Mainspring(stranger)

    with pytest.raises(MissingRights, match="may not read schema mainspring"):
        await app.database()
    with pytest.raises(MissingRights, match="may not change schema mainspring"):
        await app.migrate()


def test_a_database_is_shown_without_its_password() -> None:
    """T12: whoever reports an error with its local variables must not report the password."""
    database = Database("postgresql://ann:secret@db.example/shop")

    assert "secret" not in repr(database)
    assert database.shown == "db.example:5432, database shop"


async def test_an_unreachable_server_is_named_without_its_password() -> None:
    app = Mainspring("postgresql://ann:secret@127.0.0.1:1/none")

    with pytest.raises(DatabaseUnavailable, match="is the server up") as caught:
        await app.database()

    assert "secret" not in str(caught.value)


async def test_a_database_that_does_not_exist_is_named(database_url: str) -> None:
    app = Mainspring(database_url.replace("/mainspring_test_", "/no_such_"))

    with pytest.raises(DatabaseUnavailable, match="no_such_"):
        await app.database()


def test_a_server_that_is_too_old_is_refused() -> None:
    with pytest.raises(UnsupportedServer, match=r"PostgreSQL 14\.9 is too old.*needs 15"):
        check_server(140009, "14.9", "UTF8")


def test_a_database_in_another_encoding_is_refused(mainspring_server: TestServer) -> None:
    with psycopg.connect(mainspring_server.url("postgres"), autocommit=True) as connection:
        connection.execute(
            "create database latin encoding 'LATIN1' locale 'C' template template0"
            + ("" if connection.info.server_version < 150000 else " locale_provider libc")
        )
        try:
            with pytest.raises(UnsupportedServer, match="encoded as LATIN1"):
                asyncio.run(connect.probe(mainspring_server.url("latin")))
        finally:
            connection.execute("drop database latin with (force)")
