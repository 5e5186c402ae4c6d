"""How often a busy worker looks back: no more than one part of its time goes into that."""

from __future__ import annotations

from threading import Lock

import pytest

from mainspring.kernel.outcome import Done, Outcome
from mainspring.kernel.read.intake import Intake
from mainspring.kernel.read.orders import Read, Room
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.settings import QueueSettings, WorkerSettings
from mainspring.kernel.tuning import DEFAULT
from mainspring.kernel.visit import Run

BUSY = Room(100, asleep=False)


async def nothing(_: Run) -> Outcome:
    return Done()


@pytest.mark.parametrize(("cost", "pause"), [(0.001, 0.05), (0.004, 0.08), (0.5, 0.1)])
def test_a_look_back_waits_by_what_the_last_read_took_up_to_a_limit(
    cost: float, pause: float
) -> None:
    buffer = Buffer([QueueSettings("ring", nothing)], Lock())
    intake = Intake(buffer, WorkerSettings(poll=60.0), DEFAULT, lambda now: now)
    sweep = intake.due(0.0, BUSY)
    assert isinstance(sweep, Read)
    intake.swept(sweep, {}, {}, 0.0)
    sent: list[float] = []

    for millisecond in range(400):
        order = intake.due(millisecond / 1000, BUSY)
        if isinstance(order, Read):
            sent.append(millisecond / 1000)
            intake.answered(order, {}, order.sent + cost)

    assert sent[2] - sent[1] == pytest.approx(pause, abs=0.002)
