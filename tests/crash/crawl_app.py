"""The application of the crash tests of crawls: a stage that saves the entity, one that saves a state, one
that says no.

Its worker processes find a folder in CRASH_FOLDER and note there what the third is asked about.
CRASH_GATE: see crash_app. CRASH_STOP_AT: the step at which it suspends itself, and how manieth time.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from mainspring import Kind, Mainspring, RetryPolicy, Untouched, Update, crash_points
from mainspring.entities import crawl
from mainspring.jobs import operation

FOLDER = Path(os.environ.get("CRASH_FOLDER", "."))
PAGE = 20
TABLE = """
create table public.house (
  id bigint primary key, title text not null default '', seen integer not null default 0,
  version bigint not null default 1)
"""
HOW: dict[str, Any] = {
    "interest": ["title"],
    "retry": RetryPolicy(attempts=1000, first=0.05, most=0.2),
    "crash_limit": 1000,  # whoever dies here takes innocents with it
}


class Count:
    """Counts the runs that were saved, in the entity."""

    async def process(self, house: Any, state: Any) -> Update:
        return Update(seen=house["seen"] + 1)


class Keep:
    """Counts the runs that were saved, in a state: the entity is not touched."""

    async def process(self, house: Any, state: Any) -> Untouched:
        return Untouched(state=(state or 0) + 1)


class Ask:
    """Wants nothing, and notes what it is asked about."""

    def should_process(self, house: Any, state: Any) -> bool:
        with (FOLDER / "asked").open("a") as out:  # one write of one line: whole or not at all
            out.write(f"{house['id']}\n")
        return False

    async def process(self, house: Any, state: Any) -> Untouched:
        return Untouched()


def make(url: str | None = None) -> tuple[Mainspring, Kind]:
    """The application, in the test's own process or in a worker's."""
    app = Mainspring(url)
    house = app.entities("house", table="public.house")
    for stage in (Count, Keep, Ask):
        house.stage(**HOW)(stage)
    return app, house


def stop_at(wanted: str) -> None:
    """Suspend this process at a step, as it is: with what it has read and what it has locked."""
    reached: Counter[str] = Counter()

    def count(step: str) -> None:
        reached[step] += 1
        if f"{step}:{reached[step]}" == wanted:
            os.kill(os.getpid(), signal.SIGSTOP)

    crash_points.listener = count


if wish := os.environ.get("CRASH_STOP_AT"):
    stop_at(wish)
if "CRASH_FOLDER" in os.environ:
    operation.PAGE, crawl.LOOK_AGAIN = PAGE, 0.05
    while (gate := os.environ.get("CRASH_GATE")) and not (FOLDER / gate).exists():
        time.sleep(0.005)
app, house = make()
