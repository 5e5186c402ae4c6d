"""The application of the crash tests of first states: a stage that saves nothing but its private state.

Each saved run adds its process to the state, so the state has as many members as there were saves. With
CRASH_LASTS the first run lasts until it is stopped, and then hands its result in as if nothing had been.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mainspring import Mainspring, RetryPolicy, Untouched

FOLDER = Path(os.environ.get("CRASH_FOLDER", "."))
TABLE = "create table public.house (id bigint primary key, version bigint not null default 1)"


def note(file: str, line: str) -> None:
    with (FOLDER / file).open("a") as out:  # one write of one line: whole or not at all
        out.write(line + "\n")


class First:
    async def process(self, house: Any, state: Any) -> Untouched:
        lasts = os.environ.get("CRASH_LASTS") and not (FOLDER / "started").exists()
        note("started", str(os.getpid()))
        if lasts:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            note("late", str(os.getpid()))
        return Untouched(state=[*(state or []), str(os.getpid())])

    async def saved(self, event: Any) -> None:
        note("saved", f"{event.number} {len(event.state)}")

    state_changed = saved  # what is set from outside is told apart, and noted alike


class Shelf:
    """A DAO that locks nothing: the state's own row must do."""

    async def load(self, connection: Any, ids: Sequence[str]) -> dict[str, Any]:
        rows = await connection.fetch(
            "select id, version from house where id = any($1::text[]::bigint[])", list(ids)
        )
        return {str(row["id"]): ({"id": row["id"]}, row["version"]) for row in rows}

    async def update(self, connection: Any, changes: Sequence[Any]) -> dict[str, int]:
        return {change.id: change.version for change in changes}


def make(url: str | None = None) -> Mainspring:
    app = Mainspring(url)
    how: dict[str, Any] = {"retry": RetryPolicy(attempts=1000, first=0.05, most=0.2)}
    app.entities("house", table="public.house").stage(**how)(First)
    app.entities("shelf", dao=Shelf()).stage(**how)(First)
    return app


if gate := os.environ.get("CRASH_GATE"):
    while not (FOLDER / gate).exists():
        time.sleep(0.005)
app = make()
