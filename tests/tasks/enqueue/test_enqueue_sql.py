"""select mainspring.enqueue(...): the same from plain SQL (T8)."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.ids import shard_of
from mainspring.testing import run_until_idle
from visits import queue


@pytest.fixture
async def greet(app: Mainspring):
    called: list[str] = []

    @app.task
    async def greet(name: str = "world") -> str:
        called.append(name)
        return f"hello {name}"

    await app.migrate()
    return called


@pytest.fixture
def db(database_url: str, greet):
    with psycopg.connect(
        database_url, autocommit=True, row_factory=psycopg.rows.dict_row
    ) as connection:
        yield connection


def enqueue(db, arguments: str, *values) -> str:
    found = db.execute(f"select mainspring.enqueue({arguments}) as id", values).fetchone()
    return str(found["id"])


async def test_a_task_that_sql_enqueued_runs(app, db, greet) -> None:
    enqueue(db, """'greet', '{"name": "ann"}'""")

    await run_until_idle(app)

    assert greet == ["ann"]


async def test_arguments_may_be_left_out(app, db, greet) -> None:
    enqueue(db, "'greet'")

    await run_until_idle(app)

    assert greet == ["world"]


async def test_a_new_priority_leaves_an_operators_limits_alone(app, db, visits) -> None:
    """T8, T13: a release that declares one, or declares it for the first time, changes nothing else."""
    visits.register(queue("tidy"))
    await app.operator.limit("tidy", concurrency=2)

    visits.register(queue("tidy", priority=1))

    enqueue(db, "'tidy'")
    assert visits.value("select priority from mainspring.visit where queue = 'tidy'") == 1
    assert visits.value("select concurrency from mainspring.queue where name = 'tidy'") == 2
    visits.register(queue("tidy", priority=1, concurrency=3))
    assert visits.value("select concurrency from mainspring.queue where name = 'tidy'") == 3


async def test_without_a_priority_a_task_has_the_one_it_declares(app, db) -> None:
    """T8: wherever it is enqueued; background work must not come before the rest from SQL."""

    @app.task(priority=1)
    async def tidy() -> None: ...

    await app.migrate()
    enqueue(db, "'tidy'")
    enqueue(db, "'tidy', priority => 7")
    await tidy.enqueue()

    rows = db.execute("select priority from mainspring.visit order by created_at").fetchall()
    assert [row["priority"] for row in rows] == [1, 7, 1]


def test_every_option_is_stored(db) -> None:
    id = enqueue(
        db, "'greet', '{}', due_at => '2040-01-01Z', priority => 9, grp => 'g', key => 'k'"
    )

    row = db.execute("select * from mainspring.visit").fetchone()
    assert (str(row["id"]), row["priority"], row["grp"], row["key"]) == (id, 9, "g", "1:g:k")
    assert row["due_at"] == datetime(2040, 1, 1, tzinfo=UTC)
    assert row["shard"] == shard_of("g", 1024)


async def test_python_and_sql_agree_on_a_key(app, db) -> None:
    first = enqueue(db, "'greet', key => 'k', grp => 'é'")

    second = await app.tasks["greet"].options(key="k", group="é").enqueue()

    assert (second.id, second.is_new) == (first, False)
    assert enqueue(db, "'greet', key => 'k', grp => 'é'") == first


def test_it_is_part_of_the_caller_s_transaction(db) -> None:
    with db.transaction(force_rollback=True):
        enqueue(db, "'greet'")

    assert db.execute("select count(*) as n from mainspring.visit").fetchone()["n"] == 0


def test_a_trigger_may_enqueue(db) -> None:
    db.execute("create table customer (name text)")
    db.execute(
        "create function welcome() returns trigger language plpgsql as $$ begin"
        " perform mainspring.enqueue('greet', jsonb_build_object('name', new.name));"
        " return new; end $$"
    )
    db.execute("create trigger t after insert on customer for each row execute function welcome()")

    db.execute("insert into customer values ('ann'), ('bob')")

    names = db.execute("select payload ->> 'name' as n from mainspring.visit order by 1").fetchall()
    assert [row["n"] for row in names] == ["ann", "bob"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'gret'", "unknown task 'gret'"),
        ("'greet', '[1]'", "must be a JSON object, got array"),
        ("'greet', 'null'", "must be a JSON object, got null"),
        ("'greet', null", "must be a JSON object"),
        ("'greet', due_at => 'infinity'", "must be before the year 9999, got infinity"),
        ("'greet', due_at => '20000-01-01'", "must be before the year 9999, got 20000"),
        ("'greet', priority => 10", "must be 0 to 9, got 10"),
        ("'greet', priority => -1", "must be 0 to 9, got -1"),
        ("'greet', key => ''", "1 to 1024 bytes"),
        ("'greet', key => repeat('x', 1025)", "1 to 1024 bytes, got 1025"),
        ("'greet', grp => ''", "1 to 255 bytes"),
        ("'greet', grp => repeat('x', 256)", "1 to 255 bytes, got 256"),
        (
            "'greet', jsonb_build_object('name', repeat('x', 2100000))",
            "the limit is 2097152",
        ),
    ],
)
def test_bad_input_is_refused_with_its_value(db, arguments: str, message: str) -> None:
    with pytest.raises(psycopg.Error, match=message):
        enqueue(db, arguments)

    assert db.execute("select count(*) as n from mainspring.visit").fetchone()["n"] == 0


def test_an_unknown_task_suggests_the_nearest_and_says_what_to_do(db) -> None:
    with pytest.raises(psycopg.errors.UndefinedObject) as caught:
        enqueue(db, "'gret'")

    assert "did you mean 'greet'" in caught.value.diag.message_hint
    assert "mainspring migrate" in caught.value.diag.message_hint


@pytest.mark.parametrize("name", ["gr", "hello", "great_expectations"])
def test_an_unknown_task_that_is_like_none_suggests_none(db, name: str) -> None:
    with pytest.raises(psycopg.errors.UndefinedObject) as caught:
        enqueue(db, "%s", name)

    assert "did you mean" not in caught.value.diag.message_hint
    assert "mainspring migrate" in caught.value.diag.message_hint


@pytest.mark.parametrize("path", ["public", "pg_catalog", "pg_temp"])
def test_the_caller_s_search_path_does_not_matter(db, path: str) -> None:
    db.execute(f"set search_path = {path}")

    assert enqueue(db, "'greet', key => 'k'")
