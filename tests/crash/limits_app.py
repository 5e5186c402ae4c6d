"""The application of the limit tests: tasks that note their begin and end, with process and group."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

from mainspring import Context, Mainspring

FOLDER = Path(os.environ.get("CRASH_FOLDER", "."))
LIMIT, GROUP_LIMIT = 10, 2


def note(ctx: Context, what: str) -> None:
    place = f"{ctx.group or '-'} {ctx.id}/{ctx.attempt} {os.getpid()}"
    line = f"{ctx.task} {place} {what} {time.monotonic():.6f}\n"
    with (FOLDER / "ledger").open("a") as file:  # one write of one line: whole or not at all
        file.write(line)


async def work(ctx: Context, seconds: float) -> None:
    note(ctx, "begin")
    try:
        await asyncio.sleep(seconds)
    finally:
        note(ctx, "end")


def make(url: str | None = None) -> Mainspring:
    app = Mainspring(url)
    app.task(name="limited", concurrency=LIMIT, crash_limit=1000)(work)
    app.task(name="grouped", group_concurrency=GROUP_LIMIT, crash_limit=1000)(work)
    return app


if "CRASH_FOLDER" in os.environ:
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
app = make()
