"""Entity changes through a system stage and five stages, of which one updates: three ways to do it.

`python -m benchmarks.listings NAME URL CHANGES SLOTS` works off what `prepare` has put there and prints the
seconds it took. `engine` is Mainspring. `loop` is what one writes first: psycopg, one entity at a time,
each stage run in a transaction of its own that checks the version. `bare` has the same statements in
batches and nothing else: no leases, no retries, no limits, no turns, nobody to take over. A worker that has
a process of its own calms Python's collector; so the other two have it calmed as well. All three keep
visits and history in Mainspring's tables, and end with the same rows.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import asyncpg
import psycopg

from mainspring import Mainspring, Untouched, Update
from mainspring.db.sql import numbers, texts
from mainspring.serve import COLLECT_AFTER

TABLE = """
create table listing (
  id bigint primary key, owner bigint not null, title text not null, body text not null,
  price integer not null default 0, photos jsonb not null default '[]', city text not null default '',
  seen integer not null default 0, version bigint not null default 1
)
"""
FILL = """
insert into listing (id, owner, title, body)
select n, n % 1000, 'listing ' || n, repeat('some words ', 20) from generate_series(1, $1::int) n
"""
CHANGE = "update listing set title = title || '!'"
QUIET = ("photos", "video", "expiry", "catalogue")


@dataclass
class Listing:
    id: int
    title: str
    price: int


def application(url: str) -> Mainspring:
    """A kind with five stages: one writes a price, four look and leave it."""
    app = Mainspring(url)
    kind = app.entities("listing", table="public.listing", key="id", model=None)

    class Stage:
        def should_process(self, listing: dict[str, Any], state: Any) -> bool:
            return bool(listing["title"])

        async def process(self, listing: dict[str, Any], state: Any) -> Update | Untouched:
            return Untouched()

    class Price(Stage):
        async def process(self, listing: dict[str, Any], state: Any) -> Update | Untouched:
            return Update(price=len(listing["title"]))

    for name in QUIET:
        kind.stage(name=name, reads=["title"])(Stage)
    kind.stage(name="price", reads=["title"], writes=["price"])(Price)
    return app


async def prepare(url: str, changes: int) -> None:
    """The table, its triggers, its rows, and one change of each."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(TABLE)
        app = application(url)
        await app.migrate()
        await app.close()
        await connection.execute("alter table listing disable trigger user")
        await connection.execute(FILL, changes)
        await connection.execute("alter table listing enable trigger user")
        await connection.execute(CHANGE)
        await connection.execute("vacuum analyze listing")
        await connection.execute("vacuum analyze mainspring.visit")
    finally:
        await connection.close()


async def engine(url: str, changes: int, slots: int) -> float:
    async with application(url) as app:
        import_module("mainspring.assembly")  # as a worker's process has, before its first visit
        began = time.perf_counter()
        await app.run_worker(concurrency=slots, drain=True)
        return time.perf_counter() - began


# -- one at a time

TAKE_ONE = """
select shard, key, queue, id, version, payload, created_at, due_at from mainspring.visit
where queue = %s and priority = 5 and pass is null and parked_at is null and due_at <= now()
order by due_at limit 1 for update skip locked
"""
OFFER_ONE = """
insert into mainspring.visit as v (shard, key, queue, id, version, payload)
values (%s, %s, %s, gen_random_uuid(), mainspring.token(), %s)
on conflict (shard, key, queue) do update
set version = excluded.version, payload = v.payload || excluded.payload,
  due_at = least(v.due_at, excluded.due_at)
"""
STORY_ONE = """
insert into mainspring.history_run (day, run, id, queue, key, priority, attempt, outcome, worker_id,
  created_at, due_at, started_at, ended_at, duration_ms, payload)
values (current_date, mainspring.token(), %s, %s, %s, 5, 1, 'done', gen_random_uuid(), %s, %s, now(), now(),
  0, %s)
"""
DELETE_ONE = "delete from mainspring.visit where shard = %s and key = %s and queue = %s"
LOAD_ONE = "select id, title, price, version from listing where id = %s"
STATE_ONE = """
select version, body from mainspring.state
where shard = %s and kind = 'listing' and key = %s and stage = %s
"""
SAVE_ONE = "update listing set price = %s, version = version + 1 where id = %s and version = %s"
STAGES = (*QUIET, "price")


def loop(url: str, changes: int, slots: int) -> float:
    began = time.perf_counter()
    with psycopg.connect(url) as connection:
        connection.execute("set mainspring.engine = 'on'")
        busy = True
        while busy:
            busy = False
            for queue in ("listing", *(f"listing/{name}" for name in STAGES)):
                while _one(connection, queue):
                    connection.commit()
                    busy = True
                connection.commit()
    return time.perf_counter() - began


def _one(connection: psycopg.Connection[Any], queue: str) -> bool:
    visit = connection.execute(TAKE_ONE, (queue,), prepare=True).fetchone()
    if visit is None:
        return False
    shard, key, _, id, _, payload, created_at, due_at = visit
    entity = connection.execute(LOAD_ONE, (key,), prepare=True).fetchone()
    assert entity is not None
    listing = Listing(*entity[:3])
    if queue == "listing":
        for name in STAGES:
            if "f:title" not in payload:
                continue
            connection.execute(STATE_ONE, (shard, key, name), prepare=True).fetchone()
            if listing.title:
                connection.execute(OFFER_ONE, (shard, key, f"listing/{name}", "{}"), prepare=True)
    else:
        connection.execute(STATE_ONE, (shard, key, queue[8:]), prepare=True).fetchone()
        if queue == "listing/price":
            price = len(listing.title)
            saved = connection.execute(SAVE_ONE, (price, key, entity[3]), prepare=True)
            assert saved.rowcount == 1
            change = json.dumps({"f:price": 1, "v": entity[3] + 1, "by:price": entity[3] + 1})
            connection.execute(OFFER_ONE, (shard, key, "listing", change), prepare=True)
    connection.execute(DELETE_ONE, (shard, key, queue), prepare=True)
    story = (id, queue, key, created_at, due_at, json.dumps(payload))
    connection.execute(STORY_ONE, story, prepare=True)
    return True


# -- in batches, with nothing around

TAKE_MANY = """
select shard, key, id, version, payload::text from mainspring.visit
where queue = $1 and priority = 5 and pass is null and parked_at is null and due_at <= now()
order by due_at limit 500
"""
OFFER_MANY = """
insert into mainspring.visit as v (shard, key, queue, id, version, payload)
select i.shard, i.key, i.queue, gen_random_uuid(), mainspring.token(), i.payload::jsonb
from rows from (
  unnest($1::text::int[]), json_array_elements_text($2::text::json),
  json_array_elements_text($3::text::json), json_array_elements_text($4::text::json)
) as i(shard, key, queue, payload)
order by 1, 2, 3
on conflict (shard, key, queue) do update
set version = excluded.version, payload = v.payload || excluded.payload,
  due_at = least(v.due_at, excluded.due_at)
"""
SETTLE_MANY = """
with gone as (
  delete from mainspring.visit v using unnest($1::int[], $2::text[], $3::bigint[]) as i(shard, key, version)
  where v.shard = i.shard and v.key = i.key and v.queue = $4 and v.version = i.version
  returning v.key, v.id, v.payload, v.created_at, v.due_at
)
insert into mainspring.history_run (day, run, id, queue, key, priority, attempt, outcome, worker_id,
  created_at, due_at, started_at, ended_at, duration_ms, payload)
select current_date, mainspring.token(), id, $4, key, 5, 1, 'done', '00000000-0000-0000-0000-000000000000',
  created_at, due_at, now(), now(), 0, payload
from gone
"""
LOAD_MANY = """
select id::text, title, price, version, xmin::text from listing where id = any($1::text[]::bigint[])
"""
STATES_MANY = """
select s.key, s.stage, s.version, s.body from unnest($1::int[], $2::text[]) as i(shard, key)
join mainspring.state s on s.shard = i.shard and s.kind = 'listing' and s.key = i.key
"""
LOCK_MANY = """
select i.key from unnest($1::text[], $2::bigint[], $3::text[]) as i(key, version, xmin)
join listing t on t.id = i.key::bigint and t.version = i.version and t.xmin::text = i.xmin
order by t.id for no key update of t skip locked
"""
SAVE_MANY = """
update listing t set price = i.price, version = t.version + 1
from unnest($1::bigint[], $2::int[]) as i(id, price) where t.id = i.id returning t.id, t.version
"""
SETTINGS = (
    "set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off"
)


async def bare(url: str, changes: int, slots: int) -> float:
    began = time.perf_counter()
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("set mainspring.engine = 'on'; " + SETTINGS)
        busy = True
        while busy:
            busy = False
            for queue in ("listing", *(f"listing/{name}" for name in STAGES)):
                while await _many(connection, queue):
                    busy = True
    finally:
        await connection.close()
    return time.perf_counter() - began


async def _many(connection: asyncpg.Connection[Any], queue: str) -> bool:
    visits = await connection.fetch(TAKE_MANY, queue)
    if not visits:
        return False
    shards, keys = [v["shard"] for v in visits], [v["key"] for v in visits]
    entities = {row["id"]: row for row in await connection.fetch(LOAD_MANY, keys)}
    await connection.fetch(STATES_MANY, shards, keys)
    offers: list[tuple[int, str, str, str]] = []
    saves: list[Any] = []
    for visit in visits:
        listing = entities[visit["key"]]
        payload = json.loads(visit["payload"])
        if queue == "listing":
            if "f:title" in payload and listing["title"]:
                offers += [
                    (visit["shard"], visit["key"], f"listing/{name}", "{}") for name in STAGES
                ]
        elif queue == "listing/price":
            saves.append(listing)
    shard_of = dict(zip(keys, shards, strict=True))
    async with connection.transaction():
        if saves:
            await connection.fetch(
                LOCK_MANY,
                [s["id"] for s in saves],
                [s["version"] for s in saves],
                [s["xmin"] for s in saves],
            )
            saved = await connection.fetch(
                SAVE_MANY, [int(s["id"]) for s in saves], [len(s["title"]) for s in saves]
            )
            for id, version in saved:
                change = {"f:price": 1, "v": version, "by:price": version}
                offers.append((shard_of[str(id)], str(id), "listing", json.dumps(change)))
        if offers:
            in_shards, of_keys, to_queues, payloads = zip(*offers, strict=True)
            await connection.execute(
                OFFER_MANY, numbers(in_shards), texts(of_keys), texts(to_queues), texts(payloads)
            )
        await connection.execute(SETTLE_MANY, shards, keys, [v["version"] for v in visits], queue)
    return True


CONTENDERS = {"engine": engine, "loop": loop, "bare": bare}


def main() -> None:
    name, url, changes, slots = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if name == "prepare":
        asyncio.run(prepare(url, changes))
        return
    if name != "engine":
        gc.freeze()
        gc.set_threshold(COLLECT_AFTER, 10, 10)
    if name == "loop":
        seconds = loop(url, changes, slots)
    else:
        import uvloop

        seconds = uvloop.run(CONTENDERS[name](url, changes, slots))  # type: ignore[arg-type]
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select count(*) filter (where price = length(title)), "
            "(select count(*) from mainspring.visit), "
            "(select count(*) from mainspring.history) from listing"
        ).fetchone()
    assert row is not None
    done, left, runs = row
    print(json.dumps({"seconds": seconds, "done": done, "left": left, "runs": runs}))


if __name__ == "__main__":
    main()
