"""A call that was enqueued: where it is, and what it came to."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from mainspring.errors import NotFound, ResultTimeout, TaskFailed

R = TypeVar("R")


class Lookup(Protocol):
    """What can look a call up: the application."""

    async def look_up(self, handle: Handle[Any]) -> tuple[str, Any, str | None]: ...
    def look_up_sync(self, handle: Handle[Any]) -> tuple[str, Any, str | None]: ...


class Handle(msgspec.Struct, Generic[R], frozen=True, gc=False):
    """A durable call. `is_new` is False when a uniqueness key returned the call that was there."""

    task: str
    key: str
    id: str
    shard: int
    is_new: bool
    _lookup: Lookup

    def __repr__(self) -> str:
        return f"<Handle of {self.task} {self.id}>"

    async def status(self) -> str:
        """scheduled, waiting, running, parked, done, cancelled or expired."""
        return (await self._lookup.look_up(self))[0]

    def status_sync(self) -> str:
        """The same for code that is not async."""
        return self._lookup.look_up_sync(self)[0]

    async def result(self, timeout: float | None = None) -> R:
        """Wait for the end and answer the result; raises TaskFailed or ResultTimeout (seconds)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.01
        while True:
            found = await self._lookup.look_up(self)
            if (ended := self._ended(found)) is not None:
                return ended[0]  # type: ignore[no-any-return]
            self._check_deadline(deadline, timeout, found[0])
            await asyncio.sleep(pause)
            pause = min(0.5, pause * 1.5)

    def result_sync(self, timeout: float | None = None) -> R:
        """The same for code that is not async."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.01
        while True:
            found = self._lookup.look_up_sync(self)
            if (ended := self._ended(found)) is not None:
                return ended[0]  # type: ignore[no-any-return]
            self._check_deadline(deadline, timeout, found[0])
            time.sleep(pause)
            pause = min(0.5, pause * 1.5)

    def _ended(self, found: tuple[str, Any, str | None]) -> tuple[Any] | None:
        state, result, error = found
        if state == "done":
            return (result,)
        if state == "unknown":
            raise NotFound(
                f"task {self.task!r} {self.id} is neither waiting nor in history: "
                "it was not committed, or its history was dropped by age"
            )
        if state in ("parked", "cancelled", "expired"):
            reason = f": {error.splitlines()[0]}" if error else ""
            raise TaskFailed(
                f"task {self.task!r} {self.id} was {state}{reason}", outcome=state, error=error
            )
        return None

    def _check_deadline(self, deadline: float | None, timeout: float | None, state: str) -> None:
        if deadline is not None and time.monotonic() >= deadline:
            raise ResultTimeout(
                f"task {self.task!r} {self.id} is still {state} after {timeout:g} s"
            )
