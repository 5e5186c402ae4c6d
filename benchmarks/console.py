"""The console at size: how long each screen takes on a database that is full.

    python -m benchmarks.console --keep .bench/console

Loads a database of its own once: a million visits, a tenth of them parked, ten million runs of history,
a hundred thousand processes. Then each screen is asked for some times, in this process, and beside its
time stands its slowest statement. What is asked for differs from time to time.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import psycopg

from benchmarks.size import load
from mainspring import Mainspring
from mainspring.console import Console
from mainspring.db.database import Connection
from mainspring.db.sql import Statement
from mainspring.embedded.server import EmbeddedServer

# A hundred thousand orders of four steps: most done, one in 50 waits for a person, one in 500 is parked.
# The last one has made ten thousand calls.
# ruff: noqa: E501
PROCESSES = (
    """insert into mainspring.process (id, type, key, state, root, root_closed, start, attrs, created_at, ended_at)
    select id, 'order-' || n %% 20, 'o-' || n, case when n %% 50 = 0 or n = 1 then 'open' else 'finished' end::mainspring.process_state,
      id, true, '{"number": 1}', jsonb_build_object('shop', n %% 5000, 'city', 'c' || n %% 300),
      now() - make_interval(secs => %(processes)s - n), case when n %% 50 > 0 and n > 1 then now() end
    from generate_series(1, %(processes)s) n, lateral (select mainspring.uuid7() as id where n > 0) i""",
    """with p as (
      select id, state, substr(key, 3)::bigint as n, created_at from mainspring.process
    )
    insert into mainspring.task (process_id, id, created_by, promise, actor, state, args, outcome, result, created_at, changed_at)
    select p.id, case when s = 0 then p.id else mainspring.uuid7() end, case when s > 0 then p.id end, case when s = 0 then p.id else mainspring.uuid7() end,
      (array['order-' || p.n %% 20, 'reserve', 'charge', 'ship'])[s + 1],
      case when s = 2 and p.n %% 500 = 0 then 'parked' when s = 2 and p.n %% 50 = 0 then 'external' else 'done' end::mainspring.task_state,
      '{"item": "lamp"}', case when s < 2 or p.n %% 50 > 0 then 'ok' end::mainspring.promise_outcome, '"done"', p.created_at, p.created_at
    from p cross join generate_series(0, 3) s
    where s < 3 or p.n %% 50 > 0""",
    """insert into mainspring.task (process_id, id, created_by, promise, actor, state, args, outcome, result)
    select id, i.task, id, i.task, 'price', 'done', '{"item": "lamp"}', 'ok', '1'
    from mainspring.process, generate_series(1, 10000) n, lateral (select mainspring.uuid7() as task where n > 0) i
    where key = 'o-1'""",
    """insert into mainspring.parked_task (task, process_id, type, actor, fingerprint, error_type, error, parked_at)
    select t.id, t.process_id, p.type, t.actor, 'f' || substr(p.key, 3)::bigint %% 10, 'ConnectionError', 'the bank does not answer', t.changed_at
    from mainspring.task t join mainspring.process p on p.id = t.process_id
    where t.state = 'parked'""",
    "vacuum analyze",
)
# What each screen is asked for, by the number of the time.
PATHS: dict[str, Any] = {
    "/": lambda n: {},
    "/queues": lambda n: {},
    "/queues/one": lambda n: {"name": f"q{n % 200 + 1:04}"},
    "/tasks": lambda n: {},
    "/tasks of a queue": lambda n: {"queue": f"q{n % 200 + 1:04}"},
    "/tasks by state": lambda n: {"state": ("waiting", "scheduled", "running")[n % 3]},
    "/tasks by key": lambda n: {"key": f"v{n * 7919}"},
    "/tasks/one": lambda n: {"queue": f"q{(n * 7919) % 200 + 1:04}", "key": f"v{n * 7919}"},
    "/parked": lambda n: {},
    "/parked/group": lambda n: {"queue": f"q{n % 200 + 1:04}", "error_type": "KeyError"},
    "/parked/group of all": lambda n: {},
    "/parked/group by type": lambda n: {"error_type": "ValueError"},
    "/parked/group by text": lambda n: {"error": "row 7", "queue": f"q{n % 200 + 1:04}"},
    "/history": lambda n: {},
    "/history of a queue": lambda n: {"queue": f"q{n % 200 + 1:04}"},
    "/history by type": lambda n: {"error_type": "ValueError"},
    "/history by outcome": lambda n: {"outcome": "retry"},
    "/history by key": lambda n: {"key": f"past {n * 7919}"},
    "/history by text": lambda n: {"error": "no such", "queue": f"q{n % 200 + 1:04}"},
    "/recurring": lambda n: {},
    "/entities": lambda n: {},
    "/processes": lambda n: {},
    "/processes by type": lambda n: {"type": f"order-{n % 20}", "state": "open"},
    "/processes by attribute": lambda n: {"attrs": f"shop={n * 97 % 5000}"},
    "/processes by task": lambda n: {"task": "charge", "type": "order-3"},
    "/processes by error": lambda n: {"error": "bank"},
    "/processes parked": lambda n: {"parked": "1"},
    "/processes/one": lambda n: {"id": f"o-{n * 97 + 50}"},
    "/processes/one large": lambda n: {"id": "o-1"},
    "/reactive": lambda n: {},
    "/params": lambda n: {},
    "/operations": lambda n: {},
    "/sources": lambda n: {},
    "/services": lambda n: {},
    "/settings": lambda n: {},
    "/metrics": lambda n: {},
    "/metrics of a queue": lambda n: {"queue": f"q{n % 200 + 1:04}"},
    "/workers": lambda n: {},
    "/doctor": lambda n: {},
    "/audit": lambda n: {},
    "/jump": lambda n: {"q": f"v{n * 7919}"},
    "/jump to nothing": lambda n: {"q": f"nothing {n}"},
}


class Screen(NamedTuple):
    """What a screen took, in ms: by the clock, and computed by the console and by its sessions.

    On a machine that others use, too, only what was computed is steady.
    """

    name: str
    p50: float
    p95: float
    own: float
    server: float
    statements: float  # how many
    slowest: float
    which: str


def load_all(url: str, visits: int, runs: int, processes: int) -> None:
    """Fill an empty database."""
    load(url, visits, runs)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in PROCESSES:
            began = time.monotonic()
            values = {"processes": processes} if "%" in statement else None
            connection.execute(statement, values)
            print(f"{time.monotonic() - began:7.1f} s  {statement.split(' (')[0][:60]}", flush=True)


@contextmanager
def noting(noted: list[tuple[str, float]]) -> Iterator[None]:
    """While each statement is timed."""
    send = Connection.send

    async def timed(self: Connection, statement: Statement, values: Any) -> Sequence[Any]:
        began = time.perf_counter()
        try:
            return await send(self, statement, values)
        finally:
            noted.append((statement.name, (time.perf_counter() - began) * 1000))

    Connection.send = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        Connection.send = send  # type: ignore[method-assign]


class Watched:
    """The console; when its last answer was whole, and what had been computed by then. What it does
    after that (the doctor looks) nobody waits for."""

    def __init__(self, app: Mainspring, sessions: list[int]) -> None:
        self._console = Console(app)
        self._sessions = sessions

    def spent(self) -> tuple[float, float, float]:
        """By the clock, by this process, by the sessions; in ms."""
        server = 0.0
        for session in self._sessions:
            with suppress(OSError):
                stat = Path(f"/proc/{session}/stat").read_text().rpartition(")")[2].split()
                server += (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        return time.perf_counter() * 1000, time.process_time() * 1000, server * 1000

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def noted(message: Any) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self.done = self.spent()

        await self._console(scope, receive, noted)


async def measure(url: str, times: int, only: str = "") -> list[Screen]:
    """Each screen, asked for some times. The shared snapshot is made anew for each."""
    found = []
    noted: list[tuple[str, float]] = []
    async with Mainspring(url) as app:
        await app.operator.status()
        for name in PATHS:
            if only not in name:
                continue
            took, own, server, slowest, sent = list[float](), 0.0, 0.0, (0.0, ""), 0
            with noting(noted):
                for n in range(times + 1):
                    console = Watched(app, _sessions(url))
                    transport = httpx.ASGITransport(console)
                    path = path_of(name, n)
                    noted.clear()
                    async with httpx.AsyncClient(
                        transport=transport, base_url="http://console"
                    ) as client:
                        began = console.spent()
                        answer = await client.get(path)
                    assert answer.status_code in (200, 303, 404), (path, answer.text)
                    if n == 0:  # the first fills the caches of a server that has just started
                        continue
                    spent = [b - a for a, b in zip(began, console.done, strict=True)]
                    took.append(spent[0])
                    own, server = own + spent[1] / times, server + spent[2] / times
                    doctor = {"list_exposed"} & {which for which, _ in noted}
                    asked = (
                        noted[: [w for w, _ in noted].index("list_exposed")] if doctor else noted
                    )
                    sent += len(asked)
                    slowest = max(slowest, *((ms, which) for which, ms in asked), (0.0, ""))
            p95 = sorted(took)[max(0, math.ceil(len(took) * 0.95) - 1)]
            middle = statistics.median(took)
            found.append(Screen(name, middle, p95, own, server, sent / times, *slowest))
            print(line(found[-1]), flush=True)
    return found


def path_of(name: str, n: int) -> str:
    """What is asked for at a time."""
    return f"{name.partition(' ')[0]}?{urlencode(PATHS[name](n))}"


def _sessions(url: str) -> list[int]:
    with psycopg.connect(url, autocommit=True) as connection:
        return [
            pid
            for (pid,) in connection.execute(
                "select pid from pg_stat_activity where datname = current_database()"
                " and application_name like 'mainspring:%'"
            )
        ]


def line(screen: Screen) -> str:
    """A row of the table."""
    return (
        f"| {screen.name} | {screen.p50:.0f} | {screen.p95:.0f} | {screen.own:.0f} | "
        f"{screen.server:.0f} | {screen.statements:.0f} | {screen.slowest:.0f} | {screen.which} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=10_000_000, help="of history")
    parser.add_argument("--processes", type=int, default=100_000)
    parser.add_argument("--keep", type=Path, default=Path(".bench/console"))
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", default="", help="screens with this in their name")
    given = parser.parse_args()
    server = EmbeddedServer(given.keep)
    server.start()
    server.create_database()
    url = server.url()
    with psycopg.connect(url, autocommit=True) as connection:
        full = connection.execute("select to_regclass('mainspring.visit') is not null").fetchone()
    if not (full and full[0]):
        load_all(url, given.visits, given.runs, given.processes)
    print(
        "| screen | p50 ms | p95 ms | computed here | computed there | statements | slowest ms | which |"
        "\n|---|--:|--:|--:|--:|--:|--:|---|"
    )
    if given.times:
        asyncio.run(measure(url, given.times, given.only))


if __name__ == "__main__":
    main()
