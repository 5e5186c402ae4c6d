"""The application of the crash tests of sinks: a stage that saves step by step, and real brokers."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from mainspring import Kind, Mainspring, RetryPolicy, Saved, Untouched, Update
from mainspring.sinks import Kafka, Nats

FOLDER = Path(os.environ.get("CRASH_FOLDER", "."))
TABLE = """
create table if not exists public.box (
  id bigint primary key, goal integer not null default 0, reached integer not null default 0,
  version bigint not null default 1)
"""
RETRY = RetryPolicy(attempts=1000, first=0.05, most=0.2)


def climb(box: Any) -> Untouched | Update:
    return Update(reached=box["reached"] + 1) if box["reached"] < box["goal"] else Untouched()


async def note(event: Saved) -> None:
    with (FOLDER / "noted").open("a") as out:  # one write of one line: whole or not at all
        out.write(f"{event.id} {event.number}\n")


def make(url: str | None = None) -> tuple[Mainspring, Kind]:
    """The application, in the test's own process or in a worker's."""
    app = Mainspring(url)
    box = app.entities("box", table="public.box")
    box.stage(climb, name="Climb", sees_own=True, interest=["goal", "reached"], retry=RETRY)
    if server := os.environ.get("CRASH_NATS"):
        box.sink("broker", Nats(server, subject="shop", stream="shop", create=True), retry=RETRY)
    elif servers := os.environ.get("CRASH_KAFKA"):
        quick = {"delivery.timeout.ms": 3000, "socket.timeout.ms": 2000, "log_level": 0}
        topic = os.environ["CRASH_TOPIC"]
        box.sink("broker", Kafka(servers, topic=topic, settings=quick), retry=RETRY)
    box.sink("note", note, retry=RETRY)
    return app, box


if "CRASH_FOLDER" in os.environ:
    while (gate := os.environ.get("CRASH_GATE")) and not (FOLDER / gate).exists():
        time.sleep(0.005)
    app, _ = make()
