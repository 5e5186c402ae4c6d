"""T8, S20, R1: every verb that writes takes every library's connection, and is part of its transaction."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from callers import ASYNC, SYNC, configured

from mainspring import Mainspring, Update
from mainspring.entities.kind import Kind

# What each verb leaves: a name, and whether it is there.
_LEFT = """
select 'visits', count(*) from mainspring.visit
union all select 'cancelled', count(*) from mainspring.history where outcome = 'cancelled'
union all select 'now', count(*) from mainspring.visit where queue = 'later' and due_at <= mainspring.now()
union all select 'param', count(*) from mainspring.param where num is not null
union all select 'processes', count(*) from mainspring.process
union all select 'signals', count(*) from mainspring.signal
union all select 'documents', count(*) from mainspring.document
union all select 'states', count(*) from mainspring.state
"""


class Scene:
    """An application with something of every layer, and calls that verbs are about."""

    def __init__(self, app: Mainspring, url: str) -> None:
        self.app, self.url = app, url

        @app.task
        async def note(n: int) -> None: ...

        @app.task
        async def later(n: int) -> None: ...

        @app.process
        async def wait(n: int) -> Any:
            return go.wait()

        go = self.go = app.signal("go", int)
        self.note, self.later, self.wait = note, later, wait
        self.rows = app.data("shop").param("rows", kind="integer")
        self.listing: Kind[Any] = app.entities("listing", table="public.listing")
        self.drafts = app.documents("draft")

        @self.listing.stage
        async def look(entity: Any) -> Update:
            return Update()

    async def begin(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "create table listing (id bigint primary key, version bigint not null default 1)"
            )
        await self.app.migrate()
        await self.app.reactive_apply()
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("insert into listing values (1), (2)")
            connection.execute("delete from mainspring.visit")
        soon = self.later.options(delay=timedelta(hours=1))
        self.called_off, self.hurried = await soon.enqueue(n=1), await soon.enqueue(n=2)
        self.open = await self.wait.options(id="open").start(1)
        self.doomed = await self.wait.options(id="doomed").start(1)

    def left(self) -> dict[str, int]:
        with psycopg.connect(self.url) as connection:
            return dict(connection.execute(_LEFT).fetchall())  # type: ignore[arg-type]


@pytest.fixture
async def scene(app: Mainspring, database_url: str) -> Scene:
    found = Scene(app, database_url)
    await found.begin()
    return found


async def verbs(scene: Scene, on: Any) -> None:
    app, drafts, listing = scene.app, scene.drafts, scene.listing
    await scene.note.options(on=on).enqueue(n=1)
    await scene.note.options(on=on).enqueue_many([{"n": 2}, {"n": 3}])
    await app.enqueue_many([scene.note.options(key="k").bind(4)], on=on)
    assert await scene.called_off.cancel(on=on) == "cancelled"
    assert await scene.hurried.run_now(on=on) == "waiting"
    assert await app.advance(scene.rows, 5, on=on)
    await app.advance_many([(scene.rows, 9)], on=on)
    await app.rewind(scene.rows, 7, on=on)
    await scene.wait.options(on=on, id="mine").start(1)
    await scene.open.signal(scene.go, 1, on=on)
    await scene.doomed.cancel(on=on)
    await drafts.put("a", {"x": 1}, on=on)
    assert await drafts.replace("a", {"x": 2}, 1, on=on)
    assert await drafts.get("a", on=on) == ({"x": 2}, 2)
    await drafts.put("b", {}, on=on)
    assert await drafts.delete("b", on=on)
    assert await listing.offer(1, stage="look", on=on)
    assert await listing.check(1, on=on)
    assert await listing.peek("look", on=on)
    assert await listing.delete_visit(1, "look", on=on)
    assert await listing.offer(1, on=on)
    assert await listing.changed([2], on=on)
    assert await listing.set_state("look", 1, {"a": 1}, 0, on=on)
    value, _ = await listing.state("look", 1, on=on)
    assert value == {"a": 1}


def verbs_sync(scene: Scene, on: Any) -> None:
    app, listing = scene.app, scene.listing
    scene.note.options(on=on).enqueue_sync(n=1)
    scene.note.options(on=on).enqueue_many_sync([{"n": 2}, {"n": 3}])
    assert scene.called_off.cancel_sync(on=on) == "cancelled"
    assert scene.hurried.run_now_sync(on=on) == "waiting"
    assert app.advance_sync(scene.rows, 5, on=on)
    app.advance_many_sync([(scene.rows, 9)], on=on)
    app.rewind_sync(scene.rows, 7, on=on)
    scene.wait.options(on=on, id="mine").start_sync(1)
    scene.open.signal_sync(scene.go, 1, on=on)
    scene.doomed.cancel_sync(on=on)
    assert listing.changed_sync([2], on=on)


@pytest.mark.parametrize("library", ASYNC)
async def test_all_verbs_are_part_of_one_transaction(scene: Scene, library: str) -> None:
    """Rolled back to a savepoint, rolled back, and committed."""
    before = scene.left()
    async with ASYNC[library](scene.url) as own:
        await own.execute("savepoint mine")
        await verbs(scene, own.on)
        await own.execute("rollback to savepoint mine")
        assert scene.left() == before
        await verbs(scene, own.on)
        assert scene.left() == before
        await own.rollback()
    assert scene.left() == before
    async with ASYNC[library](scene.url) as own:
        await verbs(scene, own.on)
        await own.commit()
    after = scene.left()
    assert {name for name in before if before[name] != after[name]} == set(before)


@pytest.mark.parametrize("library", SYNC)
async def test_the_sync_ones_too(scene: Scene, library: str) -> None:
    before = scene.left()

    def both() -> None:
        with SYNC[library](scene.url) as own:
            own.execute("savepoint mine")
            verbs_sync(scene, own.on)
            own.execute("rollback to savepoint mine")
            assert scene.left() == before
            verbs_sync(scene, own.on)
            own.rollback()
        assert scene.left() == before
        with SYNC[library](scene.url) as own:
            verbs_sync(scene, own.on)
            own.commit()

    if library.startswith("Django"):
        await asyncio.to_thread(configured, scene.url)
    await asyncio.to_thread(both)
    after = scene.left()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == set(before) - {"documents", "states"}
