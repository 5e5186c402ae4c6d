"""What workers cost their server when there is nothing to do: `python -m benchmarks.idle`.

    python -m benchmarks.idle --workers 10 --seconds 60

Starts workers with the default settings on a private server, waits until they have come to rest, and prints
what the server computed meanwhile, in percent of one core, with the connections and the statements a second
of each worker. The bounds are 1 % for ten workers, three connections and three statements.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg

from benchmarks import meter
from mainspring.db.database import Database
from mainspring.db.schema.migrate import migrate
from mainspring.embedded.server import EmbeddedServer

REST_SECONDS = 15.0  # for so long all workers have their three connections and no more
MOST_SECONDS = 300.0  # until then
PROGRAM = """
from mainspring import Mainspring
app = Mainspring()

@app.task
async def nothing(n: int) -> None: ...

app.run()
"""
OWN = "select count(*) from pg_stat_activity where application_name like 'mainspring:%'"
SENT = "select xact_commit + xact_rollback from pg_stat_database where datname = 'idle'"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="idle-") as folder:
        server = EmbeddedServer(Path(folder) / "server")
        server.start()
        try:
            server.create_database("idle")
            migrate(Database(server.url("idle")))
            measure(server, arguments.workers, arguments.seconds)
        finally:
            server.stop()


def measure(server: EmbeddedServer, count: int, seconds: float) -> None:
    """Print what so many idle workers cost."""
    environment = {**os.environ, "MAINSPRING_URL": server.url("idle")}
    with ExitStack() as stack:
        for _ in range(count):
            worker = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment)
            stack.callback(worker.wait)
            stack.callback(worker.terminate)
        # From another database: this look is not counted.
        url = server.url("postgres")
        look = stack.enter_context(psycopg.connect(url, autocommit=True))
        rest(look, count)
        assert server.pid is not None
        postmaster = [server.pid]
        cpu, sent, began = meter.cpu_seconds(postmaster), ask(look, SENT), time.monotonic()
        time.sleep(seconds)
        lasted = time.monotonic() - began
        cpu, sent = meter.cpu_seconds(postmaster) - cpu, ask(look, SENT) - sent
        connections = ask(look, OWN) / count
        print(
            f"{count} idle workers for {lasted:.0f} s: the server had {100 * cpu / lasted:.2f} % of "
            f"a core; a worker had {connections:.1f} connections and sent {sent / lasted / count:.2f} "
            f"transactions a second (load {os.getloadavg()[0]:.1f})"
        )


def rest(look: psycopg.Connection[tuple[int]], count: int) -> None:
    """Wait until all have come to rest."""
    deadline = time.monotonic() + MOST_SECONDS
    since = time.monotonic()
    while time.monotonic() < since + REST_SECONDS:
        if ask(look, OWN) != 3 * count:
            since = time.monotonic()
        assert since < deadline, f"{ask(look, OWN)} connections of {count} workers"
        time.sleep(0.2)


def ask(connection: psycopg.Connection[tuple[int]], query: str) -> int:
    row = connection.execute(query).fetchone()  # type: ignore[call-overload]
    return int(row[0])


if __name__ == "__main__":
    main()
