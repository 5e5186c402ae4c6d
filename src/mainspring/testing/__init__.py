"""The test kit: a real database for every test, a clock that moves, run until idle, crash points.

Applications test on the PostgreSQL they run on, because a fake becomes a bad copy of it. With
pytest the fixtures are there at once: `mainspring_url`, `mainspring_app`, `mainspring_use` and
`mainspring_clock`.

    async def test_a_reminder_is_sent_after_a_day(mainspring_app, mainspring_clock):
        remind = mainspring_app.task(send_reminder)
        handle = await remind.options(delay=timedelta(days=1)).enqueue(to="ann")

        await mainspring_clock.advance(timedelta(days=1))
        await run_until_idle(mainspring_app)

        assert "sent" == await handle.result(timeout=1)

    database.py         a server for a test session, a database for a test
    clock.py            the engine's time, moved for every process at once
    idle.py             a worker that runs until nothing is due
    skipping.py         retries, delays and timers, whose time is skipped
    placed.py           an application of a module on a test's database
    enqueued.py         what was enqueued; calls that are parked or failed, made at once
    inline.py           calls that run where they are enqueued, without a database
    steps.py            named steps of a worker: watched, waited for, died at
    process.py          workers as processes of their own
    stages.py           stages of entities in memory, without a database; answers.py calls them
    confluence.py       checks that stages fit together, in any order (order.py)
    decide.py           what a decider decides, without a database
    reactive.py         reactive tasks on a fake clock with fake params, without a database
    replay.py           a history of params through other triggers

The fixtures themselves are in the package mainspring_pytest.
"""

from mainspring.testing.clock import Clock
from mainspring.testing.confluence import (
    NotConfluent,
    TimerLost,
    check_confluence,
    check_deletes,
    check_early_visits,
    check_stages,
    check_unasked,
)
from mainspring.testing.database import TestServer
from mainspring.testing.decide import Decided, decide, given
from mainspring.testing.enqueued import (
    WaitingCall,
    assert_enqueued,
    enqueued,
    failed_call,
    parked_call,
)
from mainspring.testing.idle import run_until_idle, run_until_idle_sync, wait_until
from mainspring.testing.inline import InlineCall, inline
from mainspring.testing.order import Order, orders
from mainspring.testing.placed import install, placed
from mainspring.testing.process import WorkerProcess
from mainspring.testing.reactive import ReactiveSimulation
from mainspring.testing.reactive_state import ParamSet
from mainspring.testing.replay import read_changes, replay
from mainspring.testing.stages import NotAtRest, Simulation
from mainspring.testing.steps import STEPS, die_at, watch
from mainspring.testing.timeline import Missed, Ran, Timeline

__all__ = [
    "STEPS",
    "Clock",
    "Decided",
    "InlineCall",
    "Missed",
    "NotAtRest",
    "NotConfluent",
    "Order",
    "ParamSet",
    "Ran",
    "ReactiveSimulation",
    "Simulation",
    "TestServer",
    "Timeline",
    "TimerLost",
    "WaitingCall",
    "WorkerProcess",
    "assert_enqueued",
    "check_confluence",
    "check_deletes",
    "check_early_visits",
    "check_stages",
    "check_unasked",
    "decide",
    "die_at",
    "enqueued",
    "failed_call",
    "given",
    "inline",
    "install",
    "orders",
    "parked_call",
    "placed",
    "read_changes",
    "replay",
    "run_until_idle",
    "run_until_idle_sync",
    "wait_until",
    "watch",
]
