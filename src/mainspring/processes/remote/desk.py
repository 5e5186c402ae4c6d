"""The desk of actors elsewhere, in one event loop: pulls wait in one line, answers are gathered in another.

`app.remote` and the server's ActorService are both made of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from mainspring.db.database import Database
from mainspring.db.sql import Steps
from mainspring.errors import InvalidArguments
from mainspring.kernel import Run
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.commit import change_steps
from mainspring.processes.declare.versions import Versions
from mainspring.processes.record.decision import Decision
from mainspring.processes.remote.answer_line import AnswerLine
from mainspring.processes.remote.beating import Beaten, beat_steps, held_steps
from mainspring.processes.remote.line import PullAnswer, PullLine
from mainspring.processes.remote.places import RowPlaces
from mainspring.processes.remote.pulling import PullAsk, id_of
from mainspring.processes.remote.seal import Seals
from mainspring.processes.remote.settling import SettledAs, Settling
from mainspring.processes.remote.ticket import Ticket, open_steps
from mainspring.retry_policy import RetryPolicy
from mainspring.tasks.declare.sealing import Sealing
from mainspring.tasks.declare.signature import encode_result
from mainspring.tasks.declare.task import Task

T = TypeVar("T")
# A beat that meets a lock is looked at so often, so many seconds apart: then the old time is answered.
BEAT_TRIES = 3
BEAT_PAUSE = 0.05
ENDED_BY = "the engine"  # under which history knows what ends without being handed out


class RemoteHost(Protocol):
    """What the desk needs of the application."""

    versions: Versions

    @property
    def tasks(self) -> dict[str, Task[Any, Any]]: ...
    @property
    def sealing(self) -> Sealing | None: ...

    async def database(self) -> Database: ...
    def database_sync(self) -> Database: ...
    async def run_steps(self, steps: Steps[T]) -> T: ...
    def run_steps_sync(self, steps: Steps[T]) -> T: ...


class Desk:
    """Where tasks are had and given in. `stays`: until it is closed; else it rests while nobody waits."""

    def __init__(self, host: RemoteHost, seals: Seals, *, stays: bool = False) -> None:
        self._host = host
        self._seals = seals
        places = RowPlaces()
        self.line = PullLine(host, seals, self._ended, places, stays=stays)
        self._settles = AnswerLine(host, self._retries, self.line.settled, places)

    async def pull(self, asking: PullAsk, wait: float, *, again: bool = False) -> PullAnswer:
        """Tasks for one who asks; waits for the first."""
        return await self.line.pull(asking, wait, again=again)

    async def open(self, texts: Sequence[str]) -> list[Ticket | None]:
        """Tickets from their texts; None for what is none."""
        database = await self._host.database()
        return await self._host.run_steps(open_steps(texts, self._seals, database.url))

    async def beat(self, tickets: Sequence[Ticket]) -> list[Beaten]:
        """Until when each is yours, or why not: a locked row is no reason."""
        found: dict[int, Beaten] = {}
        for n in range(BEAT_TRIES):
            left = [n for n in range(len(tickets)) if n not in found]
            if not left:
                break
            if n:
                await asyncio.sleep(BEAT_PAUSE)
            asked = [tickets[n] for n in left]
            moved = await self._host.run_steps(beat_steps(asked))
            found |= {left[n]: beaten for n, beaten in moved.items()}
            found |= await self._stopped([n for n in left if n not in found], tickets)
        left = [n for n in range(len(tickets)) if n not in found]
        if left:
            old = await self._host.run_steps(held_steps([tickets[n] for n in left]))
            found |= dict(zip(left, old, strict=True))
        return [found[n] for n in range(len(tickets))]

    async def _stopped(self, left: Sequence[int], tickets: Sequence[Ticket]) -> dict[int, Beaten]:
        if not left:
            return {}
        rows = await self._host.run_steps(held_steps([tickets[n] for n in left]))
        return {n: row for n, row in zip(left, rows, strict=True) if row.stop is not None}

    async def settle(self, items: Sequence[Settling]) -> list[SettledAs]:
        """What became of each answer."""
        return await self._settles.settle(items)

    async def close(self) -> None:
        """Waiting pulls end empty, the line of answers is committed."""
        await self.line.close()
        await self._settles.close()

    def _retries(self) -> Mapping[str, RetryPolicy]:
        return retries_of(self._host)

    def _ended(self, run: Run, change: TaskChange) -> Steps[str]:
        return ended_steps(self._host, run, change)


def retries_of(host: RemoteHost) -> Mapping[str, RetryPolicy]:
    """The retry policies that the code declares, by actor."""
    return {name: task.settings.retry for name, task in host.tasks.items() if task.settings.remote}


def ended_steps(host: RemoteHost, run: Run, change: TaskChange) -> Steps[str]:
    """A task ends without being handed out."""
    shard_count = host.database_sync().shard_count
    return change_steps(run, change, shard_count, id_of(ENDED_BY))


def completed(host: RemoteHost, actor: str, value: object) -> Decision:
    """A result, checked against the declaration where this application has one."""
    return checked(host, actor, encode_result("task", actor, value))


def checked(host: RemoteHost, actor: str, result: str | None) -> Decision:
    """The same for a result that is JSON already."""
    if (task := host.tasks.get(actor)) is not None:
        try:
            task.signature.decode_result("null" if result is None else result)
        except InvalidArguments as error:
            raise InvalidArguments(f"{actor!r} was not settled: {error}") from None
    return Decision(result=result)
