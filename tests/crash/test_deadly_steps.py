"""Steps of processes that kill their workers."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import poison_app
import psycopg
import pytest

from mainspring import Mainspring
from mainspring.errors import ResultTimeout
from mainspring.processes.declare.handle import ProcessHandle
from warm import WorkerProcess


def result_of(handle: ProcessHandle[Any]) -> Any:
    try:
        return handle.result_sync(0.2)
    except ResultTimeout:
        return None


@pytest.mark.timeout(120)
def test_a_step_that_kills_workers_is_delivered_or_parked_at_once(
    mainspring_url: str, tmp_path: Path
) -> None:
    """P7, P9: the kernel parks its visit; its process learns of it now, not when it is next looked at."""
    app = Mainspring(mainspring_url)
    caught = app.process(poison_app.caught.function).start_sync(1)
    scoped = app.process(poison_app.scoped.function).start_sync(2)
    app.process(poison_app.uncaught.function).start_sync(3)
    app.run(drain=True, poll=0.05)  # the deciders: they are not to die with the others
    with ExitStack() as stack, psycopg.connect(mainspring_url, autocommit=True) as connection:
        output = stack.enter_context((tmp_path / "workers").open("wb"))
        deadline = time.monotonic() + 60
        results: list[str | None] = [None, None]
        parked: list[Any] = []
        while None in results or not parked:
            assert time.monotonic() < deadline, (results, parked)
            with WorkerProcess(
                "poison_app:app", mainspring_url, path=Path(__file__).parent, output=output,
                lease=1.0, poll=0.1,
            ) as worker:  # fmt: skip
                while worker.process.poll() is None and (None in results or not parked):
                    assert time.monotonic() < deadline, (results, parked)
                    results = [result_of(caught), result_of(scoped)]
                    query = "select type, actor, error_type from mainspring.parked_task"
                    parked = connection.execute(query).fetchall()

    assert results[1] == "mainspring.errors.WorkerDied"
    assert str(results[0]).startswith(
        "mainspring.errors.WorkerDied: the worker that ran it died (2 of 2)"
    )
    assert parked == [("uncaught", "deadly", "mainspring.errors.WorkerDied")]
    app.close_sync()


@pytest.mark.timeout(120)
def test_a_decider_that_kills_workers_is_parked_at_its_own_limit(
    mainspring_url: str, tmp_path: Path
) -> None:
    """P7: `crash_limit` of a process, as of a task."""
    app = Mainspring(mainspring_url)
    app.process(poison_app.fatal.function).start_sync()
    app.close_sync()
    parked: list[Any] = []
    deadline = time.monotonic() + 60
    with ExitStack() as stack, psycopg.connect(mainspring_url, autocommit=True) as connection:
        output = stack.enter_context((tmp_path / "workers").open("wb"))
        while not parked:
            with WorkerProcess(
                "poison_app:app", mainspring_url, path=Path(__file__).parent, output=output,
                lease=1.0, poll=0.1,
            ) as worker:  # fmt: skip
                while worker.process.poll() is None and not parked:
                    assert time.monotonic() < deadline
                    query = "select actor, error from mainspring.parked_task"
                    parked = connection.execute(query).fetchall()

    [(actor, error)] = parked
    assert actor == "fatal"
    assert "(1 of 1)" in error
