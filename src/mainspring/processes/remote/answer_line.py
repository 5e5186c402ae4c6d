"""The line of answers: those that come within a moment are one commit, whoever sent them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mainspring import crash_points
from mainspring.db.connect.outage import is_transient
from mainspring.db.database import Database
from mainspring.db.sql import Steps
from mainspring.errors import InvalidArguments, NotDone
from mainspring.processes.commit.batch import NotSettled, Torn
from mainspring.processes.commit.commit import BATCH, WIDE, WIDEST
from mainspring.processes.remote import settling
from mainspring.processes.remote.places import RowPlaces
from mainspring.processes.remote.plain import is_plain, plain_steps
from mainspring.processes.remote.settling import Prepared, SettledAs, Settling
from mainspring.retry_policy import RetryPolicy
from mainspring.shape import told
from mainspring.tasks.declare.sealing import Sealing

T = TypeVar("T")
GATHER_SECONDS = 0.003
PLAIN_BATCH = 1000  # results alone
AT_ONCE = 2  # commits; they lock in one order, as those of two workers
# An answer that meets a lock is sent again so often, so many seconds apart; one whose connection broke
# as well.
TRIES = 40
PAUSE = 0.05
OUTAGES = 3
LOCKED = "55P03"  # lock_not_available
REFUSALS = ("22", "23", "54")  # of what an answer contains


class SettleHost(Protocol):
    """What the line needs of the application."""

    @property
    def sealing(self) -> Sealing | None: ...

    async def database(self) -> Database: ...
    async def run_steps(self, steps: Steps[T]) -> T: ...


class GivenAnswers:
    """Answers that came together, and what became of each."""

    def __init__(self, count: int) -> None:
        self.settled: list[SettledAs] = [None] * count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left = count

    def tell(self, n: int, settled: SettledAs) -> None:
        self.settled[n] = settled
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)


@dataclass(eq=False, slots=True)
class GivenAnswer:
    """An answer in the line, the n-th of those that came with it."""

    item: Settling
    given: GivenAnswers
    n: int
    address: str | None  # where its row lay, of a result alone
    held_up_at: float | None = None  # for the first time
    outages: int = 0

    def tell(self, settled: SettledAs) -> None:
        self.given.tell(self.n, settled)

    def fail(self, error: BaseException) -> None:
        self.given.fail(error)


class AnswerLine:
    """Of one event loop. `settled` is told of the actors whose tasks ended: their limits have room."""

    def __init__(
        self,
        host: SettleHost,
        retries: Callable[[], Mapping[str, RetryPolicy]],
        settled: Callable[[Sequence[str]], None],
        places: RowPlaces,
    ) -> None:
        self._host = host
        self._retries = retries
        self._settled = settled
        self._places = places
        self._waiting: deque[GivenAnswer] = deque()
        self._held_up: dict[GivenAnswer, asyncio.TimerHandle] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._full = asyncio.Event()
        self._closing = False

    async def settle(self, items: Sequence[Settling]) -> list[SettledAs]:
        """What became of each. It is carried through even if its caller goes."""
        if not items:
            return []
        given = GivenAnswers(len(items))
        places = [self._places.take(one.ticket.run) if is_plain(one) else None for one in items]
        self._add([GivenAnswer(one, given, n, places[n]) for n, one in enumerate(items)])
        await given.done
        return given.settled

    async def close(self) -> None:
        """Commit what is in the line. What somebody's lock holds up is to be sent again."""
        self._closing = True
        for one in list(self._held_up):
            self._held_up.pop(one).cancel()
            one.tell(None)
        self._full.set()
        if self._workers:
            await asyncio.wait(self._workers, timeout=5)

    def _add(self, given: Sequence[GivenAnswer]) -> None:
        self._waiting.extend(given)
        if len(self._waiting) >= BATCH:
            self._full.set()
        if given and len(self._workers) < AT_ONCE:
            task = asyncio.get_running_loop().create_task(self._work(), name="mainspring.settles")
            self._workers.add(task)

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._next()
        finally:
            # At once: an answer that comes before a done callback would find nobody too many, and wait.
            if (here := asyncio.current_task()) is not None:
                self._workers.discard(here)

    async def _next(self) -> None:
        if len(self._waiting) < BATCH:
            try:
                async with asyncio.timeout(GATHER_SECONDS):
                    await self._full.wait()
            except TimeoutError:
                pass
        self._full.clear()
        batch: list[GivenAnswer] = []
        others = 0
        while self._waiting and len(batch) < PLAIN_BATCH and others < BATCH:
            batch.append(self._waiting.popleft())
            others += batch[-1].address is None
        if batch:  # the other may have taken it
            await self._send(batch)

    async def _send(self, batch: Sequence[GivenAnswer]) -> None:
        try:
            found = await self._once(batch)
        except BaseException as error:
            away = isinstance(error, Exception) and is_transient(error)
            for one in batch:
                one.outages += 1
                if away and one.outages <= OUTAGES:
                    self._later(one)  # what was committed all the same is found in history
                else:
                    one.fail(error)
            if not isinstance(error, Exception):
                raise
            return
        now = asyncio.get_running_loop().time()
        for n, one in enumerate(batch):
            if one.held_up_at is None:
                one.held_up_at = now
            if found[n] is None and now - one.held_up_at < TRIES * PAUSE:
                self._later(one)
            else:
                one.tell(found[n])
        self._settled(sorted({one.item.ticket.queue for one in batch}))

    def _later(self, one: GivenAnswer) -> None:
        """It is held up: the others go on, and it comes back to the line."""
        loop = asyncio.get_running_loop()
        if self._closing:
            one.tell(None)
        else:
            self._held_up[one] = loop.call_later(PAUSE, self._back, one)

    def _back(self, one: GivenAnswer) -> None:
        del self._held_up[one]
        self._add([one])

    async def _once(self, given: Sequence[GivenAnswer]) -> dict[int, SettledAs]:
        settled = await self._plain(given)
        if len(settled) == len(given):
            return settled
        left = [n for n in range(len(given)) if n not in settled]
        judged = await self._judged([given[n] for n in left])
        return settled | {left[n]: one for n, one in judged.items()}

    async def _plain(self, given: Sequence[GivenAnswer]) -> dict[int, SettledAs]:
        """Results alone, first as if all counted. What did not, or was sent before, is judged."""
        plain: dict[int, int] = {}  # by their runs
        some: list[tuple[Settling, str]] = []
        for n, one in enumerate(given):
            if one.address is not None:
                plain[one.item.ticket.run] = n
                some.append((one.item, one.address))
                one.address = None  # whatever comes of it: once
        if not plain:
            return {}
        try:
            runs = await self._host.run_steps(plain_steps(some, self._host.sealing))
        except Exception as error:
            if not is_of_one(error):
                raise
            return {}
        if runs:
            crash_points.passed("answers.committed")
        return {n: "accepted" for run, n in plain.items() if run in runs}

    async def _judged(self, given: Sequence[GivenAnswer]) -> dict[int, SettledAs]:
        items = [one.item for one in given]
        fast = all(one.held_up_at is None for one in given)  # else it would be held up again
        shard_count = (await self._host.database()).shard_count
        run = self._host.run_steps
        batch = await run(settling.prepare_steps(items, self._retries(), self._host.sealing))
        settled = batch.settled
        for some in settling.in_batches(batch.changes, WIDE, WIDEST):
            settled |= await self._commit(some, shard_count, fast=fast)
        if batch.others:
            settled |= await self._each(batch.others, settling.settle_free_steps)
        if batch.changes or batch.others:
            crash_points.passed("answers.committed")
        if left := [n for n in range(len(items)) if n not in settled]:
            settled |= await run(settling.judge_steps(items, left))
        return settled

    async def _commit(
        self, some: Sequence[Prepared], shard_count: int, *, fast: bool
    ) -> dict[int, SettledAs]:
        """As if all counted; if one does not, each is looked at."""
        try:
            return await self._host.run_steps(
                settling.change_batch_steps(some, shard_count, fast=fast)
            )
        except Exception as error:
            if not is_of_one(error):
                raise
            return await self._each(
                some, lambda few: settling.change_batch_steps(few, shard_count, fast=False)
            )

    async def _each(
        self,
        some: Sequence[Prepared],
        steps: Callable[[Sequence[Prepared]], Steps[dict[int, SettledAs]]],
    ) -> dict[int, SettledAs]:
        """Together; where the server refuses one, in halves, so that it fails alone."""
        try:
            return await self._host.run_steps(steps(some))
        except Exception as error:
            if not is_of_one(error):
                raise
            if len(some) == 1:
                text = f"it cannot be stored: {told(error)[:500]}"
                return {some[0].n: InvalidArguments(text) if _is_refused(error) else None}
        middle = len(some) // 2
        return {**await self._each(some[:middle], steps), **await self._each(some[middle:], steps)}


def is_of_one(error: Exception) -> bool:
    """Whether one of those that are committed together is at fault, and the others are not."""
    return is_held_up(error) or _is_refused(error)


def is_held_up(error: Exception) -> bool:
    """Whether it is to be sent again: a lock, or a row that is not as it was read."""
    met = error.__cause__ if isinstance(error, NotDone) else error
    return isinstance(error, NotSettled | Torn) or getattr(met, "sqlstate", None) == LOCKED


def _is_refused(error: Exception) -> bool:
    return str(getattr(error, "sqlstate", None) or "").startswith(REFUSALS)
