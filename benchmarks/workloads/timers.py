"""Timers: a million visits of a stage that wait for their time, and some that come due.

How late the due ones start is read from history, by the database's clock. What the waiting ones cost the
others is counted in buffers, on the empty table and beside the million: of an offer by the queue's own
call, one entity after the other; of the statement by which the engine offers a hundred at once; and of the
settle of a hundred.

The slow lane has ten times as many and takes minutes, so no run of all workloads has it:
`python -m benchmarks.workloads.timers 10000000` prints its figures, on a server of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any
from uuid import UUID

import psycopg

from benchmarks.lab import Lab
from benchmarks.stage import Failed
from benchmarks.workloads.workload import Figure, Trial, Workload, curve, percentile
from mainspring.db.database import Database
from mainspring.entities.offers import StageOffer, offer_values
from mainspring.ids import token
from mainspring.kernel.outcome import Done, Outcome
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.settle.batches import settle_arguments
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import Run, Visit

WAITING = 1_000_000
QUICK_WAITING = 100_000
DUE = 2_000
DUE_PER_SECOND = 100
STARTS_AFTER = 8  # seconds until the first is due: the worker is up by then
SAMPLE = 100
MOST_SECONDS = 120
DATABASE = "timers"

FILL = """
insert into mainspring.visit (shard, key, queue, id, version, payload, due_at)
select mainspring.shard(n::text, shard_count), n::text, 'listing/expiry', gen_random_uuid(),
  mainspring.token(), '{{}}',
  now() + make_interval(days => 1) + n * interval '15 seconds'
from generate_series(1000001, 1000000 + {waiting}) n, mainspring.install
"""
TO_COME_DUE = """
insert into mainspring.visit (shard, key, queue, id, version, payload, due_at)
select mainspring.shard(n::text, shard_count), n::text, 'listing/expiry', gen_random_uuid(),
  mainspring.token(), '{{}}',
  now() + make_interval(secs => {after} + n / {rate}.0)
from generate_series(1, {due}) n, mainspring.install
"""
LATENESS = """
select 1000 * extract(epoch from started_at - due_at)::double precision from mainspring.history
where queue = 'listing/expiry'
"""


OFFER = "select mainspring.offer('listing', %(key)s, 'catalogue')"


def measure(trial: Trial) -> list[Figure]:
    return measure_beside(trial.lab, QUICK_WAITING if trial.quick else WAITING)


def measure_beside(lab: Lab, waiting: int) -> list[Figure]:
    """The figures beside so many waiting timers."""
    lab.drop(DATABASE)
    lab.run(f"create database {DATABASE}")
    url = lab.server.url(DATABASE)
    try:
        _listings("prepare", url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("delete from mainspring.visit")
            empty = buffers(url)
            connection.execute(FILL.format(waiting=waiting).encode())
            connection.execute("vacuum analyze mainspring.visit")
            full = buffers(url)
            late = lateness(url, connection)
    finally:
        lab.drop(DATABASE)
    extra: dict[str, Any] = {"waiting": waiting, "due": DUE, "curve": curve(late)}
    figures = [Figure("timers-1m", percentile(late, 99), "ms late p99", False, extra)]
    for what in ("offer", "offer-100", "settle"):
        more = round(100 * (full[what] / empty[what] - 1), 1)
        extra = {"empty": empty[what], "more_percent": more}
        figures.append(Figure(f"timers-{what}", full[what], "buffers", False, extra))
    return figures


def lateness(url: str, connection: psycopg.Connection[Any]) -> list[float]:
    """Milliseconds between the time of each due timer and its start."""
    due = TO_COME_DUE.format(after=STARTS_AFTER, rate=DUE_PER_SECOND, due=DUE)
    connection.execute(due.encode())
    worker = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.workloads.timers", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + MOST_SECONDS
        while (left := _due_left(connection)) and time.monotonic() < end:
            if worker.poll() is not None:
                raise Failed("the worker of the timers ended")
            time.sleep(0.2)
    finally:
        worker.terminate()
        worker.wait(20)
    if left:
        raise Failed(f"{left:,} of {DUE:,} timers did not start in {MOST_SECONDS} s")
    return [row[0] for row in connection.execute(LATENESS.encode())]


def _due_left(connection: psycopg.Connection[Any]) -> int:
    # By the readers' index: a scan of the million, over and over, would be the load that is measured.
    row = connection.execute(
        "select count(*) from mainspring.visit where queue = 'listing/expiry' and priority = 5 "
        "and pass is null and parked_at is null and due_at < now() + interval '1 hour'"
    ).fetchone()
    return int(row[0]) if row else 0


def _listings(what: str, url: str) -> None:
    command = [sys.executable, "-m", "benchmarks.listings", what, url, str(DUE), "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise Failed(done.stderr.strip().splitlines()[-1][:300])


# -- buffers


async def _nothing(_: Run) -> Outcome:
    raise AssertionError("never run")


def buffers(url: str) -> dict[str, int]:
    """Pages that offers and a settle of a hundred entities touch, those of the history included.

    The entities lie all over the million, and their queue before that of the timers: at the end of an
    index the server remembers its last page, which would flatter us.
    """
    with Database(url).connect_sync("bench") as connection:
        connection.autocommit = True
        found = {}
        for _ in range(
            4
        ):  # at the last nothing is new to the connection, and history has its depth
            offers = _offers(connection)
            values = offer_values(offers)
            found["offer"] = sum(
                _touched(connection, OFFER, {"key": offer.key}) for offer in offers
            )
            connection.execute("delete from mainspring.visit where queue = 'listing/catalogue'")
            found["offer-100"] = _touched(connection, SQL["offer_many"].text, values)
            addresses = _addresses(connection)
            settling = _settling(offers, values, addresses)
            found["settle"] = _touched(connection, SQL["settle"].text, settling)
        return found


def _offers(connection: psycopg.Connection[Any]) -> list[StageOffer]:
    rows = connection.execute(
        "select n::text, mainspring.shard(n::text, shard_count) from mainspring.install, "
        "generate_series(1000001, 1999999, 999999 / %s) n",
        (SAMPLE,),
    ).fetchall()
    return [StageOffer("listing/catalogue", shard, key) for key, shard in rows[:SAMPLE]]


def _addresses(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Where the offered visits lie, as a read would tell."""
    rows = connection.execute(
        "select key, ctid::text from mainspring.visit where queue = 'listing/catalogue'"
        " and pass is null and parked_at is null and priority = 5"
    )
    return dict(rows.fetchall())


def _settling(
    offers: list[StageOffer], values: dict[str, Any], addresses: dict[str, str]
) -> dict[str, Any]:
    """The arguments of a settle of runs of these offers."""
    settings = QueueSettings(name="listing/catalogue", handler=_nothing)
    now = time.time()
    ids, versions = _listed(values["ids"]), _listed(values["versions"])
    runs = []
    for offer, id, version in zip(offers, ids, versions, strict=True):
        visit = Visit(
            shard=offer.shard,
            key=offer.key,
            queue=offer.queue,
            id=UUID(id),
            group=None,
            priority=5,
            due=now,
            version=int(version),
            attempt=0,
            crashes=0,
            expires_at=None,
            payload="{}",
            address=addresses[offer.key],
        )
        runs.append(Run(visit, token(), now, 0.0, settings=settings, outcome=Done()))
    runs.sort(key=lambda run: (run.visit.shard, run.visit.key))
    return dict(zip(SQL["settle"].names, settle_arguments(runs, UUID(int=1)), strict=True))


def _listed(literal: str) -> list[str]:
    return literal[1:-1].split(",")


def _touched(connection: psycopg.Connection[Any], statement: str, values: dict[str, Any]) -> int:
    explain = "explain (analyze, buffers, format json) " + statement
    row = connection.execute(explain.encode(), values).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    # What nobody reads from runs after the plan, and is not counted in it.
    unread = [part for part in plan.get("Plans", ()) if part.get("Subplan Name") == "CTE story"]
    return sum(part["Shared Hit Blocks"] + part["Shared Read Blocks"] for part in (plan, *unread))


def main() -> None:
    """The worker, until it is terminated; or the slow lane, if a number is given."""
    if sys.argv[1].isdigit():
        with Lab() as lab:
            for figure in measure_beside(lab, int(sys.argv[1])):
                more = figure.extra.get("more_percent")
                beside = "" if more is None else f" ({more:+.1f} % beside an empty table)"
                print(f"{figure.workload}: {figure.value:,.1f} {figure.unit}{beside}")
        return
    import asyncio

    import uvloop

    from benchmarks.listings import application

    async def serve(url: str) -> None:
        app = application(url)
        async with app, app.worker(concurrency=100):
            await asyncio.Event().wait()

    uvloop.run(serve(sys.argv[1]))


TIMERS = Workload(
    "timers-1m",
    measure,
    gives=("timers-1m", "timers-offer", "timers-offer-100", "timers-settle"),
    systems=("mainspring",),
    most_runs=1,
    most_seconds=400,
)

if __name__ == "__main__":
    main()
