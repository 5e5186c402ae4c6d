"""What happens is logged as structured events (T12)."""

from __future__ import annotations

import io
import logging
from datetime import datetime

from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gate, Gauge, working


async def test_the_end_of_a_run_is_one_event_with_both_its_times(
    visits: Visits, database_url: str, caplog
) -> None:
    """T12: start, end, duration in milliseconds, worker and task of each run."""
    caplog.set_level(logging.INFO, "mainspring")
    visits.offer("a")
    async with working(database_url, queue(handler=Gauge(seconds=0.01))) as worker:
        await wait_until(lambda: visits.row("a") is None)
        worker_id = str(worker.owned.worker_id)

    [ended] = [record for record in caplog.records if record.msg.startswith("run.")]
    assert ended.msg == "run.ended"
    assert (ended.queue, ended.key, ended.attempt) == ("ring", "a", 1)
    assert (ended.worker, ended.outcome) == (worker_id, "done")
    assert 5 < ended.duration_ms < 5000
    started_at, ended_at = map(datetime.fromisoformat, (ended.started_at, ended.ended_at))
    assert abs((ended_at - started_at).total_seconds() * 1000 - ended.duration_ms) < 0.01


async def test_a_run_that_lasts_is_announced_when_it_is_held(
    visits: Visits, database_url: str, caplog
) -> None:
    """T12: whoever reads the log of a run of hours sees it before its end."""
    caplog.set_level(logging.INFO, "mainspring")
    visits.offer("a")
    gate = Gate()
    async with working(database_url, queue(handler=gate, hold_after=0.05)):
        await wait_until(lambda: "run.held" in [record.msg for record in caplog.records], 10)
        [held] = [record for record in caplog.records if record.msg == "run.held"]
        assert (held.queue, held.key, held.attempt) == ("ring", "a", 1)
        gate.open.set()
        await wait_until(lambda: visits.row("a") is None)
    [ended] = [record for record in caplog.records if record.msg == "run.ended"]
    assert (held.run, held.started_at) == (ended.run, ended.started_at)


async def test_at_level_debug_each_start_is_an_event(
    visits: Visits, database_url: str, caplog
) -> None:
    caplog.set_level(logging.DEBUG, "mainspring")
    visits.offer("a")
    async with working(database_url, queue(handler=Gauge(seconds=0))):
        await wait_until(lambda: visits.row("a") is None)

    assert [r.msg for r in caplog.records if r.msg.startswith("run.")] == [
        "run.started",
        "run.ended",
    ]


async def test_a_worker_s_start_and_stop_are_events(
    visits: Visits, database_url: str, caplog
) -> None:
    """T12."""
    caplog.set_level(logging.INFO, "mainspring")
    async with working(database_url, queue()):
        pass

    names = [record.msg for record in caplog.records]
    assert [n for n in names if n.startswith("worker.")] == [
        "worker.started",
        "worker.joined",
        "worker.stopping",
        "worker.stopped",
    ]


async def test_without_listeners_runs_are_not_logged(
    visits: Visits, database_url: str, caplog
) -> None:
    caplog.set_level(logging.WARNING, "mainspring")
    visits.offer("a")
    async with working(database_url, queue(handler=Gauge(seconds=0))):
        await wait_until(lambda: visits.row("a") is None)

    assert [record.msg for record in caplog.records if record.msg.startswith("run.")] == []


def test_the_text_of_an_event_names_its_facts() -> None:
    """T12: a plain handler, as Python has it by default, tells what failed and why."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    log = logging.getLogger("mainspring")
    log.addHandler(handler)
    try:
        log.warning("run.ended", extra={"queue": "mail", "error": "ValueError: no such address"})
    finally:
        log.removeHandler(handler)

    assert stream.getvalue() == "run.ended queue=mail error=ValueError: no such address\n"
