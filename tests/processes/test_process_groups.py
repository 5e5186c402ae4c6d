"""A group of tasks with a callback when all have ended: a process of three lines (T13)."""

from __future__ import annotations

from mainspring import Outcome, Promise, RetryPolicy
from mainspring.testing import run_until_idle


async def test_the_callback_of_a_group_runs_once_with_every_outcome(app) -> None:
    """T13: also when members fail; started again by its id, it is the same group."""
    told: list[list[str]] = []

    @app.task(retry=RetryPolicy(attempts=1))
    async def load(number: int) -> int:
        if number == 2:
            raise ValueError("two is bad")
        return 10 * number

    @app.task
    async def report(outcomes: list[Outcome[int]]) -> str:
        told.append([str(o.failure) if o.failed else str(o.value) for o in outcomes])
        return f"{sum(not o.failed for o in outcomes)} of {len(outcomes)}"

    @app.process
    def load_all(numbers: list[int]) -> Promise[str]:
        return report([load(number) for number in numbers])

    handle = await load_all.options(id="night").start([1, 2, 3])
    again = await load_all.options(id="night").start([1, 2, 3])
    await run_until_idle(app)

    assert await handle.result(timeout=20) == "2 of 3"
    assert told == [["10", "ValueError: two is bad", "30"]]
    assert again.id == handle.id
