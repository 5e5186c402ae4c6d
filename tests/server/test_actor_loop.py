"""The client's loop: slots, beats, lists, repeats by ids, leaving in order; through a proxy that cuts."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg
import pytest
from served_process import Served

import warm
from mainspring import Mainspring
from mainspring.client import AsyncClient, RemoteError, TaskProblem, serving
from mainspring.client.actors import PulledTask
from mainspring.errors import TaskFailed
from mainspring.processes.remote.seal import rotate_secret_steps
from mainspring.testing.idle import wait_until
from tcp_proxy import tcp_proxy


@pytest.fixture
async def client(served: Served) -> AsyncIterator[AsyncClient]:
    served.start()
    async with AsyncClient(served.address, token=served.token) as found:
        yield found


def states(url: str) -> Counter[str]:
    """How the calls of the actor stand: done calls by their result, the others by their state."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select outcome::text from mainspring.history_run where queue = 'card.charge'"
        ).fetchall()
        left = connection.execute(
            "select case when pass is null then 'free' else 'held' end from mainspring.visit"
            " where queue = 'card.charge'"
        ).fetchall()
    return Counter(text for (text,) in rows + left)


async def test_actors_are_served_in_a_few_lines(client: AsyncClient, served: Served) -> None:
    """P3, P4: functions by name, async and plain; results, failures and retries."""
    seen: Counter[int] = Counter()

    async def charge(order: int, task: PulledTask) -> str:
        seen[order] += 1
        if order == 3 and task.attempt == 1:
            raise TaskProblem("busy")
        return f"paid {order}"

    calls = await client.tasks.enqueue_many("card.charge", [{"order": n} for n in range(30)])
    loop = client.actors.loop({"card.charge": charge}, slots=7)
    running = asyncio.create_task(loop.run())
    results = [await client.tasks.result(call, timeout=30) for call in calls]
    loop.stop()
    await asyncio.wait_for(running, 30)
    assert results == [f"paid {n}" for n in range(30)]
    assert seen == {**dict.fromkeys(range(30), 1), 3: 2}


async def test_an_answer_that_meets_a_lock_keeps_no_other_task_from_being_taken(
    client: AsyncClient, served: Served
) -> None:
    """P3: somebody's open transaction holds up that answer, and its slot, but not the loop."""
    answered = asyncio.Event()

    async def charge(order: int, task: PulledTask) -> str:
        if order == 0:
            await somebody.execute(
                "select from mainspring.visit where key = %s for update", [task.task_id]
            )
            answered.set()
        return f"paid {order}"

    async with await psycopg.AsyncConnection.connect(served.url) as somebody:
        held_up = await client.tasks.enqueue("card.charge", {"order": 0})
        loop = client.actors.loop({"card.charge": charge}, slots=2)
        running = asyncio.create_task(loop.run())
        await asyncio.wait_for(answered.wait(), 30)
        await wait_until(lambda: loop._sending, 10)
        other = await client.tasks.enqueue("card.charge", {"order": 1})
        assert await client.tasks.result(other, timeout=20) == "paid 1"
        await somebody.rollback()
        assert await client.tasks.result(held_up, timeout=30) == "paid 0"
    loop.stop()
    await asyncio.wait_for(running, 30)


async def test_a_slow_task_is_kept_by_beats_and_one_that_was_overtaken_is_stopped(
    client: AsyncClient, served: Served
) -> None:
    """P3: the loop beats for what is at work; a stop cancels it, and nothing is answered."""
    started, stopped = asyncio.Event(), asyncio.Event()

    async def refund(order: int) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    await client.tasks.enqueue("card.refund", {"order": 1})
    loop = client.actors.loop({"card.refund": refund}, slots=2)
    running = asyncio.create_task(loop.run())
    await asyncio.wait_for(started.wait(), 30)

    def times() -> list[object]:
        with psycopg.connect(served.url) as connection:
            return connection.execute(
                "select held_until from mainspring.visit where queue = 'card.refund'"
            ).fetchall()

    first = times()
    await wait_until(lambda: times() > first, 20)
    with psycopg.connect(served.url, autocommit=True) as connection:
        connection.execute("delete from mainspring.visit where queue = 'card.refund'")
    await asyncio.wait_for(stopped.wait(), 20)
    await wait_until(lambda: loop.working == 0, 10)
    loop.stop()
    await asyncio.wait_for(running, 30)


async def test_a_loop_that_is_stopped_finishes_what_is_at_work_and_gives_back_the_rest(
    client: AsyncClient, served: Served
) -> None:
    """Rule 18: the pull that waits is called off; what does not end in time is due again at once."""
    gate, at_work = asyncio.Event(), asyncio.Semaphore(0)

    async def charge(order: int) -> str:
        at_work.release()
        await (gate.wait() if order < 2 else asyncio.Event().wait())
        return "paid"

    await client.tasks.enqueue_many("card.charge", [{"order": n} for n in range(4)])
    loop = client.actors.loop({"card.charge": charge}, slots=4)
    loop._grace = 1.0
    running = asyncio.create_task(loop.run())
    for _ in range(4):
        await asyncio.wait_for(at_work.acquire(), 30)
    loop.stop()
    gate.set()
    await asyncio.wait_for(running, 30)
    assert states(served.url) == {"done": 2, "free": 2}


@pytest.mark.parametrize("method", [b"PullTasks", b"SettleTasks", b"BeatTasks"])
async def test_answers_that_are_lost_on_the_way_cost_nothing_but_time(
    served: Served, method: bytes
) -> None:
    """Invariants 6, 7: the connection is cut while calls are out; each task is done once."""
    served.start()
    host, _, port = served.address.rpartition(":")
    ran: Counter[int] = Counter()

    async def charge(order: int) -> str:
        ran[order] += 1
        return "paid"

    with tcp_proxy(host, int(port)) as proxy:
        async with (
            AsyncClient(served.address, token=served.token) as direct,
            AsyncClient(proxy.address, token=served.token, timeout=5.0) as client,
        ):
            calls = await direct.tasks.enqueue_many(
                "card.charge", [{"order": n} for n in range(60)]
            )
            loop = client.actors.loop({"card.charge": charge}, slots=5)
            running = asyncio.create_task(loop.run())
            for count in (5, 20, 40):
                await wait_until(lambda count=count: len(ran) >= count, 60)
                await asyncio.to_thread(proxy.cut)
            for call in calls:
                assert await direct.tasks.result(call, timeout=60) == "paid"
            loop.stop()
            await asyncio.wait_for(running, 60)
    assert states(served.url) == {"done": 60}
    assert set(ran) == set(range(60))


async def test_a_server_that_is_killed_again_and_again_loses_no_task(served: Served) -> None:
    """Invariants 5, 6, 11: kill -9 of the server under a loop; every task is done, settled once."""
    served.start()
    ran: Counter[int] = Counter()

    async def charge(order: int) -> str:
        ran[order] += 1
        await asyncio.sleep(0)
        return "paid"

    async with AsyncClient(served.address, token=served.token, timeout=60.0) as client:
        calls = await client.tasks.enqueue_many("card.charge", [{"order": n} for n in range(60)])
        loop = client.actors.loop({"card.charge": charge}, slots=4)
        running = asyncio.create_task(loop.run())
        for count in (4, 25, 45):
            await wait_until(lambda count=count: len(ran) >= count, 60)
            await asyncio.to_thread(served.kill)
            await asyncio.to_thread(served.start)
        for call in calls:
            assert await client.tasks.result(call, timeout=60) == "paid"
        loop.stop()
        await asyncio.wait_for(running, 60)
    assert states(served.url) == {"done": 60}


LONG = "x" * 1_500_000


async def test_what_is_large_together_goes_in_parts(client: AsyncClient) -> None:
    """Rule 14: what does not fit into an answer, or into a call, would be sent again for ever."""

    async def print_card(text: str) -> str:
        return text

    calls = await asyncio.gather(
        *(client.tasks.enqueue("card.print", {"text": LONG}) for _ in range(13))
    )
    loop = client.actors.loop({"card.print": print_card}, slots=20)
    running = asyncio.create_task(loop.run())
    async with asyncio.timeout(120):
        for call in calls:
            assert await client.tasks.result(call, timeout=100) == LONG
    loop.stop()
    await asyncio.wait_for(running, 30)


async def test_a_result_that_is_too_large_is_its_task_s_failure(client: AsyncClient) -> None:
    """P4: others go on, and an error of whatever length is told."""

    async def print_card(text: str) -> str:
        if text == "long":
            raise ValueError("x" * 5_000_000)
        return text * 4_000_000

    calls = await client.tasks.enqueue_many("card.print", [{"text": t} for t in ("", "long", "x")])
    loop = client.actors.loop({"card.print": print_card}, slots=3)
    running = asyncio.create_task(loop.run())
    assert await client.tasks.result(calls[0], timeout=60) == ""
    with pytest.raises(TaskFailed, match="ValueError: xxx"):
        await client.tasks.result(calls[1], timeout=60)
    with pytest.raises(
        TaskFailed, match=r"InvalidResult: the result has 4000\d+ bytes, .*elsewhere"
    ):
        await client.tasks.result(calls[2], timeout=60)
    loop.stop()
    await asyncio.wait_for(running, 30)


async def test_more_tasks_than_a_beat_takes_are_all_kept(
    client: AsyncClient, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P3: each in its turn; those beyond the first list would come back to the queue."""
    monkeypatch.setattr(serving, "MOST_BEATEN", 2)
    gate = asyncio.Event()

    async def refund(order: int) -> str:
        await gate.wait()
        return "back"

    def moved() -> int:
        with psycopg.connect(served.url) as connection:
            rows = connection.execute(
                "select held_until > started_at + interval '2.1 s' from mainspring.visit"
                " where queue = 'card.refund'"
            ).fetchall()
        return sum(bool(is_later) for (is_later,) in rows)

    calls = await client.tasks.enqueue_many("card.refund", [{"order": n} for n in range(5)])
    loop = client.actors.loop({"card.refund": refund}, slots=5)
    running = asyncio.create_task(loop.run())
    await wait_until(lambda: moved() == 5, 60)
    gate.set()
    for call in calls:
        assert await client.tasks.result(call, timeout=60) == "back"
    loop.stop()
    await asyncio.wait_for(running, 30)


async def test_a_ticket_that_the_server_forgot_spoils_no_other(
    client: AsyncClient, served: Served, registered: str
) -> None:
    """Rule 17: the secret was changed twice; what is pulled since then is kept and settled."""
    old, new = asyncio.Event(), asyncio.Event()
    begun: list[int] = []

    async def refund(order: int) -> str:
        begun.append(order)
        await (new if order else old).wait()
        return "back"

    await client.tasks.enqueue("card.refund", {"order": 0})
    loop = client.actors.loop({"card.refund": refund}, slots=5)
    running = asyncio.create_task(loop.run())
    await wait_until(lambda: begun == [0], 60)
    served.kill()
    async with Mainspring(served.url) as app:
        pool = await app.pool()
        for _ in range(2):
            async with pool.connection(transaction=True) as connection:
                await connection.follow(rotate_secret_steps())
    await asyncio.to_thread(served.start)
    calls = await client.tasks.enqueue_many("card.refund", [{"order": n} for n in (1, 2, 3)])
    await wait_until(lambda: {1, 2, 3} <= set(begun), 60)
    old.set()
    new.set()
    for call in calls:
        assert await client.tasks.result(call, timeout=60) == "back"
    loop.stop()
    await asyncio.wait_for(running, 30)


async def test_a_loop_whose_answers_are_refused_ends_with_the_error(
    served: Served, new_token: Callable[..., str]
) -> None:
    """It must not go on with nobody to settle: its scope was taken away while it worked."""
    served.start()
    gate, begun = asyncio.Event(), asyncio.Event()

    async def refund(order: int) -> str:
        begun.set()
        await gate.wait()
        return "back"

    token = await asyncio.to_thread(new_token, "pull:card.refund", "enqueue:card.refund")
    async with AsyncClient(served.address, token=token, timeout=30) as client:
        await client.tasks.enqueue("card.refund", {"order": 1})
        loop = client.actors.loop({"card.refund": refund}, slots=1)
        loop._grace = 1.0
        running = asyncio.create_task(loop.run())
        await asyncio.wait_for(begun.wait(), 60)
        with psycopg.connect(served.url, autocommit=True) as connection:
            connection.execute("update mainspring.api_token set scopes = '{task.read}'")
        served.kill()
        await asyncio.to_thread(served.start)
        gate.set()
        with pytest.raises(RemoteError, match=r"no scope 'pull:card\.refund'"):
            await asyncio.wait_for(running, 60)


ACTOR = """
import asyncio, os, sys
from mainspring.client import AsyncClient

async def charge(order: int) -> str:
    print("begins", flush=True)
    await asyncio.sleep(3600 if order else 0)
    return "paid"

async def main() -> None:
    async with AsyncClient(sys.argv[1]) as client:
        await client.actors.serve({"card.charge": charge}, slots=2)
    print("left", flush=True)

asyncio.run(main())
"""


def actor(served: Served, folder: Path) -> subprocess.Popen[str]:
    (folder / "actor.py").write_text(ACTOR)
    environment = {**os.environ, "MAINSPRING_TOKEN": served.token}
    return warm.Popen(
        [sys.executable, "actor.py", served.address],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_an_actor_that_is_told_to_stop_leaves_and_one_that_is_killed_is_recovered(
    served: Served, tmp_path: Path
) -> None:
    """Rule 18; P3: SIGTERM ends it in order; what a killed one had comes back when its time is over."""
    served.start()
    client = served.client()
    first = client.tasks.enqueue("card.charge", {"order": 0})
    with actor(served, tmp_path) as polite:
        assert polite.stdout is not None
        assert polite.stdout.readline() == "begins\n"
        assert client.tasks.result(first, timeout=30) == "paid"
        polite.send_signal(signal.SIGTERM)
        assert polite.stdout.readline() == "left\n"
    call = client.tasks.enqueue("card.charge", {"order": 1})
    with actor(served, tmp_path) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "begins\n"
        killed.kill()
    assert client.tasks.get(call).state == "running"
    with psycopg.connect(served.url, autocommit=True) as connection:
        connection.execute(  # as if its work timeout had passed
            "update mainspring.visit set held_until = held_until - interval '1 hour'"
            " where queue = 'card.charge'"
        )
    with served.worker():
        [task] = client.actors.pull("card.charge", wait=40).tasks
    assert (task.key, task.attempt) == (call.id, 1)
    assert client.actors.complete(task.ticket, "paid").settled_as == "accepted"
