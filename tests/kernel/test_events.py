"""What happens is logged as structured events (T12)."""

from __future__ import annotations

import io
import logging

from mainspring.testing import wait_until
from visits import Visits, queue
from workers import Gauge, working


async def test_a_run_s_start_and_end_are_events_with_fields(
    visits: Visits, database_url: str, caplog
) -> None:
    """T12: start, end, duration in milliseconds, worker and task of each run."""
    caplog.set_level(logging.INFO, "mainspring")
    visits.offer("a")
    async with working(database_url, queue(handler=Gauge(seconds=0.01))) as worker:
        await wait_until(lambda: visits.row("a") is None)
        worker_id = str(worker.hand.worker_id)

    events = {record.msg: record for record in caplog.records}
    started, ended = events["run.started"], events["run.ended"]
    for event in (started, ended):
        assert (event.queue, event.key, event.attempt) == ("ring", "a", 1)
        assert event.worker == worker_id
    assert ended.outcome == "done"
    assert 5 < ended.duration_ms < 5000
    assert started.run == ended.run


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
