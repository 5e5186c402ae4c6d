"""The engine's own intake inside an explorer: states keep what it remembers, each step sets it there.

What is explored is `mainspring.kernel.read.intake.Intake` itself. A rule is switched off by a subclass that
does not keep it. Time is counted in ticks: the local clock and the database's are the same.
"""

from threading import Lock
from typing import Any
from uuid import UUID

from mainspring.kernel.outcome import Done, Outcome
from mainspring.kernel.read.intake import Intake
from mainspring.kernel.read.orders import Order, Room
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.queue import Cursor
from mainspring.kernel.settings import QueueSettings, WorkerSettings
from mainspring.kernel.tuning import Tuning
from mainspring.kernel.visit import Run, Visit

QUEUE = "ring"
LEVELS = (0, 1)
FIXED = ("_buffer", "_settings", "_tuning", "_time_at", "levels", "cursors")
# When a sleeper asks and for how long it rests: it reads nothing for that, so states need not tell it.
SLEEP = ("_read_as_of", "_rest_until", "_is_asking", "_flagged_at", "_watch_until")
COUNTS = ("passes", "_bytes", "_sweep_began")
PARTS = ("_back", "complete", "more", "position", "reading")
# A page of one row; looks every tick; no sweep but the first, and no slack for clocks.
TUNING = Tuning(
    look_every=1.0, moment=0.0, clock_error=0.0, least_page=1, few_unsettled=0, spread=0.0
)

Memory = tuple[Any, ...]


async def _nothing(_: Run) -> Outcome:
    return Done()


class TwoLevels(Intake):
    """An intake of one queue with two priorities."""

    cursor_type: type[Cursor] = Cursor

    def _cursors_of(self, queue: str) -> list[Cursor]:
        return [self.cursor_type(queue, level) for level in LEVELS]


class Driven:
    """One intake, set to what a state remembers before it is asked or told anything."""

    def __init__(self, kind: type[Intake] = TwoLevels, overlap: float = 1.0) -> None:
        buffer = Buffer([QueueSettings(QUEUE, _nothing)], Lock())
        tuning = Tuning(**{**_fields(TUNING), "overlap": overlap})
        self.intake = kind(buffer, WorkerSettings(page=1, poll=60.0), tuning, lambda now: now)
        self.names = [name for name in vars(self.intake) if name not in FIXED + SLEEP + COUNTS]
        sweep = self.intake.due(0.0, Room(0, asleep=False))
        self.intake.swept(sweep, {}, {}, 0.0)  # of an empty table: the next is far away

    def recall(self, memory: Memory) -> Intake:
        values, *cursors = memory
        for name, value in zip(self.names, values, strict=True):
            setattr(self.intake, name, value)
        for cursor, parts in zip(self.intake.cursors, cursors, strict=True):
            for part, value in zip(PARTS, parts, strict=True):
                setattr(cursor, part, value)
        return self.intake

    def memory(self) -> Memory:
        values = tuple(getattr(self.intake, name) for name in self.names)
        cursors = (tuple(getattr(c, part) for part in PARTS) for c in self.intake.cursors)
        return (values, *cursors)

    def due(self, memory: Memory, now: int, *, busy: bool) -> tuple[Order, Memory]:
        """What a reader is to do now, asleep or busy with results."""
        room = Room(1 if busy else 0, asleep=not busy)
        order = self.recall(memory).due(float(now), room)
        return order, self.memory()


def _fields(tuning: Tuning) -> dict[str, Any]:
    return {name: getattr(tuning, name) for name in Tuning.__slots__}


def visit(level: int, at: int, key: str) -> Visit:
    return Visit(0, key, QUEUE, UUID(int=1), None, level, float(at), 1, 0, 0, None, "{}")
