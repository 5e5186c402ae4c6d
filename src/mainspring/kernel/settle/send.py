"""Sending a batch: the statements that settle it, and what is done about visits that others have locked.

Plain ends go by the short form. What a layer writes goes in one transaction with the settle of its runs:
both stand, or neither does.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import asyncpg

from mainspring.db.connect.outage import is_transient
from mainspring.db.database import Connection
from mainspring.kernel import crash_points
from mainspring.kernel.outcome import Writer
from mainspring.kernel.owned import Owned
from mainspring.kernel.settle.batches import (
    PLAIN,
    BatchKind,
    DoneAnswer,
    SettleAnswer,
    done_in_order,
    done_values,
    in_order,
    is_plain,
    settle_values,
)
from mainspring.kernel.settle.locks import FoundVisit, find_values
from mainspring.kernel.statements import SQL
from mainspring.kernel.tuning import Tuning
from mainspring.kernel.visit import Run

_lock_order = attrgetter("visit.shard", "visit.key", "visit.queue")
# From one of our own statements these mean that the server is being changed under us, not a bad value.
# (23505: history already has a superseded run, written by a statement whose answer was lost.)
_OURS = ("0A000", "42501", "42P01", "23505")


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
            found = await connection.rows(SQL["find_visits"], FoundVisit, **find_values(others))
        there = {(visit.queue, visit.key) for visit in found}
        for run in others:
            is_there = (run.visit.queue, run.visit.key) in there
            answers[run.token] = "locked" if is_there else "gone"
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
