"""Events to a broker: what the relay does, against a bare loop, and against a producer alone.

``python -m benchmarks.events [EVENTS]`` measures all three in turns, each in a process of its own, and
prints the ratios: to NATS, and to a real Kafka broker where Java and Maven are there, else to librdkafka's
cluster.
The outbox is filled before: two events of each entity, with deliveries and visits, as saves leave them.

- engine: one worker with one sink, until nothing is left.
- bare: reads the same rows in pages, sends them, waits for each acknowledgement, deletes. No leases, no
  retries, no visits; one event of an entity is on its way at a time.
- producer: the same records from memory, in the same order for each entity, each acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import asyncpg

from mainspring import Mainspring, Saved, Untouched
from mainspring.sinks import Kafka, Nats
from mainspring.testing import TestServer

EVENTS = 40_000
ROUNDS = 3
CONTENDERS = ("engine", "bare", "producer")
PARTITIONS = 4
PAGE = 1000
SLOTS = 1000
KIND, SINK = "shop", "broker"
_TABLE = (
    "create table thing (id bigint primary key, price integer, version bigint not null default 1)"
)
_FILL = """
with item as (
  select n as id, mainspring.shard(n::text, i.shard_count) as shard
  from mainspring.install i, generate_series(1, $1::integer) n
),
event as (
  insert into mainspring.event (shard, kind, key, stage, what, entity_version, body, run)
  select i.shard, 'shop', i.id::text, 'Look', 'saved', 1, jsonb_build_object('entity',
    jsonb_build_object('id', i.id, 'title', 'A sunny flat with a view', 'price', 7, 'version', 1),
    'changed', jsonb_build_object('price', '[6, 7]'::jsonb)), 1
  from item i, generate_series(1, 2)
  returning shard, key, number
),
delivery as (
  insert into mainspring.delivery (shard, kind, key, consumer, number)
  select shard, 'shop', key, 'broker', number from event
)
select mainspring.offer_visits('shop!broker', array_agg(i.id::text), array_agg('{}'::jsonb)) from item i
"""
_READ = """
select d.shard, d.key, d.number, e.body::text, e.created_at
from (
  select distinct on (d.shard, d.key) d.shard, d.key, d.number
  from mainspring.delivery d
  where d.kind = 'shop' and d.consumer = 'broker' and (d.shard, d.key) > ($1, $2)
  order by d.shard, d.key, d.number
  limit $3
) d
join mainspring.event e on e.shard = d.shard and e.kind = 'shop' and e.key = d.key and e.number = d.number
order by d.shard, d.key
"""
_DELETE = [
    """
delete from mainspring.delivery d
using unnest($1::integer[], $2::text[], $3::bigint[]) i(shard, key, number)
where d.shard = i.shard and d.kind = 'shop' and d.consumer = 'broker' and d.key = i.key
  and d.number = i.number
""",
    """
delete from mainspring.event e
using unnest($1::integer[], $2::text[], $3::bigint[]) i(shard, key, number)
where e.shard = i.shard and e.kind = 'shop' and e.key = i.key and e.number = i.number
""",
]


def target(broker: str, address: str) -> Kafka | Nats:
    """The sink; its records are those of all three."""
    if broker == "kafka":
        return Kafka(address, topic="things")
    return Nats(address, subject="things", stream="things", create=True)


def application(url: str, sink: Kafka | Nats) -> Mainspring:
    app = Mainspring(url)
    kind = app.entities(KIND, table="public.thing", key="id")
    kind.stage(lambda entity: Untouched(), name="Look", interest=["price"])
    kind.sink(SINK, sink)
    return app


async def prepare(url: str, events: int, sink: Kafka | Nats) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(_TABLE)
    app = application(url, sink)
    await app.migrate()
    await app.close()
    await connection.execute(_FILL.replace("$1", str(events // 2)))
    await connection.execute("vacuum analyze")
    await connection.close()
    await sink.close()


async def engine(url: str, events: int, sink: Kafka | Nats) -> float:
    connection = await asyncpg.connect(url)
    async with application(url, sink) as app:
        began = time.perf_counter()
        async with app.worker(concurrency=SLOTS):
            while await connection.fetchval("select exists (select from mainspring.delivery)"):
                await asyncio.sleep(0.02)
            took = time.perf_counter() - began
    await connection.close()
    return took


async def bare(url: str, events: int, sink: Kafka | Nats) -> float:
    connection = await asyncpg.connect(url)
    await sink.probe()
    began = time.perf_counter()
    done = 0
    while done < events:
        at: tuple[int, str] = (-1, "")
        while rows := await connection.fetch(_READ, *at, PAGE):
            at = (rows[-1]["shard"], rows[-1]["key"])
            await asyncio.gather(
                *[sink.send(saved(r["key"], r["number"], r["body"], r["created_at"])) for r in rows]
            )
            values = [[row[name] for row in rows] for name in ("shard", "key", "number")]
            async with connection.transaction():
                for statement in _DELETE:
                    await connection.execute(statement, *values)
            done += len(rows)
    took = time.perf_counter() - began
    await connection.close()
    await sink.close()
    return took


async def producer(url: str, events: int, sink: Kafka | Nats) -> float:
    connection = await asyncpg.connect(url)
    rows = await connection.fetch(
        "select key, number, body::text, created_at from mainspring.event order by number"
    )
    await connection.close()
    entities: dict[str, list[Saved]] = {}
    for row in rows:
        entities.setdefault(row["key"], []).append(saved(*row))
    await sink.probe()
    began = time.perf_counter()
    waiting = iter(list(entities.values()))

    async def lane(groups: Any) -> None:
        for group in groups:
            for event in group:
                await sink.send(event)

    await asyncio.gather(*[lane(waiting) for _ in range(PAGE)])
    took = time.perf_counter() - began
    await sink.close()
    return took


def saved(key: str, number: int, body: str, created_at: Any) -> Saved:
    return Saved(
        kind=KIND,
        id=key,
        consumer=SINK,
        number=number,
        what="saved",
        stage="Look",
        entity=None,
        state=None,
        entity_version=1,
        state_version=None,
        changed={},
        created_at=created_at,
        key=key,
        body=body,
    )


@contextmanager
def kafka(home: Path) -> Iterator[str]:
    """The address of a broker, started as the tests start theirs."""
    import kafka_broker
    from brokers import KafkaCluster

    found, why = kafka_broker.classes()
    if found is None:
        print(f"Kafka is librdkafka's own cluster: {why}")
        cluster = KafkaCluster()
        yield cluster.servers
        cluster.end()
        return
    broker = kafka_broker.KafkaBroker(home)
    broker.start()
    try:
        broker.make("things", PARTITIONS)
        yield broker.servers
    finally:
        broker.kill()


def compare(events: int) -> None:
    """All contenders in turns, with each broker; what counts is the median of the ratios of a round."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))  # what starts the brokers is there
    from brokers import nats_server

    with TemporaryDirectory() as name, ExitStack() as stack:
        nats = stack.enter_context(nats_server(Path(name) / "nats")).url
        brokers = {"nats": nats, "kafka": stack.enter_context(kafka(Path(name) / "kafka"))}
        server = stack.enter_context(TestServer.from_environment())
        for broker, address in brokers.items():
            rounds = [
                {what: _child(server, what, events, broker, address) for what in CONTENDERS}
                for _ in range(ROUNDS)
            ]
            to_bare = statistics.median(r["bare"] / r["engine"] for r in rounds)
            to_producer = statistics.median(r["producer"] / r["engine"] for r in rounds)
            rate = statistics.median(events / r["engine"] for r in rounds)
            print(
                f"{broker}: {rate:,.0f} events/s; to a bare loop {to_bare:.2f} (goal: 0.6),"
                f" to the producer alone {to_producer:.2f} (goal: 0.5)"
            )


def _child(server: TestServer, what: str, events: int, broker: str, address: str) -> float:
    """Seconds of one contender on a database of its own."""
    with server.database() as url:
        for step in ("prepare", what):
            command = [sys.executable, "-m", "benchmarks.events", step, url, str(events)]
            ran = subprocess.run(
                [*command, broker, address], check=True, stdout=subprocess.PIPE, text=True
            )
    return float(json.loads(ran.stdout.splitlines()[-1])["seconds"])


def main(arguments: Sequence[str]) -> None:
    if len(arguments) < 2:
        compare(int(arguments[0]) if arguments else EVENTS)
        return
    what, url, events, broker, address = arguments
    if what == "prepare":
        asyncio.run(prepare(url, int(events), target(broker, address)))
        return
    run = {"engine": engine, "bare": bare, "producer": producer}[what]
    seconds = asyncio.run(run(url, int(events), target(broker, address)))
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1:])
