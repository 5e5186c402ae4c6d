"""Reactive tasks whose workers are killed: no check is lost, no firing succeeds twice."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
import reactive_app

from draws import fast_first
from warm import WorkerProcess

HERE = Path(__file__).parent
RAW, MART = "raw.orders.n", "mart.orders.n"
STEPS = (
    "page.read",
    "run.started",
    "run.ended",
    "settle.sending",
    "settle.answered",
)


class Platform:
    """A database with params, and worker processes on it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.app = reactive_app.make(url)
        self._stack = ExitStack()

    def worker(self, **settings: Any) -> WorkerProcess:
        return self._stack.enter_context(
            WorkerProcess(
                "reactive_app:app", self.url, path=HERE, **{"lease": 3.0, "poll": 0.05, **settings}
            )
        )

    def close(self) -> None:
        self._stack.close()
        self.app.close_sync()

    def sql(self, text: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text, values)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def advance(self, value: int) -> None:
        self.app.advance_sync(RAW, value)

    def wait(self, condition: Callable[[], bool], timeout: float = 80.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, self.sql(
                "select task, firing, run, seen, error from mainspring.reactive_task"
            )
            time.sleep(0.02)

    def check(self, value: int) -> None:
        """Both tasks come to have seen the value, and every success follows the one before (I2)."""
        self.wait(lambda: self.seen() == {"build": value, "report": value})
        self.wait(
            lambda: not self.sql("select 1 from mainspring.visit where queue <> 'mainspring.audit'")
        )
        self.wait(lambda: self.sql("select * from mainspring.violation") == [], 10)
        for task in ("build", "report"):
            rows = self.sql(
                "select result ->> 'firing', result ->> 'base' from mainspring.history"
                " where key = %s and starts_with(queue, 'mainspring.run.') and outcome = 'done'"
                " and result is not null order by started_at",
                task,
            )
            firings = [firing for firing, _ in rows]
            assert len(firings) == len(set(firings))
            assert [base for _, base in rows] == [None, *firings[:-1]]

    def seen(self) -> dict[str, int]:
        rows = self.sql("select task, seen from mainspring.reactive_task")
        return {task: value[0] for task, seen in rows for value in seen.values()}


@pytest.fixture
def platform(mainspring_url: str) -> Iterator[Platform]:
    found = Platform(mainspring_url)
    yield found
    found.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("step", fast_first(STEPS, 2))
def test_no_check_is_lost_when_a_worker_dies(platform: Platform, step: str) -> None:
    """R7, R10: I1, I2 after a SIGKILL at each step of the kernel's, and a heir."""
    platform.advance(1)
    dying = platform.worker(die_at=f"{step}:4")
    for value in range(2, 6):
        platform.advance(value)
    dying.wait_dead()
    platform.worker()
    platform.advance(6)

    platform.check(6)


@pytest.mark.timeout(240)
def test_a_crash_in_a_run_counts_as_a_failure(platform: Platform) -> None:
    """R10: a crash of the worker counts as a failure, and ends the firing."""
    platform.advance(1)
    dying = platform.worker(environment={"CRASH_NAP": "60"})
    running = "select 1 from mainspring.reactive_task where task = 'build' and run is not null"
    platform.wait(lambda: bool(platform.sql(running)))
    dying.send(signal.SIGKILL)
    dying.wait_dead()
    platform.worker()
    platform.check(1)

    errors = platform.sql(
        "select error from mainspring.history where key = 'build' and outcome = 'retry'"
    )
    assert errors == [("the worker that ran it died",)]


@pytest.mark.timeout(240)
def test_an_orderly_stop_in_a_run_counts_as_neither(platform: Platform) -> None:
    """R10: the firing is over, but nothing failed: no backoff."""
    platform.advance(1)
    stopping = platform.worker(environment={"CRASH_NAP": "60"}, grace=0.2)
    running = "select 1 from mainspring.reactive_task where task = 'build' and run is not null"
    platform.wait(lambda: bool(platform.sql(running)))
    stopping.send(signal.SIGTERM)
    assert stopping.wait(20) == 0
    platform.worker()
    platform.check(1)

    errors = platform.sql(
        "select error from mainspring.history where key = 'build' and outcome = 'cancelled'"
    )
    assert errors == [("interrupted: the worker that ran it was stopped",)]


@pytest.mark.timeout(240)
def test_two_schedulers_share_a_stream_of_changes(platform: Platform) -> None:
    """R7: any number of workers; one is killed in the middle and another takes over."""
    first, _ = platform.worker(), platform.worker()
    for value in range(1, 30):
        platform.advance(value)
    platform.wait(lambda: platform.seen().get("report", 0) > 0)
    first.send(signal.SIGKILL)
    for value in range(30, 60):
        platform.advance(value)

    platform.check(59)
