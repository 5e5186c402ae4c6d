"""The kernel's statements called one by one, as a simulated worker would call them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.rows import dict_row

from mainspring.db.database import Database
from mainspring.ids import shard_mask, shard_of, token
from mainspring.jobs.statements import SQL as JOBS_SQL
from mainspring.kernel.lease.holds import hold_arguments
from mainspring.kernel.outcome import Done, Outcome
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.settle.batches import (
    DoneAnswer,
    done_in_order,
    done_values,
    in_order,
    is_plain,
    settle_values,
)
from mainspring.kernel.statements import SQL as KERNEL_SQL
from mainspring.kernel.statements import register_arguments
from mainspring.kernel.visit import END, PRIORITIES, START, Position, Run, Visit, instant
from mainspring.operate.statements import SQL as OPERATE_SQL
from mainspring.sharing.bands import code_of

QUEUE = "ring"

SQL = {**KERNEL_SQL, **OPERATE_SQL, **JOBS_SQL}


async def nothing(_: Run) -> Outcome:
    return Done()


def queue(name: str = QUEUE, **settings: Any) -> QueueSettings:
    """A queue whose handler does nothing."""
    return QueueSettings(name=name, handler=settings.pop("handler", nothing), **settings)


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def visit(key: str, *, at: float = 0, name: str = "ring", **fields: Any) -> Visit:
    """A visit as a read would bring it."""
    values = {
        "shard": 0,
        "key": key,
        "queue": name,
        "id": UUID(int=1),
        "group": None,
        "priority": 5,
        "due": NOON.timestamp() + at,
        "version": hash(key),
        "attempt": 0,
        "crashes": 0,
        "expires_at": None,
        "payload": "{}",
    }
    return Visit(**{**values, **fields})


def id_of(key: str) -> UUID:
    """The id under which a key is offered: itself, if it is one."""
    try:
        return UUID(key)
    except ValueError:
        return uuid4()


def known_keys(buffer: Buffer) -> set[tuple[str, str]]:
    """Queue and key of everything that a worker has: buffered, running or unsettled."""
    return {(queue.name, key) for queue in buffer.queues.values() for key in queue.known_keys}


def run_of(visit: Visit) -> Run:
    """A run of a visit."""
    return Run(visit, 1, 0.0, 0.0)


class Visits:
    """One connection of the engine's kind, and every verb of the protocol on it."""

    def __init__(self, url: str) -> None:
        self.connection = Database(url).connect_sync("test")
        self.connection.row_factory = dict_row  # type: ignore[assignment]
        self._runs = token() >> 1

    def close(self) -> None:
        self.connection.close()

    def call(self, statement: str, /, **values: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(SQL[statement].text, values)
        return cursor.fetchall() if cursor.description else []  # type: ignore[return-value]

    def query(self, text: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(text, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []  # type: ignore[return-value]

    def value(self, text: str, *values: Any) -> Any:
        return next(iter(self.query(text, *values)[0].values()))

    def now(self) -> datetime:
        return self.value("select mainspring.clock()")

    # -- queues and workers

    def register(self, *queues: QueueSettings, update: bool = True) -> None:
        self.call("register_queues", update=update, **register_arguments(queues))

    def join(
        self,
        *,
        pool: str = "default",
        queues: Sequence[str] = (QUEUE,),
        knows_bands: bool = True,
        launch: UUID | None = None,
    ) -> UUID:
        worker_id = uuid4()
        turns = [""] * len(queues)
        self.call(
            "join_pool",
            worker_id=worker_id,
            pool=pool,
            queues=list(queues),
            slots=4,
            host="here",
            process=1,
            code=code_of(queues, turns).digest if knows_bands else None,
            turns=turns if knows_bands else None,
            launch=launch,
        )
        return worker_id

    def take(self, worker_id: UUID, most: int = 1024) -> set[int]:
        rows = self.call(
            "take_leases", pool="default", worker_id=worker_id, most=most, epoch=token()
        )
        return {row["shard"] for row in rows}

    def beat(self, worker_id: UUID | None, *, slots: int, free: int) -> list[dict[str, Any]]:
        """A worker's sign of life, if it has a row."""
        return self.call(
            "beat", worker_id=worker_id, slots=slots, free=free, hanging="[]", away=None
        )

    def declare_dead(self, worker_id: UUID) -> None:
        """The worker is gone, its leases free, as after a takeover."""
        # It may beat between the two statements.
        beat = "select beat from mainspring.worker where id = %s"
        while not self.call("declare_dead", dead_id=worker_id, beat=self.value(beat, worker_id)):
            pass
        self.call("free_leases", dead_id=worker_id, pool="default", epoch=token(), fenced=False)

    # -- visits

    def offer(
        self,
        *keys: str,
        queue: str = QUEUE,
        after: float | None = None,
        at: datetime | None = None,
        group: str | None = None,
        priority: int = 5,
        payload: dict[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        if after is not None:
            at = self.now() + timedelta(seconds=after)
        count = len(keys)
        return self.call(
            "offer",
            shards=[shard_of(group or key, 1024) for key in keys],
            keys=list(keys),
            queues=[queue] * count,
            ids=[id_of(key) for key in keys],
            groups=[group] * count,
            priorities=[priority] * count,
            due_ats=[at] * count,
            versions=[token() for _ in keys],
            payloads=[json.dumps(payload or {})] * count,
        )

    def row(self, key: str, queue: str = QUEUE) -> dict[str, Any] | None:
        rows = self.query(
            "select * from mainspring.visit where key = %s and queue = %s", key, queue
        )
        return rows[0] if rows else None

    def change(self, key: str, **columns: Any) -> None:
        """Force a row into a state that would take long to reach."""
        for column, value in columns.items():
            self.query(f"update mainspring.visit set {column} = %s where key = %s", value, key)

    def history(self, key: str) -> list[dict[str, Any]]:
        return self.query(
            "select * from mainspring.history where key = %s order by started_at, ended_at", key
        )

    def read(
        self,
        worker_id: UUID,
        *,
        queue: str = QUEUE,
        after: Position = START,
        upto: Position = END,
        most: int = 100,
        shards: Sequence[int] | None = None,
        behind: Sequence[str] = (),
        priorities: Sequence[int] = tuple(reversed(PRIORITIES)),
    ) -> list[Visit]:
        levels = len(priorities)
        rows = self.call(
            "read_due",
            queues=[queue] * levels,
            priorities=list(priorities),
            after_due=[instant(after[0])] * levels,
            after_key=[after[1]] * levels,
            upto_due=[instant(upto[0])] * levels,
            upto_key=[upto[1]] * levels,
            most=[most] * levels,
            shards=None if shards is None else shard_mask(shards, 1024),
            behind=list(behind),
            worker_id=worker_id,
        )
        return [Visit(*row.values()) for row in rows]

    def keys(self, worker_id: UUID, **options: Any) -> list[str]:
        return [visit.key for visit in self.read(worker_id, **options)]

    def visit(self, key: str, queue: str = QUEUE) -> Visit:
        """A visit as a reader would have read it, due or not."""
        row = self.row(key, queue)
        assert row is not None, f"there is no visit {key!r}"
        names = ("shard", "key", "queue", "id", "grp", "priority", "due_at", "version", "attempt")
        row["due_at"] = row["due_at"].timestamp()
        values = [row[name] for name in (*names, "crashes", "expires_at")]
        where = "select ctid::text from mainspring.visit where key = %s and queue = %s"
        return Visit(*values, json.dumps(row["payload"]), self.value(where, key, queue))

    # -- runs

    def start(self, visit: Visit | str) -> Run:
        if isinstance(visit, str):
            visit = self.visit(visit)
        self._runs += 1
        # By the database's clock, as a worker knows it: tests move that one.
        return Run(visit, self._runs, self.now().timestamp(), time.monotonic())

    def hold(
        self, worker_id: UUID | None, *runs: Run, work_timeout: float | None = None
    ) -> set[int]:
        values = hold_arguments([(run, work_timeout) for run in runs], worker_id)
        return {row["run"] for row in self.call("hold", **values)}

    def settle(
        self,
        worker_id: UUID,
        *results: tuple[Run, Outcome],
        any_pass: bool = False,
        searchable: tuple[str, ...] = (),
    ) -> list[str]:
        for run, outcome in results:
            run.outcome = outcome
            run.settings = queue(run.visit.queue, any_pass=any_pass, searchable=searchable)
        given = [run for run, _ in results]
        runs = sorted(given, key=lambda run: (run.visit.shard, run.visit.key, run.visit.queue))
        answers = {}
        if plain := [run for run in runs if is_plain(run)]:
            answers |= dict(
                zip(plain, self.settle_short(worker_id, plain, bundled=True), strict=True)
            )
        if others := [run for run in runs if answers.get(run) != "settled"]:
            rows = [
                tuple(r.values()) for r in self.call("settle", **settle_values(others, worker_id))
            ]
            answers |= dict(zip(others, in_order(rows, len(others)), strict=True))
        return [answers[run] for run in given]

    def settle_short(
        self, worker_id: UUID, runs: Sequence[Run], bundled: bool = False
    ) -> list[str]:
        """By the short form alone; a bundle may be of any size here."""
        [found] = self.call("settle_done", **done_values(runs, worker_id, 1 if bundled else None))
        return done_in_order(DoneAnswer(**found), runs)

    def recover(
        self, *, shards: Sequence[int] = range(1024), overdue: Sequence[int] = ()
    ) -> list[dict[str, Any]]:
        """What an owner does at each beat: look at what is held, free what was seen lost."""
        held = self.call("read_held", shards=list(shards))
        orphaned = [row["run"] for row in held if row["orphaned"]]
        return self.call("recover", shards=list(shards), orphaned=orphaned, overdue=list(overdue))


@contextmanager
def locked(url: str, key: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody else's transaction that has a visit's row locked."""
    with psycopg.connect(url) as other:
        other.execute("select from mainspring.visit where key = %s for update", (key,))
        yield other
        other.rollback()
