"""The heart: when it cannot beat, runs end before another worker may start them."""

from __future__ import annotations

import asyncio
import logging
import os
import selectors
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import mainspring.loop_watch
from mainspring import clock
from mainspring.db.session import Session
from mainspring.kernel.layer import Layer
from mainspring.kernel.outcome import Done
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.tuning import Tuning
from mainspring.kernel.visit import Run
from mainspring.loop_watch import blamed
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gate, working

_HEART = """
select pid from pg_stat_activity
where datname = current_database() and application_name like 'mainspring:heart:%%'
"""


@contextmanager
def hung(visits: Visits) -> Iterator[int]:
    """The backend of the heart's connection stands still: no answer, and no error."""
    pid = visits.value(_HEART)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.skipif("MAINSPRING_TEST_DSN" in os.environ, reason="not our own server")
async def test_a_stop_ends_although_the_heart_hangs(visits: Visits, database_url: str) -> None:
    """T10: a server that neither answers nor goes away keeps no worker from ending."""
    tuning = Tuning(end_seconds=0.5)
    async with working(database_url, queue(), lease=60.0, grace=0.0, tuning=tuning) as worker:
        with hung(visits):
            await asyncio.wait_for(worker.stop(), 20)

        assert visits.query("select id from mainspring.worker") == []


@pytest.mark.skipif("MAINSPRING_TEST_DSN" in os.environ, reason="not our own server")
async def test_with_a_heart_that_hangs_the_loop_stops_its_runs_within_the_lease(
    visits: Visits, database_url: str
) -> None:
    """A5: nothing raises, so the loop must look at the clock by itself; the heart is cut loose."""
    gate = Gate()
    ended: list[float] = []

    async def handler(run):
        try:
            return await gate(run)
        finally:
            ended.append(clock.local())

    visits.offer("a")
    async with working(database_url, queue(handler=handler), lease=0.6) as worker:
        await wait_until(lambda: len(gate.runs) == 1)
        with hung(visits) as pid:
            await wait_until(lambda: len(ended) == 1, 2)

            assert gate.runs[0].stopped == "fenced"
            beaten = worker.owned.good_until - 0.7 * 0.6
            assert ended[0] - beaten < 0.6

            await wait_until(lambda: clock.local() < worker.owned.good_until, 20)
            assert visits.query(f"{_HEART} and pid <> %s", pid)
            gate.open.set()
            await wait_until(lambda: visits.row("a") is None)

    assert gate.keys == {"a"}
    assert [story["outcome"] for story in visits.history("a")] == ["done"]


async def test_a_turn_that_goes_well_is_not_cut(visits: Visits, database_url: str) -> None:
    async def handler(_run):
        return Done()

    async with working(database_url, queue(handler=handler), lease=3.0) as worker:
        pid = visits.value(_HEART)
        for _ in range(20):
            worker.heart.cut_if_hung()
        beats = "select beat from mainspring.worker"
        before = visits.value(beats)
        await wait_until(lambda: visits.value(beats) > before)

        assert visits.value(_HEART) == pid


async def test_what_runs_here_is_held_though_looking_after_others_fails(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heart's work by urgency: its own runs before the shards of others."""
    failures: list[int] = []

    def fail(*_: object, **__: object) -> None:
        failures.append(1)
        raise OSError("lost while looking after others")

    gate = Gate()
    visits.offer("a")
    async with working(database_url, queue(handler=gate, hold_after=0.05)) as worker:
        monkeypatch.setattr(worker.heart, "_look_after_shards", fail)
        await wait_until(lambda: visits.row("a")["holder"] == worker.owned.worker_id)
        gate.open.set()
        await wait_until(lambda: visits.row("a") is None)
        monkeypatch.undo()

    assert failures


async def test_with_a_heart_that_is_stuck_elsewhere_the_loop_stops_the_runs(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: nothing to cut (a name that is looked up for ever): the loop needs no heart to fence."""
    gate, free = Gate(), threading.Event()

    def stuck(*_: Any, **__: Any) -> Any:
        free.wait(20)
        raise OSError("the name could not be looked up")

    visits.offer("a")
    async with working(database_url, queue(handler=gate), lease=0.6):
        await wait_until(lambda: len(gate.runs) == 1)
        with monkeypatch.context() as patched:
            patched.setattr(Session, "send", stuck)
            await wait_until(lambda: gate.runs[0].stopped == "fenced", 10)
        free.set()


async def test_with_a_loop_that_is_blocked_the_heart_stops_the_threads(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: a handler that blocks the loop must not keep plain functions from being stopped."""
    gate = Gate()
    interrupted = threading.Event()

    class Threads(Layer):
        def queues(self, pool: str) -> list[QueueSettings]:
            return []

        def interrupt(self, runs: Sequence[Run]) -> None:
            if runs:
                interrupted.set()

    def away(*_: Any, **__: Any) -> Any:
        raise OSError("the database is away")

    visits.offer("a")
    async with working(database_url, queue(handler=gate), lease=0.6, layers=[Threads()]):
        await wait_until(lambda: len(gate.runs) == 1)
        with monkeypatch.context() as patched:
            patched.setattr(Session, "send", away)
            assert interrupted.wait(10)  # blocks the loop


async def test_a_run_that_keeps_the_loop_is_named_by_its_line(
    visits: Visits, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5, T13: the heart sees that nothing else runs, and says where and what to do."""
    monkeypatch.setattr(mainspring.loop_watch, "BLOCKED", 0.2)
    said: list[logging.LogRecord] = []
    seen = threading.Event()

    def listen(record: logging.LogRecord) -> bool:
        if record.msg == "worker.loop_blocked":
            said.append(record)
            seen.set()
        return True

    async def block(run: Any) -> Done:
        assert seen.wait(30)
        return Done()

    logging.getLogger("mainspring").addFilter(listen)
    try:
        visits.offer("a")
        async with working(database_url, queue(handler=block), lease=2.0):
            await wait_until(lambda: visits.query("select id from mainspring.visit") == [])
    finally:
        logging.getLogger("mainspring").removeFilter(listen)

    [record] = said
    assert record.at.startswith(f"{__file__}:")  # type: ignore[attr-defined]
    assert record.at.endswith(" in block")  # type: ignore[attr-defined]
    assert "plain def" in record.text  # type: ignore[attr-defined]


def test_a_loop_that_waits_for_events_is_not_blocked() -> None:
    """A process that was suspended wakes with an old sign of its loop."""
    waiting = traceback.FrameSummary(selectors.__file__, 1, "select")

    assert blamed(traceback.StackSummary.from_list([waiting])) is None
