"""X4: a role that only enqueues cannot fill a queue without end (attacks 10 and 11)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from mainspring import Mainspring
from mainspring.db.database import Database
from mainspring.db.schema import rights
from mainspring.errors import InvalidSetting, QueueFull
from mainspring.jobs import flood
from mainspring.testing import wait_until
from roles import Roles, roles

MANY = "select * from mainspring.enqueue_many('{greet}', array['{}'], '{}', '{}', '{}', '{}', '{}', '{}')"
FILL = """
insert into mainspring.visit (shard, key, queue, id, version, due_at, payload)
select 1, 'k' || n, 'greet', gen_random_uuid(), n, now() + (n %% 2) * interval '1 hour', '{}'
from generate_series(1, %s) n
"""


@pytest.fixture
def cast(database_url: str) -> Iterator[Roles]:
    with roles(database_url) as found:
        found.make("web", rights.enqueue("{role}"))
        found.make("trusted", rights.enqueue("{role}", trusted=True))
        found.make("operator", rights.operator("{role}"))
        yield found
        found.run("delete from mainspring.visit; delete from mainspring.setting_change")


def application(url: str) -> Mainspring:
    app = Mainspring(url)

    @app.task
    async def greet(name: str = "") -> None: ...

    return app


async def look(cast: Roles) -> bool:
    """What a worker does now and then; whether the queue is full."""
    database = Database(cast.url)
    connection = await database.connect("side")
    try:
        await flood.mark(database, connection, days=30)
    finally:
        await connection.close()
    return bool(cast.value("select is_full from mainspring.queue where name = 'greet'"))


async def test_a_queue_that_is_full_refuses_who_only_enqueues(cast: Roles) -> None:
    """X4: by code and by words, one call or many; what is due later counts, and nobody else is refused."""
    await application(cast.url).migrate()
    async with application(cast.address("operator")) as asking:
        await asking.operator.limit("greet", waiting_max=10, source="ann")
        cast.owner.execute(FILL, (10,))
        assert await look(cast)

        with cast.session("web") as web:
            for call in ("select mainspring.enqueue('greet')", MANY):
                with pytest.raises(
                    psycopg.errors.ProgramLimitExceeded, match="task 'greet' is full"
                ):
                    web.execute(call.encode())
        async with application(cast.address("web")) as app:
            for refused in (
                app.find_task("greet").enqueue("x"),
                app.find_task("greet").enqueue_many([{}]),
            ):
                with pytest.raises(
                    QueueFull, match=r"full: 10 of its calls may wait; enqueue it again"
                ):
                    await refused
            with pytest.raises(QueueFull):
                app.find_task("greet").enqueue_sync("x")
        async with application(cast.address("trusted")) as app:
            await app.find_task("greet").enqueue("x")
        full = [f for f in await asking.operator.doctor() if f.name == "full"]
        assert [f.level for f in full] == ["warn"]
        assert "queue 'greet' is full: it lets 10 visits wait" in full[0].text


async def test_it_takes_calls_again_when_a_fifth_has_gone(cast: Roles) -> None:
    """X4: not with every run, or a flood would go on at the edge; another bound is counted anew."""
    await application(cast.url).migrate()
    async with application(cast.url) as asking:
        await asking.operator.limit("greet", waiting_max=10)
        cast.owner.execute(FILL, (9,))
        assert not await look(cast)
        cast.run("update mainspring.visit set key = 'x' || key")
        cast.owner.execute(FILL, (1,))
        assert await look(cast)
        cast.run("delete from mainspring.visit where key in ('xk1', 'xk2')")
        assert await look(cast), "8 of 10"
        cast.run("update mainspring.visit set parked_at = now() where key = 'xk3'")
        assert not await look(cast), "7, for what is parked does not wait"

        cast.owner.execute("update mainspring.visit set parked_at = null")
        await asking.operator.limit("greet", waiting_max=8)
        assert await look(cast)
        await asking.operator.limit("greet", waiting_max=None)
        assert not cast.value("select is_full from mainspring.queue where name = 'greet'")
        assert not await look(cast)
        assert cast.value("select count(*) from mainspring.setting_change") == 3
        for wrong in (0, 1.5, True, 10**7):
            with pytest.raises(InvalidSetting, match="waiting_max must be a whole number of 1 to"):
                await asking.operator.limit("greet", waiting_max=wrong)


async def test_a_worker_finds_it_full_by_itself(cast: Roles) -> None:
    app = application(cast.url)
    async with app:
        await app.migrate()
        later = app.find_task("greet").options(delay=timedelta(hours=1))
        await later.enqueue_many([{"name": str(n)} for n in range(5)])
        await app.operator.limit("greet", waiting_max=5)
        async with app.worker():
            found = "select is_full from mainspring.queue where name = 'greet'"
            await wait_until(lambda: cast.value(found), 20)
