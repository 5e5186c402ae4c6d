"""The rights of each role, as the SQL that grants them: `mainspring rights` prints it, tests attack it.

A role is a group without login; logins are made members of it. What a new release brings to a worker is
granted by its migration (`functions/grants.sql`).
"""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.errors import InvalidSetting

# Everybody who connects asks these for the schema's number.
READ_BY_ALL = ("migration", "install")
RESULT_FUNCTION = "result_of(text, uuid, text)"
ENQUEUE_FUNCTIONS = (
    "enqueue(text, jsonb, timestamptz, integer, text, text)",
    "enqueue_many(text[], text[], timestamptz[], interval[], timestamptz[], integer[], text[], text[])",
    "enqueue_calls(text[], text[], timestamptz[], interval[], timestamptz[], integer[], text[], text[],"
    " uuid[])",
    "enqueue_each(text[], text[], timestamptz[], interval[], timestamptz[], integer[], text[], text[],"
    " uuid[], text[])",
    "enqueue_unique(text, jsonb, text, text, text[], double precision, text, double precision,"
    " timestamptz, integer, text)",
    RESULT_FUNCTION,
    "cancel(text, uuid, text, text, text)",
    "run_now(text, uuid, text, text)",
)
# What an application that is trusted inserts and copies by itself, and what that asks of the tables.
FRESH_COLUMNS = (
    *("shard", "key", "queue", "id", "grp", "priority", "due_at", "expires_at", "version"),
    *("payload", "created_at", "changed_at"),
)
FRESH_FUNCTIONS = ("now()", "wake(text, timestamptz)")
PARAM_FUNCTIONS = (
    "advance_params(text[], text[], text[], boolean, text, text)",
    *(
        f"advance(text, {type}, text)"
        for type in ("timestamptz", "bigint", "integer", "text", "timestamp", "date", "numeric")
    ),
    *("refuse_zoneless(text, text)", "refuse_numeric(text, numeric)"),
)
REWIND_FUNCTIONS = (
    "rewind_param(text, text, text, bigint[], text, text)",
    *(
        f"rewind(text, {type}, text)"
        for type in ("timestamptz", "bigint", "integer", "text", "timestamp", "date")
    ),
)
OFFER_FUNCTIONS = (
    *("changed(text, text[], text[])", "offer(text, text, text, timestamptz)"),
    *("offer_changed(text, text[], text[])", "offer_entity(text, text, text, timestamptz)"),
    *("canonical_keys(text, text[])", "key_of(text)", "key_part(bigint, text, integer)"),
    *("key_expression(oid, text[], text)", "own_column(text, text, oid, boolean)"),
    "prints_equals_alike(oid, text[], text[])",
)
OPERATOR_FUNCTIONS = (
    "restart_visits(text, text, text, text, smallint, boolean)",
    "cancel_visits(integer[], text[], text[], text, boolean)",
    "call_off_visits(integer[], text[], text[], text, boolean, boolean)",
    "make_due(integer[], text[], text[])",
    "offer_operation(bigint, text)",
)
# Only the owner writes these: a worker that could would open the schema to others.
OWNERS_TABLES = ("migration", "install", "entry", "captured")


def quoted(name: str) -> str:
    """An identifier in SQL."""
    if not name or "\0" in name or len(name.encode()) > 63:
        raise InvalidSetting(f"a role's name must have 1 to 63 bytes, got {name!r}")
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _functions(functions: Sequence[str], role: str) -> str:
    listed = ",\n  ".join(f"mainspring.{function}" for function in functions)
    return f"grant execute on function {listed}\n  to {role};\n"


def _read(role: str) -> str:
    tables = ", ".join(f"mainspring.{table}" for table in READ_BY_ALL)
    return f"grant usage on schema mainspring to {role};\ngrant select on {tables} to {role};\n"


def enqueue(
    role: str, *, queues: Sequence[str] = (), trusted: bool = False, offers: bool = False
) -> str:
    """Enqueues tasks and asks for results by id, and has no right on any other table."""
    name = quoted(role)
    text = _read(name) + _functions(ENQUEUE_FUNCTIONS, name)
    for queue in queues:
        text += (
            "insert into mainspring.entry (queue, role)"
            f" values (E{_literal(queue)}, E{_literal(name)}) on conflict do nothing;\n"
        )
    if offers:
        text += _functions(OFFER_FUNCTIONS, name)
    if trusted:
        text += (
            f"grant insert ({', '.join(FRESH_COLUMNS)}) on mainspring.visit to {name};\n"
            f"grant select (name, pool) on mainspring.queue to {name};\n"
            f"grant select (id, asleep, pool) on mainspring.worker to {name};\n"
            f"grant select (queue, until) on mainspring.sleeper to {name};\n"
        ) + _functions(FRESH_FUNCTIONS, name)
    return text


def params(role: str, *, rewinds: bool = False) -> str:
    """Sets params, and (`rewinds`) moves them back."""
    name = quoted(role)
    text = _read(name) + (
        f"grant select (name, kind, num, ver, changed_at) on mainspring.param to {name};\n"
    )
    text += _functions(PARAM_FUNCTIONS, name)
    if rewinds:
        text += _functions(REWIND_FUNCTIONS, name) + (
            "grant select on mainspring.param, mainspring.uses, mainspring.reactive_task,"
            f" mainspring.definition to {name};\n"
        )
    return text


def worker(role: str) -> str:
    """Runs workers, and orders all that the command line can. It owns nothing."""
    name = quoted(role)
    owners = ", ".join(f"mainspring.{table}" for table in OWNERS_TABLES)
    return (
        f"grant usage on schema mainspring to {name};\n"
        f"grant select, insert, update, delete on all tables in schema mainspring to {name};\n"
        f"revoke insert, update, delete on {owners} from {name};\n"
        f"grant usage, select, update on all sequences in schema mainspring to {name};\n"
        f"grant execute on all functions in schema mainspring to {name};\n" + _no_triggers(name)
    )


def operator(role: str) -> str:
    """Reads everything; pauses, limits, restarts and cancels. It writes no payload, result or param."""
    name = quoted(role)
    return (
        f"grant usage on schema mainspring to {name};\n"
        f"grant select on all tables in schema mainspring to {name};\n"
        f"revoke select on mainspring.secret from {name};\n"
        "grant update (concurrency, rate, group_concurrency, group_rate, waiting_max, is_full, paused_at,"
        " burst, group_burst, breaker_failures, breaker_pause, paused_until, pause_reason, changed_at)"
        f" on mainspring.queue to {name};\n"
        f"grant insert, update, delete on mainspring.breaker to {name};\n"
        f"grant insert on mainspring.setting_change, mainspring.operation, mainspring.audit to {name};\n"
        f"grant update (state, changed_at, ended_at, error) on mainspring.operation to {name};\n"
        "grant update (changed_at, last_at, created_at, paused_at, paused_until, pause_reason, make_up,"
        " revision) on mainspring.recurring"
        f" to {name};\n"
        f"grant update (next, start) on mainspring.source_offset to {name};\n"
        f"grant delete, update (retry_at) on mainspring.source_reject to {name};\n"
        f"grant usage on all sequences in schema mainspring to {name};\n"
        + _INVOKER.replace("{role}", _literal(name))
        + _functions((*OPERATOR_FUNCTIONS, RESULT_FUNCTION), name)
    )


# What runs with the caller's rights gives no right: the operator's questions need some of these.
_INVOKER = """do $$
declare
  item record;
begin
  for item in
    select p.oid::regprocedure as name from pg_proc p
    where p.pronamespace = 'mainspring'::regnamespace and not p.prosecdef and p.prorettype <>
      'trigger'::regtype
  loop
    execute format('grant execute on function %s to %s', item.name, {role});
  end loop;
end
$$;
"""


def _no_triggers(name: str) -> str:
    return f"""do $$
declare
  item record;
begin
  for item in
    select p.oid::regprocedure as name from pg_proc p
    where p.pronamespace = 'mainspring'::regnamespace and p.prorettype = 'trigger'::regtype
  loop
    execute format('revoke execute on function %s from %s', item.name, {_literal(name)});
  end loop;
end
$$;
"""


def owner(role: str, *, database: str, migrator: str) -> str:
    """Owns the schema and nothing else; the migrator logs in and acts as it. Before the first migrate."""
    name, login = quoted(role), quoted(migrator)
    return (
        f"create role {name} nologin;\n"
        f"grant create on database {quoted(database)} to {name};\n"
        f"alter default privileges for role {name} revoke execute on functions from public;\n"
        f"create role {login} login;\n"
        f"grant {name} to {login};\n"
        f"alter role {login} set role = {name};\n"
        f"-- after the first mainspring migrate as {login}:\n"
        f"-- revoke create on database {quoted(database)} from {name};\n"
    )
