"""The demo of `make demo`: durable tasks through a killed worker and a restarted database, then stages.

It starts a private PostgreSQL and two worker processes, enqueues several thousand tasks of
different kinds, kills one worker with SIGKILL in the middle, restarts the database once, and accounts for
every task at the end; then it plays the listings example (`listings/demo.py`). Exit 0 if nothing was
lost and nothing was done twice.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
from rich.console import Console
from rich.live import Live
from rich.table import Table

from mainspring.embedded.server import EmbeddedServer

DIRECTORY = Path(".mainspring") / "demo"
LIMIT_SECONDS = 150.0  # on a machine that is busy with other things
PATIENCE_SECONDS = 60.0  # of the listings, while nothing moves


def start_worker() -> subprocess.Popen[bytes]:
    """A worker as a process of its own, with a short lease so that the demo is short."""
    code = "import demo_tasks; demo_tasks.app.run(concurrency=20, lease=2.0, grace=5.0)"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


class Watch:
    """What the database says, as far as it can be asked."""

    def __init__(self, url: str, total: int) -> None:
        self.url = url
        self.total = total
        self.facts: dict[str, int] = {}
        self.news: list[str] = []
        self.parked: list[str] = []

    def look(self) -> bool:
        """Read the counts; False while the database is away."""
        try:
            with psycopg.connect(self.url, connect_timeout=2) as connection:
                row = connection.execute(_COUNTS).fetchone()
                parked = connection.execute(_PARKED).fetchall()
        except psycopg.OperationalError:
            return False
        assert row is not None
        self.parked = [text for (text,) in parked]
        names = ("done", "retried", "parked", "waiting", "workers", "twice", "violations")
        self.facts = dict(zip(names, row, strict=True))
        return True

    @property
    def finished(self) -> bool:
        return bool(self.facts) and self.facts["done"] + self.facts["parked"] >= self.total

    def table(self) -> Table:
        table = Table(title="Mainspring demo", title_justify="left", min_width=60)
        table.add_column("tasks")
        table.add_column("", justify="right")
        table.add_row("enqueued", str(self.total))
        for name in ("done", "parked", "waiting", "retried", "workers"):
            table.add_row(name, str(self.facts.get(name, 0)))
        for line in self.news:
            table.add_row(f"[bold]{line}[/bold]", "")
        return table


_PARKED = """
select queue || ' ' || (payload ->> 'number') from mainspring.visit
where parked_at is not null order by created_at, key
"""
_COUNTS = """
select
  (select count(distinct id) from mainspring.history where outcome = 'done'),
  (select count(*) from mainspring.history where outcome = 'retry'),
  (select count(*) from mainspring.visit where parked_at is not null),
  (select count(*) from mainspring.visit where parked_at is null),
  (select count(*) from mainspring.worker),
  (select count(*) from (select 1 from mainspring.history where outcome = 'done' and not superseded
     group by id having count(*) > 1) t)
    + (select count(*) from (select 1 from ledger group by number having count(*) > 1) t),
  (select count(*) from mainspring.violation)
"""


def run(console: Console) -> int:
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    server = EmbeddedServer(DIRECTORY)
    workers: list[subprocess.Popen[bytes]] = []
    try:
        console.print("starting a private PostgreSQL in .mainspring/demo ...")
        server.start()
        server.create_database("demo")
        os.environ["MAINSPRING_URL"] = server.url("demo")
        answer = play(console, server, workers)
        server.create_database("listings")
        from listings import demo as listings

        url = server.url("listings")
        return max(answer, listings.play(console, url, patience=PATIENCE_SECONDS))
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()
        server.stop()


def play(console: Console, server: EmbeddedServer, workers: list[subprocess.Popen[bytes]]) -> int:
    """Enqueue, run, kill, restart; then count."""
    from demo_tasks import app, enqueue_all  # reads MAINSPRING_URL

    began = time.monotonic()
    url = os.environ["MAINSPRING_URL"]
    app.migrate_sync()
    with psycopg.connect(url) as connection:
        connection.execute("create table ledger (number int, cents int)")
    total = asyncio.run(enqueue_all())
    watch = Watch(url, total)
    workers += [start_worker(), start_worker()]
    console.print(f"{total} tasks enqueued, two worker processes started")
    killed = restarted = False
    with Live(watch.table(), console=console, refresh_per_second=8, transient=False) as live:
        while not (watch.finished and restarted) and time.monotonic() - began < LIMIT_SECONDS:
            watch.look()
            done = watch.facts.get("done", 0)
            if not killed and done > total * 0.15:
                killed = True
                workers[0].send_signal(signal.SIGKILL)
                watch.news.append("worker 1 killed with SIGKILL; a new one takes its place")
                workers.append(start_worker())
            elif killed and not restarted and (done > total * 0.4 or watch.finished):
                restarted = True
                server.restart()
                watch.news.append("PostgreSQL restarted")
            live.update(watch.table())
            time.sleep(0.1)
    for worker in workers[1:]:
        worker.terminate()
    for worker in workers[1:]:
        worker.wait(20)
    watch.look()
    return account(console, watch, killed and restarted, time.monotonic() - began)


def account(console: Console, watch: Watch, faults_fired: bool, seconds: float) -> int:
    """Every task, accounted for."""
    facts = watch.facts
    lost = watch.total - facts["done"] - facts["parked"]
    table = Table(title="Every task accounted for", title_justify="left", min_width=60)
    table.add_column("")
    table.add_column("tasks", justify="right")
    for name, count in (
        ("enqueued", watch.total),
        ("done", facts["done"]),
        ("runs that failed and were retried", facts["retried"]),
        ("parked (their error needs an operator)", facts["parked"]),
        ("done twice", facts["twice"]),
        ("broken invariants", facts["violations"]),
        ("lost", lost),
    ):
        table.add_row(name, str(count))
    console.print()
    console.print(table)
    console.print(f"{seconds:.1f} s")
    console.print("parked: " + ", ".join(watch.parked) + " (rows without a date, as planned)")
    good = lost == 0 and facts["twice"] == 0 and facts["violations"] == 0 and faults_fired
    return 0 if good else 1


def end(*_: object) -> None:
    """Told to stop: the workers must not outlive the demo."""
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    sys.exit(run(Console()))
