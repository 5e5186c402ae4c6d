"""Sending: the events of an entity are handed to a consumer, oldest first.

At most one event of an entity is on its way: the next goes when the one before was acknowledged. Entities
go side by side. A target with `send_many` gets the events of many entities in one call, a list for each.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import NamedTuple, TypeAlias

from mainspring.entities.declare.consumer import Consumer
from mainspring.entities.declare.event import Saved
from mainspring.loops import to_its_end

# Entities whose events are on their way side by side, in one worker.
SIDE_BY_SIDE = 500
# Entities in one call of `send_many`, and such calls at once, unless the target says otherwise.
ENTITIES_AT_ONCE = 50
CALLS_AT_ONCE = 4


class Heard(NamedTuple):
    """So many of the events were taken, in order; and what stopped the rest."""

    taken: int
    error: Exception | None = None


# Events of one entity, in order; None stands for one that nobody hears.
Group: TypeAlias = Sequence[Saved | None]
SendMany: TypeAlias = Callable[
    [list[list[Saved]]], Awaitable[Sequence[tuple[int, Exception | None]]]
]


class HandOver:
    """Hands the events of entities to one consumer."""

    def __init__(self, consumer: Consumer, threads: Executor | None) -> None:
        self._consumer = consumer
        self._threads = threads  # for plain functions; none: the event loop's own
        many: SendMany | None = getattr(consumer.target, "send_many", None)
        self._joined = None if many is None else _Joined(many, consumer.target)

    async def send(self, events: Group) -> Heard:
        """Hand them over as far as it goes well."""
        if self._joined is not None:
            return await self._send_joined(self._joined, events)
        for count, event in enumerate(events):
            if event is None:
                continue
            hearer = self._consumer.hearer(event.what, event.outside)
            assert hearer is not None, "else nobody hears it"
            try:
                await self._call(hearer, event)
            except Exception as error:
                return Heard(count, error)
        return Heard(len(events))

    async def _send_joined(self, joined: _Joined, events: Group) -> Heard:
        heard = [(n, event) for n, event in enumerate(events) if event is not None]
        if not heard:
            return Heard(len(events))
        found = await joined([event for _, event in heard])
        if found.taken == len(heard):
            return Heard(len(events), found.error)
        return Heard(heard[found.taken][0], found.error)

    async def close(self) -> None:
        """End what is under way."""
        if self._joined is not None:
            await self._joined.close()

    async def _call(self, hearer: Callable[[Saved], object], event: Saved) -> None:
        """Call a consumer; a plain function in a thread, where it may block."""
        if inspect.iscoroutinefunction(hearer):
            await hearer(event)
            return
        context, loop = contextvars.copy_context(), asyncio.get_running_loop()
        answer = await to_its_end(loop.run_in_executor(self._threads, context.run, hearer, event))
        if inspect.isawaitable(answer):
            await answer


class _Joined:
    """Calls of `send_many`: entities that are at hand in the same moment go together."""

    def __init__(self, send_many: SendMany, target: object) -> None:
        self._send_many = send_many
        self._most = int(getattr(target, "most", ENTITIES_AT_ONCE))
        self._calls = int(getattr(target, "calls", CALLS_AT_ONCE))
        self._waiting: list[tuple[list[Saved], asyncio.Future[Heard]]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def __call__(self, events: list[Saved]) -> Heard:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Heard] = loop.create_future()
        self._waiting.append((events, answer))
        if len(self._under_way) < self._calls:
            task = loop.create_task(self._run(), name="mainspring.send_many")
            self._under_way.add(task)
        return await answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                # Whoever was stopped meanwhile has its events sent by the run that follows.
                if batch := [(events, answer) for events, answer in batch if not answer.done()]:
                    await self._send(batch)
        finally:
            # At once: who comes before a done callback would find no call free, and nobody to take him.
            if (here := asyncio.current_task()) is not None:
                self._under_way.discard(here)

    async def _send(self, batch: list[tuple[list[Saved], asyncio.Future[Heard]]]) -> None:
        try:
            answers = await self._asked([events for events, _ in batch])
        except asyncio.CancelledError:
            for _, answer in batch:
                answer.cancel()
            raise
        for (_, answer), heard in zip(batch, answers, strict=True):
            if not answer.done():
                answer.set_result(heard)

    async def _asked(self, groups: list[list[Saved]]) -> list[Heard]:
        try:
            answers = await self._send_many(groups)
        except Exception as error:
            return [Heard(0, error)] * len(groups)
        if len(answers) != len(groups):
            wrong = f"send_many must answer for each of {len(groups)} entities, got {len(answers)}"
            return [Heard(0, ValueError(wrong))] * len(groups)
        return [
            _checked(events, Heard(*heard)) for events, heard in zip(groups, answers, strict=True)
        ]

    async def close(self) -> None:
        """End what is under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


def _checked(events: list[Saved], heard: Heard) -> Heard:
    """What a target says of one entity, if it makes sense: one that took nothing says why."""
    if not 0 <= heard.taken <= len(events) or (not heard.taken and heard.error is None):
        wrong = f"send_many said that {heard.taken} of {len(events)} events were taken"
        return Heard(0, ValueError(wrong))
    return heard
