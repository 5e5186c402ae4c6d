"""The protocol as a whole: simulated workers drive the statements, a model says what must hold.

Three workers offer, read, start, hold, settle, lose replies, crash, come back late, are declared
dead, take and give shards and recover, in any order, on a real database. After every step:

    no wish is lost        every offer that no settled run has seen is still a row
    nothing counts twice   a version is consumed by one run, a run is in history once
    one run at a time      no two living workers run one key
    deaths are counted     once for each hold whose holder died, and nothing else is
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mainspring.ids import shard_of, token
from mainspring.kernel.outcome import Again, Done, Outcome, Parked, Retry
from mainspring.kernel.visit import Run, Visit
from mainspring.testing import Clock
from visits import QUEUE, Visits, id_of, queue

SHARDS = 4
# The last two are ids of the same minute, as those of tasks: their plain ends become bundles.
KEYS = (
    *("a", "b", "c"),
    *("0190a5d0-0000-7000-8000-00000000000d", "0190a5d0-0000-7000-8000-00000000000e"),
)
CRASH_LIMIT = 3
SECOND = timedelta(seconds=1)

_VIOLATIONS = "select rule from mainspring.violation"
SETTINGS = settings(
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
OUTCOMES = st.sampled_from(
    [
        Done(),
        Done(),
        Again(after=0),
        Again(after=50),
        Retry(after=0, error_type="E", error="no"),
        Retry(after=50, error_type="E", error="no"),
        Parked(error_type="E", error="no"),
    ]
)


@dataclass
class Worker:
    """What a worker's memory holds. `id` is None while the process is not there."""

    id: UUID | None = None
    shards: dict[int, int] = field(default_factory=dict)  # shard -> epoch
    buffer: dict[str, Visit] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)  # started, under way
    ended: dict[str, Run] = field(default_factory=dict)  # finished, not known to be settled

    def in_hand(self, key: str) -> bool:
        return key in self.buffer or key in self.runs or key in self.ended


class Protocol(RuleBasedStateMachine):
    """Two or three workers, five keys, four shards."""

    visits: Visits
    clock: Clock
    operator: psycopg.Connection[Any]  # without the engine's settings, which make the view slow

    @initialize()
    def begin(self) -> None:
        # Not deleted: no vacuum comes here, and each look would walk over the rows of all before.
        self.visits.query(
            "truncate mainspring.visit, mainspring.history_run, mainspring.history_bundle,"
            " mainspring.worker, mainspring.reach,"
            " mainspring.lease, mainspring.part cascade"
        )
        self.visits.query(
            "insert into mainspring.lease (pool, shard) select 'default', n"
            " from generate_series(0, %s) n",
            SHARDS - 1,
        )
        self.workers = [Worker() for _ in range(3)]
        self.dead: list[UUID] = []  # crashed, their rows still there
        self.late: list[tuple[UUID, Run]] = []  # results of crashed workers, still on their way
        self.offers = dict.fromkeys(KEYS, 0)
        self.seen_by: dict[int, int] = {}  # version -> number of the last offer that it includes
        self.finished = dict.fromkeys(KEYS, 0)  # number of the last offer that a done run has seen
        self.consumed: dict[int, int] = {}  # version -> the run that consumed it
        self.crashes = dict.fromkeys(KEYS, 0)
        for worker in self.workers[:2]:
            worker.id = self.visits.join()
        self._take(self.workers[0], SHARDS)
        for key in KEYS[:2]:
            self.offer(key, 0)
        self._read(self.workers[0])

    # -- clients

    @rule(keys=st.lists(st.sampled_from(KEYS), max_size=3), after=st.sampled_from([0, 0, 50]))
    def offer_some(self, keys: list[str], after: int) -> None:
        for key in keys:
            self.offer(key, after)

    def offer(self, key: str, after: int) -> None:
        version = token()
        self.visits.call(
            "offer",
            shards=[shard_of(key, SHARDS)],
            keys=[key],
            queues=[QUEUE],
            ids=[id_of(key)],
            groups=[None],
            priorities=[5],
            due_ats=[self.visits.now() + after * SECOND],
            versions=[version],
            payloads=["{}"],
        )
        self.offers[key] += 1
        self.seen_by[version] = self.offers[key]

    @rule()
    def time_passes(self) -> None:
        self.clock.advance_sync(60)

    # -- the life of workers

    @rule()
    @precondition(lambda self: any(worker.id is None for worker in self.workers))
    def join(self) -> None:
        worker = next(worker for worker in self.workers if worker.id is None)
        worker.id = self.visits.join()
        self._take(worker, SHARDS)

    @rule(data=st.data())
    @precondition(lambda self: any(worker.shards for worker in self.workers))
    def crash(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from([w for w in self.workers if w.shards]))
        assert worker.id is not None
        self.dead.append(worker.id)
        for run in worker.runs.values():
            run.outcome = Done()  # sent with its last breath
        self.late += [(worker.id, run) for run in (*worker.ended.values(), *worker.runs.values())]
        self.workers[self.workers.index(worker)] = Worker()

    @rule()
    @precondition(lambda self: self.dead and any(worker.id for worker in self.workers))
    def take_over(self) -> None:
        """A crashed worker is declared dead, its shards are taken and what it held is freed."""
        self.visits.declare_dead(self.dead.pop(0))
        worker = next(worker for worker in self.workers if worker.id is not None)
        self._take(worker, SHARDS)
        self._recover(worker)
        self._read(worker)

    def _take(self, worker: Worker, most: int) -> None:
        rows = self.visits.call(
            "take_leases", pool="default", worker_id=worker.id, most=most, epoch=token()
        )
        worker.shards |= {row["shard"]: row["epoch"] for row in rows}

    @rule(data=st.data())
    @precondition(lambda self: any(worker.shards for worker in self.workers))
    def give(self, data: st.DataObject) -> None:
        """All or nothing: every run of a shard is held, or the shard stays. The other takes it."""
        worker = data.draw(st.sampled_from([w for w in self.workers if w.shards]))
        others = [w for w in self.workers if w.id is not None and w is not worker]
        other = data.draw(st.sampled_from([*others, Worker()]))
        shards = dict(worker.shards)
        assert worker.id is not None
        with self.visits.connection.transaction():
            runs = [*worker.runs.values(), *worker.ended.values()]
            held = self.visits.hold(worker.id, *runs) if runs else set()
            stay = {run.visit.shard for run in runs if run.token not in held}
            going = [shard for shard in shards if shard not in stay]
            freed = self.visits.call(
                "give_leases",
                pool="default",
                worker_id=worker.id,
                shards=going,
                epochs=[shards[shard] for shard in going],
                offered_to=other.id,
                epoch=token(),
            )
        for row in freed:
            del worker.shards[row["shard"]]
        worker.buffer = {k: v for k, v in worker.buffer.items() if v.shard in worker.shards}
        if other.id is not None:
            self._take(other, SHARDS)
            self._read(other)

    def _recover(self, worker: Worker) -> None:
        for freed in self.visits.recover(shards=list(worker.shards)):
            assert freed["orphaned"]
            self.crashes[freed["key"]] += 1
            assert freed["parked"] == (self.crashes[freed["key"]] >= CRASH_LIMIT)

    # -- the life of a run

    def _read(self, worker: Worker) -> None:
        assert worker.id is not None
        for visit in self.visits.read(worker.id, shards=list(worker.shards), priorities=[5]):
            if not worker.in_hand(visit.key):
                worker.buffer[visit.key] = visit

    @rule(choices=st.lists(st.sampled_from(["wait", "start", "hold"]), min_size=5, max_size=5))
    @precondition(lambda self: any(worker.shards for worker in self.workers))
    def start(self, choices: list[str]) -> None:
        """Every owner reads; each visit waits in its buffer, is started, or is held and started."""
        for worker in self.workers:
            if worker.shards:
                self._read(worker)
        for (worker, key), choice in zip(self._each("buffer"), choices, strict=False):
            if choice != "wait":
                worker.runs[key] = self.visits.start(worker.buffer.pop(key))
            if choice == "hold":
                self.visits.hold(worker.id, worker.runs[key])

    @rule(outcomes=st.lists(st.none() | OUTCOMES, min_size=5, max_size=5), sent=st.booleans())
    @precondition(lambda self: any(worker.runs for worker in self.workers))
    def end(self, outcomes: list[Outcome | None], sent: bool) -> None:
        """Some runs end; their outcomes are sent at once or later."""
        for (worker, key), outcome in zip(self._each("runs"), outcomes, strict=False):
            if outcome is not None:
                run = worker.ended[key] = worker.runs.pop(key)
                run.outcome = outcome
        if sent:
            self.settle(lost=False)

    @rule(lost=st.booleans())
    @precondition(lambda self: any(worker.ended for worker in self.workers))
    def settle(self, lost: bool) -> None:
        """Everything that has ended, in one statement a worker; the reply may be lost."""
        for worker in self.workers:
            if worker.ended:
                self._settle(worker, lost)

    def _settle(self, worker: Worker, lost: bool) -> None:
        assert worker.id is not None
        runs = list(worker.ended.values())
        answers = self._send(worker.id, runs)
        if not lost:
            for run, answer in zip(runs, answers, strict=True):
                if answer != "changed":
                    del worker.ended[run.visit.key]

    def _each(self, part: str) -> list[tuple[Worker, str]]:
        return [(worker, key) for worker in self.workers for key in getattr(worker, part)]

    @rule()
    @precondition(lambda self: self.late)
    def settle_late(self) -> None:
        """A statement of a worker that has crashed since arrives after all, perhaps twice."""
        worker_id, run = self.late.pop(0)
        self._send(worker_id, [run])
        self._send(worker_id, [run])

    def _send(self, worker_id: UUID, runs: list[Run]) -> list[str]:
        before = {run.visit.key: self.visits.row(run.visit.key) for run in runs}
        answers = self.visits.settle(worker_id, *((run, run.outcome) for run in runs))
        for run, answer in zip(runs, answers, strict=True):
            row = before[run.visit.key]
            if row is not None and row["pass"] not in (None, run.token):
                # Settled by this run before, then read and held by another: sent again, it says so.
                was_settled = row["version"] == run.token
                assert answer == ("settled" if was_settled else "gone")
                assert self.visits.row(run.visit.key) == row, (
                    "a visit that another run holds changed"
                )
            if row is not None and row["version"] == run.visit.version and answer == "settled":
                self._settled(run)
        return answers

    def _settled(self, run: Run) -> None:
        """The run's outcome was written: its version is consumed."""
        version, key = run.visit.version, run.visit.key
        assert version not in self.consumed, "a version was consumed twice"
        self.consumed[version] = run.token
        covered = self.seen_by[version]
        match run.outcome:
            case Done():
                self.finished[key] = covered
                self.crashes[key] = 0
            case Again():
                self.seen_by[run.token] = covered
                self.crashes[key] = 0
            case _:
                self.seen_by[run.token] = covered

    # -- what must hold

    @invariant()
    def no_wish_is_lost(self) -> None:
        if not hasattr(self, "offers"):
            return
        rows = {row["key"]: row for row in self.visits.query("select * from mainspring.visit")}
        for key in KEYS:
            wanted = self.offers[key] > self.finished[key]
            assert (key in rows) == wanted, f"{key}: wanted {wanted}, row {rows.get(key)}"
            if wanted:
                assert self.seen_by[rows[key]["version"]] == self.offers[key]
                assert rows[key]["crashes"] == self.crashes[key]

    @invariant()
    def one_run_at_a_time(self) -> None:
        if hasattr(self, "offers"):
            running = [key for worker in self.workers for key in worker.runs]
            assert len(running) == len(set(running)), "a key is run by two living workers"

    @invariant()
    def each_run_is_in_history_once(self) -> None:
        if hasattr(self, "offers"):
            rows = self.visits.query("select run from mainspring.history where not superseded")
            runs = [row["run"] for row in rows]
            assert len(runs) == len(set(runs))
            assert set(runs) == set(self.consumed.values())

    @invariant()
    def the_views_are_empty(self) -> None:
        """But for the holds of the dead, which wait for the next recovery."""
        if hasattr(self, "offers"):
            rules = {row[0] for row in self.operator.execute(_VIOLATIONS)}
            assert rules <= {"a held visit has no living holder"}

    def teardown(self) -> None:
        """Whatever happened, one worker that is left finishes all that is not parked."""
        if not hasattr(self, "offers"):
            return
        for worker in self.workers:
            if worker.id is not None:
                self.dead.append(worker.id)
        for worker_id in self.dead:
            self.visits.declare_dead(worker_id)
        last = self.visits.join()
        self.visits.take(last)
        self.visits.recover(shards=range(SHARDS))
        self.clock.advance_sync(60)
        visits = self.visits.read(last)
        self.visits.settle(last, *((self.visits.start(visit), Done()) for visit in visits))
        left = "select count(*) from mainspring.visit where parked_at is null"
        assert self.visits.value(left) == 0
        assert self.operator.execute(_VIOLATIONS).fetchall() == []


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("examples", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_whatever_workers_do_nothing_is_lost_and_nothing_counts_twice(
    database_url: str, clock: Clock, examples: int
) -> None:
    visits = Visits(database_url)
    visits.register(queue(crash_limit=CRASH_LIMIT))
    visits.query("update mainspring.install set shard_count = %s", SHARDS)
    operator = psycopg.connect(database_url, autocommit=True)
    Protocol.visits, Protocol.clock, Protocol.operator = visits, clock, operator
    try:
        run_state_machine_as_test(Protocol, settings=settings(SETTINGS, max_examples=examples))
    finally:
        operator.close()
        with suppress(psycopg.Error):
            visits.query("delete from mainspring.worker")
            visits.query("update mainspring.lease set worker_id = null")
            visits.query("delete from mainspring.visit")
        visits.close()
