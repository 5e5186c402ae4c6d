"""The settler: writes the outcomes of runs, many in one statement.

It keeps every result until the database has answered for it, through any outage. A batch has results of
one kind: done with nothing more to say (most are, and many of one kin become one row of history), any other
outcome, or those of one writer, whose writes belong to the settle; the kinds take turns. A result that the
server refuses for what it contains is found by halving its batch and settled as a failure; when all fail
alike it is the server that is wrong, and all are kept.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from operator import attrgetter
from typing import Any, Protocol

import asyncpg

from mainspring.db.database import Database, backoff, is_transient
from mainspring.kernel import crash_points
from mainspring.kernel.outcome import (
    Outcome,
    Writer,
)
from mainspring.kernel.owned import Owned
from mainspring.kernel.settle.batches import (
    BUNDLE_LEAST,
    PLAIN,
    SETTLED,
    BatchKind,
    bundle_arguments,
    by_kind,
    done_arguments,
    done_in_order,
    explained,
    in_order,
    is_kin,
    is_plain,
    kind_of,
    lock_arguments,
    settle_arguments,
    short_form,
)
from mainspring.kernel.statements import SQL
from mainspring.kernel.visit import Run
from mainspring.shape import told

log = logging.getLogger("mainspring")
_lock_order = attrgetter("visit.shard", "visit.key", "visit.queue")
# A visit that somebody has locked: not waited for longer than this connection's lock_timeout.
_LOCKED = "55P03"
# From one of our own statements these mean that the server is being changed under us, not a bad value.
# (23505: history already has a superseded run, written by a statement whose answer was lost.)
_OURS = ("0A000", "42501", "42P01", "23505")


Batch = tuple[BatchKind, list[Run]]


class _NotAllSettled(Exception):
    """A batch with writes of its own was rolled back: some of its visits could not be settled."""


class Settled(Protocol):
    """Told of every run that the database has answered for, with the answer that they have in common."""

    def __call__(self, runs: Sequence[Run], answer: str) -> None: ...


class SettleConnection(Protocol):
    """A connection that is opened again when it breaks."""

    async def get(self) -> Any: ...

    async def lost(self) -> None: ...


class Settler:
    """Results wait here until they are written."""

    def __init__(
        self,
        database: Database,
        connection: SettleConnection,
        second: SettleConnection,
        owned: Owned,
        *,
        page: int,
        settled: Settled,
        failed: Callable[[Run, Exception], Outcome],
        wrote: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._connection = connection
        self._second = second
        self._owned = owned
        self._page = page
        self._settled = settled
        self._failed = failed
        self._wrote = wrote  # told after each batch
        self._waiting: dict[BatchKind, deque[Run]] = {}  # whose turn is next comes first
        self._locked: list[Run] = []  # somebody's open transaction has their visits
        self._news = asyncio.Event()
        self._plenty = asyncio.Event()  # half a batch waits: something for the second line
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

    async def run(self) -> None:
        """Settle what is handed in, for ever."""
        await self._serve(self._connection, self._news, self._take)

    async def run_second(self) -> None:
        """Settle many beside: the server works on one page while the next is made ready here."""
        await self._serve(self._second, self._plenty, self._take_many)

    async def _serve(
        self, line: SettleConnection, news: asyncio.Event, take: Callable[[], Batch | None]
    ) -> None:
        tries = 0
        while True:
            await news.wait()
            taken = take()
            if taken is None:
                news.clear()
                continue
            kind, runs = taken
            left = {run.token: run for run in runs}
            try:
                await self._settle(line, kind, left)
                tries = 0
            except Exception as error:
                if tries % 20 == 0:
                    log.warning("settle.waiting", extra={"runs": len(left), "error": told(error)})
                await line.lost()
                self._enter_again(left.values())
                left = {}
                await asyncio.sleep(backoff(tries))
                tries += 1
            finally:
                self._enter_again(left.values())

    def _take(self) -> Batch | None:
        """The next batch: the kinds take turns."""
        return self._batch(next(iter(self._waiting), None))

    def _take_many(self) -> Batch | None:
        """A batch if there are many; a few are left to the first line."""
        for kind, runs in self._waiting.items():
            if len(runs) >= self._plenty_for(kind):
                return self._batch(kind)
        return None

    def _batch(self, kind: BatchKind | None) -> Batch | None:
        if kind is None:
            return None
        if is_kin(kind) and not self._fills_bundle(self._waiting[kind]):
            kind = self._put_together()
        runs, most = self._waiting.pop(kind), self._most(kind)
        if len(runs) <= most:
            return kind, list(runs)
        self._waiting[kind] = runs  # behind the others
        return kind, [runs.popleft() for _ in range(most)]

    def _put_together(self) -> BatchKind:
        """Of which there are too few for a bundle go by one statement, with a row of history each."""
        for kind, runs in list(self._waiting.items()):
            if is_kin(kind) and not self._fills_bundle(runs):
                self._enter(PLAIN, self._waiting.pop(kind))
        return PLAIN

    def _fills_bundle(self, runs: Sized) -> bool:
        """Whether so many of a kin become a bundle: not while somebody is about who would not find them."""
        return self._owned.bundles and len(runs) >= BUNDLE_LEAST

    def _most(self, kind: BatchKind) -> int:
        return self._page if isinstance(kind, str) else min(self._page, kind.most)

    def _plenty_for(self, kind: BatchKind) -> float:
        """From how many on the second line takes them too."""
        if isinstance(kind, str) or kind.overlaps:
            return max(1, self._most(kind) // 2)
        return math.inf

    async def _settle(self, line: SettleConnection, kind: BatchKind, left: dict[int, Run]) -> None:
        """Send a batch, halving what the server refuses; `left` keeps what is not answered for."""
        count = len(left)
        refused: list[tuple[Run, Exception]] = []
        pending = [list(left.values())]
        while pending:
            part = pending.pop()
            try:
                answers = await self._send(line, kind, part)
            except Exception as refusal:
                if not _is_refusal(kind, refusal):
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
            run.refused = True
            run.outcome = explained(kind, run, error, self._failed(run, error))
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
            asyncio.get_running_loop().call_later(0.1, self._retry_locked)

    def _answered(self, runs: Sequence[Run], answer: str) -> None:
        self.unsettled -= len(runs)
        self._settled(runs, answer)

    def _retry_locked(self) -> None:
        locked, self._locked = self._locked, []
        self._enter_again(locked)

    async def _send(self, line: SettleConnection, kind: BatchKind, batch: list[Run]) -> list[str]:
        crash_points.passed("settle.sending")
        connection = await line.get()
        short = short_form(kind, bundled=self._fills_bundle(batch))
        if short is None:
            batch.sort(key=_lock_order)
        if not isinstance(kind, str):
            answers = await self._send_with_writes(connection, kind, batch)
        else:
            try:
                if short is not None:
                    arguments = bundle_arguments if short == "settle_bundle" else done_arguments
                    rows = await self._database.fetch(
                        connection, SQL[short], *arguments(batch, self._owned.worker_id)
                    )
                    answers = done_in_order(rows, batch)
                else:
                    rows = await self._database.fetch(
                        connection, SQL["settle"], *self._arguments(batch)
                    )
                    answers = in_order(rows, len(batch))
            except Exception as error:
                if getattr(error, "sqlstate", None) != _LOCKED:
                    raise
                return await self._send_free(connection, batch)
        crash_points.passed("settle.answered")
        return answers

    def _arguments(self, batch: Sequence[Run]) -> Sequence[Any]:
        return settle_arguments(batch, self._owned.worker_id)

    async def _send_free(self, connection: Any, batch: list[Run]) -> list[str]:
        """Settle those whose visits nobody has locked; the others are answered as locked."""
        answers = ["locked"] * len(batch)
        async with self._database.transaction(connection):
            rows = await connection.fetch(SQL["lock_free"].numbered, *lock_arguments(batch))
            free = {row["n"] - 1 for row in rows}
            part = [run for n, run in enumerate(batch) if n in free]
            gone = [n for n, run in enumerate(batch) if n not in free]
            if part:
                settled = await connection.fetch(SQL["settle"].numbered, *self._arguments(part))
                for n, answer in zip(sorted(free), in_order(settled, len(part)), strict=True):
                    answers[n] = answer
            rows = await connection.fetch(
                SQL["find_visits"].numbered, *lock_arguments([batch[n] for n in gone])
            )
            there = {(row["queue"], row["key"]) for row in rows}
        for n in gone:
            if (batch[n].visit.queue, batch[n].visit.key) not in there:
                answers[n] = "gone"
        return answers

    async def _send_with_writes(
        self, connection: Any, writer: Writer, batch: list[Run]
    ) -> list[str]:
        """The layer's writes and the settle of its runs in one transaction."""
        try:
            return await self._write_and_settle(connection, writer, batch)
        except Exception as error:
            broken = connection.is_closed() or isinstance(error, asyncpg.InternalClientError)
            if broken or not (is_transient(error) or _is_late(error)):
                raise
            if len(batch) > 1:
                raise _NotAllSettled from error  # a lock or a conflict of one: again, smaller
            return ["locked"]  # its own trouble, not the connection's: the others go on

    async def _write_and_settle(
        self, connection: Any, writer: Writer, batch: list[Run]
    ) -> list[str]:
        transaction = connection.transaction(isolation="read_committed")
        await transaction.start()
        outcomes = [run.outcome for run in batch]  # the writer may put another in a run's place
        try:
            if (local := self._database.local_settings()) is not None:
                await connection.execute(local)
            answers: list[Any] = list(await writer.write(connection, batch))
            for n, answer in enumerate(answers):
                if answer is not None and not isinstance(answer, str):
                    batch[n].outcome, answers[n] = answer, None
            part = [n for n, answer in enumerate(answers) if answer is None]
            if part:
                settled = await self._settle_here(connection, [batch[n] for n in part])
                for n, answer in zip(part, settled, strict=True):
                    answers[n] = answer
            kept = ("settled", "superseded") if writer.stands else ("settled",)
            if all(answers[n] in kept for n in part):
                rerun = [r for r, a in zip(batch, answers, strict=True) if a == "rerun"]
                await self._release(connection, rerun)
                await transaction.commit()
                if (committed := getattr(writer, "committed", None)) is not None:
                    committed(connection)
                return answers
        except BaseException:
            _restore(batch, outcomes)
            if not connection.is_closed() and connection.is_in_transaction():
                await transaction.rollback()
            raise
        _restore(batch, outcomes)
        await transaction.rollback()
        if len(batch) > 1:
            raise _NotAllSettled
        if answers == ["superseded"]:
            async with self._database.transaction(connection):
                await self._release(connection, batch)
        return answers

    async def _settle_here(self, connection: Any, runs: list[Run]) -> list[str]:
        """Settle runs in the transaction of their writer: the plain ones by the short form."""
        settled: set[int] = set()
        if plain := [run for run in runs if is_plain(run)]:
            rows = await connection.fetch(
                SQL["settle_done"].numbered, *done_arguments(plain, self._owned.worker_id)
            )
            answers = done_in_order(rows, plain)
            settled = {r.token for r, a in zip(plain, answers, strict=True) if a == "settled"}
        others = [run for run in runs if run.token not in settled]
        if not others:
            return ["settled"] * len(runs)
        rows = await connection.fetch(SQL["settle"].numbered, *self._arguments(others))
        judged = dict(zip((r.token for r in others), in_order(rows, len(others)), strict=True))
        return [judged.get(run.token, "settled") for run in runs]

    async def _release(self, connection: Any, runs: Sequence[Run]) -> None:
        """Not settled, to be run again: what holds their visits goes now, not at the next beat."""
        if held := [run.token for run in runs if run.held]:
            values = {"worker_id": self._owned.worker_id, "runs": held}
            releasing = SQL["release_holds"]
            await connection.fetch(releasing.numbered, *releasing.arguments(values))


def _restore(batch: list[Run], outcomes: list[Any]) -> None:
    for run, outcome in zip(batch, outcomes, strict=True):
        run.outcome = outcome


def _is_refusal(kind: BatchKind, error: Exception) -> bool:
    """Whether an error says that a value cannot be stored; anything else is the server's or the line's."""
    if isinstance(error, _NotAllSettled):
        return True
    if is_transient(error):
        return False
    if not isinstance(kind, str):
        return True  # a layer's own writes may fail for any reason of their own
    state = getattr(error, "sqlstate", None)
    return state not in _OURS if state else isinstance(error, ValueError | TypeError)


def _is_late(error: Exception) -> bool:
    """Whether somebody else added a visit that the writer did not find: it will at the next try."""
    return isinstance(error, asyncpg.UniqueViolationError) and error.constraint_name == "visit_pkey"
