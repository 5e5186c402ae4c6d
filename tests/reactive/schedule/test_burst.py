"""What changes cost: one read for an advance, two checks for each task of a burst."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from tables import Base, working

from mainspring import Mainspring
from mainspring.db.database import Connection
from mainspring.db.sql import Record, Statement, Values
from mainspring.reactive.model.triggers import Delta
from mainspring.reactive.queues import CHECK
from mainspring.reactive.schedule import check
from mainspring.reactive.statements import SQL
from mainspring.testing.idle import wait_until

TASKS, CAP = 120, 5


@pytest.mark.parametrize("others", [0, 150])
async def test_an_advance_is_one_statement_whatever_the_number_of_tasks(
    app: Mainspring, base: Base, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """R7: of the scheduler, when nothing fires: only affected tasks are read, and nothing is written."""
    param = app.data("raw.table").param("number", kind="integer")
    another = app.data("raw.table").param("other", kind="integer")
    for number in range(others):
        app.task(name=f"other{number}", when=Delta(another))(lambda: None)
    for number in range(3):
        app.task(name=f"task{number}", when=Delta(param, 100), first_run="baseline")(lambda: None)
    await app.advance(param, 0)
    sent: Counter[str] = Counter()
    send = Connection.send

    async def counting(self: Connection, statement: Statement, values: Values) -> Sequence[Record]:
        if SQL.get(statement.name) is statement:
            sent[statement.name] += 1
        return await send(self, statement, values)

    async with working(app) as worker:
        # A first check that met the first change on the way looks again a moment later.
        await wait_until(lambda: not base.visits(CHECK))
        await worker.idle()
        monkeypatch.setattr(Connection, "send", counting)
        await app.advance(param, 1)
        await worker.idle()

        assert sent == {"advance": 1, "read_checks": 1}


async def test_a_burst_respects_cap_and_priorities_and_checks_each_task_twice(
    app: Mainspring, base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R7, R8, I5, I12: one check for the change, one for the end; never more than the cap at once."""
    looked: Counter[str] = Counter()
    look = check.Check.look

    def counting(self: Any, row: Any) -> Any:
        looked[row.task] += not row.in_flight
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
