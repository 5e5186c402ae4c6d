"""The connections that the parts of a worker share: never more than a budget, few while little is done.

A part has a *line*: it takes a connection by `use()`, sends its statements, and gives it back. A line that
has work keeps its connection: nobody else takes it while there is room for another.
A connection that rests goes to whoever needs one, and those that nobody needs are closed, down to one.

What a session must have set belongs to the line's role; it is set anew when another role takes the
connection. Behind a pooler nothing belongs to a session, and each transaction sets what it needs.

Nobody waits for ever: whoever has a connection waits for the server alone, for as long as the timeouts of
its statements say, and never for a second connection. Who waits is served in the order of coming. Lines
that may take long have at most as many as leave one for the short ones, and both leave the last to the
worker's first ones, which read and settle.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from types import TracebackType

from mainspring.db.connect.outage import is_transient
from mainspring.db.database import Connection, Database
from mainspring.db.reconnecting import Reconnecting
from mainspring.errors import DatabaseUnavailable

PLAIN: Mapping[str, str] = {}
SIDE = "side"  # the role of lines that have no settings of their own
# Whoever has used its connection twice within so long keeps it for as long: before it is taken from it,
# another is opened (seconds).
WARM_SECONDS = 0.5
# One that nobody has used for so long is closed, but for the last (seconds).
IDLE_SECONDS = 5.0
# After the server had none to give, those that are open do for so long (seconds).
FULL_SECONDS = 1.0
# SQLSTATE classes of errors after which a connection is as good as before: values, constraints, conflicts,
# locks, and what functions raise.
_HARMLESS = ("22", "23", "40", "55", "P0")


class Haste(IntEnum):
    """Who may take how many connections at once."""

    FIRST = 0  # reads or settles: whatever is free
    SHORT = 1  # sends a few short statements
    LONG = 2  # may take long: upkeep, a bulk operation's page, code of the user's


class _Slot:
    """One connection of the budget, open or about to be."""

    __slots__ = ("connection", "holder", "is_busy", "line", "role", "used_at", "warm_until")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.role: str | None = None  # whose settings it has
        self.line: SharedLine | None = None  # that used it last
        self.holder: asyncio.Task[object] | None = None
        self.is_busy = False
        self.used_at = self.warm_until = 0.0


class SharedLine:
    """A part's way to the database: one connection at a time, taken when needed."""

    def __init__(
        self, connections: SharedConnections, role: str, haste: Haste, settings: Mapping[str, str]
    ) -> None:
        self.lock = asyncio.Lock()
        self.role = role
        self.haste = haste
        self.settings = settings
        self.slot: _Slot | None = None  # that it had last; perhaps another's by now
        self.used_at = float("-inf")
        self._connections = connections

    def use(self) -> SharedLine:
        """A block with a connection, for one user of this line at a time.

        Nothing may be under way on it when the block ends. After an error of the server or the network,
        or a cancel, the connection is dropped.
        """
        return self

    async def serve(
        self,
        step: Callable[[], Awaitable[None]],
        event: str,
        failed: Callable[[], dict[str, object] | None] = lambda: None,
    ) -> None:
        """Do a step again and again, through any outage. `failed` is told of one that failed, before the
        next; what it returns is said with the event."""
        outage: Reconnecting | None = None
        while True:
            try:
                await step()
                if outage is not None:
                    outage.worked()
                    outage = None
            except Exception as error:
                outage = outage or Reconnecting(event)
                await outage.wait(error, **failed() or {})

    async def __aenter__(self) -> Connection:
        await self.lock.acquire()
        try:
            return await self._connections.take(self)
        except BaseException:
            self.lock.release()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            self._connections.give_back(self, error)
        finally:
            self.lock.release()


class SharedConnections:
    """Of one worker, in its event loop."""

    def __init__(self, database: Database, most: int) -> None:
        self._database = database
        self._most = most
        # So many may be taken at once by lines of this haste, or a lower one.
        self._limits = {
            Haste.FIRST: most,
            Haste.SHORT: min(most, max(2, most - 2)),
            Haste.LONG: max(1, most - 3),
        }
        self._taken = {haste: 0 for haste in Haste}
        self._slots: list[_Slot] = []
        self._waiting: deque[tuple[SharedLine, asyncio.Future[_Slot]]] = deque()
        self._full_until = 0.0
        self._look: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def line(
        self, role: str = SIDE, haste: Haste = Haste.SHORT, settings: Mapping[str, str] = PLAIN
    ) -> SharedLine:
        """A line for one part. Lines of one role have the same settings."""
        return SharedLine(self, role, haste, settings)

    # -- taking and giving back, for lines

    async def take(self, line: SharedLine) -> Connection:
        """A connection with the line's settings in force."""
        while True:
            kept = line.slot
            slot = self._grant(line) or await self._wait(line)
            line.slot, slot.holder = slot, asyncio.current_task()
            connection = slot.connection
            if (
                slot is kept
                and slot.role == line.role
                and connection
                and not connection.is_closed()
            ):
                return connection
            try:
                return await self._make_ready(slot, line)
            except BaseException as error:
                self.give_back(line, drop=True)
                if not (self._slots and isinstance(error, DatabaseUnavailable) and error.passes):
                    raise
                self._full_until = asyncio.get_running_loop().time() + FULL_SECONDS

    def give_back(
        self, line: SharedLine, error: BaseException | None = None, *, drop: bool = False
    ) -> None:
        """The line needs it no more for now."""
        slot = line.slot
        assert slot is not None
        slot.is_busy, slot.holder = False, None
        self._taken[line.haste] -= 1
        connection = slot.connection
        if drop or connection is None or not _is_sound(connection, error):
            self._slots.remove(slot)
            line.slot = None
            if connection is not None:
                connection.terminate()
        else:
            now = slot.used_at = asyncio.get_running_loop().time()
            slot.warm_until = now + WARM_SECONDS if now - line.used_at < WARM_SECONDS else now
            line.used_at = now
            if self._look is None and len(self._slots) > 1:
                self._look_later()
        if self._waiting:
            self._serve_waiting()

    def _grant(self, line: SharedLine) -> _Slot | None:
        """A slot for a line, if it may have one and one is free."""
        if not self._admits(line.haste):
            return None
        slot = line.slot
        if slot is None or slot.line is not line or slot.is_busy:
            slot = self._pick(line)
            if slot is None:
                return None
            slot.line = line
        slot.is_busy = True
        self._taken[line.haste] += 1
        return slot

    def _admits(self, haste: Haste) -> bool:
        taken = self._taken
        if haste is Haste.FIRST:
            return True
        if haste is Haste.LONG and taken[Haste.LONG] >= self._limits[Haste.LONG]:
            return False
        return taken[Haste.SHORT] + taken[Haste.LONG] < self._limits[Haste.SHORT]

    def _pick(self, line: SharedLine) -> _Slot | None:
        """One that nobody is at work with, or a new one, or any that is free; of these, one that has the
        settings."""
        now = asyncio.get_running_loop().time()
        free = [slot for slot in self._slots if not slot.is_busy]
        found = [slot for slot in free if slot.warm_until <= now]
        if not found and self._may_open(now):
            self._slots.append(slot := _Slot())
            return slot
        return min(found or free, key=lambda s: (s.role != line.role, s.used_at), default=None)

    def _may_open(self, now: float) -> bool:
        if self._slots and now < self._full_until:
            return False
        return len(self._slots) + len(self._closing) < self._most

    async def _wait(self, line: SharedLine) -> _Slot:
        if any(slot.holder is asyncio.current_task() for slot in self._slots):
            raise RuntimeError(f"the line {line.role!r} would wait for a connection that it has")
        granted: asyncio.Future[_Slot] = asyncio.get_running_loop().create_future()
        self._waiting.append((line, granted))
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                line.slot = granted.result()
                self.give_back(line)
            raise

    def _serve_waiting(self) -> None:
        """In the order of coming; who may not have one yet is passed."""
        passed: deque[tuple[SharedLine, asyncio.Future[_Slot]]] = deque()
        while self._waiting:
            line, granted = self._waiting.popleft()
            if granted.done():
                continue
            if (slot := self._grant(line)) is None:
                passed.append((line, granted))
            else:
                granted.set_result(slot)
        self._waiting = passed

    # -- connections

    async def _make_ready(self, slot: _Slot, line: SharedLine) -> Connection:
        """Open it if it is not, or does not stand any more, and set what its role needs."""
        connection = slot.connection
        if connection is None or not connection.is_usable():
            if connection is not None:
                connection.terminate()
                slot.connection = None
            connection = slot.connection = await self._database.connect(SIDE)
            slot.role = SIDE
        if slot.role != line.role:
            slot.role = None
            if not self._database.pooled:
                await connection.execute(_settings_of(line))
            slot.role = line.role
        return connection

    def _look_later(self) -> None:
        self._look = asyncio.get_running_loop().call_later(IDLE_SECONDS / 2, self._close_idle)

    def _close_idle(self) -> None:
        """Close what nobody has used for a while, but for the one that was used last."""
        self._look = None
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        for slot in sorted(self._slots, key=lambda slot: slot.used_at):
            if len(self._slots) > 1 and not slot.is_busy and slot.used_at <= oldest:
                self._close(slot)
        if len(self._slots) > 1:
            self._look_later()

    def _close(self, slot: _Slot) -> None:
        """It counts until it is closed."""
        self._slots.remove(slot)
        if slot.line is not None and slot.line.slot is slot:
            slot.line.slot = None
        if slot.connection is not None:
            closing = asyncio.get_running_loop().create_task(_end(slot.connection))
            self._closing.add(closing)
            closing.add_done_callback(self._closed)

    def _closed(self, closing: asyncio.Task[None]) -> None:
        self._closing.discard(closing)
        self._serve_waiting()

    async def close(self) -> None:
        """Close all of them, when no part works any more."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        for slot in list(self._slots):
            self._close(slot)
        await asyncio.gather(*self._closing)


def _is_sound(connection: Connection, error: BaseException | None) -> bool:
    """Whether the next user may have a connection on which this happened."""
    if connection.is_closed() or connection.is_in_transaction():
        return False
    if error is None:
        return True
    if not isinstance(error, Exception):
        return False  # cancelled: a statement may still be on its way
    state = str(getattr(error, "sqlstate", None) or "")
    return state.startswith(_HARMLESS) if state else not is_transient(error)


async def _end(connection: Connection) -> None:
    try:
        await connection.close(timeout=2)
    except Exception:
        connection.terminate()


def _settings_of(line: SharedLine) -> str:
    """The statements that give a session the settings of a role, and its name; all are the code's own."""
    named = {"application_name": f"mainspring:{line.role}:{os.getpid()}", **line.settings}
    return "; ".join(["reset all", *(f"set {name} = '{value}'" for name, value in named.items())])
