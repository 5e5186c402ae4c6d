"""The application of the failover tests: a plain task, and one whose SQL commits with its end."""

from __future__ import annotations

import asyncio

from mainspring import Context, Mainspring, RetryPolicy

RETRY = RetryPolicy(attempts=100, first=0.05, most=0.5)


def make(url: str | None = None) -> Mainspring:
    app = Mainspring(url)

    @app.task(retry=RETRY, crash_limit=100)
    async def note(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    @app.task(retry=RETRY, crash_limit=100)
    async def book(ctx: Context, n: int) -> None:
        async with ctx.transaction() as connection:
            await connection.execute("insert into effect values (%s)", (n,))

    return app


app = make()
