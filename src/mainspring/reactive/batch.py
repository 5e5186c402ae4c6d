"""Batches: what comes at about the same time is served together, on one connection.

The kernel calls a handler for every visit; a statement for each would cost a round trip and a commit
each. While one batch is being served the next one gathers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from mainspring.db.database import is_transient
from mainspring.db.reconnecting import Line

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class ServedBatch(Generic[Item, Answer]):
    """Serves items in batches, in the order in which they came.

    `serve` gets a connection and the items and answers one value for each. If it fails for a reason
    that is not the server's, each item is tried alone, so that a bad one fails alone.
    """

    def __init__(
        self,
        line: Line,
        serve: Callable[[Any, Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        most: int = 500,
    ) -> None:
        self._line = line
        self._serve = serve
        self._most = most
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._server: asyncio.Task[None] | None = None  # runs while anything waits

    async def __call__(self, item: Item) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._server is None:
            self._server = asyncio.get_running_loop().create_task(self._run())
        return await future

    async def _run(self) -> None:
        try:
            while self._waiting:
                # What becomes ready in this turn of the loop still comes along.
                await asyncio.sleep(0)
                part, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._serve_part([pair for pair in part if not pair[1].done()])
        finally:
            self._server = None
            for _, future in self._waiting:
                future.cancel()
            self._waiting = []

    async def _serve_part(self, part: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        if not part:
            return
        try:
            async with self._line.lock:
                connection = await self._line.get()
                answers = await self._serve(connection, [item for item, _ in part])
        except asyncio.CancelledError:
            for _, future in part:
                future.cancel()
            raise
        except Exception as error:
            await self._failed(part, error)
            return
        for (_, future), answer in zip(part, answers, strict=True):
            if not future.done():
                future.set_result(answer)

    async def _failed(
        self, part: list[tuple[Item, asyncio.Future[Answer]]], error: Exception
    ) -> None:
        if is_transient(error):
            await self._line.lost()
        elif len(part) > 1:
            for pair in part:
                await self._serve_part([pair])
            return
        for _, future in part:
            if not future.done():
                future.set_exception(error)

    async def close(self) -> None:
        """End what is under way; its visits stay."""
        if (server := self._server) is not None:
            server.cancel()
            await asyncio.gather(server, return_exceptions=True)
