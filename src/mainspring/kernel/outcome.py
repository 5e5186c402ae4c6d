"""What a run can come to. Handlers return one of these, or raise to fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from mainspring.db.database import Connection
from mainspring.kernel.visit import Run


class Writer(Protocol):
    """Writes of a layer that belong to the settle of its runs: one transaction for many runs.

    Outcomes that name the same writer are settled together, at most `most` at once. A writer that
    has a method `committed(connection)` is told when the batch that it wrote there is committed; one
    that has `explain(run, error)` is asked for the text of an error that failed a run, or None.
    """

    most: int
    overlaps: bool  # two batches may be written at once, on two connections
    stands: bool  # what it wrote is kept although a visit was offered again meanwhile

    async def write(self, connection: Connection, runs: Sequence[Run]) -> Sequence[Verdict]:
        """Write what belongs to these runs, on the settling connection, in its transaction.

        Answers for each run: None to settle it; another outcome to settle it with, having written
        nothing of it; or why it is not settled now and wrote nothing: 'locked' (send it again
        soon), 'rerun' (run the visit again), 'gone' (drop the result).
        An error rolls the batch back; the run that causes it is found and fails alone.
        """
        ...


class Alone:
    """A writer for one run: its writes have a transaction of their own."""

    most = 1
    overlaps = False
    stands = False

    def __init__(self, write: Callable[[Connection], Awaitable[None]]) -> None:
        self._write = write

    async def write(self, connection: Connection, runs: Sequence[Run]) -> Sequence[Verdict]:
        await self._write(connection)
        return (None,)


class Done(msgspec.Struct, frozen=True, gc=False):
    """The visit is over. `result` is JSON text."""

    result: str | None = None
    writer: Writer | None = None


DONE = Done()  # as most runs end


class Again(msgspec.Struct, frozen=True, gc=False):
    """The visit goes on later: at a time, or after some seconds.

    `payload` (JSON text) takes the place of the visit's; `error` is shown until the next run.
    """

    at: datetime | None = None
    after: float = 0.0
    writer: Writer | None = None
    payload: str | None = None
    error: str | None = None
    result: str | None = None


class Retry(msgspec.Struct, frozen=True):
    """The run failed; the visit is tried again after a backoff."""

    after: float
    error_type: str
    error: str


class Postponed(msgspec.Struct, frozen=True):
    """The visit could not be tried: whom it needs is away. It is due again after some seconds.

    Attempts and deaths stay as they are, and history is told nothing. `crash`: the peer broke while it had
    this visit alone. That counts as a death of its worker would, and parks at the queue's crash limit.
    """

    after: float
    error: str
    crash: bool = False


class Parked(msgspec.Struct, frozen=True):
    """The run failed for good; the visit waits for an operator."""

    error_type: str
    error: str


class Failed(msgspec.Struct, frozen=True):
    """The run failed and its visit is over: whoever offered it decides when there will be another.

    History has it as a retry, the outcome of every failure that is not an operator's matter.
    """

    error_type: str
    error: str


class Cancelled(msgspec.Struct, frozen=True):
    """The visit was called off."""

    error: str | None = None


class Expired(msgspec.Struct, frozen=True):
    """The visit was not started in time, and is not any more."""


Outcome = Done | Again | Retry | Postponed | Parked | Failed | Cancelled | Expired
Verdict = None | str | Outcome
