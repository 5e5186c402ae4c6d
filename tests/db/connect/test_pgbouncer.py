"""Behind PgBouncer in transaction mode all works by polling, and nothing belongs to a session.

The server logs every statement: that shows named prepared statements, session settings and LISTEN.
Its role has `synchronous_commit` off, and triggers note what was in force at each of our writes.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mainspring import Context, Mainspring, RetryPolicy, Saved, Update
from mainspring.db.connect.outage import is_transient
from mainspring.db.database import probe
from mainspring.embedded.server import EmbeddedServer
from mainspring.tasks.run.connections import _RESET_LOCAL
from mainspring.testing import wait_until
from servers import PgBouncer, pgbouncer_path

pytestmark = pytest.mark.skipif(
    pgbouncer_path() is None, reason="PgBouncer is neither installed nor to be had from apt"
)

WORKER: dict[str, Any] = {"lease": 1.0, "poll": 0.1, "grace": 5.0}

_NOTES = """
create table public.setting (place text, value text);
create function note() returns trigger language plpgsql as $$
begin
  insert into public.setting
  values (tg_table_name || ' ' || tg_op, current_setting('synchronous_commit'));
  return null;
end $$;
create trigger note after insert or update or delete on mainspring.visit
  for each statement execute function note();
create trigger note after insert or update or delete on mainspring.worker
  for each statement execute function note();
create trigger note after update on mainspring.lease for each statement execute function note();
create table effect (n integer);
"""
_PLACES = {"visit INSERT", "visit UPDATE", "visit DELETE", "lease UPDATE"}
_PLACES |= {"worker INSERT", "worker UPDATE", "worker DELETE"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(
        tmp_path_factory.mktemp("pgbouncer") / "m",
        bin_dir=Path(os.environ["MAINSPRING_TEST_BIN"])
        if "MAINSPRING_TEST_BIN" in os.environ
        else None,
        settings={"fsync": "off", "log_statement": "all", "log_line_prefix": "[%d] "},
    )
    server.start()
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("alter role postgres set synchronous_commit = off")
    yield server
    server.stop(fast_seconds=2)


@pytest.fixture(scope="module")
def bouncer(server: EmbeddedServer) -> Iterator[PgBouncer]:
    with PgBouncer(server.url()) as bouncer:
        yield bouncer


@pytest.fixture
def name(request: pytest.FixtureRequest, server: EmbeddedServer) -> str:
    """A database of the test's own."""
    name = re.sub(r"\W+", "_", request.node.name)[:50]
    server.create_database(name)
    return name


@pytest.fixture
async def app(bouncer: PgBouncer, name: str) -> AsyncIterator[Mainspring]:
    """A migrated application behind the pooler."""
    app = Mainspring(bouncer.url(name))
    declare(app)
    await app.migrate()
    async with app:
        yield app


def declare(app: Mainspring) -> None:
    async def double(n: int) -> int:
        return 2 * n

    async def effect(ctx: Context, n: int) -> None:
        async with ctx.transaction() as connection:
            await connection.execute("insert into effect values (%s)", (n,))

    def effect_in_thread(ctx: Context, n: int) -> None:
        with ctx.transaction() as connection:
            connection.execute("insert into effect values (%s)", (n,))

    async def second_time(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise ValueError("the first time it fails")
        return ctx.attempt

    async def held() -> None:
        await asyncio.sleep(0.3)

    for function in (double, effect, effect_in_thread):
        app.task(function)
    app.task(retry=RetryPolicy(first=0.05, most=0.1))(second_time)
    app.task(hold_after=0.05)(held)


def read(server: EmbeddedServer, name: str, query: str) -> list[Any]:
    with psycopg.connect(server.url(name), autocommit=True) as connection:
        return connection.execute(query).fetchall()  # type: ignore[arg-type]


def statements(server: EmbeddedServer, name: str) -> list[str]:
    """What the server was asked in a database: 'execute <unnamed>: select ...' and the like."""
    lines = server.log.read_text(errors="replace").split(f"[{name}] LOG:  ")[1:]
    return [line.split("\n[")[0].split("\nDETAIL")[0] for line in lines]


def of_a_session(asked: list[str]) -> list[str]:
    """Those that leave something in the session: names, settings, LISTEN. A task's transaction ends by
    undoing what it may have set there."""
    asked = [s.replace(_RESET_LOCAL, "") for s in asked]
    named = re.compile(r"execute (?!<unnamed>)")
    # The encoding is set by PgBouncer itself, when drivers that spell it differently take turns.
    sets = re.compile(
        r"[:;]\s*(?:re)?set\s+(?!local\b|constraints\b|client_encoding\b)|set_config\((?!(?:[^()]|\([^()]*\))*,\s*true\))",
        re.I,
    )
    speaks = re.compile(r":\s*(?:un)?listen\b", re.IGNORECASE)
    return [s for s in asked if named.match(s) or sets.search(s) or speaks.search(s)]


async def test_a_pooler_is_recognised_and_a_direct_connection_is_not_one(
    server: EmbeddedServer, bouncer: PgBouncer, name: str
) -> None:
    direct = await probe(server.url(name))
    pooled = await asyncio.gather(*(probe(bouncer.url(name)) for _ in range(20)))

    assert not direct.pooled
    assert all(database.pooled for database in pooled)


async def test_the_whole_story_works_by_polling(
    app: Mainspring, server: EmbeddedServer, bouncer: PgBouncer, name: str
) -> None:
    """Enqueued in every way, run, retried, held, committed with its own SQL, and settled."""
    with psycopg.connect(server.url(name), autocommit=True) as connection:
        connection.execute(_NOTES)
    tasks = app.tasks

    async with app.worker(**WORKER) as worker:
        await worker.ready()
        handles = [await tasks["double"].enqueue(n=1)]
        handles += [await asyncio.to_thread(tasks["double"].enqueue_sync, n=2)]
        handles += await tasks["double"].enqueue_many({"n": n} for n in range(3, 103))
        handles += await tasks["double"].options(key="k").enqueue_many([{"n": 103}, {"n": 103}])
        async with await psycopg.AsyncConnection.connect(
            bouncer.url(name), prepare_threshold=None
        ) as own:
            handles += [await tasks["double"].options(on=own).enqueue(n=104)]
        with psycopg.connect(bouncer.url(name), prepare_threshold=None) as plain:
            handles += [tasks["double"].options(on=plain).enqueue_sync(n=105)]
            plain.execute("select mainspring.enqueue('double', '{\"n\": 106}')")
        others = [
            await tasks["effect"].enqueue(n=1),
            await tasks["effect_in_thread"].enqueue(n=2),
            await tasks["second_time"].enqueue(),
            await tasks["held"].enqueue(),
        ]

        results = [await handle.result(timeout=10) for handle in handles]
        ends = [await handle.result(timeout=10) for handle in others]
        await worker.drained()

    assert [2 * n for n in [*range(1, 104), 103, 104, 105]] == results
    assert ends == [None, None, 2, None]
    assert read(server, name, "select n from effect order by n") == [(1,), (2,)]
    assert read(server, name, "select * from mainspring.violation") == []
    assert read(
        server,
        name,
        "select count(*), count(distinct id) from mainspring.history where queue = 'double'",
    ) == [(106, 106)]
    noted = read(server, name, "select place, value, count(*) from setting group by 1, 2")
    assert {place for place, value, _ in noted if value == "on"} == _PLACES
    # The three calls on the caller's own connections, in its transactions, with its settings.
    assert [(place, n) for place, value, n in noted if value == "off"] == [("visit INSERT", 3)]
    assert of_a_session(statements(server, name)) == []


async def test_stages_work_by_polling(
    server: EmbeddedServer, bouncer: PgBouncer, name: str
) -> None:
    """S21: captured, asked, saved with state and event, timed, crawled; nothing is left in a session."""
    with psycopg.connect(server.url(name), autocommit=True) as connection:
        connection.execute(
            "create table thing (id timestamptz primary key, a integer not null default 0, "
            "b integer not null default 0, version bigint not null default 1)"
        )
    app = Mainspring(bouncer.url(name))
    kind = app.entities("thing", table="public.thing", key="id")
    saved = []

    class Double:
        async def process(self, thing: dict[str, Any], state: int | None) -> Update:
            return Update(b=2 * thing["a"], state=(state or 0) + 1)

        async def saved(self, event: Saved) -> None:
            saved.append(event.changed.get("b"))

    kind.stage(name="double", reads=["a"], writes=["b"])(Double)
    await app.migrate()

    async with app, app.worker(**WORKER) as worker:
        await worker.ready()
        with psycopg.connect(server.url(name), autocommit=True) as user:
            user.execute("set datestyle = 'German'")  # a key prints the same all the same
            user.execute("insert into thing (id, a) values ('2026-03-29 01:30+00', 1)")
            await wait_until(lambda: saved == [[0, 2]])
            user.execute("update thing set a = 2")
            await wait_until(lambda: len(saved) == 2)
        key = "2026-03-29 01:30:00+00"
        await kind.edit(key, lambda thing: Update(a=thing["a"] + 1))
        await wait_until(lambda: len(saved) == 3)
        value, version = await kind.state("double", key)
        changed = await kind.set_state("double", key, 7, version)
        await kind.crawl()
        await worker.drained()

    assert (value, changed) == (3, True)
    assert saved[:3] == [[0, 2], [2, 4], [4, 6]]
    assert set(map(str, saved[3:])) == {"None"}  # the state alone: after the change from outside
    assert read(server, name, "select b, version from thing") == [(6, 6)]
    assert read(server, name, "select count(*) from mainspring.visit") == [(0,)]
    asked = [s for s in statements(server, name) if "'German'" not in s]
    assert of_a_session(asked) == []


async def test_on_a_direct_connection_names_settings_and_listen_are_used(
    server: EmbeddedServer, name: str
) -> None:
    """The control of the test above: what it looks for is seen in the server's log."""
    app = Mainspring(server.url(name))
    declare(app)
    await app.migrate()

    async with app, app.worker(**WORKER) as worker:
        for n in range(10):
            handle = await app.tasks["double"].enqueue(n=n)
        await handle.result(timeout=10)
        await worker.ready()

    seen = of_a_session(statements(server, name))
    assert any(s.startswith("execute __asyncpg_stmt") for s in seen)
    assert any("LISTEN" in s for s in seen)


async def test_what_a_task_does_to_its_session_reaches_no_other_client(
    app: Mainspring, server: EmbeddedServer, bouncer: PgBouncer, name: str
) -> None:
    """T9: the session behind a pooler is everybody's."""

    @app.task(retry=RetryPolicy(attempts=1))
    def leave(ctx: Context) -> None:
        with ctx.transaction() as connection:
            connection.execute("set search_path = 'tenant_a'")
            connection.execute("set work_mem = '1MB'")
            connection.execute("create temp table t_leak (n integer)")

    handles = await leave.enqueue_many({} for _ in range(5))
    async with app.worker(**WORKER):
        for handle in handles:
            await handle.result(timeout=10)
    asked = "show search_path; show work_mem; select to_regclass('pg_temp.t_leak') is null"
    found = set()
    with ExitStack() as stack:
        for _ in range(20):  # as many as the pooler has
            other = psycopg.connect(bouncer.url(name), prepare_threshold=None)
            stack.enter_context(other)
            cursor = other.execute(asked.encode())
            found.add(tuple(row for results in cursor.results() for row in results.fetchall()))

    assert found == {(('"$user", public',), ("4MB",), (True,))}


async def test_two_workers_share_the_work(
    app: Mainspring, bouncer: PgBouncer, server: EmbeddedServer, name: str
) -> None:
    other = Mainspring(bouncer.url(name))
    declare(other)

    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(app.worker(**WORKER, concurrency=2))
        await first.ready()
        await stack.enter_async_context(other)
        second = await stack.enter_async_context(other.worker(**WORKER, concurrency=2))
        await wait_until(lambda: bool(second.owned.shards) and len(first.owned.shards) == 512, 10)
        handles = await app.tasks["double"].enqueue_many({"n": n} for n in range(200))
        results = [await handle.result(timeout=10) for handle in handles]

    assert [2 * n for n in range(200)] == results
    assert read(
        server, name, "select count(distinct id), count(distinct worker_id) from mainspring.history"
    ) == [(200, 2)]
    assert of_a_session(statements(server, name)) == []


async def test_a_pooler_that_goes_and_comes_back_loses_nothing(
    server: EmbeddedServer, name: str
) -> None:
    with PgBouncer(server.url()) as bouncer:
        app = Mainspring(bouncer.url(name))
        declare(app)
        await app.migrate()
        async with app, app.worker(**WORKER) as worker:
            await worker.ready()
            await app.tasks["double"].enqueue(n=1)
            began = time.monotonic()
            bouncer.restart()
            handle = await retried(lambda: app.tasks["double"].enqueue(n=2))

            assert await handle.result(timeout=10) == 4
            assert time.monotonic() - began < 10
            await worker.drained()
    assert read(server, name, "select key from mainspring.visit") == []


async def retried(act: Callable[[], Any]) -> Any:
    """Call until it goes through: a client's own business after an outage."""
    found: list[Any] = []

    async def tried() -> bool:
        try:
            found.append(await act())
        except Exception as error:
            if not is_transient(error):
                raise
        return bool(found)

    await wait_until(tried, 10)
    return found[0]


async def test_an_order_on_a_process_is_marked_before_it_waits(
    app: Mainspring, server: EmbeddedServer, name: str
) -> None:
    """P13: decisions leave a process alone that somebody wants to change; they must see that."""

    @app.process
    def order() -> None: ...

    handle = await order.start()
    with psycopg.connect(server.url(name)) as decision:
        decision.execute("select from mainspring.process for key share")
        cancelled = asyncio.create_task(app.operator.processes.cancel(handle.id))
        marked = "select 1 from mainspring.process where closing_at is not null"
        await wait_until(lambda: bool(read(server, name, marked)), 8)
    assert (await cancelled).done
