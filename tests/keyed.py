"""Calls under keys, as plain SQL makes them, beside simulated runs of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from mainspring.kernel.outcome import DONE, Outcome, Parked, Retry
from mainspring.kernel.visit import Run
from visits import QUEUE, Visits

PARKED = Parked(error_type="E", error="no")
RETRY = Retry(after=50, error_type="E", error="no")


class Told(NamedTuple):
    """What a call was told."""

    id: UUID
    outcome: str


class Keyed:
    """One key, with a worker that runs its calls one step at a time."""

    def __init__(self, visits: Visits, worker: UUID, key: str = "k") -> None:
        self.visits = visits
        self.worker = worker
        self.key = key

    def call(self, on: psycopg.Connection[Any] | None = None, n: int = 0, **how: Any) -> Told:
        return call(on or self.visits.connection, self.key, n, **how)

    def begin(self) -> Run:
        """A run of the call that waits, held as a worker would hold it."""
        [visit] = [v for v in self.visits.read(self.worker) if v.key == self.key]
        assert visit.keyed
        run = self.visits.start(visit)
        assert self.visits.hold(self.worker, run) == {run.token}
        run.held = True
        return run

    def end(self, run: Run, outcome: Outcome = DONE) -> str:
        return self.visits.settle(self.worker, (run, outcome))[0]

    def run(self, outcome: Outcome = DONE) -> UUID:
        run = self.begin()
        assert self.end(run, outcome) == "settled"
        return run.visit.id

    @property
    def row(self) -> dict[str, Any] | None:
        return self.visits.row(self.key)

    @property
    def waits(self) -> int | None:
        """What the call was called with that will run next."""
        row = self.row
        return None if row is None else row["payload"]["n"]

    @property
    def waits_behind(self) -> int | None:
        row = self.row
        return row["follow_up"]["payload"]["n"] if row and row["follow_up"] else None

    def result(self, id: UUID) -> str | None:
        rows = self.visits.query(
            "select * from mainspring.result_of(%s, %s, %s)", QUEUE, id, self.key
        )
        return rows[0]["state"] if rows else None

    def ends(self) -> Sequence[tuple[str, int]]:
        """Runs and ends in history, with what each was called with."""
        return [(h["outcome"], h["payload"]["n"]) for h in self.visits.history(self.key)]


def call(on: psycopg.Connection[Any], key: str | None, n: int = 0, **how: Any) -> Told:
    """Enqueue in SQL, with a policy; `delay` in seconds."""
    delay = how.pop("delay", None)
    names = [f"{name} => %({name})s" for name in how]
    if delay is not None:
        names.append("due_at => mainspring.clock() + make_interval(secs => %(delay)s)")
    more = "".join(f", {name}" for name in names)
    values = {**how, "q": QUEUE, "a": Jsonb({"n": n}), "k": key, "delay": delay}
    text = f"select id, outcome from mainspring.enqueue_unique(%(q)s, %(a)s, %(k)s{more})"
    row: Any = on.execute(text, values).fetchone()  # type: ignore[arg-type]
    return Told(*(row.values() if isinstance(row, dict) else row))
