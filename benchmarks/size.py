"""What an operator waits for at size: every command that shows something, on a database that is full.

    python -m benchmarks.size --visits 1000000 --runs 5000000 --keep .bench/size

Loads a database of its own once (visits in 200 of 2,000 queues, a tenth of them parked, history over 30
days, most of it in bundles), then times each command as a process of its own, start of Python included,
and prints the time of `mainspring --help` beside it: that is what starting alone costs here. Beside the
time stands what the command and its server computed: on a machine that others use, too, only that is
steady, and their sum is what a machine at rest would take.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from mainspring.db.database import Database
from mainspring.db.schema.migrate import migrate
from mainspring.embedded.server import EmbeddedServer

DAYS = 30
QUEUES = 2_000
BUNDLE = 500
COMMANDS = (
    ("--help",),
    ("status",),
    ("status", "--json"),
    ("queues", "list"),
    ("parked", "list"),
    ("parked", "groups"),
    ("metrics",),
    ("history",),
    ("history", "--since", "7d"),
    ("history", "--queue", "q0007"),
    ("history", "--error-type", "ValueError"),
    ("why", "q0008", "v7"),
    ("tasks", "list"),
    ("recurring", "list"),
    ("operations", "list"),
    ("processes", "list"),
    ("doctor",),
)
# ruff: noqa: E501
LOAD = (
    """do $$ declare d date; begin
      for d in select (now() at time zone 'UTC')::date - n from generate_series(0, 29) n loop
        execute format('create table if not exists mainspring.history_%s partition of mainspring.history_run
          for values from (%L) to (%L)', to_char(d, 'YYYY_MM_DD'), d, d + 1);
        execute format('create table if not exists mainspring.history_bundle_%s partition of mainspring.history_bundle
          for values from (%L) to (%L)', to_char(d, 'YYYY_MM_DD'), d, d + 1);
      end loop; end $$""",
    """insert into mainspring.queue (name, pool)
    select 'q' || to_char(n, 'FM0000'), 'default' from generate_series(1, %(queues)s) n""",
    """insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, version, attempt, parked_at, error, error_type, fingerprint, payload)
    select mainspring.shard(coalesce(g.grp, 'v' || n), 1024), 'v' || n, 'q' || to_char(n %% 200 + 1, 'FM0000'), gen_random_uuid(),
      g.grp, (n %% 3 + 4)::smallint, now() - make_interval(secs => n * 0.001) + make_interval(days => case when n %% 5 = 0 then 40 else 0 end), n, 0,
      case when n %% 10 = 3 then now() - make_interval(secs => n) end,
      case when n %% 10 = 3 then (array['ValueError','KeyError','TimeoutError'])[n %% 3 + 1] || ': row ' || n || repeat(' of a long text', 20) end,
      case when n %% 10 = 3 then (array['ValueError','KeyError','TimeoutError'])[n %% 3 + 1] end,
      case when n %% 10 = 3 then left(md5('q' || n %% 200 || n %% 3), 16) end,
      jsonb_build_object('order', n, 'text', repeat('x', 100))
    from generate_series(1, %(visits)s) n
    cross join lateral (select case when n %% 4 = 0 then 'g' || (n %% 997) end as grp) g""",
    """insert into mainspring.history_run (day, run, id, queue, key, priority, attempt, outcome, worker_id,
      created_at, due_at, started_at, ended_at, duration_ms, error_type, error, payload)
    select (h.at at time zone 'UTC')::date, n, gen_random_uuid(), 'q' || to_char(n %% %(queues)s + 1, 'FM0000'), 'past ' || n, 5, 1,
      case when n %% 20 = 0 then 'retry' else 'done' end::mainspring.outcome, gen_random_uuid(), h.at, h.at, h.at, h.at, 1,
      case when n %% 20 = 0 then 'ValueError' end, case when n %% 20 = 0 then 'ValueError: row ' || n end, '{"order": 1}'
    from generate_series(1, %(rows)s) n
    cross join lateral (
      select now() - make_interval(secs => (n::double precision / %(rows)s) * 86400 * (%(days)s - 1)) as at) h
    order by h.at""",
    """insert into mainspring.history_bundle (day, queue, priority, worker_id, kin, first_key, last_key, first_end, last_end, size,
      took_us, runs, ids, due_at, created_at, started_us, took, payloads)
    select (b.at at time zone 'UTC')::date, 'q' || to_char(b.n %% 200 + 1, 'FM0000'), 5, gen_random_uuid(), left(min(u.id::text), 8),
      min(u.id::text), max(u.id::text), b.at, b.at + interval '1 s', %(bundle)s, %(bundle)s * 1000,
      array_agg(1000000000 + b.n::bigint * %(bundle)s + u.i), array_agg(u.id), array_agg(b.at), array_agg(b.at),
      array_agg((extract(epoch from b.at) * 1e6)::bigint), array_agg(1000::bigint), array_agg('{"order": 1}'::jsonb)
    from (
      select n, now() - make_interval(secs => (n::double precision / %(bundles)s) * 86400 * (%(days)s - 1)) as at
      from generate_series(1, %(bundles)s) n
    ) b
    cross join lateral (select i, mainspring.uuid7() as id from generate_series(1, %(bundle)s) i) u
    group by b.n, b.at
    order by b.at""",
    "vacuum analyze",
)


def load(url: str, visits: int, runs: int) -> None:
    """Fill an empty database."""
    values = {
        "queues": QUEUES,
        "visits": visits,
        "rows": runs // 5,
        "bundles": runs * 4 // 5 // BUNDLE,
        "bundle": BUNDLE,
        "days": DAYS,
    }
    migrate(Database(url))
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in LOAD:
            began = time.monotonic()
            connection.execute(statement, values if "%(" in statement else None)
            print(f"{time.monotonic() - began:7.1f} s  {statement.split(' (')[0]}", flush=True)


class Cost(NamedTuple):
    """What a command took, in seconds."""

    waited: float
    command: float  # computed by it
    server: float  # computed for it by PostgreSQL


def timed(url: str, command: tuple[str, ...], runs: int) -> tuple[Cost, int]:
    """The best of some runs (the machine is noisy), and the lines that were printed."""
    costs, lines = [], 0
    more = () if command == ("--help",) else ("--url", url)
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(runs):
            began, spent, served = time.monotonic(), _spent(), _served(connection)
            ran = subprocess.run(
                [Path(sys.executable).parent / "mainspring", *command, *more],
                capture_output=True,
                check=False,
            )
            waited = time.monotonic() - began
            if ran.returncode not in (0, 1):
                raise SystemExit(f"{command}: {ran.stdout.decode()}{ran.stderr.decode()}")
            costs.append(Cost(waited, _spent() - spent, _served(connection) - served))
            lines = len(ran.stdout.splitlines())
    return Cost(*(min(one) for one in zip(*costs, strict=True))), lines


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _served(connection: psycopg.Connection[Any]) -> float:
    """What the ended sessions of the server have computed, by its own account."""
    while True:
        row = connection.execute(
            "select count(*) from pg_stat_activity "
            "where application_name like 'mainspring:%' or backend_type = 'parallel worker'"
        ).fetchone()
        if row and row[0] == 0:
            break
    backend = (
        Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()
    )
    server = Path(f"/proc/{backend[1]}/stat").read_text().rpartition(")")[2].split()
    return (int(server[13]) + int(server[14])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5_000_000, help="of history")
    parser.add_argument("--keep", type=Path, default=Path(".bench/size"))
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    server = EmbeddedServer(given.keep)
    server.start()
    server.create_database()
    url = server.url()
    with psycopg.connect(url, autocommit=True) as connection:
        full = connection.execute("select to_regclass('mainspring.visit') is not null").fetchone()
    if not (full and full[0]):
        load(url, given.visits, given.runs)
    print("| command | lines | waited s | command s | server s | both |\n|---|--:|--:|--:|--:|--:|")
    for command in COMMANDS if given.times else ():
        cost, lines = timed(url, command, given.times)
        print(
            f"| `{' '.join(command)}` | {lines:,} | {cost.waited:.2f} | {cost.command:.2f} | "
            f"{cost.server:.2f} | {cost.command + cost.server:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
