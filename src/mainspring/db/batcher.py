"""Many callers, one statement: what is asked for in the same moment is served together.

While one batch is served, the next one gathers. A caller that is cancelled takes nothing from the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Generic, TypeVar

# So many turns of the event loop a batch gathers at most: the server is at rest meanwhile.
GATHER_TURNS = 32
Item = TypeVar("Item")
Answer = TypeVar("Answer")


class AfterFailure(Enum):
    """What becomes of a batch that failed."""

    TELL = "tell"  # each caller gets the error
    HALVE = "halve"  # each half is served by itself, so that what is refused fails alone
    AGAIN = "again"  # it was nobody's failure, and is served again


async def tell(error: Exception) -> AfterFailure:
    """The rule for most: each caller gets the error, and has its own retry."""
    return AfterFailure.TELL


class Batcher(Generic[Item, Answer]):
    """Serves items in batches, in the order in which they came, one batch at a time.

    `serve` gets the items and returns one answer for each. After an error `failed` says what becomes of
    the batch; if it is to be served again, `failed` has waited for as long as it should.
    """

    def __init__(
        self,
        serve: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        most: int = 500,
        failed: Callable[[Exception], Awaitable[AfterFailure]] = tell,
    ) -> None:
        self._serve = serve
        self._most = most
        self._failed = failed
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._server: asyncio.Task[None] | None = None  # there while anybody waits

    async def __call__(self, item: Item) -> Answer:
        """The answer for an item. Whoever asks in the same turn of the event loop comes along."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((item, answer))
        if self._server is None:
            self._server = loop.create_task(self._run(), name="mainspring.batcher")
        return await answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._answer(batch)
        finally:
            self._server = None
            _cancel(self._waiting)
            self._waiting = []

    async def _gather(self) -> None:
        """Let those come along who ask in the next turns of the event loop, while each brings somebody:
        runs are started one a turn, and who was just answered asks again at once. A batch of the first
        alone would keep all others waiting for as long as it takes."""
        for _ in range(GATHER_TURNS):
            count = len(self._waiting)
            await asyncio.sleep(0)
            if not count < len(self._waiting) < self._most:
                return

    async def _answer(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            while batch := [waiting for waiting in batch if not waiting[1].done()]:
                try:
                    answers = await self._serve([item for item, _ in batch])
                except Exception as error:
                    await self._fail(batch, error)
                else:
                    for (_, answer), found in zip(batch, answers, strict=True):
                        if not answer.done():
                            answer.set_result(found)
        finally:
            _cancel(batch)

    async def _fail(
        self, batch: list[tuple[Item, asyncio.Future[Answer]]], error: Exception
    ) -> None:
        after = await self._failed(error)
        if after is AfterFailure.AGAIN:
            return
        if after is AfterFailure.HALVE and len(batch) > 1:
            middle = len(batch) // 2
            await self._answer(batch[:middle])
            await self._answer(batch[middle:])
            return
        for _, answer in batch:
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # seen: its caller may be cancelled before it wakes

    async def close(self) -> None:
        """End what is under way; whoever waits is cancelled."""
        if (server := self._server) is not None:
            server.cancel()
            await asyncio.gather(server, return_exceptions=True)


def _cancel(batch: Sequence[tuple[Item, asyncio.Future[Answer]]]) -> None:
    for _, answer in batch:
        answer.cancel()
