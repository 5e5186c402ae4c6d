"""Cursors: where each level (a queue and a priority) is read next. Pure, no I/O.

A level is read from its cursor on, never from the start, so dead rows behind it cost nothing. A
visit can appear behind the cursor (a long transaction commits, a retry comes back): whoever knows of
it steps the cursor back, and a step back that arrives while a read is under way is not overwritten
by it. What nobody knew of is found by the sweep, which reads behind the cursors.
"""

from __future__ import annotations

from mainspring.kernel.visit import END, START, Position


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
