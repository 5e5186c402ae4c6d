"""The application of the crash tests of relays and crawls: a stage that saves, a hook and a sink that note.

Its worker processes find a folder in CRASH_FOLDER, and add a line to a file there for every event that
comes to a consumer and for every entity that a stage is asked about. CRASH_GATE: see crash_app.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from mainspring import Kind, Mainspring, RetryPolicy, Saved, Untouched, Update
from mainspring.jobs import operation

FOLDER = Path(os.environ.get("CRASH_FOLDER", "."))
TABLE = """
create table if not exists public.box (
  id bigint primary key, goal integer not null default 0, reached integer not null default 0,
  version bigint not null default 1)
"""
RETRY = RetryPolicy(attempts=1000, first=0.05, most=0.2)


def note(file: str, line: str) -> None:
    with (FOLDER / file).open("a") as out:  # one write of one line: whole or not at all
        out.write(line + "\n")


class Climb:
    """Goes one step a save, so that each entity has several events."""

    def should_process(self, box: Any, state: Any) -> bool:
        return bool(box["reached"] < box["goal"])

    async def process(self, box: Any, state: Any) -> Untouched | Update:
        if not self.should_process(box, state):
            return Untouched()
        return Update(reached=box["reached"] + 1, state=(state or 0) + 1)

    async def saved(self, event: Saved) -> None:
        note("hook", f"{event.id} {event.number} {event.entity['reached']} {event.state}")


class Look:
    """Notes what a crawl asks about."""

    def should_process(self, box: Any, state: Any) -> bool:
        note("asked", str(box["id"]))
        return False

    def process(self, box: Any, state: Any) -> Untouched:
        return Untouched()


async def send(event: Saved) -> None:
    note("sink", f"{event.id} {event.number} {event.entity['reached']} {event.state}")


def make(url: str | None = None) -> tuple[Mainspring, Kind]:
    """The application, in the test's own process or in a worker's."""
    app = Mainspring(url)
    box = app.entities("box", table="public.box")
    box.stage(name="Climb", sees_own=True, interest=["goal", "reached"], retry=RETRY)(Climb())
    box.stage(name="Look", interest=["id"])(Look())
    box.sink("sink", send, retry=RETRY)
    return app, box


if "CRASH_FOLDER" in os.environ:
    operation.PAGE = 5
    while (gate := os.environ.get("CRASH_GATE")) and not (FOLDER / gate).exists():
        time.sleep(0.005)
app, box = make()
