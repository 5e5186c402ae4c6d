"""One loop that looks for all who wait: one statement for many, and no transaction between looks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from mainspring.errors import DatabaseUnavailable, Overloaded

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.5
MOST_AT_ONCE = 500  # of one look
LAST_LOOK_SECONDS = 2.0


@dataclass(eq=False, slots=True)
class Waiter(Generic[K, V]):
    """Who waits for what."""

    wanted: K
    is_enough: Callable[[V], bool]
    until: float
    next_at: float
    pause: float = FIRST_PAUSE
    looked: bool = False
    seen: asyncio.Future[V] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Lookout(Generic[K, V]):
    """Looks now and then for what is waited for, at first soon and later less often.

    A database that goes away meanwhile is waited for like the end itself; one that is away at the first
    look is an error at once. The first look is shared too: a burst of waiters is one statement.
    """

    def __init__(self, look: Callable[[Sequence[K]], Awaitable[dict[K, V]]]) -> None:
        self._look = look
        self._waiters: set[Waiter[K, V]] = set()
        self._more = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._closed = False

    async def wait(self, wanted: K, is_enough: Callable[[V], bool], seconds: float) -> V | None:
        """What was seen when it was enough, or at the end of the wait; None: it is not there."""
        if seconds <= 0 or self._closed:
            return (await self._look([wanted])).get(wanted)
        now = asyncio.get_running_loop().time()
        waiter = Waiter(wanted, is_enough, until=now + seconds, next_at=now)
        self._waiters.add(waiter)
        self._more.set()
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._looking(), name="mainspring.lookout")
        try:
            return await waiter.seen
        finally:
            self._waiters.discard(waiter)

    async def close(self) -> None:
        """Answer all who wait by a last look; if the database is slow, they may ask elsewhere."""
        self._closed = True
        for waiter in self._waiters:
            waiter.until = waiter.next_at = 0.0
        self._more.set()
        if self._loop is not None:
            with suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(self._loop, LAST_LOOK_SECONDS)
        for waiter in self._waiters:
            _end(waiter, error=DatabaseUnavailable("the server stops; ask again"))

    async def _looking(self) -> None:
        while self._waiters:
            self._more.clear()
            now = asyncio.get_running_loop().time()
            due = sorted((w for w in self._waiters if w.next_at <= now), key=lambda w: w.next_at)
            if due:
                await self._look_for(due[:MOST_AT_ONCE], now)
            soonest = min((w.next_at for w in self._waiters), default=now)
            pause = soonest - asyncio.get_running_loop().time()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._more.wait(), max(pause, FIRST_PAUSE / 4))

    async def _look_for(self, due: Sequence[Waiter[K, V]], now: float) -> None:
        try:
            found = await self._look(list(dict.fromkeys(w.wanted for w in due)))
        except (DatabaseUnavailable, Overloaded) as error:
            for waiter in due:
                self._missed(waiter, now, error)
            return
        except Exception as error:
            for waiter in due:
                _end(waiter, error=error)
            return
        for waiter in due:
            value = found.get(waiter.wanted)
            if value is None or waiter.is_enough(value) or now >= waiter.until:
                _end(waiter, value)
            else:
                _later(waiter, now)

    def _missed(self, waiter: Waiter[K, V], now: float, error: Exception) -> None:
        if now >= waiter.until or not waiter.looked:
            _end(waiter, error=error)
        else:
            _later(waiter, now)


def _later(waiter: Waiter[K, V], now: float) -> None:
    waiter.looked = True
    waiter.next_at = min(now + waiter.pause, max(waiter.until, now + FIRST_PAUSE))
    waiter.pause = min(LONGEST_PAUSE, waiter.pause * 1.5)


def _end(waiter: Waiter[K, V], value: V | None = None, error: Exception | None = None) -> None:
    if waiter.seen.done():
        return
    if error is not None:
        waiter.seen.set_exception(error)
    else:
        waiter.seen.set_result(value)  # type: ignore[arg-type]  # None: it is not there
