"""The schema: made and upgraded by numbered files, forward only.

Every migration is one transaction under one lock (the row of `install`, which only the owner can take),
so two that race apply each file once. A schema that belongs to another role is left alone: whoever made
it could run code in our name. Functions
and views in `functions/` are replaced on every migrate; what they need is in the migrations. Those that
write visits stand with the kernel's statements (`kernel/functions/`). A
migration must be safe while the previous release runs; what removes something waits a release. A table
that somebody's long transaction has is waited for by short tries: all others would wait behind one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

import asyncpg
import psycopg

from mainspring.db.connect.settings import CLIENT_LOCAL
from mainspring.db.database import Database
from mainspring.db.reconnecting import Reconnecting
from mainspring.db.tx import Connection, SyncConnection
from mainspring.errors import MigrationFailed, MissingRights, SchemaError

# A table that somebody's long transaction has is asked for again and again for so long (seconds), and
# another migration is waited for.
PATIENCE_SECONDS = 60.0
# Views read functions, enqueue and the captures call the rest: an order that works from nothing. History
# comes after visit_status, as whoever asks for a result takes them: else each would wait for the other.
_FUNCTIONS = (
    *("now", "clock", "shard", "uuid7", "token", "wake", "unique"),
    *("enqueue", "enqueue_calls", "enqueue_many"),
    *("advance", "views", "history", "history_days", "violations", "result_of"),
    *("canonical_keys", "offer_visits", "offer_batch", "offering", "move_visits", "delete_visits"),
    *("end_entities", "changed"),
    *("capture", "capture_row", "capture_clear", "capture_document"),
    *(
        "crawl_page",
        "crawl_soon",
        "resend_entities",
        "take_over_stage",
        "entity",
        "entity_queue",
        "set_state",
        "process_views",
        "restarted_payload",
        "operate",
        "call_off",
        "cancel",
        "grants",
    ),
)

_LEDGER = """
create table if not exists mainspring.migration (
  number integer primary key,
  name text not null,
  applied_at timestamptz not null default now()
);
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    number: int
    name: str
    text: str


def migrations() -> list[Migration]:
    """All migrations that this code knows, in order."""
    found = []
    for entry in (files("mainspring.db.schema") / "migrations").iterdir():
        if entry.name.endswith(".sql"):
            number, _, name = entry.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, entry.read_text("utf-8")))
    return sorted(found, key=lambda m: m.number)


def functions() -> str:
    """The text of all functions and views, in the order in which they may be created."""
    return "\n".join(_function_file(name).read_text("utf-8") for name in _FUNCTIONS)


def _function_file(name: str) -> Traversable:
    """The file of that name: the kernel's, or the schema's own."""
    own = files("mainspring.kernel") / "functions" / f"{name}.sql"
    return own if own.is_file() else files("mainspring.db.schema") / "functions" / f"{name}.sql"


def script(after: int = 0, more: str = "") -> str:
    """All SQL that `migrate` would run from migration `after` on, for other tools to apply: one
    transaction,
    which refuses to begin where it does not fit. `more` is run at its end."""
    return "\n".join([_HEAD, body(after), more, "commit;\n"])


def body(after: int) -> str:
    """The same without the transaction around it."""
    parts = [_FIT.replace("%after%", str(after)), _LEDGER]
    for migration in migrations():
        if migration.number > after:
            parts.append(f"-- {migration.number:04} {migration.name}\n{migration.text}")
            parts.append(
                "insert into mainspring.migration (number, name) "
                f"values ({migration.number}, '{migration.name}');\n"
            )
    return "\n".join([*parts, functions(), _LEASES])


_HEAD = """-- Apply as the owner of schema mainspring, and stop at the first error:
-- psql -v ON_ERROR_STOP=1 -f this_file
begin;"""
_FIT = """set local statement_timeout = 0;
set local lock_timeout = '10s';
do $$
declare
  schema_owner name := (select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'mainspring');
  newest integer;
begin
  if schema_owner <> current_user then
    raise exception 'schema mainspring belongs to role %, not to %', schema_owner, current_user
      using hint = 'apply this as that role; if nobody of yours made it, drop it';
  end if;
  if schema_owner is null then
    create schema mainspring;
  end if;
  if to_regclass('mainspring.migration') is not null then
    if exists (select from pg_class c where c.oid in (to_regclass('mainspring.migration'),
      to_regclass('mainspring.install'))
      and pg_get_userbyid(c.relowner) <> current_user) then
      raise exception 'the tables of schema mainspring belong to another role than %', current_user;
    end if;
    perform from mainspring.install for update;
    newest := (select max(number) from mainspring.migration);
  end if;
  if coalesce(newest, 0) <> %after% then
    raise exception 'the schema is at migration %, and this script begins after %after%',
      coalesce(newest, 0)
      using hint = format('print it anew: mainspring migrate --sql --from %s', coalesce(newest, 0));
  end if;
end
$$;
"""
_LEASES = """
insert into mainspring.lease (pool, shard)
select 'default', n from mainspring.install, generate_series(0, shard_count - 1) n
on conflict do nothing;
"""


def migrate(database: Database, *, upto: int | None = None) -> list[int]:
    """Bring the schema up to date; answers the numbers that were applied now."""
    with database.connect_sync("migrate", client=True) as connection:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        reconnecting = Reconnecting("migrate.waiting")
        while True:
            try:
                return _apply(database, connection, upto)
            except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateSchema):
                if time.monotonic() > give_up_at:  # never: the schema of another first one is there
                    raise
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
                if time.monotonic() > give_up_at:
                    raise MigrationFailed(
                        f"nothing was changed: {error}; a long transaction has the table, end it and "
                        "migrate again (select pid, query from pg_stat_activity order by xact_start)"
                    ) from error
                time.sleep(reconnecting.failed(error))
            except psycopg.errors.InsufficientPrivilege as error:
                raise MissingRights(
                    f"the role may not change schema mainspring: {error.diag.message_primary}; "
                    "run the migration as the schema's owner, or: grant create on database ... to role "
                    "(mainspring rights owner prints both)"
                ) from error
            except psycopg.Error as error:
                raise MigrationFailed(f"nothing was changed: {error}") from error


def _apply(database: Database, connection: SyncConnection, upto: int | None) -> list[int]:
    """All of it in one transaction, which waits for other migrators but hardly for anyone else."""
    applied: list[int] = []
    with connection.transaction():
        if database.pooled:
            connection.execute(CLIENT_LOCAL)
        connection.execute("set local statement_timeout = 0")  # a great table takes its time
        _refuse_strangers(connection)
        _wait_for_others(connection)
        # Whoever comes behind a lock that is waited for waits too: readers, writers, workers.
        connection.execute("set local lock_timeout = '300ms'")
        connection.execute(_LEDGER)
        refuse_newer(_newest(connection))
        have = {r[0] for r in connection.execute("select number from mainspring.migration")}
        for migration in migrations():
            if migration.number in have or (upto and migration.number > upto):
                continue
            connection.execute(migration.text.encode())
            connection.execute(
                "insert into mainspring.migration (number, name) values (%s, %s)",
                (migration.number, migration.name),
            )
            applied.append(migration.number)
        connection.execute(functions().encode())
        connection.execute(_LEASES)
    return applied


_OWNERS = """
select current_user::text, pg_get_userbyid(n.nspowner)::text, (
  select pg_get_userbyid(c.relowner)::text from pg_class c
  where c.relnamespace = n.oid and c.relname in ('migration', 'install') and c.relowner <> n.nspowner
    limit 1)
from pg_namespace n where n.nspname = 'mainspring'
"""


def _refuse_strangers(connection: SyncConnection) -> None:
    """A schema of somebody else is not migrated into: his triggers would run as the migrator, and all that
    we put there would be his. Nothing of it has been touched when this is asked."""
    row = connection.execute(_OWNERS).fetchone()
    if row is None:
        return
    role, *owners = row
    for owner in owners:
        if owner is not None and owner != role:
            raise MissingRights(
                f"role {role!r} may not change schema mainspring, which belongs to role {owner!r}: migrate "
                f"as that role (alter role {role} set role = {owner}, or options=-crole%3D{owner} in "
                "the URL); if nobody of yours made it, it is a stranger's: drop it"
            )


def _wait_for_others(connection: SyncConnection) -> None:
    """One migration at a time. Another that takes long must not be taken for somebody in the way."""
    wait = f"{PATIENCE_SECONDS * 1000 + 1:.0f}ms"
    connection.execute("select set_config('lock_timeout', %s, true)", (wait,))
    try:
        if connection.execute("select to_regnamespace('mainspring')").fetchone() == (None,):
            connection.execute("create schema mainspring")  # waits for another that makes it
        elif connection.execute("select to_regclass('mainspring.install')").fetchone() != (None,):
            connection.execute("select from mainspring.install for update")
    except psycopg.errors.LockNotAvailable as error:
        raise MigrationFailed(
            f"nothing was changed: another migration has been under way for {PATIENCE_SECONDS:g} s; "
            "let it end (a great table takes its time) and migrate again"
        ) from error


def _newest(connection: SyncConnection) -> int:
    [number] = connection.execute("select coalesce(max(number), 0) from mainspring.migration")
    return int(*number)


class SchemaState(NamedTuple):
    """The newest migration that was applied (None: no schema), the shard count, how the role enqueues."""

    number: int | None
    shard_count: int
    enqueues: str  # see Database


async def read_schema(connection: Connection) -> SchemaState:
    """What is known of the schema before anything else is asked."""
    try:
        async with connection.transaction():  # behind a pooler: all of it on one backend
            row = await connection.fetchrow(
                "select max(number) as number,"
                " (select shard_count from mainspring.install) as shard_count,"
                " case when not has_any_column_privilege('mainspring.visit', 'insert') then 'function'"
                " when not has_table_privilege('mainspring.visit', 'select') then 'fresh'"
                " else 'all' end as enqueues"
                " from mainspring.migration"
            )
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return SchemaState(None, 0, "all")
    except asyncpg.InsufficientPrivilegeError as error:
        raise MissingRights(
            f"the role may not read schema mainspring: {error}; mainspring rights enqueue ROLE prints "
            "the grants of a role that enqueues (docs/operate/rights.md has the others)"
        ) from None
    return SchemaState(*row)


def refuse_newer(number: int) -> None:
    """Code that is older than the schema may run beside it, but not change it."""
    known = migrations()[-1].number
    if number > known:
        raise SchemaError(
            f"the schema is at migration {number}, this code knows {known}: "
            "upgrade mainspring before you migrate"
        )


def check_schema(number: int | None) -> None:
    """Refuse to run on a schema that is absent or older than the code needs."""
    known = migrations()[-1].number
    if number is None:
        raise SchemaError(
            "there is no schema 'mainspring' in this database: run mainspring migrate (in Python: "
            "await app.migrate() before async with app)"
        )
    if number < known:
        raise SchemaError(
            f"the schema is at migration {number}, this code needs {known}: run mainspring migrate"
        )
