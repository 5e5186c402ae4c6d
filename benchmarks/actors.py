"""Actors elsewhere beside worker functions and a loop of single calls: `python -m benchmarks.actors`.

The same no-op tasks are run by a worker's function, pulled by an actor in Python (100 at once) over gRPC,
and pulled and completed one by one over the same server: steps of processes, which is what actors are for
and what the goals speak of, and calls of their own, which cost a worker far less than a step. Deciders have
made the steps before. Then: how soon after its enqueue a waiting pull
has a task, and what 500 waiting pulls of 10 actors cost. Server and actor are processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import uvloop

from benchmarks.meter import cpu_seconds
from mainspring import Mainspring, Promise, gather
from mainspring.client import AsyncClient
from mainspring.server.access.tokens import create_token
from mainspring.server.door import Door
from mainspring.server.settings import ServeSettings
from mainspring.testing import TestServer

ACTORS = [f"actor.{n}" for n in range(10)]
SLOTS = 500  # pulls are of 100; while their answers are on the way, others are at work
PROCESSES = 20
ROUNDS = 200
WAITING = 500
CALLERS = 5  # one caller has at most 256 calls that wait
LEFT = "select count(*) from (select from mainspring.visit where queue = 'actor.0' limit 1) v"
SENT = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"


def application(url: str, *, here_too: bool = False) -> Mainspring:
    """`here_too`: the worker's function is declared as one elsewhere, so that nobody runs it yet."""
    app = Mainspring(url)
    for name in ACTORS:

        @app.task(name=name, remote=True)
        def elsewhere(n: int) -> None: ...

    @app.task(name="here", remote=here_too)
    async def here(n: int) -> None: ...

    @app.process(name="fan")
    def fan(actor: str, width: int) -> Promise[list[None]]:
        return gather(*[app.tasks[actor](n) for n in range(width)])

    return app


async def fill(url: str, name: str, count: int) -> None:
    """Install it, and enqueue so many."""
    async with application(url) as app:
        await app.migrate()
        for begin in range(0, count, 1000):
            calls = [{"n": n} for n in range(begin, min(count, begin + 1000))]
            await app.tasks[name].enqueue_many(calls)


async def fill_steps(url: str, name: str, count: int) -> None:
    """The same as steps of processes."""
    async with application(url, here_too=True) as app:
        await app.migrate()
        for _ in range(PROCESSES):
            await app.processes["fan"].start(name, count // PROCESSES)
        await app.run_worker(drain=True)


async def work(url: str) -> None:
    """The worker functions: prints the seconds."""
    async with application(url) as app:
        began = time.perf_counter()
        await app.run_worker(drain=True)
        print(time.perf_counter() - began)


async def serve(url: str, token: str) -> None:
    app = application(url)
    door = Door(app, ServeSettings(grpc="127.0.0.1:0", token_file=token))
    print((await door.start())["gRPC"], flush=True)
    await asyncio.Event().wait()


async def act(address: str, token: str) -> None:
    """An actor elsewhere: prints the seconds until the answer for the last of its tasks is here."""
    async with AsyncClient(address, token=token, timeout=60) as client:

        async def nothing(n: int) -> None: ...

        loop = client.actors.loop({ACTORS[0]: nothing}, slots=SLOTS)
        began = time.perf_counter()
        running = asyncio.create_task(loop.run())
        await asyncio.to_thread(sys.stdin.readline)  # nothing is left
        print(time.perf_counter() - began)
        loop.stop()
        await running


async def act_singly(address: str, token: str, count: int) -> None:
    """Poll one, complete one: the manner of engines without lists."""
    async with AsyncClient(address, token=token, timeout=60) as client:
        began = time.perf_counter()
        for _ in range(count):
            [task] = (await client.actors.pull(ACTORS[0], limit=1)).tasks
            await client.actors.complete(task.ticket)
        print(time.perf_counter() - began)


async def measure_latency(address: str, token: str) -> tuple[list[float], list[float]]:
    """Seconds from the call that enqueues to its answer, and to the task in a waiting actor's hands."""
    answered, found = [], []
    async with (
        AsyncClient(address, token=token, timeout=60) as actor,
        AsyncClient(address, token=token, timeout=60) as caller,
    ):
        for n in range(ROUNDS):
            pull = asyncio.create_task(actor.actors.pull(ACTORS[0], wait=30))
            await asyncio.sleep(0.05)
            began = time.perf_counter()
            await caller.tasks.enqueue(ACTORS[0], {"n": n})
            answered.append(time.perf_counter() - began)
            [task] = (await pull).tasks
            found.append(time.perf_counter() - began)
            await actor.actors.complete(task.ticket)
    return answered[ROUNDS // 10 :], found[ROUNDS // 10 :]


async def measure_waiting(url: str, address: str, pid: int, seconds: float) -> tuple[float, float]:
    """What waiting pulls cost: percent of one core of the server's process, statements a second."""
    async with application(url) as app, AsyncExitStack() as stack:
        pool = await app.pool()
        clients = []
        async with pool.connection(transaction=True) as connection:
            for n in range(CALLERS):
                made = await create_token(connection, f"caller{n}", ["pull:*"])
                clients.append(AsyncClient(address, token=made.text, timeout=90))
        pulls = []
        for n in range(WAITING):
            if n < CALLERS:
                await stack.enter_async_context(clients[n])
            pull = clients[n % CALLERS].actors.pull(ACTORS[n % len(ACTORS)], wait=60)
            pulls.append(asyncio.create_task(pull))
        await asyncio.sleep(10)  # they have come to rest
        with psycopg.connect(url, autocommit=True) as connection_:
            began, cpu, sent = time.perf_counter(), cpu_seconds([pid]), one(connection_, SENT)
            await asyncio.sleep(seconds)
            passed = time.perf_counter() - began
            shares = (cpu_seconds([pid]) - cpu) / passed * 100
            statements = (one(connection_, SENT) - sent) / passed
        assert not any(pull.done() for pull in pulls), "a pull waits no more"
        for pull in pulls:
            pull.cancel()
        await asyncio.wait(pulls)
        return shares, statements


def one(connection: psycopg.Connection[tuple[int]], text: str) -> int:
    found = connection.execute(text.encode()).fetchone()
    assert found is not None
    return found[0]


def child(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.actors", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextmanager
def served(url: str, folder: Path) -> Iterator[tuple[str, str, int]]:
    """A server's address, the token of this machine, and its process."""
    token = folder / "token"
    with child("serve", url, str(token)) as process:
        try:
            address = said(process)
            yield address, token.read_text().strip(), process.pid
        finally:
            process.kill()


Fill = Callable[[str, str, int], Coroutine[None, None, None]]


def workers_rate(server: TestServer, count: int, fill: Fill) -> float:
    with server.database() as url:
        asyncio.run(fill(url, "here", count))
        with child("work", url) as process:
            return count / float(said(process))


def actors_rate(server: TestServer, folder: Path, count: int, fill: Fill) -> float:
    with server.database() as url:
        asyncio.run(fill(url, ACTORS[0], count))
        with served(url, folder) as (address, token, _), psycopg.connect(url) as connection:
            connection.autocommit = True
            with child("act", address, token) as process:
                while one(connection, LEFT):
                    time.sleep(0.02)
                assert process.stdin is not None
                print(file=process.stdin, flush=True)
                return count / float(said(process))


def singly_rate(server: TestServer, folder: Path, count: int, fill: Fill) -> float:
    with server.database() as url:
        asyncio.run(fill(url, ACTORS[0], count))
        with (
            served(url, folder) as (address, token, _),
            child("act-singly", address, token, str(count)) as process,
        ):
            return count / float(said(process))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    count = arguments.tasks
    goals = {"steps of processes": (" (goal: 0.35)", " (goal: 8)"), "calls of their own": ("", "")}
    with TestServer.from_environment() as server, TemporaryDirectory() as name:
        folder = Path(name)
        for what, filled in zip(goals, (fill_steps, fill), strict=True):
            rates = []
            for _ in range(arguments.pairs):
                here = workers_rate(server, count, filled)
                actors = actors_rate(server, folder, count, filled)
                singly = singly_rate(server, folder, max(100, count // 20), filled)
                rates.append((actors / here, actors / singly))
                print(f"workers {here:,.0f}/s, actor {actors:,.0f}/s, one by one {singly:,.0f}/s")
            to_workers, to_singly = (statistics.median(each) for each in zip(*rates, strict=True))
            print(f"{what}: to worker functions {to_workers:.2f}{goals[what][0]}")
            print(f"{what}: to one by one {to_singly:.1f}{goals[what][1]}")
        with server.database() as url:
            asyncio.run(fill(url, ACTORS[0], 0))
            with served(url, folder) as (address, token, pid):
                answered, found = asyncio.run(measure_latency(address, token))
                enqueued, p50 = (statistics.median(each) * 1000 for each in (answered, found))
                print(f"enqueue to pulled, idle: p50 {p50:.1f} ms (goal: 5 ms),")
                print(f"of which {enqueued:.1f} ms are the enqueue's own call")
                waiting = measure_waiting(url, address, pid, arguments.seconds)
                share, statements = asyncio.run(waiting)
                print(f"{WAITING} waiting pulls on {len(ACTORS)} actors: {share:.1f} % of a core")
                print(f"and {statements:.1f} transactions a second (goals: 1 %, 15)")


def run() -> None:
    match sys.argv[1:]:
        case ["work", url]:
            uvloop.run(work(url))
        case ["serve", url, token]:
            uvloop.run(serve(url, token))
        case ["act", address, token]:
            uvloop.run(act(address, token))
        case ["act-singly", address, token, count]:
            uvloop.run(act_singly(address, token, int(count)))
        case _:
            main()


if __name__ == "__main__":
    run()
