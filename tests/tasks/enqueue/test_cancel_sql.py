"""select mainspring.cancel(...) and mainspring.run_now(...): by whoever may enqueue (T13)."""

from __future__ import annotations

import psycopg
import pytest

from mainspring.testing import run_until_idle


@pytest.fixture
def ask(database_url: str):
    with psycopg.connect(database_url, autocommit=True) as connection:

        def ask(query: str, *values: object) -> object:
            row = connection.execute(query, values).fetchone()
            return None if row is None else row[0]

        yield ask


async def test_a_call_is_cancelled_by_id_or_key(app, ask) -> None:
    """T13: cancel from plain SQL."""

    @app.task(name="mail")
    async def mail() -> None: ...

    await app.migrate()
    one = ask("select mainspring.enqueue('mail', due_at => now() + interval '1 day')")
    assert ask("select mainspring.cancel('mail', %s)", one) == "cancelled"
    assert ask("select mainspring.cancel('mail', %s)", one) == "cancelled"
    ask("select mainspring.enqueue('mail', due_at => now() + interval '1 day', key => 'k')")
    assert ask("select mainspring.cancel('mail', key => 'other')") is None
    assert ask("select mainspring.cancel('mail', key => 'k')") == "cancelled"
    in_group = ask(
        "select mainspring.enqueue('mail', due_at => now() + '1 day', grp => 'g', key => 'k')"
    )
    assert ask("select mainspring.cancel('mail', key => 'k')") is None
    assert ask("select mainspring.run_now('mail', key => 'k', grp => 'g')") == "waiting"
    await run_until_idle(app)
    assert ask("select mainspring.cancel('mail', %s, 'k', 'g')", in_group) == "done"


async def test_a_cancel_is_part_of_the_transaction(app, database_url: str, ask) -> None:
    @app.task(name="mail")
    async def mail() -> None: ...

    await app.migrate()
    one = ask("select mainspring.enqueue('mail', due_at => now() + interval '1 day')")
    with psycopg.connect(database_url) as connection:
        connection.execute("select mainspring.cancel('mail', %s)", (one,))
        connection.rollback()
    assert ask("select state from mainspring.result_of('mail', %s)", one) == "scheduled"


async def test_what_is_not_said_is_asked_for(app, ask) -> None:
    await app.migrate()
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="give its id or its key"):
        ask("select mainspring.cancel('mail')")


async def test_the_engine_s_own_queues_are_nobody_s(app, ask) -> None:
    await app.migrate()
    async with app.worker():
        ...
    with pytest.raises(
        psycopg.errors.UndefinedObject, match=r"unknown task 'mainspring\.operation'"
    ):
        ask("select mainspring.cancel('mainspring.operation', key => '1')")
