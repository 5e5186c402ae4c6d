"""The settler: collects the results of runs until they are written, many in one statement.

It keeps every result until the database has answered for it, through any outage. A batch has results of
one kind: done with nothing more to say (as most are), any other outcome, or those of one writer, whose
writes belong to the settle; the kinds take turns. A result that the server refuses for what it contains is
found by halving its batch and settled as a failure; when all fail alike it is the server that is wrong,
and all are kept.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from mainspring.db.database import Connection
from mainspring.db.reconnecting import Reconnecting
from mainspring.kernel.outcome import Outcome
from mainspring.kernel.owned import Owned
from mainspring.kernel.settle.batches import (
    SETTLED,
    BatchKind,
    by_kind,
    explained,
    kind_of,
)
from mainspring.kernel.settle.send import Sender, is_refusal
from mainspring.kernel.tuning import DEFAULT, Tuning
from mainspring.kernel.visit import Run
from mainspring.shape import told

log = logging.getLogger("mainspring")


class Settled(Protocol):
    """Told of every run that the database has answered for, with the answer that they have in common."""

    def __call__(self, runs: Sequence[Run], answer: str) -> None: ...


class SettleLine(Protocol):
    """Where a connection is had for one batch after the other."""

    def use(self) -> AbstractAsyncContextManager[Connection]: ...


class Settler:
    """Results wait here until they are written."""

    def __init__(
        self,
        lines: Sequence[SettleLine],
        owned: Owned,
        *,
        page: int,
        settled: Settled,
        failed: Callable[[Run, Exception], Outcome],
        wrote: Callable[[], None] = lambda: None,
        tuning: Tuning = DEFAULT,
    ) -> None:
        self._lines = lines
        self._tuning = tuning
        self._sender = Sender(owned, tuning)
        self._page = page
        self._settled = settled
        self._failed = failed
        self._wrote = wrote  # told after each batch
        self._waiting: dict[BatchKind, deque[Run]] = {}  # whose turn is next comes first
        self._locked: list[Run] = []  # somebody's open transaction has their visits
        self._news = asyncio.Event()
        self._plenty = asyncio.Event()  # half a batch of a kind waits
        self.unsettled = 0  # handed in and not answered yet

    def add(self, runs: Sequence[Run]) -> None:
        """Hand in runs that have ended."""
        for kind, some in by_kind(runs):
            if kind is SETTLED:
                self._settled(some, "settled")
            else:
                self.unsettled += len(some)
                self._enter(kind, some)

    def _enter(self, kind: BatchKind, runs: Iterable[Run]) -> None:
        waiting = self._waiting.get(kind)
        if waiting is None:
            waiting = self._waiting[kind] = deque()
        waiting.extend(runs)
        if len(waiting) >= self._plenty_for(kind):
            self._plenty.set()
        self._news.set()

    def _enter_again(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self._enter(kind_of(run), (run,))

    def loops(self) -> list[Coroutine[None, None, None]]:
        """To be run for ever, one a line. The first takes whatever waits; the others take half a batch or
        more: the server works on one page while the next is made ready here."""
        first, *others = self._lines
        return [
            self._serve(first, self._news, least=1),
            *(self._serve(line, self._plenty) for line in others),
        ]

    async def _serve(self, line: SettleLine, news: asyncio.Event, least: int | None = None) -> None:
        reconnecting = Reconnecting("settle.waiting")
        while True:
            await news.wait()
            try:
                # First: who waits for a connection must not have a batch that another could settle.
                async with line.use() as connection:
                    await self._settle_next(connection, news, least)
                reconnecting.worked()
            except Exception as error:
                await reconnecting.wait(error, runs=self.unsettled)

    async def _settle_next(
        self, connection: Connection, news: asyncio.Event, least: int | None
    ) -> None:
        kind = self._next_kind(least)
        if kind is None:
            news.clear()
            return
        runs = self._take(kind)
        left = {run.token: run for run in runs}
        try:
            await self._settle(connection, kind, left)
        finally:
            self._enter_again(left.values())

    def _next_kind(self, least: int | None) -> BatchKind | None:
        """The next kind of which so many wait, or (None) plenty: they take turns."""
        for kind, runs in self._waiting.items():
            if len(runs) >= (least or self._plenty_for(kind)):
                return kind
        return None

    def _take(self, kind: BatchKind) -> list[Run]:
        runs, most = self._waiting.pop(kind), self._most(kind)
        if len(runs) <= most:
            return list(runs)
        self._waiting[kind] = runs  # behind the others
        return [runs.popleft() for _ in range(most)]

    def _most(self, kind: BatchKind) -> int:
        return self._page if isinstance(kind, str) else min(self._page, kind.most)

    def _plenty_for(self, kind: BatchKind) -> float:
        """From how many on another line takes them too."""
        if isinstance(kind, str) or kind.overlaps:
            return max(1, self._most(kind) // 2)
        return math.inf

    async def _settle(self, connection: Connection, kind: BatchKind, left: dict[int, Run]) -> None:
        """Send a batch, halving what the server refuses; `left` keeps what is not answered for."""
        count = len(left)
        refused: list[tuple[Run, Exception]] = []
        pending = [list(left.values())]
        while pending:
            part = pending.pop()
            try:
                answers = await self._sender.send(connection, kind, part)
            except Exception as refusal:
                if not is_refusal(kind, refusal):
                    raise
                if len(part) == 1:
                    refused.append((part[0], refusal))
                else:
                    middle = len(part) // 2
                    pending += [part[middle:], part[:middle]]
                continue
            self._apply_answers(part, answers, left)
        codes = {getattr(error, "sqlstate", None) for _, error in refused}
        if 1 < count == len(refused) and len(codes) == 1 and isinstance(kind, str):
            raise refused[0][1]  # all fail alone and alike: it is the server
        for run, error in refused:
            if run.refused:
                raise error  # even a plain failure cannot be stored
            run.refuse(explained(kind, run, error, self._failed(run, error)))
            log.error("settle.refused", extra={"key": run.visit.key, "error": told(error)[:1000]})
            self._enter_again([left.pop(run.token)])

    def _apply_answers(self, part: list[Run], answers: list[str], left: dict[int, Run]) -> None:
        self._wrote()
        if answers.count("settled") == len(left):  # nearly always
            left.clear()
            self._answered(part, "settled")
            return
        for run, answer in zip(part, answers, strict=True):
            del left[run.token]
            if answer == "locked":
                self._locked.append(run)
            elif answer == "changed":
                self._enter_again([run])
            else:
                self._answered([run], answer)
        if self._locked:
            asyncio.get_running_loop().call_later(self._tuning.locked_again, self._retry_locked)

    def _answered(self, runs: Sequence[Run], answer: str) -> None:
        self.unsettled -= len(runs)
        self._settled(runs, answer)

    def _retry_locked(self) -> None:
        locked, self._locked = self._locked, []
        self._enter_again(locked)
