"""Advances, rewinds, runs that fail and succeed, releases, crashes, two schedulers: against a model.

Every engine transaction is taken apart into reading its visit, reading its snapshot and writing, by two
schedulers that may both handle any visit (as if no lease existed) and may die in between. The oracle
is not the engine: what a task must have seen is kept apart, from what its checks captured.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

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
)
from psycopg.rows import dict_row

from mainspring import Mainspring
from mainspring.db.database import Database
from mainspring.ids import token
from mainspring.kernel.outcome import Again, Cancelled, Done, Failed
from mainspring.kernel.settle.batches import in_order, settle_arguments
from mainspring.kernel.statements import SQL as KERNEL
from mainspring.kernel.visit import Run, Visit
from mainspring.reactive.decide.decide import fact_of
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.triggers import Delta, Trigger, any_of, params_of
from mainspring.reactive.model.values import Param, Product
from mainspring.reactive.queues import CHANGE, CHECK, run_queue
from mainspring.reactive.run.finish import Ending, FinishRuns
from mainspring.reactive.run.run import Start, Starting
from mainspring.reactive.schedule.change import Spread
from mainspring.reactive.schedule.check import (
    Check,
    Checked,
    Definitions,
    is_news,
    read_tasks,
    view_of,
)
from mainspring.testing import TestServer

ORDERS = Param("dwh.orders", "n", "integer")
MART = Param("mart.daily", "n", "integer")
WORKER = "00000000-0000-0000-0000-000000000001"
TRIGGERS: dict[str, list[Trigger]] = {
    "load": [Delta(ORDERS)],
    "report": [Delta(MART), any_of(Delta(MART), Delta(ORDERS))],
}
Seen = dict[str, list[int]]


@dataclass
class Job:
    """A visit that a scheduler has in hand."""

    visit: Visit
    stage: str
    run: Run
    ending: Ending | None = None
    captured: dict[str, list[int] | None] | None = None


class Schedulers(RuleBasedStateMachine):
    """Two schedulers without leases over one database."""

    server: TestServer

    def __init__(self) -> None:
        super().__init__()
        self._opened = self.server.database()
        self.url = self._opened.__enter__()
        self.loop = asyncio.new_event_loop()
        self.base = psycopg.connect(self.url, autocommit=True, row_factory=dict_row)
        self.database = Database(self.url)
        self.connection = self.do(self.database.connect("test"))
        self.definitions = Definitions()
        self.tokens = itertools.count(token() >> 2)
        self.jobs: list[Job] = []
        self.value = 0
        self.variant = 0
        # What each task must have seen, and what was repaired while its firing was in flight.
        self.model: dict[str, Seen] = {"load": {}, "report": {}}
        self.repaired: dict[str, dict[str, None]] = {"load": {}, "report": {}}
        self.successes: dict[int, str] = {}
        self.targets: dict[str, list[int]] = {ORDERS.key: [], MART.key: []}

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def rows(self, text: str, *values: Any) -> list[dict[str, Any]]:
        cursor = self.base.execute(text, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []

    def teardown(self) -> None:
        self.come_to_rest()
        self.base.close()
        self.do(self.connection.close())
        self.loop.close()
        self._opened.__exit__(None, None, None)

    # -- what users do

    @initialize()
    def first_release(self) -> None:
        self.release(0)

    def release(self, variant: int) -> None:
        self.variant = variant
        app = Mainspring(self.url)

        async def work(run: ReactiveRun) -> None: ...

        app.task(name="load", when=TRIGGERS["load"][0], produces=[MART], on_rewind="rerun")(work)
        app.task(name="report", when=TRIGGERS["report"][variant], on_rewind="rerun")(work)

        async def apply() -> None:
            async with app:
                await app.reactive_apply()

        self.do(apply())

    @rule()
    def a_release_changes_the_trigger(self) -> None:
        self.rows("delete from mainspring.reactive_release")  # as if this one were the newest
        self.release(1 - self.variant)

    @rule(by=st.integers(1, 3))
    def orders_advance(self, by: int) -> None:
        self.value += by
        self.rows("select mainspring.advance(%s, %s::bigint)", ORDERS.key, self.value)

    @precondition(lambda self: self.value > 1)
    @rule(by=st.integers(1, 3))
    def orders_are_moved_back(self, by: int) -> None:
        self.value = max(0, self.value - by)
        self.rows("select mainspring.rewind(%s, %s::bigint)", ORDERS.key, self.value)
        self.targets[ORDERS.key].append(self.value)

    @rule(task=st.sampled_from(["load", "report"]))
    def an_operator_deletes_what_was_seen(self, task: str) -> None:
        app = Mainspring(self.url)

        async def delete() -> None:
            async with app:
                await app.reactive.seen_delete(task, ORDERS.key)

        self.do(delete())
        self.model[task].pop(ORDERS.key, None)
        self.repaired[task][ORDERS.key] = None

    # -- what schedulers do, step by step

    @precondition(lambda self: len(self.jobs) < 2)
    @rule(number=st.integers(0, 5))
    def a_scheduler_reads_a_visit(self, number: int) -> None:
        visits = self.rows(
            "select * from mainspring.visit where parked_at is null and queue = any(%s)"
            " order by queue, key",
            [CHANGE, CHECK, run_queue("default")],
        )
        if not visits:
            return
        row = visits[number % len(visits)]
        names = ("shard", "key", "queue", "id", "grp", "priority", "due_at", "version", "attempt")
        due = {"due_at": row["due_at"].timestamp()}
        visit = Visit(*(due.get(n, row[n]) for n in names), 0, None, json.dumps(row["payload"]))
        run = Run(visit, next(self.tokens), 0.0, 0.0)
        run.started = row["due_at"].timestamp()
        self.jobs.append(Job(visit, "read", run))

    @precondition(lambda self: self.jobs)
    @rule(number=st.integers(0, 1), fails=st.booleans())
    def a_scheduler_takes_a_step(self, number: int, fails: bool) -> None:
        job = self.jobs[number % len(self.jobs)]
        if self.step(job, fails=fails):
            self.jobs.remove(job)

    @precondition(lambda self: self.jobs)
    @rule(number=st.integers(0, 1))
    def a_scheduler_dies(self, number: int) -> None:
        job = self.jobs.pop(number % len(self.jobs))
        job.run.suspect = True

    def step(self, job: Job, *, fails: bool) -> bool:
        """One step; answers whether the job is over."""
        if job.visit.queue == CHANGE:
            return self.step_change(job, spreads=fails)
        if job.visit.queue == CHECK:
            return self.step_check(job)
        return self.step_run(job, fails=fails)

    def step_change(self, job: Job, *, spreads: bool) -> bool:
        """Consumers are judged on the spot, or, as if there were very many, offered a check."""
        check = Check(self.definitions)
        match job.stage:
            case "read" if spreads:
                spread = Spread(self.database, check, judged=0)
                self.do(spread(self.connection, [job.visit.key]))
                job.stage = "settle"
                return False
            case "read":
                reading = read_tasks(self.connection, users_of=[job.visit.key])
                job.run.change = self.do(reading)
                job.stage = "judge"
                return False
            case "judge":
                idle = [row.task for row in job.run.change if not self.in_flight(row.task)]
                self.do(Spread(self.database, check).judge(self.connection, job.run.change))
                for task in filter(self.in_flight, idle):
                    self.repaired[task] = {}
                job.stage = "settle"
                return False
        self.settle(job, Done())
        return True

    def step_check(self, job: Job) -> bool:
        check = Check(self.definitions)
        match job.stage:
            case "read":
                job.captured = None
                looked = self.do(self.look(check, job.visit.key))
                job.run.change = looked
                job.stage = "write"
                return False
            case "write":
                outcome = Done()
                if job.run.change is not None:
                    written = self.do(check.write(self.connection, [job.run.change]))
                    outcome = Done() if job.visit.key in written else Again(after=0)
                    if job.visit.key in written and self.in_flight(job.visit.key):
                        self.repaired[job.visit.key] = {}
                job.run.outcome = outcome
                job.stage = "settle"
                return False
        self.settle(job, job.run.outcome)
        return True

    async def look(self, check: Check, task: str) -> Any:
        rows = await read_tasks(self.connection, [task])
        await self.definitions.load(self.connection, [row.fingerprint for row in rows])
        found = check.look(rows[0]) if rows else None
        return found if isinstance(found, Checked) and is_news(found) else None

    def step_run(self, job: Job, *, fails: bool) -> bool:
        if job.stage == "read":
            firing = int(json.loads(job.visit.payload)["firing"])
            item = Starting(job.visit.key, firing, job.run.token, self.needs(job.visit.key))
            start = Start()
            start.release = self.rows("select max(number) as n from mainspring.reactive_release")[
                0
            ]["n"]
            row = self.do(start(self.connection, [item]))[0]
            ending = Ending(job.visit.key, firing, job.run.token, "success")
            if row.answer == "other":
                self.settle(job, Done())
                return True
            if row.answer == "again":
                ending = replace(ending, run=row.run, how="failed", error="died")
            elif row.rewound or not row.exact:
                why = "rewound, or fired by the trigger of before"
                ending = replace(ending, how="void", error=why)
            elif fails:
                ending = replace(ending, how="failed", error="no")
            job.captured = json.loads(row.captured)
            if ending.how == "success" and job.visit.key == "load":
                brought = job.captured[ORDERS.key]
                assert brought is not None
                ending.products.append(Product(MART, brought[0], if_greater=True))
            job.ending, job.stage = ending, "end"
            return False
        assert job.ending is not None
        self.do(self.end(job))
        return True

    def needs(self, task: str) -> str:
        """What the newest code of a task names."""
        trigger = TRIGGERS[task][self.variant if task == "report" else 0]
        return json.dumps([param.key for param in params_of(trigger)])

    async def end(self, job: Job) -> None:
        """The kernel's settle with the layer's writes in one transaction, as the settler does it."""
        ending = job.ending
        assert ending is not None
        job.run.change, job.run.outcome = ending, Done()
        transaction = self.connection.transaction()
        await transaction.start()
        verdict = (await FinishRuns(self.database).write(self.connection, [job.run]))[0]
        if isinstance(verdict, str):
            await transaction.rollback()
            return
        if verdict is not None:
            assert isinstance(verdict, Cancelled | Failed)
            job.run.outcome = verdict
        values = settle_arguments([job.run], WORKER)
        rows = await self.connection.fetch(KERNEL["settle"].numbered, *values)
        if in_order(rows, 1) != ["settled"]:
            await transaction.rollback()
            return
        await transaction.commit()
        if ending.how == "success" and verdict is None:
            self.succeeded(ending, job.captured or {})

    def succeeded(self, ending: Ending, captured: dict[str, list[int] | None]) -> None:
        """I2: a firing has one success. I3: seen is what the check saw, with repairs laid over."""
        assert ending.firing not in self.successes
        self.successes[ending.firing] = ending.task
        kept = {key: v for key, v in captured.items() if v is not None}
        for key in self.repaired[ending.task]:
            kept.pop(key, None)
        self.model[ending.task] = kept
        self.check_seen()

    def settle(self, job: Job, outcome: Any) -> None:
        job.run.outcome = outcome
        values = settle_arguments([job.run], WORKER)
        self.do(self.connection.fetch(KERNEL["settle"].numbered, *values))

    def in_flight(self, task: str) -> bool:
        row = self.rows("select firing from mainspring.reactive_task where task = %s", task)[0]
        return row["firing"] is not None

    # -- what must hold

    @invariant()
    def nothing_broken_at_any_step(self) -> None:
        """I3: seen is as the model has it. I9: a task that reruns counts from every rewind since."""
        self.check_seen()
        for row in self.do(read_tasks(self.connection, list(TRIGGERS))):
            view = view_of(row)
            for name, seen in view.seen.items():
                known = view.rewinds_since.get(name, ())
                last = fact_of(None, seen, known, "rerun").last
                assert isinstance(last, int)
                assert isinstance(seen.value, int)
                assert last == min([seen.value, *self.targets[name][seen.rewinds :]])

    def check_seen(self) -> None:
        for row in self.rows("select task, seen from mainspring.reactive_task"):
            assert row["seen"] == self.model[row["task"]], row["task"]

    def come_to_rest(self) -> None:
        """Let one scheduler finish everything; then no trigger may be true (I1, I9)."""
        self.jobs.clear()
        self.rows("update mainspring.reactive_task set retry_at = null")
        for _ in range(400):
            self.rows("update mainspring.reactive_task set retry_at = null")
            visits = self.rows(
                "select queue from mainspring.visit where parked_at is null and queue = any(%s)",
                [CHANGE, CHECK, run_queue("default")],
            )
            if not visits:
                break
            self.a_scheduler_reads_a_visit(number=0)
            job = self.jobs.pop()
            while not self.step(job, fails=False):
                pass
        else:
            raise AssertionError("no rest: something fires for ever")
        self.check_seen()
        for row in self.rows("select task, firing from mainspring.reactive_task"):
            assert row["firing"] is None, f"{row['task']} has a firing and no run"
            assert not self.is_true(row["task"]), f"a check of {row['task']} was lost"
        assert self.rows("select * from mainspring.violation") == []

    def is_true(self, task: str) -> bool:
        """The trigger of integers, judged by hand against the model."""
        params = {
            row["name"]: (row["num"], row["rewinds"])
            for row in self.rows("select name, num, rewinds from mainspring.param")
        }
        names = [ORDERS.key] if task == "load" else [MART.key]
        if task == "report" and self.variant:
            names.append(ORDERS.key)
        for name in names:
            value, _ = params[name]
            if value is None:
                continue
            seen = self.model[task].get(name)
            if seen is None:
                return True
            last = min([seen[0], *self.targets[name][seen[1] :]])
            if value > last:
                return True
        return False


@pytest.mark.parametrize(
    ("examples", "steps"),
    [(3, 30), pytest.param(150, 80, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
)
def test_nothing_is_lost_and_nothing_is_run_twice(
    mainspring_server: TestServer, examples: int, steps: int
) -> None:
    """R7, R10, R12, R13: I1-I3 and I9, at every step and at rest."""
    Schedulers.server = mainspring_server
    machine = Schedulers.TestCase
    machine.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    machine().runTest()
