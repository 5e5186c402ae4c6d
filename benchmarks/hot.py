"""Hot entities: 64 writers on 100 rows, and after each change a total that must follow: three ways.

`python -m benchmarks.hot NAME URL CHANGES WRITERS` prints the seconds until every total is right. `bare` is
the optimistic-lock loop that one writes by hand: read, compute, write where the version is still the one
that was read, else again. `edits`: the writers read, compute and write by `kind.edit`, and a stage brings
the total after them. `sql`: they write by SQL of their own, without a read, and triggers tell the stage.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any

import asyncpg
import uvloop

from mainspring import Mainspring, Untouched, Update

ENTITIES = 100
TABLE = """
create table hot (
  id bigint primary key, n bigint not null default 0, total bigint not null default 0,
  version bigint not null default 1
);
insert into hot (id) select generate_series(1, 100)
"""


def total_of(n: int) -> int:
    """What has to follow a change."""
    return n * (n + 1) // 2


def application(url: str) -> Mainspring:
    app = Mainspring(url)
    kind = app.entities("hot", table="public.hot", key="id", model=None)

    @kind.stage(name="total", reads=["n"], writes=["total"])
    async def total(row: dict[str, Any], state: Any) -> Update:
        return Update(total=total_of(row["n"]))

    return app


async def prepare(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(TABLE)
    finally:
        await connection.close()
    app = application(url)
    await app.migrate()
    await app.close()


async def write(url: str, changes: int, writers: int, how: Any) -> None:
    """All changes, shared by so many writers with a connection each."""
    left = iter(range(changes))
    begin = asyncio.Barrier(writers + 1)

    async def writer() -> None:
        connection = await asyncpg.connect(url)
        try:
            await begin.wait()
            for _ in left:
                await how(connection, random.randint(1, ENTITIES))
        finally:
            await connection.close()

    tasks = [asyncio.create_task(writer()) for _ in range(writers)]
    await begin.wait()
    await asyncio.gather(*tasks)


async def add_one(connection: Any, id: int) -> None:
    await connection.execute("update hot set n = n + 1 where id = $1", id)


async def add_one_and_follow(connection: Any, id: int) -> None:
    while True:
        n, version = await connection.fetchrow("select n, version from hot where id = $1", id)
        done = await connection.execute(
            "update hot set n = $1, total = $2, version = version + 1 where id = $3 and version = $4",
            n + 1,
            total_of(n + 1),
            id,
            version,
        )
        if done == "UPDATE 1":
            return


async def edits(url: str, changes: int, writers: int) -> None:
    app = application(url)
    hot = app.kinds["hot"]
    left = iter(range(changes))

    async def writer() -> None:
        for _ in left:
            await hot.edit(random.randint(1, ENTITIES), lambda found: Update(n=found["n"] + 1))

    async def write_all() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(writers):
                group.create_task(writer())

    async with app:
        await hot.edit(1, lambda found: Untouched())  # connected, as the others' writers are
        await beside_a_worker(url, write_all())


async def sql(url: str, changes: int, writers: int) -> None:
    await beside_a_worker(url, write(url, changes, writers, add_one))


async def beside_a_worker(url: str, writing: Any) -> None:
    """The writers of this process; the stage runs in a worker beside it."""
    serving = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.hot",
        "serve",
        url,
        "0",
        "0",
        stdout=asyncio.subprocess.PIPE,
    )
    assert serving.stdout is not None
    await serving.stdout.readline()  # it is up
    try:
        await timed(url, writing)
    finally:
        serving.terminate()
        await serving.wait()


async def bare(url: str, changes: int, writers: int) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("alter table hot disable trigger user")
    await connection.close()
    await timed(url, write(url, changes, writers, add_one_and_follow))


async def timed(url: str, writing: Any) -> None:
    """Print how long it took until all totals were right, and the sum of all changes."""
    began = time.perf_counter()
    await writing
    written = time.perf_counter() - began
    connection = await asyncpg.connect(url)
    try:
        while await connection.fetchval("select count(*) from hot where total <> n * (n + 1) / 2"):
            await asyncio.sleep(0.01)
        seconds = time.perf_counter() - began
        total = await connection.fetchval("select sum(n)::bigint from hot")
    finally:
        await connection.close()
    print(json.dumps({"seconds": seconds, "written": written, "sum": total}))


async def serve(url: str, *_: int) -> None:
    app = application(url)
    async with app, app.worker(concurrency=200):
        print("up", flush=True)
        await asyncio.Event().wait()


WAYS = {"edits": edits, "sql": sql, "bare": bare, "serve": serve}


def main() -> None:
    name, url, changes, writers = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    uvloop.run(prepare(url) if name == "prepare" else WAYS[name](url, changes, writers))


if __name__ == "__main__":
    main()
