"""Capture: what our triggers add to a user's own updates, beside a plain row-level audit trigger.

One update of many rows of 14 columns, one column changed: first with no visit there, then merging
into waiting visits; and updates of one row, each a transaction. `bare` is the trigger most teams have
already: for each row, old and new as JSON into an audit table.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg

from benchmarks.stage import Stage
from benchmarks.workloads.workload import Figure, Trial, Workload, percentile
from mainspring import Mainspring

ROWS = 300_000
QUICK_ROWS = 100_000
SINGLES = 2_000

TABLE = """
create table listing (
  id bigint primary key, title text, body text, price numeric(12, 2), currency text, city text,
  lat double precision, lon double precision, owner bigint, photos integer, active boolean,
  created_at timestamptz default now(), updated_at timestamptz default now(),
  version bigint not null default 1
) with (fillfactor = 50);
insert into listing (id, title, body, price, currency, city, lat, lon, owner, photos, active)
select n, 'listing ' || n, repeat('some words ', 10), n % 1000, 'EUR', 'city ' || n % 100, 1.5 * n, 2.5 * n,
  n % 5000, 3, true
from generate_series(1, {rows}) n
"""
AUDIT = """
create table audit (
  id bigint generated always as identity primary key, relation text, operation text, old jsonb, new jsonb,
  at timestamptz not null default now(), who text not null default current_user
);
create function note_change() returns trigger language plpgsql as $$
begin
  insert into audit (relation, operation, old, new)
  values (tg_table_name, tg_op, to_jsonb(old), to_jsonb(new));
  return null;
end $$;
create trigger note_change after insert or update or delete on listing
  for each row execute function note_change()
"""


def measure(trial: Trial) -> list[Figure]:
    rows = QUICK_ROWS if trial.quick else ROWS
    with (
        trial.lab.stage(trial.system, trial.settings) as stage,
        psycopg.connect(stage.url, autocommit=True) as connection,
    ):
        connection.execute(TABLE.format(rows=rows).encode())
        if trial.system.name == "bare":
            connection.execute(AUDIT.encode())
        else:
            app = Mainspring(stage.url)
            app.entities("listing", table="listing", ignore=["updated_at"])
            app.migrate_sync()
            app.close_sync()
        first, cpu, wal = bulk(stage, connection, rows)
        again, again_cpu, _ = bulk(stage, connection, rows)
        ones = singles(connection)
    extra = {"n": rows, "wal_bytes": wal}
    return [
        Figure("capture", first, "us/row", higher_is_better=False, extra=extra),
        Figure("capture-cpu", cpu, "us/row", higher_is_better=False, extra={"n": rows}),
        Figure("capture-again", again, "us/row", higher_is_better=False, extra={"n": rows}),
        Figure("capture-again-cpu", again_cpu, "us/row", higher_is_better=False, extra={"n": rows}),
        Figure("capture-one", ones, "us", higher_is_better=False, extra={"n": SINGLES}),
    ]


def bulk(
    stage: Stage, connection: psycopg.Connection[tuple[Any, ...]], rows: int
) -> tuple[float, float, int]:
    """One update of all: microseconds a row by the clock and of the server, and bytes of log."""
    connection.execute("vacuum analyze")
    connection.execute("checkpoint")
    wal, cpu, begin = stage.lab.wal_bytes(), stage.server_cpu(), time.monotonic()
    connection.execute("update listing set price = price + 1")
    seconds, busy = time.monotonic() - begin, stage.server_cpu() - cpu
    return seconds / rows * 1e6, busy / rows * 1e6, (stage.lab.wal_bytes() - wal) // rows


def singles(connection: psycopg.Connection[tuple[Any, ...]]) -> float:
    """The median of updates of one row each, in microseconds."""
    connection.execute("vacuum analyze")
    took = []
    for n in range(SINGLES):
        begin = time.monotonic()
        connection.execute("update listing set price = price + 1 where id = %s", (n % 1000 + 1,))
        took.append((time.monotonic() - begin) * 1e6)
    return percentile(took[SINGLES // 10 :], 50)


CAPTURE = Workload(
    "capture",
    measure,
    gives=("capture", "capture-cpu", "capture-again", "capture-again-cpu", "capture-one"),
    systems=("mainspring", "bare"),
    most_runs=1,
)
