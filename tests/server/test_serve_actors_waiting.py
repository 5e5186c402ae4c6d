"""Pulls that wait: woken by notification, given back by who goes, ended when the server stops."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import server_app
from served_process import Served

from mainspring import Mainspring
from mainspring.client import AsyncClient, Client
from mainspring.processes.remote import line
from mainspring.server.door import Door
from mainspring.server.handlers.actors import ActorCalls
from mainspring.server.settings import ServeSettings
from mainspring.testing.idle import wait_until


class Scene:
    """A server in this process, and its line of pulls."""

    def __init__(
        self, client: AsyncClient, server: Door, calls: ActorCalls, http: str, token: str
    ) -> None:
        self.client = client
        self.http = http
        self.token = token
        self.server = server
        self._calls = calls

    @property
    def line(self) -> line.PullLine:
        return self._calls._desk.line

    def waits(self, count: int = 1) -> Callable[[], bool]:
        """Whether so many pulls wait, and offers tell."""

        def so_many_wait() -> bool:
            open_ = len(self.line._open) == count
            return open_ and (count == 0 or self.line._is_empty("card.charge"))

        return so_many_wait


@pytest.fixture
async def door(
    registered: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    made: list[ActorCalls] = []
    init = ActorCalls.__init__

    def keep(self: ActorCalls, store: Any) -> None:
        init(self, store)
        made.append(self)

    monkeypatch.setattr(ActorCalls, "__init__", keep)
    async with Mainspring(registered) as app:
        app.tasks.update(server_app.app.tasks)
        token, free = tmp_path / "token", "127.0.0.1:0"
        server = Door(app, ServeSettings(grpc=free, http=free, token_file=str(token)))
        addresses = await server.start()
        text = token.read_text().strip()
        async with AsyncClient(addresses["gRPC"], token=text) as client:
            yield Scene(client, server, made[0], addresses["HTTP"], text)
        await server.stop(grace=1)


async def test_a_waiting_pull_is_woken_by_the_word_that_a_task_has_come(
    door: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P3: enqueued, notified, pulled: no look in between, for the next is a minute away."""
    monkeypatch.setattr(line, "FIRST_PAUSE", 60.0)
    monkeypatch.setattr(line, "LONGEST_PAUSE", 60.0)
    door.line._pause = 60.0
    pull = asyncio.create_task(door.client.actors.pull("card.charge", wait=50))
    await wait_until(door.waits(), 10)
    looks = door.line.looks

    await door.client.tasks.enqueue("card.charge", {"order": 4})

    [task] = (await asyncio.wait_for(pull, 30)).tasks
    assert task.args == {"order": 4}
    assert door.line.looks <= looks + 2  # by words alone: the next look of its own is a minute away


async def test_a_task_that_the_application_enqueues_wakes_a_pull_of_a_line_at_rest(
    door: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P3: by the shortest statement of all, and after a time in which nobody waited."""
    monkeypatch.setattr(line, "FIRST_PAUSE", 60.0)
    monkeypatch.setattr(line, "LONGEST_PAUSE", 60.0)
    door.line._pause = 60.0
    app = server_app.app
    for order in range(3):
        pull = asyncio.create_task(door.client.actors.pull("card.charge", wait=50))
        await wait_until(door.waits(), 10)
        await app.tasks["card.charge"].enqueue(order)
        [task] = (await asyncio.wait_for(pull, 30)).tasks
        assert (await door.client.actors.complete(task.ticket, "paid")).settled_as == "accepted"
    await app.close()


async def test_a_pull_that_comes_to_a_line_at_rest_is_looked_for_in_time(
    door: Scene, registered: str
) -> None:
    """Without any word too: what nobody told of is found by a look within a second."""
    assert (await door.client.actors.pull("card.charge", wait=0.5)).tasks == []
    pull = asyncio.create_task(door.client.actors.pull("card.charge", wait=50))
    await wait_until(door.waits(), 10)
    async with await psycopg.AsyncConnection.connect(registered, autocommit=True) as other:
        await other.execute("delete from mainspring.sleeper")  # as if the word were lost
    await door.client.tasks.enqueue("card.charge", {"order": 1})
    assert len((await asyncio.wait_for(pull, 30)).tasks) == 1


async def test_a_sleeping_server_costs_other_offers_no_word(door: Scene, registered: str) -> None:
    """Only offers to queues that somebody waits for are told of."""
    pull = asyncio.create_task(door.client.actors.pull("card.charge", wait=50))
    await wait_until(door.waits(), 10)
    heard: list[str] = []
    async with await psycopg.AsyncConnection.connect(registered, autocommit=True) as other:
        await other.execute("listen mainspring")
        await door.client.tasks.enqueue("card.refund", {"order": 1})
        await door.client.tasks.enqueue("card.charge", {"order": 1})
        await asyncio.wait_for(pull, 30)
        async for notice in other.notifies(timeout=10, stop_after=1):
            heard.append(notice.payload.partition(" ")[2])
    assert heard == ["card.charge"]


async def test_a_pull_whose_caller_goes_gives_back_at_once(
    door: Scene, registered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 5: cancelled while its hold commits: due again at once, no attempt."""
    reached, go = hold_up(door, monkeypatch)
    await door.client.tasks.enqueue("card.charge", {"order": 4})
    pull = asyncio.create_task(door.client.actors.pull("card.charge", wait=20))
    await asyncio.wait_for(reached.wait(), 20)
    pull.cancel()
    await wait_until(lambda: not door.line._open, 20)
    go.set()
    await wait_until(lambda: is_free(registered), 20)


async def test_an_http_long_poll_that_is_dropped_gives_back_what_it_held(
    door: Scene, registered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 5, over HTTP: the connection ends while the hold commits; the next one has it at once."""
    reached, go = hold_up(door, monkeypatch)
    await door.client.tasks.enqueue("card.charge", {"order": 4})
    writer = await long_poll(door)
    await asyncio.wait_for(reached.wait(), 20)
    writer.transport.abort()
    await wait_until(lambda: not door.line._open, 20)
    go.set()
    await wait_until(lambda: is_free(registered), 20)
    [task] = (await door.client.actors.pull("card.charge", wait=20)).tasks
    assert task.attempt == 1


async def test_an_http_long_poll_that_is_dropped_while_it_waits_takes_nothing(
    door: Scene, registered: str
) -> None:
    """Invariant 5: what comes after it is left to others."""
    writer = await long_poll(door)
    await wait_until(door.waits(), 20)
    writer.transport.abort()
    await wait_until(lambda: not door.line._open, 20)
    await door.client.tasks.enqueue("card.charge", {"order": 4})
    assert await is_free(registered)
    assert len((await door.client.actors.pull("card.charge", wait=20)).tasks) == 1


async def long_poll(door: Scene) -> asyncio.StreamWriter:
    """A pull over HTTP that waits; its connection."""
    host, _, port = door.http.rpartition("/")[2].rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    body = b'{"actors": ["card.charge"], "pull_id": "dropped", "wait": 50}'
    head = f"POST /v1/actors/pull HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {door.token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    return writer


def hold_up(door: Scene, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Stop whoever has just held a task: an event that says so, and one that lets him go on."""
    reached, go = asyncio.Event(), asyncio.Event()
    run_steps = door.line._host.run_steps

    async def slowly(steps: Any) -> Any:
        found = await run_steps(steps)
        if isinstance(found, line.Dealt) and found.tasks:
            reached.set()
            await go.wait()
        return found

    monkeypatch.setattr(door.line._host, "run_steps", slowly)
    return reached, go


async def is_free(url: str) -> bool:
    """Whether the one task is there, held by nobody, and was never tried."""
    async with await psycopg.AsyncConnection.connect(url) as other:
        found = await other.execute(
            "select pass is null, attempt from mainspring.visit where queue = 'card.charge'"
        )
        return await found.fetchall() == [(True, 0)]


async def test_waiting_pulls_stand_in_one_line_and_share_what_comes(door: Scene) -> None:
    """P3: what comes at once is dealt in turn to all who wait, by one look, whatever they ask for."""
    pulls = [
        asyncio.create_task(door.client.actors.pull("card.charge", limit=10, wait=50))
        for _ in range(3)
    ]
    await wait_until(door.waits(3), 20)
    await door.client.tasks.enqueue_many("card.charge", [{"order": n} for n in range(6)])
    taken = [[task.args["order"] for task in (await pull).tasks] for pull in pulls]
    assert [len(orders) for orders in taken] == [2, 2, 2]
    assert sorted(order for orders in taken for order in orders) == list(range(6))


async def test_many_pulls_wait_by_one_look(door: Scene) -> None:
    """P3: what waiting costs does not grow with those who wait."""
    pulls = [
        asyncio.create_task(door.client.actors.pull("card.charge", wait=50)) for _ in range(40)
    ]
    await wait_until(door.waits(40), 20)
    looks = door.line.looks
    for order in range(40):
        await door.client.tasks.enqueue("card.charge", {"order": order})
    taken = [task.args["order"] for pull in pulls for task in (await pull).tasks]
    assert sorted(taken) == list(range(40))
    assert door.line.looks - looks <= 45


async def test_a_paused_actor_says_when_to_come_again(door: Scene) -> None:
    """P14: and a pull of it is answered at once."""
    async with asyncio.timeout(10):
        app = door.line._host._app  # type: ignore[attr-defined]
        await app.operator.pause("card.charge")
        reply = await door.client.actors.pull("card.charge", wait=30)
        assert (reply.tasks, reply.pause) == ([], line.PAUSED_SECONDS)
        await app.operator.resume("card.charge")


async def test_a_server_that_stops_ends_its_pulls_with_nothing(door: Scene) -> None:
    """Rule 18: they are told to come again, elsewhere."""
    pull = asyncio.create_task(door.client.actors.pull("card.charge", wait=50))
    await wait_until(door.waits(), 10)
    await door.server.stop(grace=5)
    reply = await asyncio.wait_for(pull, 10)
    assert (reply.tasks, reply.pause) == ([], line.STOPPING_SECONDS)


async def test_a_limit_that_has_room_again_lets_a_waiting_pull_go_on(
    door: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S19: a settle here is word enough; no look is waited for."""
    app = door.line._host._app  # type: ignore[attr-defined]
    await app.operator.processes.change_actor("card.charge", {"concurrency": 1}, source="ann")
    for order in range(2):
        await door.client.tasks.enqueue("card.charge", {"order": order})
    [first] = (await door.client.actors.pull("card.charge", limit=5, wait=20)).tasks
    monkeypatch.setattr(line, "LONGEST_PAUSE", 60.0)
    door.line._pause = 60.0
    pull = asyncio.create_task(door.client.actors.pull("card.charge", limit=5, wait=50))
    await wait_until(lambda: len(door.line._open) == 1 and not door.line._due, 10)
    assert (await door.client.actors.complete(first.ticket, "paid")).settled_as == "accepted"
    [second] = (await asyncio.wait_for(pull, 30)).tasks
    assert second.args == {"order": 1}


def test_a_worn_server_is_killed_with_pulls_and_settles_and_nothing_is_lost(
    served: Served,
) -> None:
    """Invariant 11: kill -9 while pulls wait; another server, the same ids, the same tasks."""
    served.start()
    client = served.client(timeout=60)
    call = client.tasks.enqueue("card.charge", {"order": 1})
    [task] = client.actors.pull("card.charge", pull_id="first").tasks
    served.kill(signal.SIGKILL)
    served.start()
    other: Client = served.client(timeout=60)
    [again] = other.actors.pull("card.charge", pull_id="first", again=True).tasks
    assert again.ticket == task.ticket
    assert other.actors.complete(again.ticket, "paid").settled_as == "accepted"
    served.kill(signal.SIGKILL)
    served.start()
    last = served.client(timeout=60)
    assert last.actors.complete(again.ticket, "paid").settled_as == "already"
    assert last.tasks.result(call, timeout=20) == "paid"
