"""kill -9 of a worker in the middle of stages: entity, state, event and settle are all there, or none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
import stage_app

from draws import fast_first
from warm import WorkerProcess

HERE = Path(__file__).parent
STEPS = ["run.started", "run.ended", "settle.sending", "settle.answered"]
REST = (
    "select (select count(*) from listing where price <> length(title)),"
    " (select count(*) from listing l where not exists (select from mainspring.state s"
    "   where s.key = l.id::text and s.stage = 'Notice' and s.body = to_jsonb(l.price))),"
    " (select count(*) from mainspring.visit where parked_at is null)"
)


@pytest.fixture
def database(database_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(stage_app.TABLE)
        app = stage_app.make(database_url)
        app.migrate_sync()
        app.close_sync()
        yield connection


FIRST = [pytest.param(f"{step}:1", marks=pytest.mark.slow) for step in STEPS]


@pytest.mark.parametrize("step", fast_first([*FIRST, *(f"{step}:4" for step in STEPS)], 2))
def test_a_worker_killed_among_stages_tears_nothing(
    database: psycopg.Connection[tuple[object, ...]], database_url: str, tmp_path: Path, step: str
) -> None:
    """S5, S13: through any crash the whole comes to rest, each save once, state beside entity."""
    database.execute("insert into listing (id, title) select n, 'x' from generate_series(1, 40) n")
    environment = {"CRASH_FOLDER": str(tmp_path)}
    with ExitStack() as stack:
        output = stack.enter_context((tmp_path / "log").open("wb"))

        def worker(**more: object) -> WorkerProcess:
            extra = {**environment, **more.pop("environment", {})}  # type: ignore[dict-item]
            return stack.enter_context(
                WorkerProcess(
                    "stage_app:app",
                    database_url,
                    path=HERE,
                    output=output,
                    environment=extra,
                    concurrency=8,
                    lease=1.0,
                    poll=0.1,
                    **more,  # type: ignore[arg-type]
                )
            )

        victim = worker(die_at=step)
        worker(environment={"CRASH_GATE": "heir"})
        victim.wait_dead(20)
        database.execute("update listing set title = title || 'y' where id % 3 = 0")
        (tmp_path / "heir").touch()
        deadline = time.monotonic() + 30
        while database.execute(REST).fetchone() != (0, 0, 0):
            assert time.monotonic() < deadline, database.execute(REST).fetchone()
            time.sleep(0.02)

    torn = database.execute(
        "select l.id, l.hits, s.body from listing l left join mainspring.state s"
        " on s.key = l.id::text and s.stage = 'Price' where to_jsonb(l.hits) is distinct from s.body"
    ).fetchall()
    assert torn == []
    assert database.execute(
        "select count(*) from listing where hits <> version - 1 - (id % 3 = 0)::int"
    ).fetchone() == (0,)
    twice = database.execute(
        "select run from mainspring.history group by run having count(*) > 1"
    ).fetchall()
    assert twice == []
    database.execute("delete from mainspring.worker")
    database.execute("update mainspring.lease set worker_id = null")
