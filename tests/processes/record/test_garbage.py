"""What a step leaves behind in its worker: nothing that has to wait for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from mainspring import Mainspring, choose, for_each, repeat_until
from mainspring.kernel.visit import Run
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.record.blocks import BlockRecorder
from mainspring.processes.record.recorder import Recorder
from mainspring.tasks.declare.promise import Outcome, Promise
from mainspring.testing import run_until_idle


@pytest.fixture
def garbage() -> Iterator[list[object]]:
    """What the collector has to find, from here on."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


async def test_steps_leave_no_circles_behind(app: Mainspring, garbage: list[object]) -> None:
    """P15: memory does not grow with the width of a fan-out, nor with how many there were before.

    Circles are freed only when the collector comes by, which was after three fan-outs of 10,000.
    """

    @app.task
    async def step(number: int) -> int:
        return number + 1

    @app.task
    async def join(numbers: list[int], failed: Outcome[int]) -> int:
        return sum(numbers)

    go = app.signal("go", int)

    @app.process
    async def fan(width: int) -> Promise[int]:
        chosen = choose(step(0), {1: lambda: step(1)})
        repeated = repeat_until(lambda: step(0))
        each = for_each(go, lambda n: step(n), until=repeated)
        return join(step.map(range(width)), step(step(0)), after=[chosen, each])

    handle = await fan.start(300)
    await run_until_idle(app)
    assert await handle.result(5) == sum(range(1, 301))

    gc.collect()
    left = [
        kind for o in garbage if (kind := type(o)) in (Run, TaskChange, Recorder, BlockRecorder)
    ]
    assert left == []
