"""X4, X4b: 83 attacks by real logins, each with its number; the last test counts them.

The roles are those of `mainspring rights`. What is refused is refused by the right code, for a wrong
reason is no proof: 42501 insufficient_privilege, 42704 what is said of an unknown task, 22023 a bad
value, 54000 too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.db.schema import rights
from mainspring.testing import TestServer
from roles import Roles, roles

T = TypeVar("T", bound=Callable[..., Any])
DENIED, UNKNOWN, BAD, TOO_MANY = "42501", "42704", "22023", "54000"
RIGHTS_PAGE = Path(__file__).parents[2] / "docs" / "operate" / "rights.md"
SECRET = "00000000-0000-7000-8000-000000000001"
SCENE = """
insert into mainspring.queue (name, kind) values ('greet', 'task'), ('wire', 'task'), ('brim', 'task'),
  ('mainspring.operation', 'operation');
update mainspring.queue set waiting_max = 1, is_full = true where name = 'brim';
insert into mainspring.visit (shard, key, queue, id, version, payload) values
  (1, 'secret', 'wire', '00000000-0000-7000-8000-000000000001', 1, '{"account": "ann"}');
insert into mainspring.param (name, kind, num) values ('dwh.orders', 'integer', 5);
create table public.goods (id integer primary key, price integer, version bigint not null default 1);
create table public.ware (id integer primary key, good integer references public.goods on delete set
  null, version bigint not null default 1);
create view public.some_goods as select * from public.goods;
analyze mainspring.visit;
"""
VISIT = "insert into mainspring.visit (shard, key, queue, id, version, payload{0}) values ({1}{2})"


def visit(column: str = "", value: str = "", *, shard: int = 1, queue: str = "greet") -> str:
    """A new visit by hand, with one column more."""
    row = f"{shard}, 'k', '{queue}', gen_random_uuid(), 1, '{{}}'"
    return VISIT.format(column and f", {column}", row, value and f", {value}")


def many(values: str) -> str:
    return (
        f"select mainspring.enqueue_many({values}, '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')"
    )


@pytest.fixture(scope="module")
def cast(mainspring_server: TestServer) -> Iterator[Roles]:
    """A login of each role, a stranger with usage alone, a writer and the owner of captured tables."""
    with mainspring_server.database() as url, roles(url) as found:
        found.run(SCENE)
        database = found.value("select current_database()")
        found.run(
            f"revoke temporary on database {database} from public"
        )  # as operate/rights.md says
        for name, text in (
            ("enqueue", rights.enqueue("{role}")),
            ("teller", rights.enqueue("{role}", queues=["wire"])),
            ("trusted", rights.enqueue("{role}", trusted=True)),
            ("params", rights.params("{role}")),
            ("worker", rights.worker("{role}")),
            ("operator", rights.operator("{role}")),
            ("usage", "grant usage on schema mainspring to {role};"),
        ):
            found.make(name, text)
        found.run(f"grant temporary on database {database} to {found.name('usage')}")
        owner = found.make("keeper", "grant usage, create on schema public to {role}")
        writer = found.make("writer")
        found.run(f"grant all on public.goods, public.ware, public.some_goods to {writer}")
        app = Mainspring(url)
        app.entities("good", table="public.goods", key="id")
        app.entities("ware", table="public.ware", key="id")
        app.migrate_sync()
        found.run(
            f"alter table public.goods owner to {owner}; alter table public.ware owner to {owner}"
        )
        found.run(f"alter view public.some_goods owner to {owner}")
        yield found
        found.run("delete from mainspring.entry")


class Attack(NamedTuple):
    number: int
    role: str
    what: str
    sql: str
    code: str = DENIED


REFUSED = [
    Attack(1, "enqueue", "read visits", "select * from mainspring.visit"),
    Attack(2, "enqueue", "read history", "select * from mainspring.history"),
    Attack(3, "enqueue", "read their state", "select * from mainspring.visit_status"),
    Attack(4, "enqueue", "insert", visit()),
    Attack(5, "enqueue", "copy in", "copy mainspring.visit (shard, key, queue, id) from stdin"),
    Attack(6, "enqueue", "copy out", "copy mainspring.visit to stdout"),
    Attack(
        7, "enqueue", "engine's queue", "select mainspring.enqueue('mainspring.operation')", UNKNOWN
    ),
    Attack(8, "enqueue", "closed queue", "select mainspring.enqueue('wire')", UNKNOWN),
    Attack(9, "enqueue", "unknown queue", "select mainspring.enqueue('nobody')", UNKNOWN),
    Attack(10, "enqueue", "full queue", "select mainspring.enqueue('brim')", TOO_MANY),
    Attack(10, "enqueue", "full queue, many", many("'{brim}', array['{}']"), TOO_MANY),
    Attack(
        *(11, "enqueue", "300,000 rows"),
        many("array_fill('greet'::text, array[300000]), array_fill('{}'::text, array[300000])"),
        TOO_MANY,
    ),
    Attack(
        *(12, "enqueue", "3 MB at random"),
        "select mainspring.enqueue('greet', (select jsonb_object_agg(n, gen_random_uuid()) from"
        " generate_series(1, 65000) n))",
        BAD,
    ),
    Attack(
        *(13, "enqueue", "3 MB compressible"),
        "select mainspring.enqueue('greet', jsonb_build_object('x', repeat('x', 3000000)))",
        BAD,
    ),
    Attack(14, "enqueue", "priority", "select mainspring.enqueue('greet', priority => 99)", BAD),
    Attack(
        15, "enqueue", "never due", "select mainspring.enqueue('greet', due_at => 'infinity')", BAD
    ),
    Attack(17, "enqueue", "end entities", "select mainspring.end_entities('good', '{1}')"),
    Attack(18, "enqueue", "offer", "select mainspring.offer_visits('greet', '{1}', '{\"{}\"}')"),
    Attack(19, "enqueue", "delete", "select mainspring.delete_visit('good', '1', force => true)"),
    Attack(20, "enqueue", "wake", "select mainspring.wake('greet', now())"),
    Attack(22, "enqueue", "temporary objects", "create temp table visit ()"),
    Attack(23, "enqueue", "advance", "select mainspring.advance('dwh.orders', 9)"),
    Attack(24, "enqueue", "pause", "update mainspring.queue set paused_at = now()"),
    Attack(25, "enqueue", "be the owner", "set role {owner}"),
    Attack(26, "enqueue", "be a worker", "set role {worker}"),
    Attack(27, "enqueue", "create a table", "create table mainspring.mine ()"),
    Attack(
        *(28, "enqueue", "create a function"),
        "create function mainspring.mine() returns int language sql return 1",
    ),
    Attack(
        *(29, "enqueue", "replace a function"),
        "create or replace function mainspring.now() returns timestamptz language sql return now()",
    ),
    Attack(
        *(30, "enqueue", "trigger"),
        "create trigger t before insert on mainspring.visit for each row execute function"
        " mainspring.add_to_history()",
    ),
    Attack(31, "enqueue", "lock", "lock table mainspring.visit in access exclusive mode"),
    Attack(32, "enqueue", "lock rows", "select from mainspring.visit for update"),
    Attack(33, "enqueue", "statistics", "select * from pg_statistic"),
    Attack(35, "enqueue", "server's file", "copy (select 1) to '/tmp/mainspring-stolen'"),
    Attack(35, "enqueue", "read a file", "select pg_read_file('/etc/passwd')"),
    Attack(36, "enqueue", "program", "copy (select 1) to program 'true'"),
    Attack(37, "usage", "read", "select * from mainspring.visit"),
    Attack(38, "usage", "enqueue", "select mainspring.enqueue('greet')"),
    *(
        Attack(
            *(39, "usage", f"definer trigger {name}"),
            "create temp table t (id int); create trigger t after insert on t for each row execute"
            f" function mainspring.{name}()",
        )
        for name in (
            *("capture", "capture_row", "capture_clear"),
            *("capture_document", "clear_documents", "capture_left"),
        )
    ),
    Attack(40, "usage", "say it changed", "select mainspring.changed('good', '{1}')"),
    Attack(
        *(41, "usage", "shadow"),
        "create temp table queue (name text); set search_path = pg_temp, mainspring;"
        " select mainspring.enqueue('greet')",
    ),
    Attack(42, "trusted", "attempt", visit("attempt", "2147483647")),
    Attack(43, "trusted", "parked", visit("parked_at", "now()")),
    Attack(
        *(47, "trusted", "read by on conflict"),
        visit() + " on conflict (shard, key, queue) do update set payload = excluded.payload",
    ),
    Attack(48, "trusted", "read by returning", visit() + " returning payload"),
    Attack(50, "trusted", "update", "update mainspring.visit set payload = '{}'"),
    Attack(50, "trusted", "lock", "lock table mainspring.visit in share mode"),
    Attack(52, "params", "rewrite a visit", "update mainspring.visit set payload = '{}'"),
    Attack(53, "params", "read", "select * from mainspring.visit"),
    Attack(54, "params", "enqueue", "select mainspring.enqueue('greet')"),
    Attack(55, "params", "update", "update mainspring.param set num = 9"),
    Attack(56, "params", "go back", "select mainspring.advance('dwh.orders', 1)", BAD),
    Attack(57, "params", "rewind", "select mainspring.rewind('dwh.orders', 1)"),
    Attack(58, "params", "erase the log", "delete from mainspring.param_log"),
    Attack(60, "worker", "be the owner", "set role {owner}"),
    Attack(61, "worker", "alter", "alter table mainspring.visit add column mine int"),
    Attack(
        *(62, "worker", "replace a function"),
        "create or replace function mainspring.now() returns timestamptz language sql return now()",
    ),
    Attack(
        *(63, "worker", "drop today"),
        "select mainspring.drop_day(to_char(now() at time zone 'UTC', '\"history_\"YYYY_MM_DD'))",
        BAD,
    ),
    Attack(64, "worker", "drop another table", "select mainspring.drop_day('visit')", BAD),
    Attack(
        *(65, "worker", "injected name"),
        "select mainspring.drop_day('history_2001_01_01; drop table mainspring.visit')",
        BAD,
    ),
    Attack(68, "worker", "forge", "insert into mainspring.migration values (9999, 'forged')"),
    Attack(
        69, "worker", "let in", "insert into mainspring.entry values ('wire', 'postgres'::regrole)"
    ),
    Attack(70, "worker", "register", "insert into mainspring.captured values ('pg_class', 'good')"),
    Attack(
        *(71, "worker", "trigger"),
        "create trigger t before insert on mainspring.visit for each row execute function"
        " mainspring.add_to_history()",
    ),
    Attack(72, "worker", "truncate", "truncate mainspring.visit"),
    Attack(73, "operator", "payload", "update mainspring.visit set payload = '{}'"),
    Attack(74, "operator", "insert", visit()),
    Attack(75, "operator", "history", "delete from mainspring.history_run"),
    Attack(76, "operator", "audit", "update mainspring.setting_change set source = 'ann'"),
    Attack(77, "operator", "open a queue", "delete from mainspring.entry"),
    Attack(79, "operator", "param", "update mainspring.param set num = 1"),
    Attack(81, "writer", "call the capture", "select mainspring.capture()"),
    Attack(
        *(82, "keeper", "trigger for another kind"),
        "create trigger t after insert on public.goods for each row execute function"
        " mainspring.capture_row('ware', '{{id}}', 'version', '{{}}', 'plain', 'quiet')",
    ),
    Attack(
        *(82, "keeper", "event trigger"),
        "create function public.seen() returns event_trigger language plpgsql as $$ begin end $$;"
        " create event trigger t on ddl_command_end execute function public.seen()",
    ),
]
MEANT = [
    Attack(49, "trusted", "insert", visit(), ""),
    Attack(49, "trusted", "wake", "select mainspring.wake('greet', mainspring.now())", ""),
    Attack(
        51, "trusted", "engine's queue: trusted is trusted", visit(queue="mainspring.operation"), ""
    ),
    Attack(59, "params", "advance", "select mainspring.advance('dwh.orders', 9)", ""),
    Attack(
        66, "worker", "a day", "select mainspring.make_day('history_run', current_date + 20)", ""
    ),
    Attack(67, "worker", "its tables", "update mainspring.visit set due_at = now()", ""),
    Attack(78, "operator", "pause", "update mainspring.queue set paused_at = now()", ""),
    Attack(78, "operator", "look", "select * from mainspring.visit, mainspring.history", ""),
]
covered: set[int] = {attack.number for attack in (*REFUSED, *MEANT)}


def attacks(*numbers: int) -> Callable[[T], T]:
    """The test carries out these."""
    covered.update(numbers)
    return lambda test: test


def carried_out(cast: Roles, role: str, text: str) -> str:
    """The code that it ends with, or nothing."""
    for name in ("owner", "worker"):
        who = "postgres" if name == "owner" else cast.name(name)
        text = text.replace(f"{{{name}}}", who)
    with cast.session(role) as connection:
        try:
            with connection.transaction():
                connection.execute(text.encode())
                raise psycopg.Rollback
        except psycopg.Error as error:
            return error.sqlstate or type(error).__name__
    return ""


@pytest.mark.parametrize(
    "attack", [*REFUSED, *MEANT], ids=lambda a: f"{a.number} {a.role} {a.what}"
)
def test_each_ends_as_it_must(cast: Roles, attack: Attack) -> None:
    """X4, X4b: refused by its code, or let through because the role is for it."""
    assert carried_out(cast, attack.role, attack.sql) == attack.code


@attacks(16)
def test_16_a_taken_key_keeps_its_first_arguments(cast: Roles) -> None:
    with cast.session("enqueue") as connection, connection.transaction(force_rollback=True):
        call = "select mainspring.enqueue('greet', %s, key => 'k')"
        first = connection.execute(call, ('{"n": 1}',)).fetchone()
        assert connection.execute(call, ('{"n": 2}',)).fetchone() == first


@attacks(21)
def test_21_an_id_of_another_queue_tells_nothing(cast: Roles) -> None:
    asked = f"select * from mainspring.result_of('greet', '{SECRET}', 'secret')"
    with cast.session("enqueue") as connection:
        assert connection.execute(asked.encode()).fetchall() == []


@attacks(33)
@pytest.mark.parametrize("role", ["enqueue", "trusted", "params", "usage"])
def test_33_column_statistics_show_no_payload(cast: Roles, role: str) -> None:
    asked = (
        "select count(*) from {} where schemaname = 'mainspring'"
        " and tablename in ('visit', 'history_run', 'history_bundle')"
    )
    assert cast.value(asked.format("pg_stats")) > 0
    with cast.session(role) as connection:
        for view in ("pg_stats", "pg_stats_ext", "pg_stats_ext_exprs"):
            assert connection.execute(asked.format(view).encode()).fetchone() == (0,), view


@attacks(34)
def test_34_large_objects_are_open_until_they_are_revoked_as_we_advise(cast: Roles) -> None:
    makes = ["select lo_from_bytea(0, 'x')", "select lo_create(0)", "select lo_creat(-1)"]
    assert [carried_out(cast, "enqueue", text) for text in makes] == ["", "", ""]
    advice = [
        line.removeprefix("- ").split("`")[1]
        for line in RIGHTS_PAGE.read_text().splitlines()
        if "lo_from_bytea" in line
    ]

    cast.run(advice[0])

    assert [carried_out(cast, "enqueue", text) for text in makes] == [DENIED] * 3


@attacks(44, 45, 46)
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (visit(shard=-1), "a visit lies outside the shards"),
        (visit(shard=70_000), "a visit lies outside the shards"),
        (visit(shard=5_000), "a visit lies outside the shards"),
        (visit("priority", "-5"), "a visit can never be read"),
        (visit("due_at", "'4000-01-01 BC'"), "a visit can never be read"),
    ],
    ids=["44 shard -1", "45 shard 70000", "45 shard 5000", "46 priority -5", "46 due 4000 BC"],
)
def test_44_to_46_a_bad_row_of_a_trusted_role_is_let_in_and_named(
    cast: Roles, text: str, rule: str
) -> None:
    """X3: a check for each would cost every insert; test_poison_rows.py shows that nobody is stopped."""
    with cast.session("trusted") as connection:
        connection.execute(text.encode())
    try:
        named = cast.value("select rule from mainspring.violation")
        assert named.startswith(rule)
    finally:
        cast.run("delete from mainspring.visit where queue = 'greet'")


WRITES = [
    ("insert into public.goods values (1)", "good"),
    ("insert into public.some_goods values (2)", "good"),
    ("insert into public.ware values (1, 1)", "ware"),
    ("update public.some_goods set price = 2 where id = 2", "good"),
    ("delete from public.goods where id = 1", "ware"),  # by the cascade
]


@attacks(80)
def test_80_what_a_writer_without_rights_writes_is_seen(cast: Roles) -> None:
    """By a view, under row security, by a cascade; though it says that it is the engine."""
    cast.run(
        "alter table public.goods enable row level security; create policy p on public.goods using (true)"
    )
    for text, kind in WRITES:
        cast.run("delete from mainspring.visit where queue in ('good', 'ware')")
        with cast.session("writer") as connection:
            connection.execute("set mainspring.engine = 'on'")
            connection.execute(text.encode())
        seen = f"select count(*) from mainspring.visit where queue = '{kind}'"
        assert cast.value(seen) >= 1, text
    cast.run("delete from mainspring.visit where queue in ('good', 'ware')")


@attacks(83)
def test_83_the_owner_of_a_table_runs_nothing_as_the_owner_of_the_schema(cast: Roles) -> None:
    """Triggers renamed, a type of his own with casts that note who runs them; test_definer.py has more."""
    with cast.session("keeper") as connection:
        connection.execute(
            "create type public.mood as enum ('calm', 'wild');"
            "create function public.note(public.mood) returns json language plpgsql as $$ begin"
            " perform set_config('keeper.seen', current_user, false); return '1'; end $$;"
            "create cast (public.mood as json) with function public.note(public.mood);"
            "alter table public.goods add column mood public.mood default 'calm';"
        )
        names = connection.execute(
            "select tgname from pg_trigger where tgrelid = 'public.goods'::regclass and not tgisinternal"
        ).fetchall()
        for (name,) in names:
            connection.execute(
                f'alter trigger "{name}" on public.goods rename to "x{name}"'.encode()
            )
        connection.execute("insert into public.goods (id) values (7), (8)")
        connection.execute(
            "update public.goods set mood = 'wild'; delete from public.goods where id = 8"
        )
        row = connection.execute("select current_setting('keeper.seen', true)").fetchone()
    assert row is not None
    assert row[0] in (None, "", cast.name("keeper"))
    assert cast.value("select count(*) from mainspring.visit where queue = 'good'") >= 1


def test_all_83_are_carried_out() -> None:
    assert covered == set(range(1, 84))
