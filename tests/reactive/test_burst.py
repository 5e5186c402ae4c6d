"""A burst that makes many tasks ready: the cap, the priorities and the number of checks hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tables import Base, working

from mainspring import Mainspring
from mainspring.reactive import check
from mainspring.reactive.triggers import Delta

TASKS, CAP = 120, 5


async def test_a_burst_respects_cap_and_priorities_and_checks_each_task_twice(
    app: Mainspring, base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R7, R8, I5, I12: one check for the change, one for the end; never more than the cap at once."""
    looked: Counter[str] = Counter()
    look = check.Check.look

    def counting(self: Any, row: Any) -> Any:
        looked[row["task"]] += not row["in_flight"]
        return look(self, row)

    monkeypatch.setattr(check.Check, "look", counting)
    param = app.data("raw.table").param("number", kind="integer")
    started: list[int] = []
    running, most = 0, 0

    def declare(number: int) -> None:
        async def work() -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            started.append(number % 10)
            admitted = "select count(*) from mainspring.reactive_task where admitted_at is not null"
            assert base.value(admitted) <= CAP
            running -= 1

        name, priority = f"task{number:03}", number % 10
        app.task(name=name, when=Delta(param), priority=priority, first_run="baseline")(work)

    for number in range(TASKS):
        declare(number)
    app.reactive_pool("default", cap=CAP)
    await app.advance(param, 0)
    async with working(app) as worker:
        looked.clear()
        await app.advance(param, 1)
        await worker.idle(60)

    assert len(started) == TASKS
    assert most <= CAP
    assert set(looked.values()) == {2}
    # All become ready in one write: nobody is passed by a less important one, but for those that were
    # admitted together with it.
    for place, priority in enumerate(started):
        assert max(started[place + CAP :], default=0) <= priority
