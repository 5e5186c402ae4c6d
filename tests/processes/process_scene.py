"""Processes on a real database, with actors that are plain functions of what they are handed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from mainspring.db.database import Database
from mainspring.db.shared import SharedConnections
from mainspring.db.sql import Steps
from mainspring.kernel.layer import Layer, NewlyParked
from mainspring.kernel.port import WorkerPort
from mainspring.kernel.settings import QueueSettings
from mainspring.kernel.visit import Run
from mainspring.kernel.worker import Worker
from mainspring.processes.commit.signals import send_steps
from mainspring.processes.commit.start import Started, start_steps
from mainspring.processes.commit.task_input import TaskInput
from mainspring.processes.commit.visits import NewVisit
from mainspring.processes.record.decision import ChildTask, Decision, Edge
from mainspring.processes.runtime import Processes
from mainspring.processes.structural.request import request_steps
from mainspring.retry_policy import RetryPolicy
from workers import working

Decide = Callable[[TaskInput], Any]


@dataclass
class Function:
    """An actor that is a function of the test; a plain value it returns is its result."""

    name: str
    function: Decide
    retry: RetryPolicy

    async def decide(self, task_input: TaskInput, run: Run) -> Decision:
        answer = self.function(task_input)
        if asyncio.iscoroutine(answer):
            answer = await answer
        return answer if isinstance(answer, Decision) else Decision(result=json.dumps(answer))


class _Recovering(Layer):
    """The recovery of process tasks, for workers that are given their queues one by one."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def queues(self, pool: str) -> list[QueueSettings]:
        return []

    def take_overdue(self, held: Sequence[Any]) -> set[int]:
        return self._processes.recovery.take_overdue(held)

    def parked(self, visits: Sequence[NewlyParked]) -> Steps[None]:
        return self._processes.recovery.parked(visits)

    def forget(self, versions: frozenset[int] | None) -> None:
        self._processes.forget(versions)


class Scene:
    """One database, its actors, and looks at what is in it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = Database(url)
        self.actors: dict[str, Function] = {}
        self.settings: dict[str, dict[str, Any]] = {}
        self.layer: Processes | None = None

    def actor(self, function: Decide, name: str | None = None, **settings: Any) -> Function:
        """Declare an actor; not retried unless told."""
        found = Function(
            name or getattr(function, "__name__", ""), function, RetryPolicy(attempts=1)
        )
        self.actors[found.name] = found
        self.settings[found.name] = {"retry": found.retry, **settings}
        return found

    @asynccontextmanager
    async def worker(self, **settings: Any) -> AsyncIterator[Worker]:
        """A worker that serves all actors."""
        connections = SharedConnections(self.database, 4)
        port = WorkerPort(connections)
        layer = Processes(self.database, port)
        queues = [
            layer.actor_queue(
                actor,
                QueueSettings(name=actor.name, handler=_never, **self.settings[actor.name]),
            )
            for actor in self.actors.values()
        ]
        self.layer = layer
        try:
            queues.append(layer.engine_queue())
            layers = [_Recovering(layer)]
            async with working(self.url, *queues, layers=layers, port=port, **settings) as worker:
                yield worker
        finally:
            await layer.close()
            await connections.close()

    async def run(self, *, timeout: float = 20.0, **settings: Any) -> None:
        """Work until nothing is due."""
        async with self.worker(**settings) as worker, asyncio.timeout(timeout):
            await worker.drained()

    async def start(self, type: str, args: Any = None, key: str | None = None, **more: Any) -> str:
        """Start a process; answers its id."""
        return (await self.start_full(type, args, key, **more)).id

    async def start_full(
        self, type: str, args: Any = None, key: str | None = None, **more: Any
    ) -> Started:
        steps = start_steps(
            type,
            key,
            json.dumps(args if args is not None else {}),
            shard_count=self.database.shard_count,
            **more,
        )
        return await self.run_steps(steps)  # type: ignore[no-any-return]

    async def signal(
        self, process_id: str, name: str, payload: Any = None, id: str | None = None
    ) -> bool:
        """Send a signal; answers whether it is new."""
        return await self.run_steps(
            send_steps(
                process_id,
                name,
                json.dumps(payload),
                shard_count=self.database.shard_count,
                id=id,
                sent_by="test",
            )
        )

    async def request(self, *visits: NewVisit) -> None:
        """Ask for structural changes, as an application does."""
        await self.run_steps(request_steps(visits, self.database.shard_count))

    def ids(self, process_id: str) -> dict[str, str]:
        """The newest task of each actor that was not superseded."""
        return dict(
            self.query(
                "select actor, id::text from mainspring.task where process_id = %s"
                " and state <> 'superseded' order by id",
                process_id,
            )
        )

    async def run_steps(self, steps: Any) -> Any:
        """Steps in a transaction of their own."""
        connection = await self.database.connect("test")
        try:
            async with connection.transaction():
                return await connection.follow(steps)
        finally:
            await connection.close()

    def query(self, text: str, *values: Any) -> list[Any]:
        """Rows of a statement."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def state(self, process_id: str) -> str:
        """The state of a process."""
        return str(
            self.query("select state from mainspring.process where id = %s", process_id)[0][0]
        )

    def result(self, process_id: str) -> Any:
        """The result of a process, or its error."""
        rows = self.query(
            "select t.outcome::text, t.result, t.error from mainspring.process p"
            " join mainspring.task t on t.process_id = p.id and t.id = p.root where p.id = %s",
            process_id,
        )
        outcome, result, error = rows[0]
        return {"ok": result, "err": error, None: "open"}[outcome]

    def tasks(self, process_id: str) -> dict[str, list[str]]:
        """States of tasks, by actor."""
        rows = self.query(
            "select actor, array_agg(state::text order by id) from mainspring.task"
            " where process_id = %s group by actor",
            process_id,
        )
        return dict(rows)

    async def waits_for_a_lock(self, timeout: float = 10.0) -> None:
        """Wait until some transaction waits for another's lock."""
        async with asyncio.timeout(timeout):
            while not self.query("select 1 from pg_locks where not granted"):
                await asyncio.sleep(0.01)

    def check(self) -> None:
        """Every invariant holds."""
        assert self.query("select * from mainspring.process_violation") == []
        assert self.query("select * from mainspring.process_orphan") == []


async def _never(run: Run) -> Any:
    raise AssertionError("the layer puts its own handler in this one's place")


def call(actor: str, *edges: tuple[int | str, str], **args: Any) -> ChildTask:
    """A child; its arguments are plain, its inputs come as they are."""
    return ChildTask(actor, json.dumps(args), tuple(Edge(promise, kind) for promise, kind in edges))


def value(promise: int | str) -> tuple[int | str, str]:
    return (promise, "value")


def outcome(promise: int | str) -> tuple[int | str, str]:
    return (promise, "outcome")


def handle(promise: int | str) -> tuple[int | str, str]:
    return (promise, "handle")


def given(task_input: TaskInput) -> list[Any]:
    """The values of a task's inputs."""
    return [None if i.result is None else json.loads(i.result) for i in task_input.inputs]
