"""Edits while the database goes away and comes back: what was answered counts, nothing counts twice."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from scene import Scene

from mainspring import Mainspring, Update
from mainspring.embedded.server import EmbeddedServer
from mainspring.testing import wait_until

ROWS, EDITORS, EDITS = 3, 12, 600


@pytest.mark.parametrize("fast_seconds", [5, 0])
async def test_edits_through_a_restarted_server(
    own_scene: Scene, own_server: EmbeddedServer, fast_seconds: float
) -> None:
    """S13: whoever was answered is counted; whoever got an error is counted once or not at all."""
    with psycopg.connect(own_scene.url, autocommit=True) as connection:
        connection.execute(
            "create table counter (id bigint primary key, n bigint not null default 0, "
            "version bigint not null default 1)"
        )
        connection.execute("insert into counter select generate_series(1, %s)", (ROWS,))
    app = Mainspring(own_scene.url)
    kind = app.entities("counter", table="public.counter")
    await app.migrate()
    answered = failed = 0
    away, back = asyncio.Event(), asyncio.Event()

    async def editor(id: int) -> None:
        nonlocal answered, failed
        for n in range(EDITS):
            if n == EDITS // 2:
                await away.wait()  # the others are amid theirs when it goes
            try:
                await kind.edit(id, one_more)
                answered += 1
            except Exception:
                failed += 1
                await back.wait()

    def one_more(found: dict[str, Any]) -> Update:
        return Update(n=found["n"] + 1)

    async with app:
        editors = [asyncio.create_task(editor(n % ROWS + 1)) for n in range(EDITORS)]
        await wait_until(lambda: answered >= ROWS * EDITORS)
        stopping = asyncio.create_task(
            asyncio.to_thread(own_server.stop, fast_seconds=fast_seconds)
        )
        away.set()
        await stopping
        await asyncio.to_thread(own_server.start)
        back.set()
        await asyncio.gather(*editors)
        last = await kind.edit(1, one_more)

    with psycopg.connect(own_scene.url) as connection:
        row = connection.execute("select sum(n)::int from counter").fetchone()
    assert row is not None
    assert answered + 1 <= row[0] <= answered + 1 + failed
    assert last["n"] > 1
    assert 0 < failed <= 2 * EDITORS  # it was away; once it is back all goes on
