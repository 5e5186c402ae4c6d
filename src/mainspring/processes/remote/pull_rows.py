"""Rows of the statements of pulling."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from mainspring.processes.commit.visits import VisitRow


class RemoteActor(NamedTuple):
    """A row of read_remote.sql."""

    name: str
    policy: str  # JSON
    paused: bool
    served: bool  # by workers themselves
    limited: bool
    searchable: list[str]
    has_due: bool
    now: float


class FreeVisit(VisitRow, frozen=True):
    """A row of pull_visits.sql: a visit as a run reads it, locked."""

    address: str
    now: float

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at.timestamp() <= self.now


class PulledVisit(VisitRow, frozen=True):
    """A row of pull_again.sql: a visit as a run reads it, and its run."""

    address: str
    run: int
    started: float
    held_until: datetime


class Hold(NamedTuple):
    """A row of hold_pulled.sql."""

    run: int
    started: float
    held_until: datetime
    address: str  # where the visit's row lies now


class Returned(NamedTuple):
    """A row of give_back.sql."""

    shard: int
    key: str
    queue: str
    called_off: bool
    hints: int


class RoomLeft(NamedTuple):
    """A row of count_room.sql."""

    room: int | None  # None: the limits were lifted a moment ago
