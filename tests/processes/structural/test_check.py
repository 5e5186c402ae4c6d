"""Looks: repairs of what one transaction makes impossible, and when a process is looked at next."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import psycopg
import pytest
from process_scene import Scene, call, given, value

from mainspring import Mainspring
from mainspring.db.shared import SharedConnections
from mainspring.db.tx import SyncTx
from mainspring.kernel.layer import NewlyParked
from mainspring.kernel.port import WorkerPort
from mainspring.processes.record.decision import Decision
from mainspring.processes.runtime import Processes
from mainspring.processes.structural.check import ParkedNow, Sight
from mainspring.processes.structural.request import request_look
from mainspring.processes.structural.sweep import NO_LOOK, sweep
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


async def test_a_forced_check_finishes_a_process_of_which_all_has_ended(
    scene: Scene, clock: Clock, chain: str
) -> None:
    """P7, P11: it is a rule that can be broken, is found before its planned look, ended and reported."""
    await scene.run()
    scene.query("update mainspring.process set state = 'open', ended_at = null")
    await clock.advance(timedelta(minutes=1))
    broken = "select rule, detail from mainspring.process_violation"
    assert scene.query(broken) == [("I8", "a process is open and all of it has ended")]

    await scene.request(request_look(chain, source="operation 7"))
    await scene.run()

    assert (scene.state(chain), scene.result(chain)) == ("finished", 5)
    found = "select rule, detail, source from mainspring.repair"
    text = "a process is open and all of it has ended"
    assert scene.query(found) == [("I8", text, "operation 7")]


async def test_a_missing_input_marks_the_process_once_and_is_no_repair(
    scene: Scene, clock: Clock
) -> None:
    """P7: the look does not die of it, repairs nothing about that task, and says so once."""
    waits = [call("@signal", name=name, timeout=None) for name in ("a", "b")]
    scene.actor(lambda h: Decision((*waits, call("last", value(0), value(1))), returned=2), "order")
    scene.actor(given, "last")
    process = await scene.start("order")
    await scene.run()
    [(lost,)] = scene.query("select task from mainspring.external where name = 'b'")
    scene.query("delete from mainspring.external where task = %s", lost)
    scene.query("delete from mainspring.task where id = %s", lost)

    for _ in range(2):
        await scene.request(request_look(process, source="operation 7"))
        await scene.run()
    await look(scene, clock)

    [(mark, state)] = scene.query("select inconsistent, state::text from mainspring.process")
    assert mark == f"I12: an input is gone (task {scene.ids(process)['last']})"
    assert state == "open"
    assert scene.query("select * from mainspring.repair") == []
    scene.query("delete from mainspring.visit")
    scene.query("delete from mainspring.edge")
    scene.query("delete from mainspring.process")
    scene.query("delete from mainspring.task")
    scene.query("delete from mainspring.external")
    scene.query("delete from mainspring.wait")


async def test_a_lost_look_is_found_by_the_sweep(scene: Scene, clock: Clock, chain: str) -> None:
    """P2, P7: the process has a recovery time of its own, though all its visits are gone."""
    other = await scene.start("order")
    scene.query("delete from mainspring.visit where payload ->> '@' = %s", chain)

    async def swept() -> int:
        async with asyncio.timeout(20):
            connection = await scene.database.connect("upkeep")
            try:
                return await sweep(scene.database, connection, days=30)
            finally:
                await connection.close()

    assert await swept() == 0  # too early: it may have just begun
    await clock.advance(timedelta(minutes=11))
    assert await swept() == 1
    assert await swept() == 0  # known: the other one's look is there, this one's is again
    await scene.run()

    assert [scene.state(id) for id in (chain, other)] == ["finished"] * 2
    details = [row[0] for row in scene.query("select detail from mainspring.repair order by id")]
    assert details == [NO_LOOK, "an open task has no visit and waits for nothing"]
    await clock.advance(timedelta(days=3))
    assert await swept() == 0


async def test_a_wait_that_nobody_reads_any_more_does_not_keep_a_process_open(
    scene: Scene, clock: Clock
) -> None:
    """P15: a process whose result is there is finished, though a signal was waited for."""
    waits = [call("@signal", name="go", timeout=None), call("@sleep", seconds=90_000)]
    joined = call("@gather", value(0), of=[0])
    scene.actor(lambda h: Decision((*waits, joined, call("first")), returned=3), "order")
    scene.actor(lambda h: 4, "first")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", 4)
    assert scene.tasks(process)["@signal"] == ["cancelled"]
    assert scene.query("select * from mainspring.external") == []


async def test_a_wait_is_left_over_when_the_last_branch_ends_after_the_result(scene: Scene) -> None:
    """P15: the branch's end asks for a look, which sees that only the wait is left."""
    wait = call("@signal", name="go", timeout=None)
    children = (wait, call("first"), call("side", value(1)))
    scene.actor(lambda h: Decision(children, returned=1), "order")
    scene.actor(lambda h: 4, "first")
    scene.actor(lambda h: given(h)[0], "side")
    process = await scene.start("order")

    await scene.run()

    assert (scene.state(process), scene.result(process)) == ("finished", 4)


async def test_a_worker_finds_a_process_whose_visits_were_lost(
    app: Mainspring, clock: Clock, mainspring_url: str
) -> None:
    """P2, P7: by hand or after a partial restore; nobody orders a check."""

    @app.process
    def order() -> str:
        return "sent"

    handle = await order.start()
    with psycopg.connect(mainspring_url, autocommit=True) as connection:
        connection.execute("delete from mainspring.visit")
    await clock.advance(timedelta(minutes=11))
    async with app.worker(poll=0.1):
        assert await handle.result(30) == "sent"


async def test_a_wait_that_somebody_reads_keeps_its_process_open(scene: Scene) -> None:
    """P15: a branch beside the result has its effect, whenever the signal comes."""
    wait = call("@signal", name="go", timeout=None)
    children = (wait, call("side", value(0)), call("first"))
    scene.actor(lambda h: Decision(children, returned=2), "order")
    scene.actor(lambda h: 4, "first")
    scene.actor(lambda h: given(h)[0], "side")
    process = await scene.start("order")
    await scene.run()
    assert (scene.state(process), scene.result(process)) == ("open", 4)

    await scene.signal(process, "go", 1)
    await scene.run()
    assert scene.state(process) == "finished"


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


@pytest.mark.parametrize(
    ("text", "has_crashed", "told"),
    [
        ("whatever is said of it: worker 7", True, "mainspring.errors.WorkerDied"),
        ("whatever is said of it: worker 7", False, "unknown"),
        ("ValueError: a worker died before\n  at x.py", True, "ValueError"),
        (None, False, "unknown"),
    ],
)
def test_that_a_worker_died_is_told_by_the_count_not_by_the_words(
    text: str | None, has_crashed: bool, told: str
) -> None:
    """P7: the words are for people, and may change."""
    task = ParkedNow("task", "promise", "actor", None, 0, None, True, text, has_crashed)

    error = task.failure

    assert error.type == told
    assert error.message in (text or "parked by the engine")


async def test_a_process_is_looked_at_as_soon_as_a_task_of_it_is_parked(
    scene: Scene, chain: str
) -> None:
    """P7: its next look may be hours away."""
    due_in = "select due_at - mainspring.now() from mainspring.visit where key = %s"
    assert scene.query(due_in, f"look/{chain}")[0][0] > timedelta(minutes=1)
    payload = f'{{"@": "{chain}"}}'
    parked = [NewlyParked("first", "a task", payload), NewlyParked("plain", "a call", "{}")]
    processes = Processes(scene.database, WorkerPort(SharedConnections(scene.database, 1)))

    with psycopg.connect(scene.url) as connection:
        SyncTx(connection).follow(processes.recovery.parked(parked))

    assert scene.query(due_in, f"look/{chain}")[0][0] <= timedelta()
