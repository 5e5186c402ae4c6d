"""The application of the tests of networks: runs that are amid a transaction when the network goes."""

from __future__ import annotations

import asyncio
import time

import crash_app
from crash_app import FOLDER, RETRY, started

from mainspring import Context, Mainspring


async def effect_amid(ctx: Context, n: int, seconds: float = 0.0) -> None:
    """Its transaction is open for so long; then it commits with the completion."""
    started(ctx, n)
    async with ctx.transaction() as connection:
        await connection.execute("insert into effect values (%s)", (n,))
        (FOLDER / f"open-{n}").touch()
        await connection.execute("select pg_sleep(%s)", (seconds,))


def effect_amid_in_thread(ctx: Context, n: int, seconds: float = 0.0) -> None:
    started(ctx, n)
    with ctx.transaction() as connection:
        connection.execute("insert into effect values (%s)", (n,))
        (FOLDER / f"open-{n}").touch()
        connection.execute("select pg_sleep(%s)", (seconds,))


async def slept(ctx: Context, n: int, seconds: float) -> int:
    started(ctx, n)
    await asyncio.sleep(seconds)
    return n


async def napped(n: int, seconds: float) -> None:
    """Tells nobody: how many end in a second is a matter of slots."""
    await asyncio.sleep(seconds)


def deaf(ctx: Context, n: int, seconds: float) -> None:
    """Nothing stops it the first time: it does not come back to Python before its time."""
    started(ctx, n)
    try:
        (FOLDER / f"deaf-{n}").touch(exist_ok=False)
    except FileExistsError:
        return
    time.sleep(seconds)


def make(url: str | None = None) -> Mainspring:
    """Those of the other crash tests, and these."""
    app = crash_app.make(url)
    for function, settings in (
        (effect_amid, {"retry": RETRY}),
        (effect_amid_in_thread, {"retry": RETRY}),
        (slept, {"hold_after": 0.05}),
        (napped, {}),
        (deaf, {"hold_after": 0.05}),
    ):
        app.task(**settings)(function)  # type: ignore[call-overload]
    return app


app = make()
