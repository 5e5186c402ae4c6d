"""How processes begin, and their children: when, with which priority, under which id and with what."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Mainspring, ProcessFilter, RetryPolicy
from mainspring.processes.declare.process import Process
from mainspring.tasks.declare.promise import Outcome, Promise
from mainspring.testing import Clock, run_until_idle

ONCE = RetryPolicy(attempts=1)
HOUR = timedelta(hours=1)
FAR = datetime(2050, 1, 1, tzinfo=UTC)


def family(app: Mainspring, **options: Any) -> tuple[Process[Any, Any], ...]:
    """A process, one that has it as a child, and one of which it is a step."""

    @app.process
    def inner(n: int) -> int:
        return n

    @app.process
    def outer(n: int) -> Promise[int]:
        return inner.options(**options).child(n)

    @app.process
    def longer(n: int) -> Promise[int]:
        return inner.options(**options)(n)

    return inner.options(**options), outer, longer


async def visits(app: Mainspring, queue: str) -> list[Any]:
    pool = await app.pool()
    async with pool.connection() as connection:
        query = "select due_at, priority, due_at - mainspring.now() from mainspring.visit where queue = $1"
        return [tuple(row) for row in await connection.fetch(query, queue)]


async def causes(app: Mainspring, id: str) -> list[str]:
    found = await app.operator.processes.why(id)
    return [f"{c.name}: {c.text}" for c in found.causes if c.name != "engine_off"]


@pytest.mark.parametrize("delay", [3600, HOUR])
async def test_a_process_a_child_and_a_step_begin_after_their_delay(
    app: Mainspring, clock: Clock, delay: Any
) -> None:
    """P15: durable timers, wherever they are asked for; in seconds or as a timedelta."""
    handles = [await each.start(4) for each in family(app, delay=delay)]
    await run_until_idle(app)
    assert [await handle.status() for handle in handles] == ["open"] * 3
    found = await visits(app, "inner")
    assert len(found) == 3
    assert all(timedelta(minutes=59) < left <= HOUR for _, _, left in found)

    await clock.advance(HOUR)
    await run_until_idle(app)

    assert [await handle.result(5) for handle in handles] == [4, 4, 4]


async def test_a_process_and_a_child_begin_at_their_time_and_are_looked_at_after_it(
    app: Mainspring,
) -> None:
    """P5, P15: until then there is nothing to look at."""
    inner, outer, _ = family(app, at=FAR)
    await inner.start(1)
    await outer.start(1)
    await run_until_idle(app)

    assert [due_at for due_at, _, _ in await visits(app, "inner")] == [FAR, FAR]
    looks = sorted(due_at for due_at, _, _ in await visits(app, "mainspring.process"))
    assert looks[1:] == [FAR + HOUR, FAR + HOUR]


async def test_a_child_begins_with_the_priority_that_was_asked_for(app: Mainspring) -> None:
    """P15: of its call; else, of its type."""

    @app.process(priority=7)
    def urgent() -> int:
        return 1

    @app.process
    def outer() -> None:
        urgent.options(delay=60).child()
        urgent.options(delay=60, priority=2).child()

    await outer.start()
    await run_until_idle(app)

    assert sorted(priority for _, priority, _ in await visits(app, "urgent")) == [2, 7]


async def test_a_child_waits_for_the_promises_among_its_arguments(app: Mainspring) -> None:
    """P1, P15: a promise as an argument is an edge, at a child as at a step."""

    @app.task
    def next_of(n: int) -> int:
        return n + 1

    @app.task(retry=ONCE)
    def broken() -> int:
        raise ValueError("no")

    @app.process
    def inner(n: int, known: Outcome[int], all: list[int]) -> list[Any]:
        return [n, known.failed, all]

    @app.process
    def outer() -> Promise[list[Any]]:
        return inner.options(id="i", attrs={"city": "Rome"}).child(
            next_of(1), broken(), [next_of(2), 7], after=[next_of(3)]
        )

    handle = await outer.start()
    await run_until_idle(app)

    assert await handle.result(5) == [2, True, [3, 7]]
    [child] = await app.operator.processes.search(ProcessFilter(attrs={"city": "Rome"}))
    assert (child.type, child.key) == ("inner", "i")


async def test_what_is_no_use_to_a_child_or_a_step_is_refused_by_name(app: Mainspring) -> None:
    """Bad input: a promise of another process; options of a start given to a step."""
    inner, _, _ = family(app)

    @app.process
    def takes(p: Promise[int]) -> Promise[int]:
        return p

    @app.process(retry=ONCE)
    def gives() -> Promise[int]:
        return takes.child(inner(1))

    @app.process(retry=ONCE)
    def calls() -> Promise[int]:
        return inner.options(id="mine")(1)

    handles = [await gives.start(), await calls.start()]
    await run_until_idle(app)

    [given], [called] = [await causes(app, handle.id) for handle in handles]
    assert "takes.child(...) cannot be given a promise as such" in given
    assert "inner.options(id=...) does not apply to a step" in called


async def test_a_restarted_process_starts_the_children_that_have_ids_anew(app: Mainspring) -> None:
    """P12: the id is that of the child before; each later one has a number besides."""
    _, outer, _ = family(app, id="page-1")
    handle = await outer.options(id="o").start(4)
    await run_until_idle(app)
    for _ in range(2):
        await app.operator.processes.restart("o")
        await run_until_idle(app)

    assert await handle.result(5) == 4
    found = await app.operator.processes.search(ProcessFilter(type="inner"))
    assert [child.key for child in found] == ["page-1#2", "page-1#1", "page-1"]
    # Of somebody else it is taken as ever.
    other = await outer.start(5)
    await run_until_idle(app)
    [cause] = await causes(app, other.id)
    assert "with the id 'page-1' was started before" in cause


async def test_two_children_of_one_process_have_two_ids(app: Mainspring) -> None:
    """Bad input: an id in use, by the process itself."""
    inner, _, _ = family(app, id="one")

    @app.process
    def twice() -> None:
        inner.child(1)
        inner.child(2)

    handle = await twice.start()
    await run_until_idle(app)

    [cause] = await causes(app, handle.id)
    assert "with the id 'one' was started before" in cause


async def test_the_arguments_of_a_child_are_of_the_version_of_its_code(app: Mainspring) -> None:
    """Versions: what is recorded now is not brought up."""

    @app.process
    def inner(n: int, unit: str) -> str:
        return f"{n} {unit}"

    @app.upcast(inner, version=1)
    def _(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "unit": "of old"}

    @app.process
    def outer() -> Promise[str]:
        return inner.child(3, "kg")

    handle = await outer.start()
    await run_until_idle(app)

    assert await handle.result(5) == "3 kg"
