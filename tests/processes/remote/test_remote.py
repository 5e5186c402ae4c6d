"""Actors that are not functions of a worker: pull, beat, complete, fail; late and repeated answers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest

from mainspring import Mainspring, RetryPolicy
from mainspring.db.tx import PsycopgTx
from mainspring.errors import (
    InvalidArguments,
    InvalidDecision,
    InvalidSetting,
    NotFound,
    PayloadTooLarge,
    Refused,
)
from mainspring.processes.record.decision import ChildTask, Decision, Edge
from mainspring.processes.remote.pulling import PullAsk, hold_steps, look_steps
from mainspring.processes.remote.settling import Settling, change_batch_steps, prepare_steps
from mainspring.processes.remote.ticket import Pulled, Ticket, sealed
from mainspring.tasks.declare.promise import Outcome, Promise
from mainspring.testing import Clock, run_until_idle
from mainspring.testing.idle import wait_until

MINUTE = timedelta(seconds=61)
FAST = {"lease": 1.0, "poll": 0.05, "grace": 1.0}


def shop(app: Mainspring, **policy: Any) -> Any:
    """A process of one remote step, whose failure is caught."""

    @app.task(remote=True, **policy)
    def charge(order: int, amount: float) -> str:
        raise AssertionError("it is run elsewhere")

    @app.task
    def price(order: int) -> float:
        return order * 1.5

    @app.task
    def judge(outcome: Outcome[str]) -> str:
        return outcome.value if outcome.failure is None else f"{outcome.failure}"

    @app.process
    def order(number: int) -> Promise[str]:
        return judge(charge(number, price(number)))

    return order


async def pulled(app: Mainspring, **policy: Any) -> tuple[Any, Pulled]:
    """A process whose remote step was just pulled."""
    handle = await shop(app, **policy).start(4)
    await run_until_idle(app)
    [task] = await app.remote.pull("charge")
    return handle, task


async def requeued(app: Mainspring, clock: Clock) -> Pulled:
    """The work timeout passes, recovery queues the task again, and it is pulled again."""
    await clock.advance(MINUTE)
    found: list[Pulled] = []
    async with app.worker(**FAST):

        async def again() -> bool:
            found.extend(await app.remote.pull("charge"))
            return bool(found)

        await wait_until(again, 10)
    return found[0]


async def test_a_task_is_pulled_and_completed_by_an_actor_elsewhere(app: Mainspring) -> None:
    """P3, P7: held with a recovery time before it is handed out; the process goes on with its result."""
    handle, task = await pulled(app)

    assert (task.actor, task.args, task.attempt) == ("charge", {"order": 4, "amount": 6.0}, 1)
    assert task.key == task.task
    assert await app.remote.pull("charge") == []
    assert await app.remote.complete(task.ticket, "paid") == "accepted"
    assert await app.remote.complete(task.ticket, "paid") == "already"
    await run_until_idle(app)
    assert await handle.result(5) == "paid"


def test_the_same_from_plain_code(app: Mainspring) -> None:
    """T8: pull, beat, fail, decide and complete exist for code that is not async."""
    order = shop(app, retry=RetryPolicy(attempts=2, first=0.0, most=0.0))
    app.run(drain=True, **FAST)
    handle = order.start_sync(4)
    app.run(drain=True, **FAST)

    [task] = app.remote.pull_sync("charge", limit=5, wait=0.1)
    assert app.remote.beat_sync(task.ticket)
    assert app.remote.fail_sync(task.ticket, "busy") == "accepted"
    [task] = app.remote.pull_sync("charge", wait=5)
    decision = Decision((ChildTask("charge", '{"order": 4, "amount": 1.0}'),), returned=0)
    assert app.remote.decide_sync(task.ticket, decision) == "accepted"
    [task] = app.remote.pull_sync("charge", wait=5)
    assert app.remote.complete_sync(task.ticket, "paid") == "accepted"
    app.run(drain=True, **FAST)

    assert handle.result_sync(5) == "paid"


async def test_a_long_poll_waits_for_a_task(app: Mainspring) -> None:
    """P7: no actors, then actors: a pull that waits gets the task when it becomes ready."""
    order = shop(app)
    await run_until_idle(app)  # makes the actor known
    waiting = asyncio.create_task(app.remote.pull("charge", wait=20))
    await order.start(4)
    await run_until_idle(app)

    [task] = await waiting
    assert task.args["order"] == 4
    assert await app.remote.pull("charge", wait=0.01) == []
    await app.remote.complete(task.ticket, "paid")


async def test_a_beat_keeps_a_task_and_says_when_to_stop(app: Mainspring, clock: Clock) -> None:
    """P3: the actor's beat moves the recovery time; after a cancel it is told to stop."""
    handle, task = await pulled(app)
    await clock.advance(timedelta(seconds=40))
    assert await app.remote.beat(task.ticket)
    await clock.advance(timedelta(seconds=40))
    async with app.worker(**FAST) as worker:
        beats = worker.heart._beat_at
        await wait_until(lambda: worker.heart._beat_at > beats + 0.5, 10)
    assert await app.remote.pull("charge") == []

    await handle.cancel()
    await run_until_idle(app)

    assert not await app.remote.beat(task.ticket)
    [beaten] = await app.remote.beat_many([task.ticket])
    assert beaten.stop == "cancelled"
    with pytest.raises(Refused, match=r"this attempt at task .* of 'charge' no longer counts"):
        await app.remote.complete(task.ticket, "paid")
    [counts] = await app.operator.processes.counters(actor="charge")
    assert counts.counts == {"late_result": 1}


async def test_a_beat_that_meets_a_lock_is_not_told_to_stop(
    app: Mainspring, mainspring_url: str
) -> None:
    """P3: somebody has the row for a moment; the actor goes on, and its next beat counts."""
    _, task = await pulled(app)
    with psycopg.connect(mainspring_url) as other:
        other.execute("select from mainspring.visit where key = %s for update", (task.task,))
        assert await app.remote.beat(task.ticket)
        other.execute("delete from mainspring.visit where key = %s", (task.task,))
        assert await app.remote.beat(task.ticket)  # not committed: it may come to nothing
        other.rollback()
    assert await app.remote.beat(task.ticket)
    with psycopg.connect(mainspring_url) as other:
        [(held_until,)] = other.execute(
            "select held_until from mainspring.visit where key = %s", (task.task,)
        ).fetchall()
    assert held_until > task.held_until
    await app.remote.complete(task.ticket, "paid")


@pytest.mark.parametrize("retries", [False, True])
async def test_a_result_is_refused_when_recovery_has_ended_its_attempt(
    app: Mainspring, clock: Clock, retries: bool
) -> None:
    """P4: history knows the attempt, but not by its answer: the result is thrown away, and said to be."""
    retry = RetryPolicy(attempts=2 if retries else 1, first=0.0, most=0.0)
    _, task = await pulled(app, on_work_timeout="fail", retry=retry)
    await clock.advance(MINUTE)
    async with app.worker(**FAST):
        counters = app.operator.processes.counters

        async def is_overtaken() -> bool:
            found = await counters(actor="charge")
            return any("work_timeout" in one.counts for one in found)

        await wait_until(is_overtaken, 10)

    with pytest.raises(Refused, match="no longer counts"):
        await app.remote.complete(task.ticket, "paid")
    with pytest.raises(Refused, match="no longer counts"):
        await app.remote.fail(task.ticket, "no card")
    [counts] = await counters(actor="charge")
    assert counts.counts == {"work_timeout": 1, "late_result": 2}


async def test_a_result_of_an_attempt_that_was_said_to_have_failed_is_refused(
    app: Mainspring,
) -> None:
    """P4: "already" means that the result was taken; a failure of the same attempt was."""
    retry = RetryPolicy(attempts=2, first=0.0, most=0.0)
    _, task = await pulled(app, retry=retry)
    assert await app.remote.fail(task.ticket, "busy") == "accepted"
    assert await app.remote.fail(task.ticket, "busy") == "already"
    with pytest.raises(Refused, match="no longer counts"):
        await app.remote.complete(task.ticket, "paid after all")


async def test_the_first_answer_counts_even_of_an_overtaken_attempt(
    app: Mainspring, clock: Clock
) -> None:
    """P4: accept="first": a late result is taken while the task is unfinished; the next is refused."""
    handle, late = await pulled(app)
    newer = await requeued(app, clock)
    assert newer.ticket != late.ticket
    assert newer.key == late.key
    assert not await app.remote.beat(late.ticket)

    assert await app.remote.complete(late.ticket, "late") == "accepted"
    with pytest.raises(Refused, match="drop the result"):
        await app.remote.complete(newer.ticket, "newer")
    await run_until_idle(app)
    assert await handle.result(5) == "late"


async def test_only_the_newest_attempt_counts_under_accept_last(
    app: Mainspring, clock: Clock
) -> None:
    """P4: accept="last": the overtaken attempt's answer is refused, before and after the next pull."""
    handle, late = await pulled(app, accept="last")
    newer = await requeued(app, clock)

    with pytest.raises(Refused, match="a newer attempt has it"):
        await app.remote.complete(late.ticket, "late")
    assert await app.remote.complete(newer.ticket, "newer") == "accepted"
    await run_until_idle(app)
    assert await handle.result(5) == "newer"


async def test_an_overtaken_answer_is_refused_once_another_attempt_s_error_was_settled(
    app: Mainspring, clock: Clock
) -> None:
    """P4: first means first: an error of another attempt counts as a result too."""
    retry = RetryPolicy(attempts=5, first=0.0, most=0.0)
    handle, late = await pulled(app, retry=retry)
    newer = await requeued(app, clock)
    assert await app.remote.fail(newer.ticket, "bank is closed", type="BankError") == "accepted"

    with pytest.raises(Refused, match="no longer counts"):
        await app.remote.complete(late.ticket, "late")
    [again] = await app.remote.pull("charge", wait=5)
    assert (again.attempt, again.key) == (2, late.key)
    await app.remote.complete(again.ticket, "third")
    await run_until_idle(app)
    assert await handle.result(5) == "third"


async def test_a_failure_is_retried_by_the_policy_and_then_delivered(app: Mainspring) -> None:
    """P4, P9: fail counts an attempt; the last one is an error decision."""
    retry = RetryPolicy(attempts=2, first=0.0, most=0.0)
    handle, task = await pulled(app, retry=retry)
    assert await app.remote.fail(task.ticket, "busy") == "accepted"
    [again] = await app.remote.pull("charge", wait=5)

    assert await app.remote.fail(again.ticket, "no such card", type="CardError") == "accepted"
    assert await app.remote.fail(again.ticket, "no such card", type="CardError") == "already"
    await run_until_idle(app)

    assert await handle.result(5) == "CardError: no such card"


async def test_a_pull_keeps_the_limit_and_the_pause_of_its_actor(app: Mainspring) -> None:
    """P14, S19: at most so many are out at once, over all who pull."""
    order = shop(app, concurrency=2)
    for number in range(3):
        await order.start(number)
    await run_until_idle(app)

    await app.operator.pause("charge")
    assert await app.remote.pull("charge", limit=10) == []
    await app.operator.resume("charge")
    taken = await app.remote.pull("charge", limit=10)
    assert len(taken) == 2
    assert await app.remote.pull("charge", limit=10) == []
    await app.remote.complete(taken[0].ticket, "paid")
    assert len(await app.remote.pull("charge", limit=10)) == 1


@pytest.mark.parametrize("limit", ["concurrency", "rate"])
async def test_two_pulls_at_the_same_moment_keep_the_limits(
    app: Mainspring, mainspring_url: str, limit: str
) -> None:
    """P13, P14: the second waits for the first, and then counts what the first has taken."""
    order = shop(app, **{limit: 1})
    for number in range(3):
        await order.start(number)
    await run_until_idle(app)
    async with (
        await psycopg.AsyncConnection.connect(mainspring_url) as first,
        await psycopg.AsyncConnection.connect(mainspring_url, autocommit=True) as other,
    ):
        asked = [PullAsk(("charge",), 1, "first")]
        known = await PsycopgTx(first).follow(look_steps(["charge"]))
        assert len(await PsycopgTx(first).follow(hold_steps(asked, known))) == 1
        second = asyncio.create_task(app.remote.pull("charge"))
        waiting = b"select from pg_stat_activity where %s = any(pg_blocking_pids(pid))"

        async def is_waiting() -> bool:
            found = await other.execute(waiting, [first.info.backend_pid])
            return bool(await found.fetchall())

        await wait_until(is_waiting, 10)
        await first.commit()

        assert await second == []


async def test_a_pull_keeps_the_rate_of_its_actor(app: Mainspring, clock: Clock) -> None:
    """P14, S19: at most so many a second, over all who pull; what has ended since counts too."""
    order = shop(app, rate=2)
    for number in range(3):
        await order.start(number)
    await run_until_idle(app)
    assert len(await app.remote.pull("charge", limit=10)) == 2

    await app.operator.processes.change_actor("charge", {"rate": 0.01})
    await clock.advance(timedelta(seconds=101))
    [task] = await app.remote.pull("charge", limit=10)
    assert await app.remote.pull("charge", limit=10) == []
    await app.remote.complete(task.ticket, "paid")
    await order.start(3)
    await run_until_idle(app)
    assert await app.remote.pull("charge", limit=10) == []

    await clock.advance(timedelta(seconds=101))
    assert len(await app.remote.pull("charge", limit=10)) == 1


async def test_a_task_whose_input_failed_is_not_handed_out(app: Mainspring) -> None:
    """P4, P9: a failure on the way fails the remote task too, whoever pulls."""

    @app.task(remote=True)
    def charge(amount: float) -> str:
        raise AssertionError("it is run elsewhere")

    @app.task(retry=RetryPolicy(attempts=1))
    def price() -> float:
        raise OSError("no price")

    @app.task
    def judge(outcome: Outcome[str]) -> str:
        return "ok" if outcome.failure is None else outcome.failure.type

    @app.process
    def order() -> Promise[str]:
        return judge(charge(price()))

    handle = await order.start()
    await run_until_idle(app)
    assert await app.remote.pull("charge") == []
    await run_until_idle(app)

    assert await handle.result(5) == "OSError"


async def test_a_remote_decision_is_judged_like_any_other(app: Mainspring) -> None:
    """P1: new tasks and a tail call from elsewhere; a promise that the task was not given is refused."""
    handle, task = await pulled(app)
    foreign = "01999999-9999-7999-8999-999999999999"
    child = ChildTask("price", '{"order": 1}', (Edge(foreign, "order"),))

    with pytest.raises(InvalidDecision, match=f"task 0 .price. is given .*{foreign}"):
        await app.remote.decide(task.ticket, Decision((child,), returned=0))
    many = tuple(ChildTask("price", "{}") for _ in range(20_001))
    with pytest.raises(InvalidDecision, match="the decision makes 20001 tasks, the limit is"):
        await app.remote.decide(task.ticket, Decision(many))

    with pytest.raises(InvalidDecision, match="the result must not contain the character NUL"):
        await app.remote.decide(task.ticket, Decision(result='["\\u0000"]'))
    with pytest.raises(InvalidDecision, match="the result must be at most 2097152 bytes, got 3"):
        await app.remote.decide(task.ticket, Decision(result="1" * 3_000_000))

    decision = Decision((ChildTask("charge", '{"order": 2, "amount": 3.0}'),), returned=0)
    assert await app.remote.decide(task.ticket, decision) == "accepted"
    [tail] = await app.remote.pull("charge", wait=5)
    await app.remote.complete(tail.ticket, "paid in two steps")
    await run_until_idle(app)
    assert await handle.result(5) == "paid in two steps"


async def test_tasks_of_a_remote_decision_have_the_timeouts_of_their_actors(
    app: Mainspring, clock: Clock
) -> None:
    """P4, P14: task_timeout, as it is in force, whoever decides."""
    handle, task = await pulled(app, task_timeout=1000.0)
    await app.operator.processes.change_actor("charge", {"task_timeout": 100.0})
    child = ChildTask("charge", '{"order": 2, "amount": 3.0}')
    await app.remote.decide(task.ticket, Decision((child,), returned=0))
    await clock.advance(timedelta(seconds=110))

    await run_until_idle(app)

    text = "mainspring.errors.TaskTimeout: task 'charge' did not end before its task timeout"
    assert await handle.result(5) == text


async def test_bad_answers_and_questions_are_refused_by_name(app: Mainspring) -> None:
    """Bad input: result that does not decode, wrong pass, unknown actor, an actor workers serve."""
    handle, task = await pulled(app, accept="last")

    with pytest.raises(
        InvalidArguments, match="the result of task 'charge' does not fit its return type"
    ):
        await app.remote.complete(task.ticket, {"no": "text"})
    with pytest.raises(InvalidArguments, match="the result of task 'charge' contains the char"):
        await app.remote.complete(task.ticket, "\x00")
    with pytest.raises(InvalidArguments, match="the result of task 'charge' contains NaN or an"):
        await app.remote.complete(task.ticket, [float("nan")])
    with pytest.raises(PayloadTooLarge, match="the result of task 'charge' is 3000002 bytes"):
        await app.remote.complete(task.ticket, "x" * 3_000_000)
    with pytest.raises(InvalidArguments, match="'nonsense' is no ticket: give the text that pull"):
        await app.remote.complete("nonsense", "paid")
    # What the seal keeps out: as if somebody had the secret.
    seals = app.remote._seals
    ticket = msgspec.msgpack.decode(seals.open(task.ticket) or b"", type=Ticket)
    wrong_pass = sealed(msgspec.structs.replace(ticket, run=ticket.run + 1), seals)
    with pytest.raises(Refused, match="no longer counts"):
        await app.remote.complete(wrong_pass, "stolen")
    wrong_version = sealed(msgspec.structs.replace(ticket, version=ticket.version + 1), seals)
    with pytest.raises(Refused, match="no longer counts"):
        await app.remote.complete(wrong_version, "stolen")
    assert not await app.remote.beat(wrong_pass)
    with pytest.raises(NotFound, match=r"no actor is named 'chrage': declare it with @app\.task"):
        await app.remote.pull("chrage")
    with pytest.raises(InvalidSetting, match="limit must be 1 to 1000, got 0"):
        await app.remote.pull("charge", limit=0)
    with pytest.raises(InvalidSetting, match="wait must be 0 to 3600 seconds, got -1"):
        await app.remote.pull("charge", wait=-1)
    async with app.worker(**FAST) as worker:
        await worker.ready()
        with pytest.raises(InvalidSetting, match="workers run 'price' themselves; to pull"):
            await app.remote.pull("price")

    assert await app.remote.complete(task.ticket, "paid") == "accepted"
    await run_until_idle(app)
    assert await handle.result(5) == "paid"


async def test_why_names_what_a_remote_task_waits_for(app: Mainspring) -> None:
    """P8: nobody has pulled it yet; then an actor elsewhere has it."""
    handle = await shop(app).start(4)
    await run_until_idle(app)

    async def causes() -> list[str]:
        async with app.worker(**FAST) as worker:
            await worker.ready()
            found = await app.operator.processes.why(handle.id)
        return [f"{cause.name}: {cause.text}" for cause in found.causes]

    assert await causes() == [
        "waiting_for_remote: 'charge' waits for an actor elsewhere to pull it"
    ]
    [task] = await app.remote.pull("charge")
    [cause] = await causes()
    assert cause.startswith("running: 'charge' is run by an actor elsewhere until")
    await app.remote.complete(task.ticket, "paid")


async def test_pulls_at_the_same_moment_keep_the_limit_together(
    app: Mainspring, database_url: str
) -> None:
    """P14, S19: whoever waited for the other's pull counts what that one took."""
    order = shop(app, concurrency=2)
    for number in range(4):
        await order.start(number)
    await run_until_idle(app)

    with psycopg.connect(database_url) as first, psycopg.connect(database_url) as looking:
        looking.autocommit = True
        first.execute("select from mainspring.queue where name = 'charge' for update")
        elsewhere = Mainspring(database_url)
        pulls = [
            asyncio.create_task(one.remote.pull("charge", limit=10)) for one in (app, elsewhere)
        ]

        def both_wait() -> bool:
            waiting = looking.execute(
                "select from pg_stat_activity where wait_event_type = 'Lock' "
                "and datname = current_database()"
            )
            return waiting.rowcount == 2

        await wait_until(both_wait, 10)
    taken = await asyncio.gather(*pulls)
    await elsewhere.close()

    assert sum(map(len, taken)) == 2


async def test_a_process_that_ends_as_its_answer_is_committed_spoils_no_other(
    app: Mainspring,
) -> None:
    """P4: an answer that settles nothing is not said to be accepted, nor those that come with it."""
    order = shop(app)
    ended, other = [await order.start(number) for number in (4, 5)]
    await run_until_idle(app)
    tasks = sorted(await app.remote.pull("charge", limit=2), key=lambda task: task.args["order"])
    opened = await app.remote.desk().open([task.ticket for task in tasks])
    host = app.remote.host
    items = [
        Settling(ticket, Decision(result='"paid"'), UUID(int=1))
        for ticket in opened
        if ticket is not None
    ]
    looked = await host.run_steps(prepare_steps(items, {}, None))
    await app.remote.complete(tasks[0].ticket, "paid")
    await run_until_idle(app)  # the first process ends between the look and the commit

    shard_count = (await host.database()).shard_count
    steps = change_batch_steps(looked.changes, shard_count, fast=True)
    assert await host.run_steps(steps) == {1: "accepted"}
    await run_until_idle(app)
    assert [await ended.result(10), await other.result(10)] == ["paid", "paid"]
    with psycopg.connect(app.database_sync().url) as connection:
        left = connection.execute("select key from mainspring.visit where queue = 'charge'")
        assert left.fetchall() == []


async def test_what_an_actor_tells_of_a_failure_goes_without_what_its_task_hides(
    app: Mainspring, clock: Clock
) -> None:
    """T13: of a step, whose arguments came from promises, and of a call of its own."""
    handle, task = await pulled(app, redact=["amount"], retry=RetryPolicy(attempts=1))
    assert await app.remote.fail(task.ticket, "6.0 is too much for 4") == "accepted"
    await run_until_idle(app)
    assert "[redacted] is too much for 4" in str(await handle.result(timeout=10))
    plain = await app.tasks["charge"].enqueue(order=5, amount=7.5)
    [task] = await app.remote.pull("charge")
    assert await app.remote.fail(task.ticket, "7.5 is too much for 5") == "accepted"
    with psycopg.connect((await app.database()).url) as connection:
        told = "select error from mainspring.visit where id = %s"
        assert connection.execute(told, [plain.id]).fetchone() == (
            "RemoteError: [redacted] is too much for 5",
        )
        cut = await app.tasks["charge"].enqueue(order=6, amount=1234567.5)
        [task] = await app.remote.pull("charge")
        long = "x" * 15_955 + "1234567.5" + "y" * 99
        assert await app.remote.fail(task.ticket, long) == "accepted"
        [kept] = connection.execute(told, [cut.id]).fetchone() or [""]
        assert "xx[red" in kept
        assert "123" not in kept.partition("... (")[0]
