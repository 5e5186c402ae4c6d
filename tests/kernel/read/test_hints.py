"""Notifications are hints: whoever may connect can send any, so none is believed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from mainspring.db.database import Database
from mainspring.db.reconnecting import Line
from mainspring.kernel.read.listener import Listener
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gate, working

NONSENSE = [
    "stop 1 2 x", "stop ²", "stop " + "9" * 23, "² ring", "9" * 23 + " ring", "-99999999999999999 ring",
    "stop", "", " ", "shards", "settings now", "1" * 5000 + " ring", "1e5 ring", "\u202estop 1",
]  # fmt: skip


async def test_a_run_is_not_stopped_because_somebody_says_so(
    visits: Visits, database_url: str
) -> None:
    """Trap: a notification that names the version of a healthy run."""
    visits.offer("a")
    gate = Gate()
    async with working(database_url, queue(handler=gate), lease=60) as worker:
        await wait_until(lambda: len(gate.runs) == 1, 10)
        [run] = gate.runs
        looks = Counter[str]()
        doubts = worker._doubts
        look_up = doubts._look_up

        async def counted() -> None:
            looks["begun"] += 1
            await look_up()

        doubts._look_up = counted  # type: ignore[method-assign]
        for _ in range(50):
            await asyncio.sleep(0)
            visits.query("select pg_notify('mainspring', %s)", f"stop {run.visit.version}")
        await wait_until(lambda: looks["begun"] > 0 and not doubts._is_looking, 10)
        assert run.stopped is None
        gate.open.set()
        await wait_until(lambda: visits.row("a") is None, 10)
    assert gate.ended == ["a"]
    assert looks["begun"] < 50, "one look at a time, not one for each word"


async def test_a_run_whose_visit_is_gone_is_stopped_when_it_is_said(
    visits: Visits, database_url: str
) -> None:
    """P2: whoever deletes visits tells the workers; the heart would see it seconds later."""
    visits.offer("a")
    gate = Gate()
    async with working(database_url, queue(handler=gate), lease=600) as _:
        await wait_until(lambda: len(gate.runs) == 1, 10)
        [run] = gate.runs
        visits.query("delete from mainspring.visit")
        visits.query("select pg_notify('mainspring', %s)", f"stop {run.visit.version}")
        await wait_until(lambda: run.stopped == "gone", 10)


async def test_what_makes_no_sense_is_passed_over_quietly(
    visits: Visits, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mainspring")
    gate = Gate()
    gate.open.set()
    async with working(database_url, queue(handler=gate), lease=60):
        for payload in NONSENSE:
            visits.query("select pg_notify('mainspring', %s)", payload)
        visits.offer("a")
        await wait_until(lambda: gate.ended == ["a"], 10)
        await wait_until(lambda: _said(caplog, "listen.not_understood") >= 7, 10)
    loud = [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert not [record for record in loud if record.msg.startswith("listen.")]
    assert not [record for record in caplog.records if record.exc_info]


def _said(caplog: pytest.LogCaptureFixture, event: str) -> int:
    return sum(record.msg == event for record in caplog.records)


async def test_words_that_ask_for_a_beat_are_followed_seldom(database_url: str) -> None:
    """However often they are said; the last one is never left out."""
    beats: list[str] = []
    listener = Listener(
        Line(Database(database_url), "listener"),
        offered=lambda queue, due_at: None,
        shards_freed=beats.append,
        settings_changed=lambda: beats.append("settings"),
        called_off=lambda versions: None,
        connected=lambda: None,
    )
    heard: Any = listener._heard
    for _ in range(1000):
        heard(None, 1, "mainspring", "settings")
        heard(None, 1, "mainspring", "shards default")
    assert sorted(beats) == ["default", "settings"]
    await wait_until(lambda: len(beats) == 4, 5)
    await asyncio.sleep(0)
    assert not listener._later
