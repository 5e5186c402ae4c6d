"""X4: every role of `mainspring rights` tries what it must not, as an attacker would, and is refused
by the right code.

42501 is insufficient_privilege, 42704 undefined_object (what is said of an unknown task), 22023 a bad
  value.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.db.schema import rights
from roles import Roles, roles

SECRET = "00000000-0000-7000-8000-000000000001"
TABLES = """
insert into mainspring.queue (name, kind) values ('greet', 'task'), ('wire', 'task'),
  ('mainspring.operation', 'operation'),
  ('thing', 'stage');
insert into mainspring.kind (name, source) values ('thing', 'dao');
insert into mainspring.visit (shard, key, queue, id, version, payload) values
  (1, 'secret', 'wire', '00000000-0000-7000-8000-000000000001', 1, '{"account": "ann"}');
insert into mainspring.param (name, kind, num) values ('dwh.orders', 'integer', 5);
create table public.goods (id integer primary key, version bigint not null default 1);
"""


@pytest.fixture
def cast(database_url: str) -> Iterator[Roles]:
    """A login of each role, a stranger with usage alone, and the owner of a captured table."""
    with roles(database_url) as found:
        found.run(TABLES)
        found.make("stranger", "grant usage on schema mainspring to {role}")
        for name, text in (
            ("web", rights.enqueue("{role}")),
            ("teller", rights.enqueue("{role}", queues=["wire"])),
            ("trusted", rights.enqueue("{role}", trusted=True)),
            ("loader", rights.params("{role}")),
            ("worker", rights.worker("{role}")),
            ("operator", rights.operator("{role}")),
        ):
            found.make(name, text)
        keeper = found.make("keeper", "grant usage, create on schema public to {role}")
        found.run(f"alter table public.goods owner to {keeper}")
        yield found
        found.run(
            "delete from mainspring.visit; delete from mainspring.kind; delete from mainspring.param"
        )


READ = [
    "visit",
    "history",
    "history_run",
    "visit_status",
    "param",
    "param_log",
    "state",
    "document",
    "entry",
    "captured",
]
CALLS = [
    "mainspring.end_entities('thing', '{1}')",
    "mainspring.offer_visits('greet', '{1}', '{\"{}\"}')",
    "mainspring.delete_visit('thing', '1', force => true)",
    "mainspring.wake('greet', now())",
    "mainspring.changed('thing', '{1}')",
    "mainspring.offer('thing', '1')",
    "mainspring.offer_changed('thing', '{1}', null)",
    "mainspring.offer_entity('thing', '1', null, null)",
    "mainspring.make_day('history_run', current_date)",
    "mainspring.drop_day('history_2001_01_01')",
    "mainspring.restart_visits('{1}', '[\"secret\"]', '[\"wire\"]', '{1}', null, false)",
    "mainspring.cancel_visits('{1}', '{secret}', '{wire}', '', false)",
    "mainspring.offer_operation(1, 'mainspring.operation')",
    "mainspring.take_over_stage('thing', 'a', 'b')",
]
OWNERS = [
    "create table mainspring.mine ()",
    "create or replace function mainspring.now() returns timestamptz language sql return clock_timestamp()",
    "alter table mainspring.visit add column mine int",
    "drop table mainspring.visit",
    "truncate mainspring.visit",
    "create trigger t before insert on mainspring.visit for each row execute function"
    " mainspring.add_to_history()",
    "insert into mainspring.migration values (9999, 'forged')",
    "update mainspring.install set shard_count = 1",
    "select from mainspring.install for update",
    "insert into mainspring.entry values ('wire', current_user::regrole)",
    "insert into mainspring.captured values ('pg_class', 'thing')",
    "delete from mainspring.entry",
    "alter schema mainspring owner to current_user",
    "create publication stolen for table mainspring.visit",
    "copy (select 1) to '/tmp/mainspring-stolen'",
    "copy (select 1) to program 'true'",
    "select pg_read_file('/etc/passwd')",
]
TRIGGERS = [
    f"create temp table t (id int); create trigger t after insert on t for each row execute"
    f" function mainspring.{name}()"
    for name in (
        "capture",
        "capture_row",
        "capture_clear",
        "capture_document",
        "clear_documents",
        "capture_left",
    )
]
ENTER = [
    "insert into mainspring.visit (shard, key, queue, id, version, payload) values (1, 'k',"
    " 'greet', gen_random_uuid(), 1, '{}')",
    "copy mainspring.visit (shard, key, queue, id, version, payload) from stdin",
    "copy mainspring.visit to stdout",
    "update mainspring.visit set payload = '{}'",
    "delete from mainspring.visit",
    "lock table mainspring.visit in access exclusive mode",
    "select from mainspring.visit for update",
]
NOT_PARAMS = [
    "select mainspring.advance('dwh.orders', 9)",
    "select * from mainspring.advance_params('{dwh.orders}', '{integer}', '{9}', false)",
    "select mainspring.rewind('dwh.orders', 1)",
    "update mainspring.param set num = 9",
    "delete from mainspring.param_log",
]
NOT_OPERATOR = [
    "update mainspring.queue set paused_at = now()",
    "insert into mainspring.operation (kind, source, filter) values ('delete_parked', 'me', '{}')",
    "delete from mainspring.recurring",
]
SET_ROLE = [
    "set role {worker}",
    "set role {operator}",
    "set session authorization postgres",
    "set role postgres",
]
DENIED = "42501"
NONE = ", ".join(["'{}'"] * 6)

ATTACKS: list[tuple[str, str, str]] = [
    *(
        (role, f"select * from mainspring.{table}", DENIED)
        for role in ("stranger", "web", "trusted")
        for table in READ
    ),
    *(
        ("loader", f"select * from mainspring.{table}", DENIED)
        for table in READ
        if table != "param"
    ),
    ("loader", "select changed_by from mainspring.param", DENIED),
    *((role, f"select {call}", DENIED) for role in ("stranger", "web", "loader") for call in CALLS),
    *(("trusted", f"select {call}", DENIED) for call in CALLS if "wake" not in call),
    *(
        (role, text, DENIED)
        for role in ("stranger", "web", "loader", "operator", "trusted", "worker")
        for text in OWNERS
    ),
    *(
        (role, text, DENIED)
        for role in ("stranger", "web", "trusted", "loader", "worker", "operator", "keeper")
        for text in TRIGGERS
    ),
    *((role, text, DENIED) for role in ("stranger", "web", "loader") for text in ENTER),
    *(("trusted", text, DENIED) for text in ENTER[2:]),
    *((role, text, DENIED) for role in ("stranger", "web", "trusted") for text in NOT_PARAMS),
    *(("loader", text, DENIED) for text in NOT_PARAMS[2:]),
    *(
        (role, text, DENIED)
        for role in ("stranger", "web", "trusted", "loader")
        for text in NOT_OPERATOR
    ),
    *(
        (role, text, DENIED)
        for role in ("stranger", "web", "trusted", "loader")
        for text in SET_ROLE
    ),
    ("operator", "set role {worker}", DENIED),
    ("worker", "set role postgres", DENIED),
    ("stranger", "select mainspring.enqueue('greet')", DENIED),
    ("stranger", f"select * from mainspring.result_of('wire', '{SECRET}', 'secret')", DENIED),
    # engine's, closed and unknown queues: in the same words
    *(
        ("web", f"select mainspring.enqueue('{queue}')", "42704")
        for queue in ("mainspring.operation", "wire", "thing", "nobody")
    ),
    *(
        ("web", f"select mainspring.enqueue_many('{{{queue}}}', array['{{}}'], {NONE})", "42704")
        for queue in ("mainspring.operation", "wire", "thing", "nobody")
    ),
    ("web", "select mainspring.enqueue('greet', due_at => 'infinity')", "22023"),
    ("web", "select mainspring.enqueue('greet', priority => 99)", "22023"),
    ("web", "select mainspring.enqueue('greet', '[]')", "22023"),
    ("web", "select mainspring.enqueue('greet', key => '')", "22023"),
    ("web", "select mainspring.enqueue('greet', grp => repeat('x', 256))", "22023"),
    (
        "web",
        "select mainspring.enqueue('greet', jsonb_build_object('x', repeat('x', 3000000)))",
        "22023",
    ),
    (
        "web",
        "select mainspring.enqueue('greet', (select jsonb_object_agg(n, gen_random_uuid()) from"
        " generate_series(1, 60000) n))",
        "22023",
    ),
    (
        "web",
        "select mainspring.enqueue_many(array_fill('greet'::text, array[300000]),"
        " array_fill('{}'::text, array[300000]),"
        " '{}', '{}', '{}', '{}', '{}', '{}')",
        "54000",
    ),
    *(
        ("web", f"select mainspring.enqueue_many('{{greet}}', {arguments})", "22023")
        for arguments in (
            "array['[]'], '{}', '{}', '{}', '{}', '{}', '{}'",
            "array[repeat('x', 3000000)], '{}', '{}', '{}', '{}', '{}', '{}'",
            "array['{}'], '{infinity}', '{}', '{}', '{}', '{}', '{}'",
            "array['{}'], '{}', '{}', '{}', '{99}', '{}', '{}'",
            "array['{}'], '{}', '{}', '{}', '{}', array[''], '{}'",
            "array['{}'], '{}', '{}', '{}', '{}', '{}', array[repeat('x', 1025)]",
        )
    ),
    # one who is trusted with new visits is not trusted with the rest of a row
    *(
        (
            "trusted",
            f"insert into mainspring.visit (shard, key, queue, id, version, payload, {column})"
            f" values (1, 'k', 'greet', gen_random_uuid(), 1, '{{}}', {value})",
            DENIED,
        )
        for column, value in (
            ("attempt", "2147483647"),
            ("parked_at", "now()"),
            ("pass", "1"),
            ("holder", "gen_random_uuid()"),
            ("crashes", "9"),
            ("error", "'x'"),
        )
    ),
    (
        "trusted",
        "insert into mainspring.visit (shard, key, queue, id, version, payload) values (1,"
        " 'secret', 'wire', gen_random_uuid(), 1, '{}')"
        " on conflict (shard, key, queue) do update set payload = '{}'",
        DENIED,
    ),
    (
        "trusted",
        "insert into mainspring.visit (shard, key, queue, id, version, payload) values (1, 'k',"
        " 'greet', gen_random_uuid(), 1, '{}')"
        " returning payload",
        DENIED,
    ),
    ("loader", "select mainspring.advance('dwh.orders', 1)", "22023"),  # back
    ("loader", "select mainspring.enqueue('greet')", DENIED),
    (
        "worker",
        "select mainspring.drop_day(to_char(now() at time zone 'UTC', '\"history_\"YYYY_MM_DD'))",
        "22023",
    ),
    ("worker", "select mainspring.drop_day('visit')", "22023"),
    (
        "worker",
        "select mainspring.drop_day('history_2001_01_01; drop table mainspring.visit')",
        "22023",
    ),
    ("worker", "select mainspring.make_day('visit', current_date)", "22023"),
    ("worker", "select mainspring.make_day('history_run', current_date + 400)", "22023"),
    ("operator", "update mainspring.visit set payload = '{}'", DENIED),
    ("operator", "insert into mainspring.history_run select * from mainspring.history_run", DENIED),
    ("operator", "update mainspring.setting_change set source = 'ann'", DENIED),
    ("operator", "delete from mainspring.setting_change", DENIED),
    ("operator", "update mainspring.param set num = 1", DENIED),
    ("operator", "select mainspring.advance('dwh.orders', 9)", DENIED),
    ("operator", "select mainspring.enqueue('greet')", DENIED),
    ("operator", "select mainspring.offer_visits('greet', '{1}', '{\"{}\"}')", DENIED),
    ("operator", "select mainspring.offer_operation(1, 'greet')", "42704"),
    *(("operator", text, DENIED) for text in ENTER[:2]),
    ("keeper", "select mainspring.now()", DENIED),
    ("keeper", "select * from mainspring.visit", DENIED),
]


def test_what_a_role_must_not_is_refused(cast: Roles) -> None:
    """X4: each in a transaction of its own, by its code: a wrong reason is no proof."""
    wrong = []
    for role in sorted({role for role, _, _ in ATTACKS}):
        with cast.session(role) as connection:
            for _, text, code in (attack for attack in ATTACKS if attack[0] == role):
                text = (
                    text.format(**{r: cast.name(r) for r in ("worker", "operator")})
                    if "set role {" in text
                    else text
                )
                found = "nothing"
                try:
                    with connection.transaction():
                        connection.execute(text.encode())
                        raise psycopg.Rollback
                except psycopg.Error as error:
                    found = error.sqlstate or type(error).__name__
                if found != code:
                    wrong.append((role, text, code, found))
    assert len(ATTACKS) >= 83
    assert not wrong, "\n".join(map(str, wrong))


MEANT: list[tuple[str, str]] = [
    ("web", "select mainspring.enqueue('greet', '{\"name\": \"ann\"}', key => 'k', grp => 'g')"),
    ("web", "select * from mainspring.result_of('greet', gen_random_uuid())"),
    ("teller", "select mainspring.enqueue('wire')"),
    (
        "trusted",
        "insert into mainspring.visit (shard, key, queue, id, version, payload, due_at,"
        " created_at, changed_at)"
        " values (1, 'k', 'greet', gen_random_uuid(), 1, '{}', mainspring.now(),"
        " mainspring.now(), mainspring.now())",
    ),
    (
        "loader",
        "select mainspring.advance('dwh.orders', 9), mainspring.advance('dwh.orders', '10')",
    ),
    ("worker", "select mainspring.make_day('history_run', current_date + 20)"),
    ("worker", "select mainspring.enqueue('greet')"),
    ("worker", "update mainspring.visit set due_at = now()"),
    ("operator", "update mainspring.queue set paused_at = now()"),
    ("operator", "select * from mainspring.violation"),
    (
        "operator",
        "select * from mainspring.cancel_visits('{1}', '{secret}', '{wire}', 'by hand', false)",
    ),
]


def test_what_a_role_is_for_it_may(cast: Roles) -> None:
    for role, text in MEANT:
        with cast.session(role) as connection, connection.transaction():
            connection.execute(text.encode())


def test_a_taken_key_keeps_its_first_arguments(cast: Roles) -> None:
    """X4: whoever comes second is told the id, and changes nothing."""
    with cast.session("web") as connection:
        first = connection.execute(
            "select mainspring.enqueue('greet', '{\"n\": 1}', key => 'k')"
        ).fetchone()
        second = connection.execute(
            "select mainspring.enqueue('greet', '{\"n\": 2}', key => 'k')"
        ).fetchone()
    assert first == second
    assert cast.value("select payload from mainspring.visit where queue = 'greet'") == {"n": 1}


def test_names_of_ones_own_change_nothing_in_a_definer_function(cast: Roles) -> None:
    """X4: temporary tables, types and functions of the caller's are looked for last, or not at all."""
    cast.run(
        f"grant temporary on database {cast.value('select current_database()')} to {cast.name('web')}"
    )
    with cast.session("web") as connection:
        for table in ("visit", "queue", "install", "entry"):
            connection.execute(
                f"create temp table {table} (name text, shard_count int, queue text, role text)".encode()
            )
        connection.execute(
            "create function pg_temp.now() returns timestamptz language sql return timestamptz 'infinity'"
        )
        connection.execute("create type pg_temp.uuid as (x int)")
        connection.execute("set search_path = pg_temp, mainspring, pg_catalog")
        assert connection.execute("select mainspring.enqueue('greet')").fetchone()
    assert cast.value("select count(*) from mainspring.visit where queue = 'greet'") == 1


async def test_a_day_of_history_belongs_to_the_owner(app: Mainspring, cast: Roles) -> None:
    """X6: a worker makes and drops it, and owns nothing."""
    with cast.session("worker") as connection:
        connection.execute("select mainspring.make_day('history_run', current_date + 20)")
    name = cast.value("select to_char(current_date + 20, '\"history_\"YYYY_MM_DD')")
    owner = cast.value(f"select relowner::regrole::text from pg_class where relname = '{name}'")
    assert owner == cast.value(
        "select nspowner::regrole::text from pg_namespace where nspname = 'mainspring'"
    )
    assert (
        cast.value(
            f"select count(*) from pg_class c join pg_roles r on r.oid = c.relowner where rolname"
            f" = '{cast.name('worker')}'"
        )
        == 0
    )
