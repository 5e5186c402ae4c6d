"""A visit, and a run of it. Pure data, no I/O."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

PRIORITIES = range(10)
DEFAULT_PRIORITY = 5
# Before every visit and after every visit that can be.
EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)

Position = tuple[float, str]  # when it is due, and its key
START: Position = (EARLIEST.timestamp(), "")
END: Position = (LATEST.timestamp(), "")
LAST_KEY = chr(0x10FFFF)  # after every key that can be


class Visit(msgspec.Struct, frozen=True, gc=False):
    """The durable wish to look at a key, as it was read. The fields are in read_due's order."""

    shard: int
    key: str
    queue: str
    id: UUID
    group: str | None
    priority: int
    # Seconds since 1970, exact to the microsecond for what can be due: a driver takes longer to make a
    # datetime than all the rest of a row.
    due: float
    version: int
    attempt: int
    crashes: int
    expires_at: datetime | None
    payload: str
    # Where its row lay when it was read (ctid): a hint, which a settle tries before it searches the key.
    address: str | None = None
    keyed: bool = False  # its key is not its id: another may be offered under it
    read_at: float = 1e18  # the local moment at which its read was sent; never stale unless set

    @property
    def position(self) -> Position:
        return (self.due, self.key)

    @property
    def due_at(self) -> datetime:
        return instant(self.due)


_visit: Callable[..., Visit] = Visit


def visits_of(rows: Iterable[Sequence[Any]], sent: float) -> list[Visit]:
    """Visits as read_due and read_group return them, asked for at that local moment."""
    return [_visit(*row, sent) for row in rows]


class StopFlag(threading.Event):
    """Set when a run is told to end; true then."""

    def __bool__(self) -> bool:
        return self.is_set()


class Respite(NamedTuple):
    """A run was told by the other side when to come back, and for whom that holds: 'queue' or 'group'."""

    seconds: float
    pauses: str
    reason: str


class Run(msgspec.Struct, eq=False):
    """One execution of a visit by this worker."""

    visit: Visit
    token: int
    # Wall-clock start by the database's time, and the local clock at the same moment.
    started: float
    began: float
    suspect: bool = False
    # True once the row says that this run holds it.
    held: bool = False
    # Not before this local moment is a hold that failed tried again.
    hold_at: float = 0.0
    # Why the run was stopped from outside, if it was: 'timeout', 'fenced', 'stopping', 'cancelled', 'gone'.
    stopped: str | None = None
    # It goes on outside of the count: overtaken, or stopped and not ended. Its places are given up.
    hangs: bool = False
    # The slot (an asyncio task) that executes it; None before the start and for what runs elsewhere.
    slot: Any = None
    # Set when it is stopped, for a handler that asks; None while nobody has asked.
    told: StopFlag | None = None
    # Set by a transaction that settled the run itself.
    settled: bool = False
    # The queue's settings as the code declares them.
    settings: Any = None
    seconds: float = 0.0
    outcome: Any = None
    # A layer's own: what its writer is to write of this run.
    change: Any = None
    ends_turn: bool = False
    # Its failure does not count for who judges its queue.
    spared: bool = False
    # The other side said when to come back, and for whom that holds.
    rest: Respite | None = None
    # The server would not store its outcome; a plain failure took its place.
    refused: bool = False
    # Its visit's row no longer lay where it was read when it was to be settled there.
    strayed: bool = False

    def spare(self) -> None:
        """Its failure does not count for who judges its queue."""
        self.spared = True

    def respite(self, rest: Respite) -> None:
        """The other side said when to come back."""
        self.rest = rest

    def hold(self) -> None:
        """Its row says that this run has it."""
        self.held = True

    def settle(self) -> None:
        """A transaction of its own has settled it: there is no visit any more that could be held."""
        self.settled = True

    def leave_to_writer(self, change: Any, *, ends_turn: bool = False) -> None:
        """Its handler leaves this to its writer. `ends_turn`: it concerns nobody else, so the turn of its
        key ends with the run and not with its settle."""
        self.change, self.ends_turn = change, ends_turn

    def end(self, outcome: Any, now: float) -> None:
        """It has come to this, at this local moment."""
        self.outcome = outcome
        self.seconds = now - self.began
        self.slot = None

    def enter(self, slot: Any) -> None:
        """Another slot executes it: it has not started yet."""
        self.slot = slot

    def leave(self) -> None:
        """No slot executes it any more."""
        self.slot = None

    def stop(self, why: str) -> None:
        """Its handler sees a cancellation."""
        self.stopped = why
        if self.told is not None:
            self.told.set()
        self.slot.cancel()

    def listen(self) -> StopFlag:
        """Its handler asks whether it is told to end."""
        if self.told is None:
            self.told = StopFlag()
        if self.stopped is not None:
            self.told.set()
        return self.told

    def refuse(self, outcome: Any) -> None:
        """The server would not store its outcome: this failure takes its place."""
        self.refused = True
        self.outcome = outcome


def instant(seconds: float) -> datetime:
    """The time that is so many seconds after 1970."""
    return datetime.fromtimestamp(seconds, UTC)
