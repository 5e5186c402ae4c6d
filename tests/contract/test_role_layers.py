"""X4: every layer works under its role alone: a worker that is no member of the owner, callers without
tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from mainspring import Mainspring, Update
from mainspring.db.schema import rights
from mainspring.errors import InvalidArguments, MissingRights, NotFound
from mainspring.operate.history import HistoryFilter
from mainspring.operate.parked import ParkedFilter
from mainspring.reactive.model.triggers import Delta
from mainspring.retry_policy import RetryPolicy
from mainspring.tasks.declare.promise import Promise
from mainspring.testing import run_until_idle
from roles import Roles, roles


@pytest.fixture
def cast(database_url: str) -> Iterator[Roles]:
    with roles(database_url) as found:
        found.make("web", rights.enqueue("{role}", offers=True))
        found.make("trusted", rights.enqueue("{role}", trusted=True))
        found.make("loader", rights.params("{role}", rewinds=True))
        found.make("worker", rights.worker("{role}"))
        found.make("operator", rights.operator("{role}"))
        yield found


@asynccontextmanager
async def application(cast: Roles, role: str | None = None) -> AsyncIterator[Mainspring]:
    """The same code under a role; None: the owner's, to migrate."""
    app = Mainspring(cast.address(role) if role else cast.url)
    orders = app.data("dwh.orders").param("loaded_to", kind="integer")

    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    @app.task(retry=RetryPolicy(attempts=1))
    async def fail() -> None:
        raise RuntimeError("no")

    @app.task
    async def price(item: str) -> int:
        return len(item)

    @app.task
    async def total(prices: list[int]) -> int:
        return sum(prices)

    @app.process
    def order(items: list[str]) -> Promise[int]:
        return total([price(item) for item in items])

    @app.task(when=Delta(orders))
    async def load() -> None: ...

    async with app:
        yield app


@pytest.mark.parametrize("role", ["web", "trusted"])
async def test_a_task_is_enqueued_and_its_result_asked_for_without_reading_visits(
    cast: Roles, role: str
) -> None:
    """X4: one, one with a key, many, in the caller's transaction, and plain code."""
    async with application(cast) as owner:
        await owner.migrate()
    async with application(cast, role) as web, application(cast, "worker") as worker:
        greet = web.find_task("greet")
        first = await greet.enqueue("ann")
        keyed = await greet.options(key="k", group="g").enqueue("bob")
        again = await greet.options(key="k", group="g").enqueue("eve")
        many = await greet.enqueue_many([{"name": str(n)} for n in range(120)])
        few = await greet.options(delay=timedelta(seconds=0)).enqueue_many([{"name": "x"}] * 3)
        plain = greet.enqueue_sync("dora")
        with psycopg.connect(cast.address(role)) as connection:
            own = greet.options(on=connection).enqueue_sync("own")
        assert (keyed.is_new, again.is_new, again.id) == (True, False, keyed.id)
        assert await first.status() == "waiting"
        await run_until_idle(worker, lease=5.0)

        assert await first.result(timeout=5) == "hello ann"
        assert await keyed.result(timeout=5) == "hello bob"
        assert [await h.result(timeout=5) for h in (many[119], few[2], own)] == [
            "hello 119",
            "hello x",
            "hello own",
        ]
        assert plain.result_sync(timeout=5) == "hello dora"


async def test_what_a_caller_may_not_is_said_in_words(cast: Roles) -> None:
    async with application(cast, "web") as web:
        with pytest.raises(NotFound, match=r"unknown task 'greet', or the role may not enqueue it"):
            await web.find_task("greet").enqueue("ann")  # no worker has registered it
    async with application(cast) as owner:
        await owner.migrate()
    async with application(cast, "web") as web:
        with pytest.raises(InvalidArguments, match=r"must have at most 2097152 bytes|bytes"):
            await web.find_task("greet").enqueue("x" * 3_000_000)
    async with application(cast, "loader") as loader:
        with pytest.raises(MissingRights, match="mainspring rights enqueue ROLE"):
            await loader.find_task("greet").enqueue("ann")
        with pytest.raises(MissingRights, match="mainspring rights enqueue ROLE"):
            await loader.find_task("greet").enqueue_many([{"name": "ann"}] * 60)


async def test_processes_and_reactive_tasks_run_under_the_workers_role(cast: Roles) -> None:
    """X4: the worker owns nothing; a loader sets and moves back params and has no other right."""
    async with application(cast) as owner:
        await owner.migrate()
        await owner.reactive_apply()
    async with application(cast, "worker") as worker, application(cast, "loader") as loader:
        handle = await worker.find_process("order").start(["tea", "coffee"])
        assert await loader.advance("dwh.orders.loaded_to", 1)
        await run_until_idle(worker, lease=5.0)
        assert await handle.result(timeout=5) == 9
        assert await loader.rewind("dwh.orders.loaded_to", 0) is not None
        await run_until_idle(worker, lease=5.0)
        assert await worker.operator.doctor()
    ran = cast.value(
        "select count(*) from mainspring.history where queue like 'mainspring.run%' and outcome = 'done'"
    )
    assert ran >= 1


async def test_stages_run_under_the_workers_role(cast: Roles) -> None:
    """X4: it reads and writes the users' table, whose writers have no right of ours."""
    cast.run(
        "create table public.listing (id integer primary key, price integer not null default 0,"
        " rank integer not null default 0, version bigint not null default 1)"
    )
    cast.run(
        f"grant select, insert, update, delete on public.listing to {cast.name('worker')},"
        f" {cast.name('web')}"
    )

    def declared(app: Mainspring) -> Mainspring:
        kind = app.entities("listing", table="public.listing", key="id")

        @kind.stage(reads=["price"], writes=["rank"])
        async def rank(found: dict[str, Any]) -> Update:
            return Update({"rank": found["price"] * 2})

        return app

    async with application(cast) as owner:
        await declared(owner).migrate()
    with psycopg.connect(cast.address("web"), autocommit=True) as writer:
        writer.execute("insert into listing values (1, 5), (2, 7)")
        writer.execute("delete from listing where id = 2")
        writer.execute(
            "select mainspring.changed('listing', '{1}'), mainspring.offer('listing', '1')"
        )
    async with application(cast, "worker") as worker:
        await run_until_idle(declared(worker), lease=5.0)

    assert cast.value("select rank from listing") == 10
    assert cast.value("select count(*) from mainspring.visit where queue ~ '^listing'") == 0


async def test_an_operator_looks_at_everything_and_orders_what_it_may(cast: Roles) -> None:
    async with application(cast) as owner:
        await owner.migrate()
    async with application(cast, "worker") as worker, application(cast, "operator") as asking:
        failed = [await worker.find_task("fail").enqueue() for _ in range(4)]
        await run_until_idle(worker, lease=5.0)
        operator = asking.operator
        assert (await operator.status()).queues
        assert await operator.queues()
        assert await operator.history(HistoryFilter(queue="fail"))
        assert len(await operator.parked(ParkedFilter(queue="fail"))) == 4
        assert await operator.parked_groups()
        assert await operator.why("fail", failed[0].key)
        assert await operator.visits()
        assert await operator.recurring() == []
        assert await asking.metrics()
        assert await asking.reactive.tasks()
        assert await operator.processes.counters() is not None
        assert {f.level for f in await operator.doctor() if f.name == "exposed"} == {"ok"}

        await operator.pause("greet")
        await operator.limit("greet", source="ann", concurrency=3)
        await operator.resume("greet")
        await operator.restart("fail", failed[0].key)
        await operator.delete("fail", failed[1].key)
        begun = await operator.restart_parked(ParkedFilter(queue="fail"), source="ann")
        assert begun.id is not None
        await operator.pause_operation(begun.id)
        await operator.resume_operation(begun.id)
        await run_until_idle(worker, lease=5.0)
        assert (await operator.operation(begun.id)).state == "done"
        assert await failed[1].status() == "cancelled"
