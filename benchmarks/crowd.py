"""Many processes at once: a mass restart beside live work, search, and sleepers.

`python -m benchmarks.crowd NAME URL COUNT` makes the processes, measures and prints its figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg

from benchmarks.workloads.workload import percentile
from mainspring import Mainspring, ProcessFilter, Promise
from mainspring.processes.operate.bulk import TaskFilter

PARKED = """
with made as materialized (
  select n, mainspring.uuid7() as process, mainspring.uuid7() as root, mainspring.uuid7() as task
  from generate_series(1, $1::int) n
),
p as (
  insert into mainspring.process (id, type, key, root, start)
  select process, 'order', 'order-' || n, root, '{"n": 1}' from made
),
t as (
  insert into mainspring.task (process_id, id, created_by, promise, actor, state, args, outcome, done_no)
  select process, root, null, root, 'order', 'done'::mainspring.task_state, '{"n": 1}'::jsonb,
    null::mainspring.promise_outcome, nextval('mainspring.done_no') from made
  union all
  select process, task, root, root, 'charge', 'parked', '{"n": 1}', null, null from made
),
k as (
  insert into mainspring.parked_task (task, process_id, type, actor, fingerprint, error_type, error)
  select task, process, 'order', 'charge', 'f', 'ConnectionError', 'bank is closed' from made
)
insert into mainspring.visit (shard, key, queue, id, version, parked_at, payload)
select mainspring.shard(process::text, shard_count), task::text, 'charge', task, mainspring.token(),
  now(), jsonb_build_object('@', process)
from made, mainspring.install
"""
KNOWN = """
insert into mainspring.process (id, type, key, state, root, start, attrs, created_at, ended_at)
select i.id, 'type-' || n % 20, 'key-' || n,
  (case when n % 500 = 0 then 'open' when n % 500 = 1 then 'cancelled' else 'finished' end
    )::mainspring.process_state, i.id, '{}', jsonb_build_object('shop', n % 5000, 'city', n % 300),
  now() - make_interval(secs => n), now()
from generate_series(1, $1::int) n, lateral (select mainspring.uuid7() as id where n > 0) i
"""
KNOWN_PARKED = """
insert into mainspring.parked_task (task, process_id, type, actor, fingerprint, error_type, error)
select mainspring.uuid7(), id, type, 'charge', 'f' || (row_number() over ()) % 10, 'ValueError',
  'refused by bank'
from mainspring.process where state = 'open'
"""
KNOWN_TASKS = """
insert into mainspring.task (process_id, id, promise, actor, state, args)
select id, id, id, case when n % 10000 = 0 then 'rare' else 'step-' || n % 10 end, 'done', '{}'
from (select id, row_number() over () as n from mainspring.process) p
"""
LIVE_EVERY = 0.01
LIVE_ALONE = 300  # live tasks before the restart, and again after it with its tasks paused
LIVE_AFTER = 800  # beside the restarted tasks
OPEN = "select count(*) from mainspring.process where state = 'open'"


def application(url: str) -> Mainspring:
    app = Mainspring(url)

    @app.task
    async def charge(n: int) -> int:
        return n

    @app.task
    async def live(sent: float) -> None:
        app.seen.append(time.monotonic() - sent)  # type: ignore[attr-defined]

    @app.process
    async def order(n: int) -> Promise[int]:
        return charge(n)

    app.seen = []  # type: ignore[attr-defined]
    return app


async def migrated(url: str) -> Mainspring:
    app = application(url)
    await app.migrate()
    return app


async def run_sql(url: str, *statements: tuple[Any, ...]) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement, *values in statements:
            await connection.execute(statement, *values)
    finally:
        await connection.close()


async def live(url: str, count: int) -> dict[str, float]:
    """Live work, from a process of its own: a task every hundredth of a second, until it is ended."""
    app = application(url)
    async with app:
        while True:
            await app.tasks["live"].enqueue(time.monotonic())
            await asyncio.sleep(LIVE_EVERY)


async def restart(url: str, count: int) -> dict[str, float]:
    """A mass restart of parked tasks beside live work, which is measured without it before and after."""
    app = await migrated(url)
    await run_sql(url, (PARKED, count), ("analyze",))
    async with app.worker():
        command = [sys.executable, "-m", "benchmarks.crowd", "live", url, "0"]
        feeding = await asyncio.create_subprocess_exec(*command)
        try:
            await seen(app, LIVE_ALONE // 3)  # it warms up
            alone = await seen(app, LIVE_ALONE)
            began = time.monotonic()
            begun = await app.operator.processes.restart_tasks(TaskFilter(actor="charge"))
            assert begun.id is not None
            while (await app.operator.operation(begun.id)).state == "running":
                await asyncio.sleep(0.05)
            seconds = time.monotonic() - began
            beside = await seen(app, 0)
            open_then, began = await open_processes(url), time.monotonic()
            after = await seen(app, LIVE_AFTER)
            finished = (open_then - await open_processes(url)) / (time.monotonic() - began)
            await app.operator.pause("charge")
            await seen(app, LIVE_ALONE // 3)
            alone += await seen(app, LIVE_ALONE)
        finally:
            feeding.terminate()
            await feeding.wait()
    done = await app.operator.operation(begun.id)
    await app.close()
    assert (done.done, done.failed) == (count, 0), done
    return {
        "restarts_per_second": count / seconds,
        "finished_per_second_beside_live": finished,
        "live_p95_alone_ms": percentile(alone, 95) * 1000,
        "live_p95_beside_ms": percentile(beside, 95) * 1000,
        "live_p95_after_ms": percentile(after, 95) * 1000,
    }


async def seen(app: Mainspring, count: int) -> list[float]:
    """How long live tasks took that ran since the last question, when there are so many of them."""
    times: list[float] = app.seen  # type: ignore[attr-defined]
    while len(times) < count:
        await asyncio.sleep(0.05)
    taken = list(times)
    times.clear()
    return taken


async def open_processes(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval(OPEN))
    finally:
        await connection.close()


QUESTIONS = {
    "newest": ProcessFilter(),
    "type": ProcessFilter(type="type-3"),
    "type and state": ProcessFilter(type="type-0", state="open"),
    "state": ProcessFilter(state="open"),
    "cancelled": ProcessFilter(state="cancelled"),
    "id": ProcessFilter(id="key-777"),
    "attributes": ProcessFilter(attrs={"shop": 77}),
    "two attributes": ProcessFilter(attrs={"shop": 77, "city": 77}),
    "task": ProcessFilter(task="step-3"),
    "rare task": ProcessFilter(task="rare"),
    "error": ProcessFilter(error="refused"),
    "fingerprint": ProcessFilter(fingerprint="f3"),
    "error of a type": ProcessFilter(type="type-0", error="refused"),
}


async def search(url: str, count: int) -> dict[str, Any]:
    """Every kind of question, in turns; the worst of their p95 counts."""
    app = await migrated(url)
    await run_sql(url, (KNOWN, count), (KNOWN_PARKED,), (KNOWN_TASKS,), ("vacuum analyze",))
    day = datetime.now(UTC) - timedelta(seconds=count / 2)
    questions = {**QUESTIONS, "time": ProcessFilter(since=day, until=day + timedelta(hours=1))}
    times: dict[str, list[float]] = {name: [] for name in questions}
    for _ in range(20):
        for name, wanted in questions.items():
            began = time.monotonic()
            found = await app.operator.processes.search(wanted, limit=50)
            times[name].append((time.monotonic() - began) * 1000)
            assert found, name
    await app.close()
    p95 = {name: round(percentile(values, 95), 1) for name, values in times.items()}
    return {"worst_p95_ms": max(p95.values()), "p95_ms": p95}


async def sleepers(url: str, count: int) -> dict[str, float]:
    """What a worker and its server cost while so many processes sleep."""
    app = await migrated(url)
    await run_sql(url, (SLEEPING, count), ("vacuum analyze",))
    async with app.worker():
        await asyncio.sleep(3)
        reads = _reads(url)
        began, cpu = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
        await asyncio.sleep(10)
        seconds = time.monotonic() - began
        now = resource.getrusage(resource.RUSAGE_SELF)
        used = now.ru_utime + now.ru_stime - cpu.ru_utime - cpu.ru_stime
        read = _reads(url) - reads
    await app.close()
    return {
        "worker_cpu_percent": 100 * used / seconds,
        "rows_read_per_second": read / seconds,
    }


SLEEPING = """
with made as materialized (
  select n, mainspring.uuid7() as process, mainspring.uuid7() as task from generate_series(1, $1::int) n
),
p as (
  insert into mainspring.process (id, type, key, root, start)
  select process, 'order', 'sleeper-' || n, task, '{}' from made
),
t as (
  insert into mainspring.task (process_id, id, promise, actor, state, args)
  select process, task, task, '@sleep', 'external', '{"seconds": 86400}' from made
),
x as (
  insert into mainspring.external (task, process_id, kind, due_at)
  select task, process, 'timer', now() + interval '1 day' from made
)
insert into mainspring.visit (shard, key, queue, id, version, due_at, payload)
select mainspring.shard(process::text, shard_count),
  kind || case kind when 'timer/' then task else process end, 'mainspring.process', mainspring.uuid7(),
  mainspring.token(), now() + interval '1 day', jsonb_build_object('@', process)
from made, mainspring.install, (values ('timer/'), ('look/')) as k(kind)
"""


def _reads(url: str) -> int:
    """Rows that were read of the engine's tables so far."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "select (select sum(idx_tup_read) from pg_stat_user_indexes where schemaname = 'mainspring')"
            " + (select sum(seq_tup_read) from pg_stat_user_tables where schemaname = 'mainspring')"
        ).fetchone()
    assert row is not None
    return int(row[0])


MEASURES = {"live": live, "restart": restart, "search": search, "sleepers": sleepers}


def main() -> None:
    import uvloop

    name, url, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    print(json.dumps(uvloop.run(MEASURES[name](url, count))))


if __name__ == "__main__":
    main()
