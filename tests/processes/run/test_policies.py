"""The policies of actors: work timeouts, whose result counts, task timeouts; each in queue and in work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from mainspring import Context, Mainspring, RetryPolicy
from mainspring.errors import ProcessFailed
from mainspring.tasks.declare.promise import Outcome, Promise
from mainspring.testing import Clock, run_until_idle
from mainspring.testing.idle import wait_until

MINUTE = timedelta(seconds=61)
ONCE = RetryPolicy(attempts=1)
FAST = {"lease": 1.0, "poll": 0.05, "grace": 1.0}


class Attempts:
    """Runs of a task that wait until the test answers for each."""

    def __init__(self) -> None:
        self.answers: list[asyncio.Future[Any]] = []
        self.keys: list[str] = []
        self.numbers: list[int] = []
        self.stopped: list[int] = []

    async def run(self, ctx: Context) -> Any:
        number = len(self.answers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        self.keys.append(ctx.idempotency_key)
        self.numbers.append(ctx.attempt)
        try:
            return await answer
        except asyncio.CancelledError:
            self.stopped.append(number)
            raise

    async def begun(self, count: int) -> None:
        await wait_until(lambda: len(self.answers) >= count, 10)


class Stage:
    """One task, called by one process, on a worker."""

    def __init__(self, app: Mainspring, url: str, *, catching: bool = False, **policy: Any) -> None:
        self.app, self.url = app, url
        attempts = self.attempts = Attempts()

        @app.task(hold_after=0.05, **{"retry": ONCE, **policy})
        async def charge(ctx: Context) -> str:
            return str(await attempts.run(ctx))

        @app.task
        def judge(outcome: Outcome[str]) -> str:
            return outcome.value if outcome.failure is None else outcome.failure.type

        @app.process
        def order() -> Promise[str]:
            promise = charge()
            return judge(promise) if catching else promise

        self.order = order

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Any]:
        """A process whose task runs and is held."""
        self.handle = await self.order.start()
        async with self.app.worker(**FAST) as worker:
            await self.attempts.begun(1)
            await self.held()
            yield worker

    async def held(self) -> None:
        await wait_until(lambda: bool(self.query("pass is not null")), 10)

    async def overtaken(self, count: int) -> None:
        await wait_until(lambda: bool(self.query("work_timeouts >= %s", count)), 10)

    def query(self, condition: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.url) as connection:
            text = (
                f"select work_timeouts from mainspring.visit where queue = 'charge' and {condition}"
            )
            return connection.execute(text.encode(), values).fetchall()

    def changed_at(self) -> Any:
        with psycopg.connect(self.url) as connection:
            return connection.execute("select max(changed_at) from mainspring.task").fetchone()

    async def counted(self) -> dict[str, int]:
        found = await self.app.operator.processes.counters(actor="charge")
        return found[0].counts if found else {}


async def test_a_task_that_brings_no_result_in_its_work_timeout_is_queued_again(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P3, P7: recovery by the work timeout; counted, and no attempt of the task's retries."""
    stage = Stage(app, database_url)
    async with stage.started():
        changed_at = stage.changed_at()
        await clock.advance(MINUTE)
        await stage.attempts.begun(2)
        assert stage.changed_at() == changed_at, "a requeue is no progress: the idle time stays"
        stage.attempts.answers[1].set_result("second")
        assert await stage.handle.result(10) == "second"

    assert await stage.counted() == {"work_timeout": 1}
    assert stage.attempts.numbers == [1, 1]
    assert len(set(stage.attempts.keys)) == 1


async def test_the_first_result_counts_even_of_an_overtaken_run(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P4: accept="first": the late result is taken, the repeat that still runs comes to nothing."""
    stage = Stage(app, database_url)
    async with stage.started():
        await clock.advance(MINUTE)
        await stage.attempts.begun(2)
        stage.attempts.answers[0].set_result("late")
        assert await stage.handle.result(10) == "late"
        stage.attempts.answers[1].set_result("repeat")

        async def counted() -> bool:
            return "late_result" in await stage.counted() or stage.attempts.stopped == [1]

        await wait_until(counted, 10)
    assert await stage.handle.result(1) == "late"


async def test_only_the_last_run_counts_and_the_one_before_is_stopped(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P4: accept="last": an overtaken run is told to stop, and its result would be refused."""
    stage = Stage(app, database_url, accept="last")
    async with stage.started():
        await clock.advance(MINUTE)
        await stage.attempts.begun(2)
        await wait_until(lambda: stage.attempts.stopped == [0], 10)
        stage.attempts.answers[1].set_result("newest")
        assert await stage.handle.result(10) == "newest"


async def test_a_work_timeout_can_be_a_failure_that_the_decider_catches(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P4: on_work_timeout="fail": an error decision; the run is told to stop."""
    stage = Stage(app, database_url, catching=True, on_work_timeout="fail")
    async with stage.started():
        await clock.advance(MINUTE)
        assert await stage.handle.result(10) == "mainspring.errors.WorkTimeout"
        await wait_until(lambda: stage.attempts.stopped == [0], 10)
    assert await stage.counted() == {"work_timeout": 1}


async def test_a_work_timeout_that_fails_is_retried_by_the_policy_and_parks_if_nobody_catches_it(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P4, P9: on_work_timeout="fail", retry policy included; then the task parks."""
    retry = RetryPolicy(attempts=2, first=0.0, most=0.0)
    stage = Stage(app, database_url, on_work_timeout="fail", retry=retry)
    async with stage.started():
        await clock.advance(MINUTE)
        await stage.attempts.begun(2)
        await stage.held()
        await clock.advance(MINUTE)

        async def parked() -> bool:
            return bool(await app.operator.processes.parked_groups())

        await wait_until(parked, 10)
    assert stage.attempts.numbers == [1, 2]
    [group] = await app.operator.processes.parked_groups()
    assert group.error_type == "mainspring.errors.WorkTimeout"
    assert "neither ended nor beat for 60 s" in group.example


async def test_work_timeouts_have_a_limit_if_one_is_set(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P3: no limit unless one is set; at it the task fails."""
    stage = Stage(app, database_url, catching=True, work_timeout_limit=2)
    async with stage.started():
        await clock.advance(MINUTE)
        await stage.attempts.begun(2)
        await stage.held()
        await clock.advance(MINUTE)
        assert await stage.handle.result(10) == "mainspring.errors.WorkTimeout"


async def test_a_run_that_beats_is_not_overtaken(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P3: only the actor's own beat moves the recovery time, not its worker's sign of life."""
    beating = asyncio.Event()
    done = asyncio.Event()

    @app.task(hold_after=0.05)
    async def charge(ctx: Context) -> str:
        await beating.wait()
        ctx.beat()
        await done.wait()
        return "patient"

    @app.process
    def order() -> Promise[str]:
        return charge()

    def held_until() -> Any:
        with psycopg.connect(database_url) as connection:
            text = "select held_until from mainspring.visit where queue = 'charge'"
            row = connection.execute(text).fetchone()
            return row and row[0]

    handle = await order.start()
    async with app.worker(**FAST) as worker:
        await wait_until(lambda: held_until() is not None, 10)
        first = held_until()
        await clock.advance(timedelta(seconds=40))
        beating.set()
        await wait_until(lambda: held_until() > first, 10)
        await clock.advance(timedelta(seconds=40))
        beats = worker.heart._beat_at
        await wait_until(lambda: worker.heart._beat_at > beats + 0.5, 10)
        done.set()
        assert await handle.result(10) == "patient"
    assert await app.operator.processes.counters() == []


@pytest.mark.parametrize("policy", ["slide", "force"])
async def test_a_task_timeout_that_passes_in_the_queue_ends_the_task_without_a_worker_of_its_actor(
    app: Mainspring, clock: Clock, database_url: str, policy: str
) -> None:
    """P4: task_timeout, slide and force in the queue: not handed out, ended with an error."""
    stage = Stage(app, database_url, catching=True, task_timeout=30.0, on_task_timeout=policy)
    async with app.worker(**FAST):
        await app.operator.pause("charge")
        handle = await stage.order.start()
        await wait_until(lambda: bool(stage.query("true")), 10)
        await clock.advance(timedelta(seconds=33))
        assert await handle.result(10) == "mainspring.errors.TaskTimeout"

    assert stage.attempts.answers == []
    assert await stage.counted() == {"task_timeout": 1}


async def test_a_run_that_began_before_the_task_timeout_slides_to_its_end(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P4: on_task_timeout="slide", in work: a result that comes before the work timeout counts."""
    stage = Stage(app, database_url, task_timeout=30.0)
    async with stage.started() as worker:
        await clock.advance(timedelta(seconds=33))
        beats = worker.heart._beat_at
        await wait_until(lambda: worker.heart._beat_at > beats + 0.5, 10)
        stage.attempts.answers[0].set_result("just in time")
        assert await stage.handle.result(10) == "just in time"


async def test_a_run_that_slides_past_its_work_timeout_is_not_queued_again(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P4: on_task_timeout="slide", in work: at the work timeout the task ends instead of a requeue."""
    stage = Stage(app, database_url, catching=True, task_timeout=30.0)
    async with stage.started():
        await clock.advance(MINUTE)
        assert await stage.handle.result(10) == "mainspring.errors.TaskTimeout"
        await wait_until(lambda: stage.attempts.stopped == [0], 10)
    assert len(stage.attempts.answers) == 1
    assert await stage.counted() == {"task_timeout": 1}


async def test_a_run_is_forced_to_end_at_the_task_timeout(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P4: on_task_timeout="force", in work: ended with an error at once, the run told to stop."""
    stage = Stage(app, database_url, catching=True, task_timeout=30.0, on_task_timeout="force")
    async with stage.started():
        await clock.advance(timedelta(seconds=33))
        assert await stage.handle.result(10) == "mainspring.errors.TaskTimeout"
        await wait_until(lambda: stage.attempts.stopped == [0], 10)
    assert await stage.counted() == {"task_timeout": 1}


async def test_a_retry_that_would_fall_past_the_task_timeout_is_not_made(
    app: Mainspring, database_url: str
) -> None:
    """P4: the task fails with its own error instead of waiting for a retry that never comes."""
    retry = RetryPolicy(attempts=5, first=60.0, most=60.0)
    stage = Stage(app, database_url, catching=True, task_timeout=20.0, retry=retry)
    async with stage.started():
        stage.attempts.answers[0].set_exception(OSError("bank is closed"))
        assert await stage.handle.result(10) == "OSError"


async def test_a_task_that_ends_leaves_no_deadline_and_a_restart_moves_it(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P4, P12: the deadline counts anew after a restart; an old visit of it does no harm."""
    stage = Stage(app, database_url, task_timeout=3600.0)
    async with stage.started():
        stage.attempts.answers[0].set_exception(OSError("bank is closed"))

        async def parked() -> bool:
            return bool(await app.operator.processes.parked_groups())

        await wait_until(parked, 10)
        await clock.advance(timedelta(hours=2))
        [process] = await app.operator.processes.search()
        await app.operator.processes.restart(process.id)
        await stage.attempts.begun(2)
        stage.attempts.answers[1].set_result("late, and all right")
        assert await stage.handle.result(10) == "late, and all right"
    with psycopg.connect(database_url) as connection:
        keys = connection.execute("select key from mainspring.visit").fetchall()
    assert [key for (key,) in keys if key.startswith("deadline/")] == []


async def test_a_decider_has_a_task_timeout_from_its_start(app: Mainspring, clock: Clock) -> None:
    """P4: a process's first task is an actor's task like any other."""

    @app.process(task_timeout=60.0, pool="slow")
    def order() -> str:
        return "never"

    await run_until_idle(app, pool="slow")  # makes the policy known
    handle = await order.start()
    await clock.advance(timedelta(seconds=70))
    await run_until_idle(app, pool="slow")

    with pytest.raises(ProcessFailed, match="before its task timeout"):
        await handle.result(5)


async def test_a_passed_work_timeout_is_acted_on_at_the_second_beat(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P3: seen at one beat, acted on at the next: a result that is on its way has that long."""
    stage = Stage(app, database_url)
    handle = await stage.order.start()
    async with app.worker(**FAST | {"lease": 300.0}) as worker:
        await stage.attempts.begun(1)
        await stage.held()
        first = worker.heart._beat_at
        await clock.advance(MINUTE)  # which makes the workers beat
        await wait_until(lambda: worker.heart._beat_at > first, 10)
        await wait_until(lambda: bool(worker.heart._holds._overdue), 10)
        assert stage.query("work_timeouts > 0") == []
        assert len(stage.attempts.answers) == 1

        worker.heart.poke_beat()
        await stage.attempts.begun(2)
        stage.attempts.answers[1].set_result("second")
        assert await handle.result(10) == "second"


async def test_a_step_that_hangs_with_every_default_leaves_the_slots_to_others(
    app: Mainspring, clock: Clock, database_url: str
) -> None:
    """P3, P4: overtaken more often than there are slots; the first of its runs still has the result."""
    stage = Stage(app, database_url)

    @app.task
    async def short() -> int:
        return 1

    @app.process
    def quick() -> Promise[int]:
        return short()

    handle = await stage.order.start()
    async with app.worker(lease=3.0, poll=0.05, grace=1.0, concurrency=3) as worker:
        for n in range(1, 5):
            await wait_until(lambda n=n: len(stage.attempts.answers) >= n, 30)
            await stage.held()
            await clock.advance(MINUTE)
            await wait_until(lambda n=n: len(worker.runner.hanging.runs) >= n, 30)
        other = await quick.start()
        assert await other.result(30) == 1
        assert stage.attempts.stopped == []
        stage.attempts.answers[0].set_result("first")
        assert await handle.result(30) == "first"
        await wait_until(lambda: not worker.runner.hanging.runs, 30)
