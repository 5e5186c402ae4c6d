"""The test kit: a real database for every test, a clock that moves, run until idle, crash points.

Applications test on the PostgreSQL they run on, because a fake becomes a bad copy of it. With
pytest the fixtures are there at once: `mainspring_url`, `mainspring_app` and `mainspring_clock`.

    async def test_a_reminder_is_sent_after_a_day(mainspring_app, mainspring_clock):
        remind = mainspring_app.task(send_reminder)
        handle = await remind.options(delay=timedelta(days=1)).enqueue(to="ann")

        await mainspring_clock.advance(timedelta(days=1))
        await run_until_idle(mainspring_app)

        assert "sent" == await handle.result(timeout=1)

    database.py         a server for a test session, a database for a test
    clock.py            the engine's time, moved for every process at once
    idle.py             a worker that runs until nothing is due
    steps.py            named steps of a worker: watched, waited for, died at
    process.py          workers as processes of their own

The fixtures themselves are in the package mainspring_pytest.
"""

from mainspring.testing.clock import Clock
from mainspring.testing.database import TestServer
from mainspring.testing.idle import run_until_idle, wait_until
from mainspring.testing.process import WorkerProcess
from mainspring.testing.steps import STEPS, die_at, watch

__all__ = [
    "STEPS",
    "Clock",
    "TestServer",
    "WorkerProcess",
    "die_at",
    "run_until_idle",
    "wait_until",
    "watch",
]
