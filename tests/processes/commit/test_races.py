"""Races between decisions on a real server, at every place where two can meet.

The lost wakeup first: whoever links to a promise and whoever closes it must not miss each other.
"""

from __future__ import annotations

import psycopg
import pytest
from process_scene import Scene, call, handle, value
from walk import Walk, decided, settle, take

from mainspring.processes.record.decision import Decision


@pytest.fixture
async def graph(scene: Scene) -> dict[str, str]:
    """A process with an open promise `p`, and a decider `d` that was given it as a handle."""
    process = await scene.start("order")
    [(root,)] = scene.query("select id::text from mainspring.task")
    settle(scene, root, Decision((call("p"), call("d", handle(0)), call("q")), returned=1))
    rows = scene.query("select actor, id::text from mainspring.task where process_id = %s", process)
    return {"process": process, **dict(rows)}


def link(scene: Scene, graph: dict[str, str]) -> Walk:
    """`d` decides: a task that waits for `p`."""
    return Walk(
        scene, [decided(scene, graph["d"], Decision((call("c", value(graph["p"])),), returned=0))]
    )


def close(scene: Scene, graph: dict[str, str], name: str = "p") -> Walk:
    return Walk(scene, [decided(scene, graph[name], Decision(result="1"))])


def close_plainly(scene: Scene, graph: dict[str, str], name: str = "p") -> Walk:
    """The same in the shorter form of plain successes: settled first, locked by its end."""
    return Walk(scene, [decided(scene, graph[name], Decision(result="1"))], settles=True)


def visits(scene: Scene, actor: str) -> int:
    return int(scene.query("select count(*) from mainspring.visit where queue = %s", actor)[0][0])


async def test_a_promise_that_closes_while_it_is_linked_wakes_who_waits(
    scene: Scene, graph: dict[str, str]
) -> None:
    """Trap, the lost wakeup: the linker holds the promise, the closer waits for it, and must look
    for edges in a later statement."""
    linker, closer = link(scene, graph), close(scene, graph)
    linker.after("lock_tasks")
    closer.upto("lock_tasks")
    ended = closer.in_background()
    closer.waits(scene)

    linker.finish()
    ended.result(20)

    assert visits(scene, "c") == 1


async def test_a_link_to_a_promise_that_closes_meanwhile_finds_it_closed(
    scene: Scene, graph: dict[str, str]
) -> None:
    """Trap: the linker waits for the closer's lock; the answer of its locking read decides."""
    linker, closer = link(scene, graph), close(scene, graph)
    closer.after("lock_tasks")
    linker.upto("lock_tasks")
    ended = linker.in_background()
    linker.waits(scene)

    closer.finish()
    ended.result(20)

    assert visits(scene, "c") == 1
    assert scene.query("select * from mainspring.wait") == []


async def test_a_plain_end_waits_for_who_links_to_it(scene: Scene, graph: dict[str, str]) -> None:
    """Trap, the lost wakeup: an end without a lock of its own before it waits for the linker's."""
    linker, closer = link(scene, graph), close_plainly(scene, graph)
    linker.after("lock_tasks")
    closer.upto("end_tasks")
    ended = closer.in_background()
    closer.waits(scene)

    linker.finish()
    ended.result(20)

    assert visits(scene, "c") == 1


async def test_a_link_to_what_plainly_ends_meanwhile_finds_it_closed(
    scene: Scene, graph: dict[str, str]
) -> None:
    """Trap: the end is the lock for which the linker waits."""
    linker, closer = link(scene, graph), close_plainly(scene, graph)
    closer.after("end_tasks")
    linker.upto("lock_tasks")
    ended = linker.in_background()
    linker.waits(scene)

    closer.finish()
    ended.result(20)

    assert visits(scene, "c") == 1
    assert scene.query("select * from mainspring.wait") == []


async def test_a_link_and_a_close_in_one_batch_wake_who_waits(
    scene: Scene, graph: dict[str, str]
) -> None:
    """Trap: children are inserted before anything is closed, so that they are counted and released."""
    runs = [
        decided(scene, graph["p"], Decision(result="1")),
        decided(scene, graph["d"], Decision((call("c", value(graph["p"])),), returned=0)),
    ]

    Walk(scene, runs).finish()

    assert visits(scene, "c") == 1


@pytest.fixture
async def fan_in(scene: Scene) -> dict[str, str]:
    """Two open promises `p` and `q`, and a task that waits for both."""
    process = await scene.start("order")
    [(root,)] = scene.query("select id::text from mainspring.task")
    settle(scene, root, Decision((call("p"), call("q"), call("c", value(0), value(1))), returned=2))
    rows = scene.query("select actor, id::text from mainspring.task where process_id = %s", process)
    return {"process": process, **dict(rows)}


async def test_two_inputs_that_close_at_once_release_their_task_once(
    scene: Scene, fan_in: dict[str, str]
) -> None:
    """Trap: each closer sees the other's input open; the count, taken down whatever it is, decides."""
    first, second = close(scene, fan_in, "p"), close(scene, fan_in, "q")
    first.after("count_down")
    second.upto("count_down")
    ended = second.in_background()
    second.waits(scene)

    first.finish()
    ended.result(20)

    assert visits(scene, "c") == 1
    assert scene.query("select * from mainspring.wait") == []


async def test_a_decision_that_is_sent_twice_counts_once(
    scene: Scene, graph: dict[str, str]
) -> None:
    """P13: the visit's token is the referee; the second of two equal decisions is dropped."""
    decision = Decision((call("c"),), returned=0)
    run = decided(scene, graph["d"], decision)
    Walk(scene, [run]).finish()

    again = Walk(scene, [run])
    again.finish()

    assert again.commit.verdicts == ["gone"]
    assert visits(scene, "c") == 1


async def test_two_results_of_one_task_in_one_batch_count_once(
    scene: Scene, graph: dict[str, str]
) -> None:
    """Trap: two runs of one visit (accept="first") in a batch: one decision is applied."""
    one = decided(scene, graph["d"], Decision((call("c"),), returned=0))
    two = decided(scene, graph["d"], Decision((call("c"),), returned=0))

    walk = Walk(scene, [one, two])
    walk.finish()

    assert sorted(map(str, walk.commit.verdicts)) == ["None", "locked"]
    assert visits(scene, "c") == 1


async def test_batches_that_link_and_close_crosswise_never_deadlock(scene: Scene) -> None:
    """Trap: one sorted pass over all rows that are closed or linked, and counts in a table of their own."""
    process = await scene.start("order")
    [(root,)] = scene.query("select id::text from mainspring.task")
    children = [call(f"p{n}") for n in range(6)]
    deciders = [call(f"d{n}", handle(n), handle(5 - n)) for n in range(6)]
    gather = call("c", *[value(n) for n in range(6)])
    settle(scene, root, Decision((*children, *deciders, gather), returned=12))
    ids = dict(
        scene.query("select actor, id::text from mainspring.task where process_id = %s", process)
    )
    walks = []
    for n in range(6):
        edges = [value(ids[f"p{n}"]), value(ids[f"p{5 - n}"])]
        walks.append(
            Walk(
                scene,
                [
                    decided(scene, ids[f"d{n}"], Decision((call("e", *edges),), result="1")),
                    decided(scene, ids[f"p{5 - n}"], Decision(result="1")),
                ],
            )
        )

    ends = [walk.in_background() for walk in walks]
    for end in ends:
        end.result(30)

    assert visits(scene, "c") == 1
    assert visits(scene, "e") == 6


async def test_roots_and_branches_that_end_at_once_leave_the_end_to_the_engine(
    scene: Scene,
) -> None:
    """Trap: each sees the other open; the end that the root asks for finishes the process."""
    process = await scene.start("order")
    [(root,)] = scene.query("select id::text from mainspring.task")
    settle(scene, root, Decision((call("last"), call("side")), returned=0))
    ids = dict(scene.query("select actor, id::text from mainspring.task"))
    last, side = close(scene, ids, "last"), close(scene, ids, "side")
    last.after("finish_processes")

    side.finish()
    last.finish()

    due = scene.query("select due_at <= now() from mainspring.visit where key like 'end/%%'")
    assert due == [(True,)]
    assert scene.state(process) == "open"


async def test_a_structural_change_keeps_decisions_away_and_gets_its_turn(
    scene: Scene, graph: dict[str, str]
) -> None:
    """P13: an exclusive lock waits for decisions in flight; new ones are sent again later."""
    flying = close(scene, graph).after("lock_tasks")
    scene.query(
        "update mainspring.process set closing_at = mainspring.now() where id = %s",
        graph["process"],
    )

    late = close(scene, graph, "q")
    late.finish()

    assert late.commit.verdicts == ["locked"]
    with (
        psycopg.connect(scene.url, options="-c lock_timeout=100ms") as other,
        pytest.raises(psycopg.errors.LockNotAvailable),
    ):
        other.execute("select from mainspring.process for update")
    flying.finish()
    scene.query("update mainspring.process set closing_at = null")


async def test_a_batch_that_fails_leaves_nothing_of_any_decision(
    scene: Scene, graph: dict[str, str]
) -> None:
    """P1: a decision is committed as a whole; children of one that fails never exist."""
    walk = link(scene, graph).after("insert_tasks")

    walk.abandon()

    assert scene.query("select 1 from mainspring.task where actor = 'c'") == []
    assert take(scene, graph["d"]).visit.attempt == 0
