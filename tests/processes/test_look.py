"""Looks: repairs of what one transaction makes impossible, and when a process is looked at next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from process_scene import Scene, call, given, value

from mainspring.processes.decision import Decision
from mainspring.processes.look import Sight
from mainspring.testing import Clock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def sight(**more: object) -> Sight:
    values = {
        "state": "open",
        "now": NOW,
        "idle_timeout": 3600.0,
        "deadline_at": NOW + 24 * HOUR,
        "changed_at": NOW - timedelta(minutes=10),
        "due_at": None,
        "scope_at": None,
        "is_waiting": False,
        "must_change": False,
        **more,
    }
    return Sight(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, timedelta(minutes=50)),  # a change of the graph moves the idle time
        ({"changed_at": NOW - 2 * HOUR}, HOUR),  # each look plans the next
        ({"deadline_at": NOW + timedelta(minutes=5)}, timedelta(minutes=5)),
        ({"scope_at": NOW + timedelta(minutes=1)}, timedelta(minutes=1)),
        ({"is_waiting": True, "due_at": NOW + 30 * HOUR}, 31 * HOUR),  # not idle: a known time
        ({"is_waiting": True, "changed_at": NOW - 3 * HOUR}, 3 * HOUR),  # no known time: doubles
        ({"is_waiting": True, "changed_at": NOW - 99 * HOUR}, 24 * HOUR),  # up to a day
    ],
)
def test_a_look_plans_the_next(more: dict[str, object], expected: timedelta) -> None:
    """P5: times at which recovery looks; a process that only waits outside is not idle."""
    assert sight(**more).next_at() - NOW == expected


async def test_a_process_that_waits_for_a_delayed_step_is_not_idle(
    scene: Scene, clock: Clock
) -> None:
    """P5: the time at which a step may start is known, as that of a timer."""
    late = msgspec.structs.replace(call("late"), delay=36_000.0)
    scene.actor(lambda h: Decision((late,), returned=0), "order")
    scene.actor(lambda h: 4, "late")
    process = await scene.start("order")
    await scene.run()

    await clock.advance(HOUR)
    await scene.run()

    due_in = "select due_at - mainspring.now() from mainspring.visit where key = %s"
    [(left,)] = scene.query(due_in, f"look/{process}")
    assert 9 * HOUR < left < 11 * HOUR


@pytest.fixture
async def chain(scene: Scene) -> str:
    """A process whose second task waits for a signal's task."""
    scene.actor(lambda h: Decision((call("first"), call("last", value(0))), returned=1), "order")
    scene.actor(lambda h: 4, "first")
    scene.actor(lambda h: given(h)[0] + 1, "last")
    return await scene.start("order")


async def look(scene: Scene, clock: Clock) -> None:
    await clock.advance(timedelta(hours=2))
    await scene.run()


async def test_a_ready_task_without_a_visit_is_offered_again_and_reported(
    scene: Scene, clock: Clock, chain: str
) -> None:
    """P7: a task that is ready and not queued (a restore, a hand-made change) is repaired."""
    scene.query("delete from mainspring.visit where queue = 'order'")

    await look(scene, clock)

    assert (scene.state(chain), scene.result(chain)) == ("finished", 5)
    [(rule, source)] = scene.query("select rule, source from mainspring.repair")
    assert (rule, source) == ("I1", "automatic")


async def test_a_process_whose_tasks_are_all_done_is_finished(
    scene: Scene, clock: Clock, chain: str
) -> None:
    """P7: a process whose tasks are all finished but which is not."""
    await scene.run()
    scene.query("update mainspring.process set state = 'open', ended_at = null")
    key = f"look/{chain}"
    scene.query(
        "insert into mainspring.visit (shard, key, queue, id, version, payload)"
        " select mainspring.shard(%s, shard_count), %s, 'mainspring.process', gen_random_uuid(), 1,"
        " jsonb_build_object('@', %s::text) from mainspring.install",
        chain,
        key,
        chain,
    )

    await look(scene, clock)

    assert (scene.state(chain), scene.result(chain)) == ("finished", 5)


async def test_what_cannot_be_repaired_marks_the_process_and_other_branches_go_on(
    scene: Scene, clock: Clock, chain: str
) -> None:
    """P7: a missing task description marks the process inconsistent; nothing restarts it."""
    scene.query("delete from mainspring.task where actor = 'order'")

    await scene.run()

    [(mark,)] = scene.query("select inconsistent from mainspring.process")
    assert "has a visit and no row" in mark
    assert scene.state(chain) == "open"
    scene.query("delete from mainspring.visit")
    scene.query("delete from mainspring.process")


async def test_a_wrong_count_is_counted_anew(scene: Scene, clock: Clock) -> None:
    """P7: a waiting task whose count was spoilt is released when its inputs are closed."""
    wait = call("@signal", name="go", timeout=None)
    scene.actor(
        lambda h: Decision((call("first"), wait, call("last", value(0), value(1))), returned=2),
        "order",
    )
    scene.actor(lambda h: 4, "first")
    scene.actor(given, "last")
    process = await scene.start("order")
    await scene.run()
    scene.query("update mainspring.wait set n = 7")

    await clock.advance(timedelta(days=2))
    await scene.run()
    await scene.signal(process, "go", 1)
    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", [4, 1])
