"""Runs of reactive tasks: what a success records, what a failure does not (R10), manual runs."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from gates import Gate, declare, working_until_started
from tables import Base, day, history, working

from mainspring import Mainspring, RetryPolicy
from mainspring.errors import InvalidSetting, InvalidTask, WentBack
from mainspring.operate.history import HistoryFilter
from mainspring.reactive.declare.context import ReactiveRun
from mainspring.reactive.model.triggers import ChunkDelta, Delay, Delta, all_of
from mainspring.reactive.model.values import Param, micros
from mainspring.testing import Clock, wait_until


def raw(moment: Any, rewinds: int = 0) -> list[int]:
    return [micros(moment), rewinds]


async def test_what_comes_during_a_run_is_seen_by_the_next(
    app: Mainspring, base: Base, orders: Param, gate: Gate
) -> None:
    """R10: seen := the values of the check, not those at the end; trap: data is never processed."""
    declare(app, gate, when=Delta(orders))
    await app.advance(orders, day(1))
    async with working_until_started(app, gate) as worker:
        await app.advance(orders, day(2))
        gate.open.set()
        await worker.idle()

    assert [r[orders] for r in gate.runs] == [day(1), day(2)]
    assert base.state("daily")["seen"] == {orders.key: raw(day(2))}


async def test_a_task_is_not_checked_while_it_is_queued_or_running(
    app: Mainspring, base: Base, orders: Param, gate: Gate
) -> None:
    """R7, I12: no evaluation in flight, exactly one check at the end."""
    declare(app, gate, when=Delta(orders))
    await app.advance(orders, day(1))
    async with working_until_started(app, gate) as worker:
        # The change and the registration may both have judged it; one of them comes again.
        await wait_until(lambda: base.visits() == [("mainspring.run.default", "daily")])
        before = base.value("select count(*) from mainspring.evaluation")
        for n in range(2, 6):
            await app.advance(orders, day(n))
        await wait_until(lambda: base.visits("mainspring.change") == [])
        assert base.visits("mainspring.check") == []
        assert base.value("select count(*) from mainspring.evaluation") == before
        gate.open.set()
        await worker.idle()

    assert [r[orders] for r in gate.runs] == [day(1), day(5)]


async def test_a_failure_records_nothing_and_is_checked_afresh_after_a_backoff(
    app: Mainspring, base: Base, clock: Clock, orders: Param, built: Param, gate: Gate
) -> None:
    """R10: on failure nothing is recorded; products are dropped; the next start has fresh values."""
    gate.open.set()
    gate.fail = 1

    @app.task(when=Delta(orders), produces=[built], retry=RetryPolicy(first=60, most=60))
    async def daily(run: ReactiveRun) -> None:
        run.advance(built, run.current[orders])
        await gate(run)

    await app.advance(orders, day(1))
    async with working(app) as worker:
        state = base.state("daily")
        assert (state["seen"], state["failures"], state["firing"]) == ({}, 1, None)
        assert (await app.reactive.params(name=built.key))[0].value is None

        await app.advance(orders, day(2))  # does not bring the backoff forward
        await worker.idle()
        assert len(gate.runs) == 1
        await clock.advance(timedelta(minutes=2))
        await wait_until(lambda: len(gate.runs) == 2)
        await worker.idle()

    assert gate.runs[1][orders] == day(2)
    assert base.state("daily")["seen"] == {orders.key: raw(day(2))}
    assert base.state("daily")["failures"] == 0
    outcome, error = history(base, "daily")[0]
    assert outcome == "retry"
    assert error is not None
    assert error.startswith("RuntimeError: the warehouse is closed")
    (past,) = await app.operator.history(HistoryFilter(key="daily", error_type="RuntimeError"))
    assert (past.queue, past.attempt) == ("mainspring.run.default", 1)


async def test_a_delay_that_has_passed_by_the_retry_does_not_run(
    app: Mainspring, clock: Clock, orders: Param, gate: Gate
) -> None:
    """Trap: a retry of the kernel's own would run although the Delay is over."""
    gate.open.set()
    gate.fail = 1
    when = all_of(Delta(orders), Delay(orders, timedelta(minutes=1)))
    declare(app, gate, when=when, retry=RetryPolicy(first=300, most=300), expect_within="1d")
    await app.advance(orders, await clock.now())
    async with working(app) as worker:
        assert len(gate.runs) == 1
        await clock.advance(timedelta(minutes=10))
        await worker.idle()

    assert len(gate.runs) == 1


async def test_a_run_gets_its_seen_and_current_values_and_its_chunks(
    app: Mainspring, orders: Param
) -> None:
    """R10: the run is told which chunks to do: after what was seen, up to now."""
    told = []

    @app.task(when=ChunkDelta(orders, "day"))
    async def daily(run: ReactiveRun) -> None:
        told.append((run.seen[orders], run.current[orders], run.chunks(orders), run.kind))
        with pytest.raises(InvalidSetting, match=r"does not name 'no\.thing'"):
            run.chunks(Param("no", "thing"), "day")

    await app.advance(orders, day(1, 5))
    async with working(app) as worker:
        await app.advance(orders, day(4, 3))
        await worker.idle()

    assert told == [
        (None, day(1, 5), [day(1)], "regular"),
        (day(1, 5), day(4, 3), [day(2), day(3), day(4)], "regular"),
    ]


async def test_a_plain_function_runs_in_a_thread(app: Mainspring, orders: Param) -> None:
    threads = []

    @app.task(when=Delta(orders))
    def daily() -> str:
        threads.append(threading.current_thread())
        return "built"

    await app.advance(orders, day(1))
    async with working(app):
        pass

    assert threads
    assert threads[0] is not threading.main_thread()


async def test_a_run_longer_than_its_timeout_fails(
    app: Mainspring, base: Base, orders: Param
) -> None:
    @app.task(when=Delta(orders), timeout=0.05, retry=RetryPolicy(first=60, most=60))
    async def daily(run: ReactiveRun) -> None:
        await asyncio.Event().wait()

    await app.advance(orders, day(1))
    async with working(app):
        pass

    assert "ran longer than its timeout of 0.05 s" in base.state("daily")["error"]


class TestProducts:
    async def test_a_product_must_be_declared(
        self, app: Mainspring, base: Base, orders: Param, built: Param
    ) -> None:
        @app.task(when=Delta(orders), retry=RetryPolicy(first=60, most=60))
        async def daily(run: ReactiveRun) -> None:
            run.advance(built, day(1))

        await app.advance(orders, day(1))
        async with working(app):
            pass

        assert (
            "does not declare that it produces 'mart.daily.built_to'"
            in base.state("daily")["error"]
        )

    async def test_a_product_that_would_go_back_fails_the_run_named(
        self, app: Mainspring, base: Base, orders: Param, built: Param
    ) -> None:
        """R10: a run whose own product would go back fails; if_greater is one way out."""
        errors = []

        @app.task(when=Delta(orders), produces=[built], retry=RetryPolicy(first=60, most=60))
        async def daily(run: ReactiveRun) -> None:
            try:
                run.advance(built, day(1))
            except WentBack as error:
                errors.append(str(error))
            run.advance(built, day(1), if_greater=True)

        await app.advance_many([(orders, day(1)), (built, day(9))])
        async with working(app):
            pass

        assert "would go back from 2026-03-09" in errors[0]
        assert base.state("daily")["seen"] == {orders.key: raw(day(1))}
        assert (await app.reactive.params(name=built.key))[0].value == day(9)

    async def test_a_product_that_another_moved_meanwhile_fails_the_run_at_its_end(
        self, app: Mainspring, base: Base, orders: Param, built: Param, gate: Gate
    ) -> None:
        """R10: compared again under the lock of the end's transaction."""

        @app.task(when=Delta(orders), produces=[built], retry=RetryPolicy(first=60, most=60))
        async def daily(run: ReactiveRun) -> None:
            run.advance(built, day(1))
            await gate(run)

        await app.advance(orders, day(1))
        async with working_until_started(app, gate) as worker:
            await app.advance(built, day(5))
            gate.open.set()
            await worker.idle()

        state = base.state("daily")
        assert "product 'mart.daily.built_to' would go back" in state["error"]
        assert (state["seen"], state["failures"]) == ({}, 1)

    async def test_a_rewind_is_passed_on(
        self, app: Mainspring, orders: Param, built: Param
    ) -> None:
        """R10: run.rewind is the other way out."""

        @app.task(when=Delta(orders), produces=[built])
        async def daily(run: ReactiveRun) -> None:
            run.rewind(built, day(1), why="restated")

        await app.advance_many([(orders, day(1)), (built, day(9))])
        async with working(app):
            pass

        found = (await app.reactive.params(name=built.key))[0]
        assert (found.value, found.rewinds, found.changed_by) == (day(1), 1, "daily")

    @pytest.mark.parametrize(
        ("steps", "value", "log"),
        [
            ([("rewind", 2), ("advance", 4)], 4, [(2, True), (4, False)]),
            ([("advance", 8), ("rewind", 3)], 3, [(8, False), (3, True)]),
            ([("rewind", 2), ("advance", 4), ("rewind", 1)], 1, [(2, True), (4, False), (1, True)]),
        ],
    )
    async def test_a_run_may_move_its_product_both_ways(
        self,
        app: Mainspring,
        orders: Param,
        built: Param,
        steps: list[tuple[str, int]],
        value: int,
        log: list[tuple[int, bool]],
    ) -> None:
        """R10: what a run asks for is done in its order, at its end."""

        @app.task(when=Delta(orders), produces=[built])
        async def daily(run: ReactiveRun) -> None:
            for how, number in steps:
                getattr(run, how)(built, day(number))

        await app.advance_many([(orders, day(1)), (built, day(5))])
        async with working(app):
            pass

        found = (await app.reactive.params(name=built.key))[0]
        assert found.value == day(value)
        changes = await app.reactive.param_history(built.key)
        told = [(change.value, change.is_rewind) for change in reversed(changes)]
        assert told[1:] == [(day(number), back) for number, back in log]

    async def test_a_rewind_of_a_product_without_a_value_fails_the_run(
        self, app: Mainspring, base: Base, orders: Param, built: Param
    ) -> None:
        """R10: nothing is dropped in silence."""

        @app.task(when=Delta(orders), produces=[built], retry=RetryPolicy(first=60, most=60))
        async def daily(run: ReactiveRun) -> None:
            run.rewind(built, day(1))

        await app.advance(orders, day(1))
        async with working(app):
            pass

        assert "it has no value to move back from" in base.state("daily")["error"]

    async def test_an_end_waits_for_a_param_that_a_loader_has_locked(
        self, app: Mainspring, base: Base, orders: Param, built: Param, gate: Gate
    ) -> None:
        """Trap: the worker is not blocked by a loader's open transaction; the end is sent again."""
        other = app.data("raw.other").param("at")
        ended = []

        @app.task(when=Delta(orders), produces=[built])
        async def daily(run: ReactiveRun) -> None:
            run.advance(built, day(3))
            await gate(run)

        @app.task(when=Delta(other))
        async def beside() -> None:
            ended.append(1)

        await app.advance_many([(orders, day(1)), (built, day(1))])
        async with working_until_started(app, gate) as worker:
            with base.connection.transaction():
                app.advance_sync(built, day(2), on=base.connection)
                gate.open.set()
                await app.advance(other, day(1))
                await wait_until(lambda: bool(ended), timeout=10)
            await worker.idle()

        assert (await app.reactive.params(name=built.key))[0].value == day(3)


class TestManual:
    async def test_a_manual_run_leaves_what_was_seen_alone(
        self, app: Mainspring, base: Base, orders: Param, gate: Gate
    ) -> None:
        """R10: a manual run records only if told to."""
        gate.open.set()
        declare(app, gate, when=Delta(orders, timedelta(days=5)))
        await app.advance(orders, day(1))
        async with working(app) as worker:
            await app.advance(orders, day(2))
            await worker.idle()
            await app.reactive.run("daily", by="ann")
            await worker.idle()
            assert base.state("daily")["seen"] == {orders.key: raw(day(1))}
            await app.reactive.run("daily", record=True)
            await worker.idle()

        assert [r[orders] for r in gate.runs] == [day(1), day(2), day(2)]
        assert base.state("daily")["seen"] == {orders.key: raw(day(2))}

    async def test_a_manual_run_waits_for_the_one_in_flight(
        self, app: Mainspring, base: Base, orders: Param, gate: Gate
    ) -> None:
        """R10: one run of a task at a time, manual or regular; a second request replaces the first."""
        declare(app, gate, when=Delta(orders))
        await app.advance(orders, day(1))
        async with working_until_started(app, gate) as worker:
            assert await app.reactive.run("daily")
            assert await app.reactive.run("daily", record=True)
            await wait_until(lambda: base.visits("mainspring.check") == [])
            assert len(gate.runs) == 1
            gate.open.set()
            await worker.idle()

        assert len(gate.runs) == 2
        assert base.state("daily")["request"] is None

    async def test_a_manual_run_that_fails_sets_no_backoff(
        self, app: Mainspring, base: Base, orders: Param, gate: Gate
    ) -> None:
        gate.open.set()
        gate.fail = 1
        declare(app, gate, when=Delta(orders))
        async with working(app) as worker:
            await app.reactive_tasks["daily"].request()
            await worker.idle()

        assert base.state("daily")["retry_at"] is None
        assert len(gate.runs) == 1


class TestDeclaration:
    def test_two_tasks_of_one_name_are_refused(self, app: Mainspring, orders: Param) -> None:
        app.task(name="daily", when=Delta(orders))(lambda: None)

        with pytest.raises(InvalidTask, match="declared twice"):
            app.task(name="daily", when=Delta(orders))(lambda run: None)
        with pytest.raises(InvalidTask, match="declared twice"):
            app.task(name="daily")(lambda: None)

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"first_run": "later"}, "first_run of task 'daily' must be one of 'now', 'baseline'"),
            ({"on_rewind": "cry"}, "on_rewind of task 'daily' must be one of"),
            ({"expect_within": timedelta()}, "expect_within"),
            ({"produces": 5}, "list of params"),
            ({"produces": ["x"]}, "must name params"),
            ({"cron": "* * * * *"}, "cron= is for tasks that are enqueued"),
            ({"priority": 12}, "priority must be 0 to 9"),
        ],
    )
    def test_settings_that_cannot_be_are_refused(
        self, app: Mainspring, orders: Param, settings: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(InvalidSetting, match=words):
            app.task(name="daily", when=Delta(orders), **settings)(lambda: None)

    def test_a_function_with_more_arguments_is_refused(
        self, app: Mainspring, orders: Param
    ) -> None:
        with pytest.raises(InvalidTask, match="one argument at most"):
            app.task(name="daily", when=Delta(orders))(lambda run, other: None)
