"""The application of the crash tests: tasks that last, block, resist and kill, and a log of starts.

Its worker processes find a folder in CRASH_FOLDER. There they note every start (`starts`), and one
that has CRASH_GATE waits, fully imported, until that file is there: so a heir is ready at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import mainspring
from mainspring import Context, Mainspring, RetryPolicy

FOLDER = Path(os.environ.get("CRASH_FOLDER", "."))
RETRY = RetryPolicy(attempts=1000, first=0.05, most=0.2)


def make(url: str | None = None) -> Mainspring:
    """The application, in the test's own process or in a worker's."""
    app = Mainspring(url)
    for function, settings in (
        (quick, {}),
        (silent, {}),
        (effect, {"retry": RETRY}),
        (effect_in_thread, {"retry": RETRY}),
        (nap, {}),
        (held, {"hold_after": 0.02}),
        (stuck, {"hold_after": 0.02}),
        (stubborn, {"retry": RETRY}),
        (block, {}),
        (poison, {"crash_limit": 2}),
    ):
        app.task(**settings)(function)  # type: ignore[arg-type]
    return app


def started(ctx: Context, n: int) -> None:
    line = f"{ctx.task} {n} {os.getpid()} {time.monotonic():.3f}\n"
    with (FOLDER / "starts").open("a") as file:  # one write of one line: whole or not at all
        file.write(line)


async def quick(ctx: Context, n: int) -> int:
    started(ctx, n)
    return n


async def silent(n: int) -> None:
    """Its ends become bundles of history."""


async def effect(ctx: Context, n: int) -> None:
    started(ctx, n)
    async with ctx.transaction() as connection:
        await connection.execute("insert into effect values (%s)", (n,))


def effect_in_thread(ctx: Context, n: int, seconds: float = 0.0) -> None:
    started(ctx, n)
    time.sleep(seconds)
    with ctx.transaction() as connection:
        connection.execute("insert into effect values (%s)", (n,))


async def nap(ctx: Context, n: int, seconds: float) -> None:
    started(ctx, n)
    await asyncio.sleep(seconds)


async def held(ctx: Context, n: int, seconds: float) -> None:
    started(ctx, n)
    await asyncio.sleep(seconds)


async def stuck(ctx: Context, n: int) -> None:
    """Does not end the first time."""
    started(ctx, n)
    if first_time(ctx, n):
        await asyncio.sleep(600)


async def stubborn(ctx: Context, n: int, seconds: float, *, fails: bool = False) -> str:
    """The first time it lasts, and ends as if nothing had happened although it was cancelled."""
    started(ctx, n)
    if first_time(ctx, n):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(seconds)
        (FOLDER / f"late-{n}").touch()
        if fails:
            raise ValueError("late")
        return "late"
    return "in time"


async def block(ctx: Context, n: int, seconds: float) -> None:
    started(ctx, n)
    time.sleep(seconds)  # noqa: ASYNC251 - this is the fault


async def poison(ctx: Context, n: int) -> None:
    started(ctx, n)
    os.kill(os.getpid(), signal.SIGKILL)


def first_time(ctx: Context, n: int) -> bool:
    try:
        os.close(os.open(FOLDER / f"{ctx.task}-{n}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


if "CRASH_FOLDER" in os.environ:
    (FOLDER / f"source-{os.getpid()}").write_text(mainspring.__file__)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    while (gate := os.environ.get("CRASH_GATE")) and not (FOLDER / gate).exists():
        time.sleep(0.005)
app = make()
