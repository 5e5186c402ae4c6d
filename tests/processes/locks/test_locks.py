"""P15: a lock that a process holds over several steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from mainspring import Mainspring, Outcome, Promise, RetryPolicy, lock, scope, sleep
from mainspring.errors import InvalidArguments, Refused
from mainspring.testing import Clock, decide, run_until_idle

ONCE = RetryPolicy(attempts=1)


class Sections:
    """What ran, in order: `begins` and `ends` of sections under a lock."""

    def __init__(self, app: Mainspring) -> None:
        self.said: list[str] = []
        self.go_on = app.signal("go on", None)
        self.fails = False
        said = self.said

        @app.task
        def begin(who: str) -> str:
            said.append(f"{who} begins")
            return who

        @app.task(retry=ONCE)
        def end(who: str) -> str:
            if self.fails:
                raise ValueError("no")
            said.append(f"{who} ends")
            return who

        @app.task
        def undo(who: str, done: Outcome[str]) -> None:
            said.append(f"{who} undone")

        @app.task
        def after(who: str) -> str:
            said.append(f"{who} goes on")
            return who

        @app.process
        def section(who: str, name: str) -> Promise[str]:
            with lock(name) as s:
                begun = begin(who)
                begun.compensate(undo, who, begun)
                s.returns(end(begun))
            return after(s.promise)

        @app.process
        def patient(who: str, name: str) -> Promise[str]:
            with lock(name) as s:
                begun = begin(who)
                begun.compensate(undo, who, begun)
                s.returns(end(who, after=[begun, self.go_on.wait()]))
            return after(s.promise)

        @app.process
        def nested(who: str, outer: str, inner: str) -> Promise[str]:
            with lock(outer) as s:
                s.returns(within(who, inner, after=[sleep(5)]))
            return s.promise

        @app.process
        def within(who: str, inner: str) -> Promise[str]:
            with lock(inner) as s:
                s.returns(end(who))
            return s.promise

        self.section, self.patient, self.nested = section, patient, nested


def held(url: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        text = "select name, held_at is not null from mainspring.process_lock order by no"
        return connection.execute(text).fetchall()


async def test_of_twenty_who_wait_each_has_the_lock_alone_and_in_turn(
    app: Mainspring, mainspring_url: str
) -> None:
    """P15: first come, first served; nobody begins before the one before him has ended."""
    sections = Sections(app)
    handles = []
    holder = await sections.patient.start("first", "door")
    await run_until_idle(app)
    for n in range(20):
        handles.append(await sections.section.start(str(n), "door"))
        await run_until_idle(app)
    [found] = await app.operator.processes.locks()
    assert found.holder is not None
    assert (found.name, found.holder.process_id) == ("door", holder.id)
    assert [claim.process_id for claim in found.waiters] == [handle.id for handle in handles]
    assert sections.said == ["first begins"]
    cause = (await app.operator.processes.why(handles[2].id)).causes[-1]
    assert cause.name == "waiting_for_lock"
    assert cause.text.startswith(f"it waits for the lock door: held by patient {holder.id} since ")
    assert cause.text.endswith("; 20 waiters, 2 before it")
    await holder.signal(sections.go_on)
    await run_until_idle(app)
    sectioned = [word for word in sections.said if "goes on" not in word]
    who = ["first", *map(str, range(20))]
    assert sectioned == [f"{one} {what}" for one in who for what in ("begins", "ends")]
    assert held(mainspring_url) == []


async def test_a_cancel_while_it_waits_lets_the_next_one_have_it(
    app: Mainspring, mainspring_url: str
) -> None:
    """P15: who has left the line is passed over."""
    sections = Sections(app)
    first = await sections.patient.start("a", "door")
    await run_until_idle(app)
    second = await sections.section.start("b", "door")
    await run_until_idle(app)
    third = await sections.section.start("c", "door")
    await run_until_idle(app)
    await second.cancel()
    await run_until_idle(app)
    assert sections.said == ["a begins"]
    await first.signal(sections.go_on)
    await run_until_idle(app)
    assert await third.result(timeout=1) == "c"
    assert "b begins" not in sections.said
    assert held(mainspring_url) == []


@pytest.mark.parametrize("how", ["cancel", "call off", "fail", "without undo"])
async def test_whatever_ends_the_scope_of_a_holder_gives_the_lock_up_when_it_was_undone(
    app: Mainspring, mainspring_url: str, mainspring_clock: Clock, how: str
) -> None:
    """P15: nothing releases it, it follows: and compensations run under the lock."""
    sections = Sections(app)
    first = await sections.patient.start("a", "door")
    await run_until_idle(app)
    second = await sections.section.start("b", "door")
    await run_until_idle(app)
    match how:
        case "cancel" | "without undo":
            await first.cancel(compensate=how == "cancel")
        case "call off":
            await first.cancel(scope="door")
        case _:
            sections.fails = True
            await first.signal(sections.go_on)
            await run_until_idle(app)
            sections.fails = False
    await run_until_idle(app)
    await mainspring_clock.advance(timedelta(seconds=2))
    await run_until_idle(app)
    assert await second.result(timeout=1) == "b"
    undone = [] if how == "without undo" else ["a undone"]
    assert sections.said == ["a begins", *undone, "b begins", "b ends", "b goes on"]
    assert held(mainspring_url) == []


async def test_a_lost_word_is_made_up_for_in_half_a_minute(
    app: Mainspring, mainspring_url: str, mainspring_clock: Clock
) -> None:
    """P15: of a release before, or by hand: who waits looks for himself."""
    sections = Sections(app)
    first = await sections.patient.start("a", "door")
    await run_until_idle(app)
    second = await sections.section.start("b", "door")
    await run_until_idle(app)
    with psycopg.connect(mainspring_url, autocommit=True) as connection:
        text = "update mainspring.process set state = 'cancelled', ended_at = now() where id = %s"
        connection.execute(text, (first.id,))
    await run_until_idle(app)
    assert await second.status() == "open"
    await mainspring_clock.advance(timedelta(seconds=31))
    await run_until_idle(app)
    assert await second.result(timeout=1) == "b"


async def test_two_who_wait_for_each_other_are_told_so(
    app: Mainspring, mainspring_clock: Clock
) -> None:
    """P15: a deadlock is not broken by itself; `why` names the circle, and a cancel of one ends it."""
    sections = Sections(app)
    one = await sections.nested.start("a", "left", "right")
    other = await sections.nested.start("b", "right", "left")
    await run_until_idle(app)
    await mainspring_clock.advance(timedelta(seconds=6))
    await run_until_idle(app)
    found = {lock.name: lock for lock in await app.operator.processes.locks()}
    assert found["left"].circle == ["left", "right", "left"]
    assert found["right"].circle == ["right", "left", "right"]
    cause = (await app.operator.processes.why(one.id)).causes[-1]
    assert "1 waiter; a deadlock: right -> left -> right" in cause.text
    await other.cancel()
    await run_until_idle(app)
    assert await one.result(timeout=1) == "a"


async def test_a_restart_takes_the_lock_again_or_is_refused(
    app: Mainspring, mainspring_url: str
) -> None:
    """P15: what ran under a lock is not redone without it."""
    sections = Sections(app)
    handle = await sections.section.options(id="s").start("a", "door")
    await run_until_idle(app)
    operator = app.operator.processes
    tasks = {task.actor: task.id for task in (await operator.graph("s")).tasks}
    with pytest.raises(
        Refused, match=r"ran under the lock 'door', which was given up: restart from"
    ):
        await operator.restart("s", tasks["end"])
    holder = await sections.patient.start("x", "door")
    await run_until_idle(app)
    sections.said.clear()
    await operator.restart("s", tasks["@lock"])
    await run_until_idle(app)
    assert (sections.said, held(mainspring_url)) == ([], [("door", True), ("door", False)])
    await holder.signal(sections.go_on)
    await run_until_idle(app)
    assert sections.said == [
        "x ends", *sorted(["x goes on", "a begins"], key=sections.said.index), "a ends", "a goes on",
    ]  # fmt: skip
    assert await handle.result(timeout=1) == "a"
    await operator.restart("s")
    await run_until_idle(app)
    assert sections.said[-2:] == ["a ends", "a goes on"]
    assert held(mainspring_url) == []


async def test_a_lock_inside_of_itself_is_refused(app: Mainspring) -> None:
    @app.process
    def twice() -> None:
        with lock("door"), scope(), lock("door"):
            pass

    with pytest.raises(InvalidArguments, match="the lock 'door' is taken inside of itself"):
        decide(twice)
