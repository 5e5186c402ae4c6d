"""Two releases of one application: MIXED_CODE names the tasks that a worker has.

Each run notes its begin and its end, with its process, so that what ran at once can be told.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

from mainspring import Context, Mainspring

FOLDER = Path(os.environ.get("CRASH_FOLDER", "."))
OLD = ("common", "serial", "limited", "removed")
NEW = ("common", "serial", "limited", "added")
SETTINGS = {"serial": {"group_concurrency": 1}, "limited": {"concurrency": 2}}
SECONDS = 0.01


def note(ctx: Context, n: int, what: str) -> None:
    with (FOLDER / "runs").open("a") as file:  # one write of one line: whole or not at all
        group = ctx.group or "-"
        file.write(f"{ctx.task} {n} {group} {os.getpid()} {what} {time.monotonic():.6f}\n")


async def run(ctx: Context, n: int) -> None:
    note(ctx, n, "begin")
    await asyncio.sleep(SECONDS)
    note(ctx, n, "end")


def make(url: str | None = None, names: tuple[str, ...] = (*OLD, "added")) -> Mainspring:
    app = Mainspring(url)
    for name in names:
        app.task(name=name, **SETTINGS.get(name, {}))(run)  # type: ignore[arg-type]
    return app


if "CRASH_FOLDER" in os.environ:
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    while (gate := os.environ.get("CRASH_GATE")) and not (FOLDER / gate).exists():
        time.sleep(0.005)
app = make(names=tuple(os.environ.get("MIXED_CODE", "").split()) or (*OLD, "added"))
