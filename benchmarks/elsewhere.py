"""Entity changes through five stages, of which none, one or all are in another process: what that costs.

`python -m benchmarks.elsewhere [CHANGES]` measures all of them in turn on one private server, and prints
the ratios. Others have a stage whose service is away, or hangs: the rate is that of the four others; or
one sink more, which takes what it is given. Then lone changes: how long after its commit what a stage makes
of it stands in the row. Only one of the stages writes; it is the first to be elsewhere. The service is this
project's, in Python, on the same cores.
"""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
import subprocess
import sys
import time
from typing import Any, NamedTuple

import psycopg
import uvloop

from benchmarks.listings import QUIET
from mainspring import Mainspring, Saved, Untouched, Update
from mainspring.stage_service import ServedStage, StageServer
from mainspring.testing import TestServer

CHANGES = 10_000
SLOTS = 1000
NAMES = ("price", *QUIET)
LONE = 60
NOBODY = "1"  # a port at which nobody listens


class Quiet(ServedStage):
    """Looks, and leaves the listing as it is."""

    kind = "listing"

    def __init__(self, stage: str) -> None:
        self.stage = stage

    async def should_process(self, item: Any) -> bool:
        return bool(item.entity["title"])

    async def process(self, item: Any) -> Update | Untouched:
        if self.stage == "price":
            return Update(price=len(item.entity["title"]))
        return Untouched()


class Taker:
    """A sink that takes what it is given."""

    async def send_many(self, groups: list[list[Saved]]) -> list[tuple[int, None]]:
        return [(len(events), None) for events in groups]


def application(url: str, remote: int, port: int, ask: bool) -> Mainspring:
    """The kind of `benchmarks.listings`, its first stages elsewhere."""
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

    for n, name in enumerate(NAMES):
        writes = ["price"] if name == "price" else []
        if n < remote:
            address = f"grpc://127.0.0.1:{port}"
            # Asked where it is in the process too: what is compared is where process is.
            here = True if ask else (lambda listing: bool(listing["title"]))
            kind.remote_stage(name, address, reads=["title"], writes=writes, ask=here)
        else:
            kind.stage(name=name, reads=["title"], writes=writes)(Price if writes else Stage)
    return app


async def work(url: str, slots: int, remote: int, port: int, how: str) -> tuple[float, float]:
    """Seconds, and seconds of this process's CPU."""
    app = application(url, remote, port, how == "ask")
    if how == "sink":
        app.kinds["listing"].sink("taker", Taker())
    async with app:
        began, cpu = time.perf_counter(), time.process_time()
        await app.run_worker(concurrency=slots, drain=True)
        return time.perf_counter() - began, time.process_time() - cpu


async def serve() -> None:
    async with StageServer("127.0.0.1:0", *map(Quiet, NAMES)) as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()


IN_HAND = 100  # entities of a stage elsewhere, in one worker


async def work_beside(url: str, slots: int, port: int, changes: int) -> tuple[float, float]:
    """The same until all visits of stages that are here are done, whatever the one elsewhere does.

    But for those of entities that a service that hangs has in hand: an entity's stages take turns, so
    they wait for its deadline, whatever the rate of the others is. As many are left out of each run.
    """
    async with application(url, 1, port, False) as app:
        began, cpu = time.perf_counter(), time.process_time()
        async with app.worker(concurrency=slots):
            with psycopg.connect(url, autocommit=True) as connection:
                while True:
                    row = connection.execute(DONE_HERE).fetchone()
                    if row is not None and row[0] >= (changes - IN_HAND) * len(QUIET):
                        break
                    await asyncio.sleep(0.1)
            seconds = time.perf_counter() - began
        return seconds, time.process_time() - cpu


async def lone(url: str, remote: int, port: int) -> tuple[float, float]:
    """One change after the other at a worker that has nothing else to do: the median of their times."""
    found = []
    async with application(url, remote, port, False) as app, app.worker():
        connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
        async with connection:
            for n in range(LONE + 10):
                await connection.execute("update listing set title = repeat('x', %s)", (n + 100,))
                began = time.perf_counter()
                while True:
                    cursor = await connection.execute("select min(price) from listing")
                    if await cursor.fetchone() == (n + 100,):
                        break
                    await asyncio.sleep(0.0005)
                found.append(time.perf_counter() - began)
                await asyncio.sleep(0.05)
    return statistics.median(found[10:]), 0.0


DONE_HERE = """
select count(*) from mainspring.history
where queue in ('listing/photos', 'listing/video', 'listing/expiry', 'listing/catalogue')
"""


def child(arguments: list[str]) -> str:
    """One step in a process of its own."""
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def measure(server: TestServer, changes: int, remote: int, port: str, how: str) -> Measured:
    """One contender on a database of its own."""
    with server.database() as url:
        child(["benchmarks.listings", "prepare", url, str(changes), str(SLOTS)])
        said = child(["benchmarks.elsewhere", "worker", url, str(changes), str(remote), port, how])
        return Measured(**json.loads(said.splitlines()[-1]))


class Measured(NamedTuple):
    seconds: float
    cpu: float  # seconds of the worker's


def compare(changes: int) -> None:
    """All of them, the first one twice: the mean of its two is what the others are held against."""
    command = [sys.executable, "-m", "benchmarks.elsewhere", "service"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service,
        TestServer.from_environment() as server,
    ):
        assert service.stdout is not None
        port = service.stdout.readline().strip()
        try:
            first = measure(server, changes, 0, port, "")
            one = measure(server, changes, 1, port, "")
            every = measure(server, changes, 5, port, "")
            asked = measure(server, changes, 5, port, "ask")
            healthy = measure(server, changes, 1, port, "beside")
            service.send_signal(signal.SIGSTOP)
            hanging = measure(server, changes, 1, port, "beside")
            service.send_signal(signal.SIGCONT)
            away = measure(server, changes, 1, NOBODY, "beside")
            sink = measure(server, changes, 0, port, "sink")
            last = measure(server, changes, 0, port, "")
            lone_here = measure(server, 1, 0, port, "lone")
            lone_there = measure(server, 1, 1, port, "lone")
        finally:
            service.kill()
    seconds, cpu = (first.seconds + last.seconds) / 2, (first.cpu + last.cpu) / 2
    print(f"{changes:,} changes; all here: {changes / seconds:,.0f}/s")
    for words, found in (("one", one), ("all", every), ("all, asked there too", asked)):
        print(f"{words} elsewhere: {seconds / found.seconds:.2f} of that")
    more = (every.cpu - cpu) / (5 * changes) * 1e6
    print(f"worker CPU more per visit elsewhere: {more:.0f} us")
    print(f"the four others while one hangs: {healthy.seconds / hanging.seconds:.2f}")
    print(f"the four others while one is away: {healthy.seconds / away.seconds:.2f}")
    print(f"with one sink more: {seconds / sink.seconds:.2f}")
    more = (lone_there.seconds - lone_here.seconds) * 1000
    print(
        f"a lone change: p50 {lone_here.seconds * 1000:.1f} ms here, elsewhere {more:.1f} ms more"
    )


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "service":
        uvloop.run(serve())
    elif what == "worker":
        url, changes, remote, port = sys.argv[2], *map(int, sys.argv[3:6])
        how = sys.argv[6]
        if how == "beside":
            seconds, cpu = uvloop.run(work_beside(url, SLOTS, port, changes))
        elif how == "lone":
            seconds, cpu = uvloop.run(lone(url, remote, port))
        else:
            seconds, cpu = uvloop.run(work(url, SLOTS, remote, port, how))
        print(json.dumps({"seconds": seconds, "cpu": cpu}))
    else:
        compare(int(what or CHANGES))


if __name__ == "__main__":
    main()
