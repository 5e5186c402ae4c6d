"""Cursors, and what the intake tells a reader to do about them. Pure, no I/O.

A cursor says where a level (a queue and a priority) is read next. A level is read from its cursor on,
never from the start, so dead rows behind it cost nothing. A visit can appear behind the cursor: a long
transaction commits, or a retry comes back. Whoever knows of it steps the cursor back, and a step back that
arrives while a read is under way is not overwritten by it. What nobody knew of is found by the sweep, which
reads behind the cursors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mainspring.kernel.visit import END, START, Position, Visit, instant

_visit: Callable[..., Visit] = Visit  # a row's columns are its fields, in their order

# Between the queue and the group of what a statement passes over; no queue's name contains it.
UNIT = "\x1f"

LevelName = tuple[str, int]
GroupName = tuple[str, str | None]
Pages = Mapping[LevelName, list[Visit]]


class Cursor:
    """The reading position of one level."""

    __slots__ = ("_back", "complete", "more", "position", "priority", "queue", "reading")

    def __init__(self, queue: str, priority: int) -> None:
        self.queue = queue
        self.priority = priority
        self.position: Position = START  # every due, free visit before it is in hand or a stray
        self.more = True  # there may be unread visits after it
        self.complete = False  # read to its end since the last restart
        self.reading = False
        self._back: Position = END  # the earliest step back since the read was sent

    @property
    def level(self) -> tuple[str, int]:
        return (self.queue, self.priority)

    def sent(self) -> None:
        self.reading = True
        self.more = False
        self._back = END

    def answered(self, last: Position | None, *, full: bool, close: float) -> None:
        """A page has come, up to `last` (None: nothing). What may yet be committed is due after `close`."""
        reached = max(self.position, (close, "")) if last is None else last
        self.position = min(reached, self._back)
        self.more = full or self._back < END
        self.complete = self.complete or not self.more
        self.reading = False

    def failed(self) -> None:
        """The read did not come back: nothing was learned."""
        self.reading = False
        self.more = True

    def step_back(self, due: float) -> None:
        """A visit due at this time may lie behind the cursor: read from just before it."""
        before = (due, "")
        self.more = True
        self.position = min(self.position, before)
        if self.reading:
            self._back = min(self._back, before)

    def restart(self) -> None:
        """Read everything anew: the shards that are mine have changed."""
        self.complete = False
        self.step_back(START[0])


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

    @property
    def queues(self) -> list[str]:
        return [level.cursor.queue for level in self.levels]

    def arguments(self, places: Sequence[int]) -> dict[str, list[object]]:
        """Of read_due, for the levels at these places."""
        levels = [self.levels[n] for n in places]
        return {
            "queues": [level.cursor.queue for level in levels],
            "priorities": [level.cursor.priority for level in levels],
            "after_due": [instant(level.after[0]) for level in levels],
            "after_key": [level.after[1] for level in levels],
            "upto_due": [instant(level.upto[0]) for level in levels],
            "upto_key": [level.upto[1] for level in levels],
            "most": [level.most for level in levels],
        }

    def visits(self, rows: Sequence[Any]) -> list[Visit]:
        return [_visit(*row, self.sent) for row in rows]


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
        for row in rows:
            visit = _visit(*row, sent)
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
