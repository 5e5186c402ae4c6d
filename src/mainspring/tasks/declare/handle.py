"""A call that was enqueued: where it is, and what it came to."""

from __future__ import annotations

from typing import Generic, NamedTuple, Protocol, TypeVar, cast
from uuid import UUID

import msgspec

from mainspring.declaring import Seconds
from mainspring.errors import InvalidKey, NotFound, TaskFailed
from mainspring.tasks.declare.unique import OWN_RUN, Placed
from mainspring.tasks.declare.wait import wait_for, wait_for_sync

R_co = TypeVar("R_co", covariant=True)


def own_id(task: str, id: str) -> str:
    """The id that the engine gave to a call, as it is stored, however it is written."""
    try:
        return str(UUID(id))
    except (ValueError, AttributeError, TypeError):
        raise InvalidKey(
            f"{id!r} is no id of a call of {task!r}, which is a UUID as text (handle.id); a key of your "
            "own is shown by `mainspring tasks show <key>`, and enqueued again returns the call there"
        ) from None


class CallState(NamedTuple):
    """Where a call is: a state as `Handle.status` returns it, with the result or the last error."""

    state: str
    result: object
    error: str | None


class CallLookup(Protocol):
    """What can look a call up: the application."""

    async def look_up(self, handle: Handle[object]) -> CallState: ...
    def look_up_sync(self, handle: Handle[object]) -> CallState: ...


class Handle(msgspec.Struct, Generic[R_co], frozen=True, gc=False):
    """A durable call. `outcome`: what enqueueing it came to, which is "new" unless it has a key.

    "after": one with its key runs, and this one runs when that has ended. "restarted": it took the place
    of a parked one. Else the handle is that of another call: "existing" (it waits, or runs), "replaced" and
    "debounced" (it has this call's arguments now), "parked", "done".
    """

    task: str
    key: str
    id: str
    outcome: Placed
    _lookup: CallLookup

    @property
    def is_new(self) -> bool:
        """Whether this call will have a run of its own."""
        return self.outcome in OWN_RUN

    def __repr__(self) -> str:
        return f"<Handle of {self.task} {self.id}>"

    async def status(self) -> str:
        """scheduled, waiting, running, parked, done, cancelled or expired."""
        return (await self._lookup.look_up(self)).state

    def status_sync(self) -> str:
        """The same for code that is not async."""
        return self._lookup.look_up_sync(self).state

    async def result(self, timeout: Seconds | None = None) -> R_co:
        """Wait for the end; returns the result; raises TaskFailed or ResultTimeout (seconds).

        A database that goes away meanwhile is waited for.
        """
        return await wait_for(lambda: self._lookup.look_up(self), self._ended, self._late, timeout)

    def result_sync(self, timeout: Seconds | None = None) -> R_co:
        """The same for code that is not async."""
        return wait_for_sync(
            lambda: self._lookup.look_up_sync(self), self._ended, self._late, timeout
        )

    def _ended(self, found: CallState) -> tuple[R_co] | None:
        state, result, error = found
        if state == "done":
            return (cast("R_co", result),)
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

    def _late(self, found: CallState, seconds: float) -> str:
        failed = f", its last run failed with {found.error.splitlines()[0]}" if found.error else ""
        return (
            f"task {self.task!r} {self.id} is still {found.state} after {seconds:g} s{failed}; "
            f"ask `mainspring why {self.task} {self.id}`"
        )
