"""A rolling deploy of reactive tasks, with processes of two releases alive at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
import release_app

from warm import WorkerProcess

HERE = Path(__file__).parent


@pytest.mark.timeout(240)
def test_the_new_code_runs_for_every_task_whose_new_trigger_fired(mainspring_url: str) -> None:
    """R12: an old worker is alive and has half of the shards: it leaves these firings alone, so the
    added param is new until the new code has run for it."""

    def sql(text: str, *values: Any) -> list[Any]:
        with psycopg.connect(mainspring_url, autocommit=True) as connection:
            cursor = connection.execute(text, values)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 80
        while not condition():
            assert time.monotonic() < deadline, sql(
                "select task, firing, run, release, seen, error from mainspring.reactive_task"
            )
            time.sleep(0.02)

    def worker(release: str) -> WorkerProcess:
        return WorkerProcess(
            "release_app:app",
            mainspring_url,
            path=HERE,
            environment={"RELEASE": release},
            lease=5.0,
            poll=0.05,
        )

    shared = "select 1 from mainspring.lease group by worker_id having count(worker_id) > 100"
    sql("create table ran (task text, release text)")
    app = release_app.make(mainspring_url)
    with ExitStack() as stack, worker("old") as old:
        stack.callback(app.close_sync)
        wait(lambda: sql("select 1 from mainspring.reactive_task where release = 1"))
        app.advance_sync("raw.rates.n", 1)
        with worker("new"):
            wait(lambda: len(sql(shared)) == 2)
            app.advance_sync("raw.orders.n", 1)
            left = "select 1 from mainspring.visit where starts_with(error, 'a newer release')"
            wait(lambda: sql(left))
            early = sql("select task from ran where release = 'old'")
            old.send(signal.SIGTERM)
            old.wait()
            wait(lambda: len(sql("select distinct task from ran")) == len(release_app.TASKS))

    assert early == []
    assert sql("select count(*), count(distinct task), min(release) from ran") == [(12, 12, "new")]
