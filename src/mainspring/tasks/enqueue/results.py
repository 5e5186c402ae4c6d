"""What became of many calls, each told as it ends; and how far one is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar, cast

from mainspring.db.pool import Pools
from mainspring.db.sql import Steps, first, rows
from mainspring.db.tx import SyncTx
from mainspring.declaring import Seconds
from mainspring.errors import InvalidArguments, MainspringError, NotFound, TaskFailed
from mainspring.tasks.declare.handle import Handle
from mainspring.tasks.declare.progress import HowFar, Progress
from mainspring.tasks.declare.sealing import Sealing, opened_error, opened_note
from mainspring.tasks.declare.task import Task
from mainspring.tasks.declare.wait import wait_for, wait_for_sync
from mainspring.tasks.enqueue.by_function import DENIED, refusal
from mainspring.tasks.statements import SQL

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
MOST = 1_000  # asked for by one statement
OPEN = ("scheduled", "waiting", "running")


class CallEnd(NamedTuple, Generic[R_co]):
    """A call of many that has ended, or is parked; "unknown": nothing is known of it."""

    handle: Handle[R_co]
    state: str
    value: R_co | None
    error: str | None
    fault: MainspringError | None = None  # why its result cannot be read here

    @property
    def ok(self) -> bool:
        """Whether it is done."""
        return self.state == "done"

    def result(self) -> R_co:
        """Its result; raises TaskFailed if it has none, or why it cannot be read here."""
        if self.state == "unknown":
            raise NotFound(
                f"task {self.handle.task!r} {self.handle.id} is neither waiting nor in history: "
                "it was not committed, or its history was dropped by age"
            )
        if not self.ok:
            reason = f": {self.error.splitlines()[0]}" if self.error else ""
            raise TaskFailed(
                f"task {self.handle.task!r} {self.handle.id} was {self.state}{reason}",
                outcome=self.state,
                error=self.error,
            )
        if self.fault is not None:
            raise self.fault
        return cast("R_co", self.value)


class EndRow(NamedTuple):
    n: int
    state: str
    result: str | None
    error: str | None


class FarRow(NamedTuple):
    state: str
    attempt: int | None
    done: float | None
    note: str | None
    changed_at: datetime | None


class Results(Generic[R]):
    """Handles whose calls have not ended yet."""

    def __init__(
        self,
        handles: Iterable[Handle[R]],
        pools: Pools,
        tasks: Mapping[str, Task[..., object]],
        former: Mapping[str, str],
    ) -> None:
        self._open = list(handles)
        for number, handle in enumerate(self._open):
            if not isinstance(handle, Handle):
                raise InvalidArguments(
                    f"app.results takes handles, as enqueue returns them, got {handle!r} as number "
                    f"{number}"
                )
        self._pools = pools
        self._tasks = tasks
        self._former = former

    async def each(self, timeout: Seconds | None) -> AsyncIterator[CallEnd[R]]:
        while self._open:
            for end in await wait_for(self._look, _some, self._late, timeout):
                yield end

    def each_sync(self, timeout: Seconds | None) -> Iterator[CallEnd[R]]:
        while self._open:
            yield from wait_for_sync(self._look_sync, _some, self._late, timeout)

    async def _look(self) -> list[CallEnd[R]]:
        pool = await self._pools.here()
        ended: list[CallEnd[R]] = []
        try:
            async with pool.connection() as connection:
                for part in self._parts():
                    ended += await connection.follow(self._ended(part))
        except DENIED as error:
            raise refusal(error) from error
        return self._without(ended)

    def _look_sync(self) -> list[CallEnd[R]]:
        ended: list[CallEnd[R]] = []
        try:
            with self._pools.plain().connection() as connection:
                for part in self._parts():
                    ended += SyncTx(connection).follow(self._ended(part))
        except DENIED as error:
            raise refusal(error) from error
        return self._without(ended)

    def _parts(self) -> Iterator[Sequence[Handle[R]]]:
        return (self._open[start : start + MOST] for start in range(0, len(self._open), MOST))

    def _without(self, ended: list[CallEnd[R]]) -> list[CallEnd[R]]:
        """What has ended is not asked for again; each handle is told once, however often it was given."""
        over = {id(end.handle) for end in ended}
        self._open = [handle for handle in self._open if id(handle) not in over]
        return ended

    def _ended(self, handles: Sequence[Handle[R]]) -> Steps[list[CallEnd[R]]]:
        found = yield from rows(
            SQL["look_up_many"],
            EndRow,
            numbers=list(range(len(handles))),
            queues=[handle.task for handle in handles],
            ids=[handle.id for handle in handles],
            keys=[handle.key for handle in handles],
        )
        known = {row.n: row for row in found}
        return [
            self._end(handle, known.get(n))
            for n, handle in enumerate(handles)
            if n not in known or known[n].state not in OPEN
        ]

    def _end(self, handle: Handle[R], row: EndRow | None) -> CallEnd[R]:
        if row is None:
            return CallEnd(handle, "unknown", None, None)
        signature = self._tasks[self._former.get(handle.task, handle.task)].signature
        try:
            value = cast("R", signature.decode_result(row.result))
            return CallEnd(handle, row.state, value, opened_error(signature.sealing, row.error))
        except MainspringError as fault:  # of this one: the others are told all the same
            return CallEnd(handle, row.state, None, row.error, fault)

    def _late(self, _: list[CallEnd[R]], seconds: float) -> str:
        handle = self._open[0]
        return (
            f"{len(self._open)} calls have not ended, and none did for {seconds:g} s; the first of them is "
            f"task {handle.task!r} {handle.id}: ask `mainspring why {handle.task} {handle.id}`"
        )


def _some(ended: list[CallEnd[R]]) -> tuple[list[CallEnd[R]]] | None:
    return (ended,) if ended else None


class WordRow(NamedTuple):
    id: str
    done: float
    note: str | None
    attempt: int
    changed_at: datetime


def words_of(ids: Sequence[str]) -> Steps[dict[str, Progress]]:
    """What runs of these calls said last, by the call's id."""
    found = yield from rows(SQL["read_progress"], WordRow, ids=list(ids))
    return {row.id: Progress(row.done, row.note, row.attempt, row.changed_at) for row in found}


def how_far(handle: Handle[object], sealing: Sealing | None) -> Steps[HowFar]:
    """Where a call is, and how far."""
    keys = {"queue": handle.task, "id": handle.id, "key": handle.key}
    row = yield from first(SQL["look_far"], FarRow, **keys)
    if row is None:
        return HowFar("unknown", None)
    if row.attempt is None or row.done is None or row.changed_at is None:
        return HowFar(row.state, None)
    note = opened_note(sealing, row.note)
    return HowFar(row.state, Progress(row.done, note, row.attempt, row.changed_at))
