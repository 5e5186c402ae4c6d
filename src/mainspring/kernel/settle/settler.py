"""The settler: collects the results of runs until they are written, many in one statement.

It keeps every result until the database has answered for it, through any outage. A batch has results of
one kind: done with nothing more to say (as most are), any other outcome, or those of one writer, whose
writes belong to the settle; the kinds take turns. A result that the server refuses for what it contains is
found by halving its batch and settled as a failure; when all fail alike it is the server that is wrong,
and all are kept. What a layer writes goes in one transaction with the settle of its runs: both stand, or
neither does.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from operator import attrgetter

import asyncpg

from mainspring import crash_points
from mainspring.db.connect.outage import is_transient
from mainspring.db.database import Connection
from mainspring.db.shared import SharedLine
from mainspring.kernel.outcome import Outcome, Writer
from mainspring.kernel.owned import Owned
from mainspring.kernel.settle.batches import (
    PLAIN,
    SETTLED,
    BatchKind,
    DoneAnswer,
    SettleAnswer,
    by_kind,
    done_in_order,
    done_values,
    explained,
    find_values,
    in_order,
    is_plain,
    kind_of,
    not_had,
    settle_values,
)
from mainspring.kernel.statements import SQL
from mainspring.kernel.tuning import DEFAULT, Tuning
from mainspring.kernel.visit import Run
from mainspring.shape import told

log = logging.getLogger("mainspring")
_lock_order = attrgetter("visit.shard", "visit.key", "visit.queue")
# From one of our own statements these mean that the server is being changed under us, not a bad value.
# (23505: history already has a superseded run, written by a statement whose answer was lost.)
_OURS = ("0A000", "42501", "42P01", "23505")


class Settler:
    """Results wait here until they are written."""

    def __init__(
        self,
        lines: Sequence[SharedLine],
        owned: Owned,
        *,
        page: int,
        settled: Callable[[Sequence[Run], str], None],
        failed: Callable[[Run, Exception], Outcome],
        wrote: Callable[[], None] = lambda: None,
        tuning: Tuning = DEFAULT,
    ) -> None:
        self._lines = lines
        self._tuning = tuning
        self._sender = Sender(owned, tuning)
        self._page = page
        self._settled = settled  # told of all runs that have the same answer
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

    async def _serve(self, line: SharedLine, news: asyncio.Event, least: int | None = None) -> None:
        async def serve() -> None:
            await news.wait()
            # First: who waits for a connection must not have a batch that another could settle.
            async with line.use() as connection:
                await self._settle_next(connection, news, least)

        await line.serve(serve, "settle.waiting", lambda: {"runs": self.unsettled})

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
        by_answer: dict[str, list[Run]] = {}
        for run, answer in zip(part, answers, strict=True):
            del left[run.token]
            by_answer.setdefault(answer, []).append(run)
        for answer, runs in by_answer.items():
            if answer == "locked":
                self._locked += runs
            elif answer == "changed":
                self._enter_again(runs)
            else:
                self._answered(runs, answer)
        if self._locked:
            asyncio.get_running_loop().call_later(self._tuning.locked_again, self._retry_locked)

    def _answered(self, runs: Sequence[Run], answer: str) -> None:
        self.unsettled -= len(runs)
        self._settled(runs, answer)

    def _retry_locked(self) -> None:
        locked, self._locked = self._locked, []
        self._enter_again(locked)


class _NotAllSettled(Exception):
    """A batch with writes of its own was rolled back: some of its visits could not be settled."""

    def __init__(self, answers: Sequence[str] = ()) -> None:
        super().__init__()
        self.answers = list(answers)


class Sender:
    """How each run of a batch is answered for."""

    def __init__(self, owned: Owned, tuning: Tuning) -> None:
        self._owned = owned
        self._tuning = tuning

    async def send(self, connection: Connection, kind: BatchKind, batch: list[Run]) -> list[str]:
        """Settle runs of one kind; returns the answer for each, in the order that the batch has then."""
        if crash_points.listener is not None:
            crash_points.passed("settle.sending")
        if kind is not PLAIN:
            batch.sort(key=_lock_order)
        if not isinstance(kind, str):
            answers = await self._send_with_writes(connection, kind, batch)
        else:
            settle = self._settle_done if kind is PLAIN else self._settle
            try:
                answers = await settle(connection, batch)
            except asyncpg.LockNotAvailableError:
                return await self._send_free(connection, batch)
        if crash_points.listener is not None:
            crash_points.passed("settle.answered")
        return answers

    async def _settle(self, connection: Connection, runs: Sequence[Run]) -> list[str]:
        values = settle_values(runs, self._owned.worker_id)
        return in_order(await connection.rows(SQL["settle"], SettleAnswer, **values), len(runs))

    async def _settle_done(self, connection: Connection, runs: Sequence[Run]) -> list[str]:
        # No bundles while somebody is about who would not find what is in them.
        least = self._tuning.bundle_least
        bundles = self._owned.bundles and len(runs) >= least
        values = done_values(runs, self._owned.worker_id, least if bundles else None, self._tuning)
        return done_in_order(await connection.one(SQL["settle_done"], DoneAnswer, **values), runs)

    async def _send_free(self, connection: Connection, batch: list[Run]) -> list[str]:
        """Settle those whose visits nobody has locked; the others are answered as locked."""
        async with connection.atomic():
            numbers = await connection.rows(SQL["lock_free"], int, **find_values(batch))
            free = [batch[n - 1] for n in sorted(numbers)]
            settled = await self._settle(connection, free) if free else []
            answers = {run.token: answer for run, answer in zip(free, settled, strict=True)}
            others = [run for run in batch if run.token not in answers]
            rest = await connection.follow(not_had(others))
            answers |= {run.token: answer for run, answer in zip(others, rest, strict=True)}
        return [answers[run.token] for run in batch]

    async def _send_with_writes(
        self, connection: Connection, writer: Writer, batch: list[Run]
    ) -> list[str]:
        """The layer's writes and the settle of its runs in one transaction."""
        outcomes = [run.outcome for run in batch]  # the writer may put another in a run's place
        try:
            async with connection.atomic():
                answers = await self._write_and_settle(connection, writer, batch)
        except BaseException as error:
            for run, outcome in zip(batch, outcomes, strict=True):
                run.outcome = outcome
            if isinstance(error, _NotAllSettled) and len(batch) == 1:
                if error.answers == ["superseded"]:
                    await self._release(connection, batch)
                return error.answers
            broken = connection.is_closed() or isinstance(error, asyncpg.InternalClientError)
            if broken or not (is_transient(error) or _is_late(error)):
                raise
            if len(batch) > 1:
                raise _NotAllSettled from error  # a lock or a conflict of one: again, smaller
            return ["locked"]  # its own trouble, not the connection's: the others go on
        if (committed := getattr(writer, "committed", None)) is not None:
            committed(connection)
        return answers

    async def _write_and_settle(
        self, connection: Connection, writer: Writer, batch: list[Run]
    ) -> list[str]:
        answers: dict[int, str] = {}
        for run, verdict in zip(batch, await writer.write(connection, batch), strict=True):
            if isinstance(verdict, str):
                answers[run.token] = verdict
            elif verdict is not None:
                run.outcome = verdict
        written = [run for run in batch if run.token not in answers]
        settled = await self._settle_here(connection, written)
        answers |= {run.token: answer for run, answer in zip(written, settled, strict=True)}
        in_turn = [answers[run.token] for run in batch]
        kept = ("settled", "superseded") if writer.stands else ("settled",)
        if any(answer not in kept for answer in settled):
            raise _NotAllSettled(in_turn)
        await self._release(connection, [run for run in batch if answers[run.token] == "rerun"])
        return in_turn

    async def _settle_here(self, connection: Connection, runs: list[Run]) -> list[str]:
        """Settle runs in the transaction of their writer: the plain ones by the short form."""
        settled: set[int] = set()
        if plain := [run for run in runs if is_plain(run)]:
            answers = await self._settle_done(connection, plain)
            settled = {r.token for r, a in zip(plain, answers, strict=True) if a == "settled"}
        others = [run for run in runs if run.token not in settled]
        if not others:
            return ["settled"] * len(runs)
        answers = await self._settle(connection, others)
        judged = {run.token: answer for run, answer in zip(others, answers, strict=True)}
        return [judged.get(run.token, "settled") for run in runs]

    async def _release(self, connection: Connection, runs: Sequence[Run]) -> None:
        """Not settled, to be run again: what holds their visits goes now, not at the next beat."""
        if held := [run.token for run in runs if run.held]:
            me = self._owned.worker_id
            await connection.run(SQL["release_holds"], worker_id=me, runs=held)


def is_refusal(kind: BatchKind, error: Exception) -> bool:
    """Whether an error says that a value cannot be stored; anything else is the server's or the line's."""
    if isinstance(error, _NotAllSettled):
        return True
    if is_transient(error):
        return False
    if not isinstance(kind, str):
        return True  # a layer's own writes may fail for any reason of their own
    state = getattr(error, "sqlstate", None)
    return state not in _OURS if state else isinstance(error, ValueError | TypeError)


def _is_late(error: BaseException) -> bool:
    """Whether somebody else added a visit that the writer did not find: it will at the next try."""
    return isinstance(error, asyncpg.UniqueViolationError) and error.constraint_name == "visit_pkey"
