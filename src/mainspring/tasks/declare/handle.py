"""A call that was enqueued: where it is, and what it came to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar, cast
from uuid import UUID

import msgspec

from mainspring.db.caller import AsyncCaller, Caller, SyncCaller
from mainspring.declaring import Seconds
from mainspring.errors import InvalidKey, InvalidSetting, NotFound, ResultTimeout, TaskFailed
from mainspring.tasks.declare.progress import HowFar, Progress
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
    async def cancel(
        self, handle: Handle[object], reason: str | None, on: Caller | None
    ) -> str | None: ...
    def cancel_sync(
        self, handle: Handle[object], reason: str | None, on: Caller | None
    ) -> str | None: ...
    async def run_now(self, handle: Handle[object], on: Caller | None) -> str | None: ...
    def run_now_sync(self, handle: Handle[object], on: Caller | None) -> str | None: ...
    async def how_far(self, handle: Handle[object]) -> HowFar: ...
    def how_far_sync(self, handle: Handle[object]) -> HowFar: ...


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

    async def progress(self, timeout: Seconds | None = None) -> AsyncIterator[Progress]:
        """What its runs say by `ctx.progress(0.4, "rows")`, as it comes, until the call has ended.

        The last word comes at once. `timeout`: ResultTimeout after so many seconds without a word.
        """
        said: Progress | None = None
        is_over = False
        while not is_over:
            found = await wait_for(
                lambda: self._lookup.how_far(self), _news_since(said), self._no_word, timeout
            )
            is_over = self._check_known(found).state in _OVER
            if found.progress is not None and found.progress != said:
                said = found.progress
                yield said

    def progress_sync(self, timeout: Seconds | None = None) -> Iterator[Progress]:
        """The same for code that is not async."""
        said: Progress | None = None
        is_over = False
        while not is_over:
            found = wait_for_sync(
                lambda: self._lookup.how_far_sync(self), _news_since(said), self._no_word, timeout
            )
            is_over = self._check_known(found).state in _OVER
            if found.progress is not None and found.progress != said:
                said = found.progress
                yield said

    def _check_known(self, found: HowFar) -> HowFar:
        if found.state == "unknown":
            raise self._unknown()
        return found

    def _no_word(self, found: HowFar, seconds: float) -> str:
        return (
            f"task {self.task!r} {self.id} is {found.state} and has said nothing new of its progress for "
            f"{seconds:g} s"
        )

    async def cancel(
        self,
        *,
        reason: str | None = None,
        wait: Seconds | None = None,
        on: AsyncCaller | None = None,
    ) -> str:
        """Call it off, whether it waits or runs; answers how it stands then.

        'cancelled': it is over. 'cancelling': its run is told to end, and nothing starts it again. 'done'
        or 'expired': it had ended before. `wait`: so many seconds for the end of a run, which may still be
        'done'. `on`: your own connection; the run is told when your transaction is committed.
        """
        _check_wait(wait, on)
        state = self._known(await self._lookup.cancel(self, reason, on))
        if state != "cancelling" or wait is None:
            return state
        try:
            return await wait_for(lambda: self._lookup.look_up(self), _over, self._late, wait)
        except ResultTimeout:
            return state

    def cancel_sync(
        self,
        *,
        reason: str | None = None,
        wait: Seconds | None = None,
        on: SyncCaller | None = None,
    ) -> str:
        """The same for code that is not async."""
        _check_wait(wait, on)
        state = self._known(self._lookup.cancel_sync(self, reason, on))
        if state != "cancelling" or wait is None:
            return state
        try:
            return wait_for_sync(lambda: self._lookup.look_up_sync(self), _over, self._late, wait)
        except ResultTimeout:
            return state

    async def run_now(self, *, on: AsyncCaller | None = None) -> str:
        """Have it run now if it is for later: scheduled, or in the backoff of a retry.

        Answers how it stands then: 'waiting', or what it was already ('running', 'parked', 'done' ...)."""
        return self._known(await self._lookup.run_now(self, on))

    def run_now_sync(self, *, on: SyncCaller | None = None) -> str:
        """The same for code that is not async."""
        return self._known(self._lookup.run_now_sync(self, on))

    def _known(self, state: str | None) -> str:
        if state is None:
            raise self._unknown()
        return state

    def _unknown(self) -> NotFound:
        return NotFound(
            f"task {self.task!r} {self.id} is neither waiting nor in history: "
            "it was not committed, or its history was dropped by age"
        )

    def _ended(self, found: CallState) -> tuple[R_co] | None:
        state, result, error = found
        if state == "done":
            return (cast("R_co", result),)
        if state == "unknown":
            raise self._unknown()
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


_OVER = ("done", "cancelled", "expired", "parked", "unknown")


def _news_since(said: Progress | None) -> Callable[[HowFar], tuple[HowFar] | None]:
    """Whether there is another word than this, or the end."""

    def judge(found: HowFar) -> tuple[HowFar] | None:
        is_new = found.progress is not None and found.progress != said
        return (found,) if is_new or found.state in _OVER else None

    return judge


def _over(found: CallState) -> tuple[str] | None:
    return (found.state,) if found.state in ("done", "cancelled", "expired", "parked") else None


def _check_wait(wait: Seconds | None, on: Caller | None) -> None:
    if wait is not None and on is not None:
        raise InvalidSetting(
            f"wait={wait!r} and on= are both given: the run is told when your transaction is committed, "
            "so wait after that, with result() or another cancel(wait=...)"
        )
