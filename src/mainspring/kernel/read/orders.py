"""What the intake tells a reader to do. Pure data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mainspring.kernel.run.queue import Cursor
from mainspring.kernel.visit import Position, Visit, visits_of

# Between the queue and the group of what a statement passes over; no queue's name contains it.
UNIT = "\x1f"

LevelName = tuple[str, int]
GroupName = tuple[str, str | None]
Pages = Mapping[LevelName, list[Visit]]


class Room(NamedTuple):
    """What the rest of the worker says at this moment."""

    unsettled: int  # results that wait to be written: they live in memory only
    asleep: bool  # the worker's row says that it sleeps
    is_told: bool = True  # notifications come to it


class Reading(NamedTuple):
    """One level's part of a read."""

    cursor: Cursor
    after: Position
    upto: Position
    most: int


@dataclass(frozen=True, slots=True)
class Read:
    """Read these levels; then say what came (`answered`) or that nothing did (`failed`)."""

    levels: Sequence[Reading]
    sent: float  # the local moment, and the database's time then as we know it
    as_of: float
    is_sweep: bool = False


@dataclass(frozen=True, slots=True)
class ReadGroups:
    """Read these groups (queue, group): they had to leave visits in the database and have room again."""

    groups: Sequence[tuple[str, str]]

    def arguments(self) -> dict[str, list[str]]:
        """Of read_group."""
        return {
            "queues": [queue for queue, _ in self.groups],
            "groups": [group for _, group in self.groups],
        }

    def visits(self, rows: Sequence[Any], sent: float) -> Mapping[GroupName, list[Visit]]:
        """Those of each group, sent for at that local moment."""
        found: dict[GroupName, list[Visit]] = {}
        for visit in visits_of(rows, sent):
            found.setdefault((visit.queue, visit.group), []).append(visit)
        return found


@dataclass(frozen=True, slots=True)
class Flag:
    """Say in the worker's row whether it sleeps; then say so here (`flagged`)."""

    asleep: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask when the next visit is due that a read as of `since` did not see; then `next_is_due`."""

    since: float


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do until then, or until it is told something, or (`for_room`) has room."""

    until: float
    for_room: bool


Order = Read | ReadGroups | Flag | Ask | Rest
