"""Progress on the command line."""

from __future__ import annotations

import asyncio

from mainspring import Context
from mainspring.testing.idle import FAST_SETTINGS


async def test_commands_show_and_follow_it(app, cli, database_url: str) -> None:
    """T13: `tasks show` and `tasks watch`."""
    go = asyncio.Event()

    @app.task
    async def load(ctx: Context) -> None:
        ctx.progress(0.4, "rows")
        await go.wait()

    async with app.worker(**FAST_SETTINGS):
        handle = await load.enqueue()
        async for _ in handle.progress():
            break
        shown = await asyncio.to_thread(cli, "tasks", "show", handle.id, "--url", database_url)
        assert "40%  rows" in shown.out
        watching = asyncio.create_task(
            asyncio.to_thread(cli, "tasks", "watch", "load", handle.id, "--url", database_url)
        )
        go.set()
        assert (await watching).out.splitlines()[-1] == "done"
