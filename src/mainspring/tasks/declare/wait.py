"""Waiting for the end of something durable: look, pause, look again, through any outage."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Generic, TypeAlias, TypeVar

from mainspring.db.connect.outage import is_transient
from mainspring.declaring import Seconds
from mainspring.errors import InvalidSetting, ResultTimeout

Found = TypeVar("Found")
T = TypeVar("T")
FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.5

# The result once there is one; raises if there never will be.
Judge: TypeAlias = Callable[[Found], tuple[T] | None]
Late: TypeAlias = Callable[[Found, float], str]  # what to say when so many seconds are over


async def wait_for(
    look: Callable[[], Awaitable[Found]],
    ended: Judge[Found, T],
    late: Late[Found],
    timeout: Seconds | None,
) -> T:
    """Look until it has ended. A database that is away is waited for like the end itself."""
    waiting = _Waiting(ended, late, timeout)
    while True:
        try:
            found = await look()
        except Exception as error:
            waiting.missed(error)
        else:
            if (result := waiting.saw(found)) is not None:
                return result[0]
        await asyncio.sleep(waiting.pause())


def wait_for_sync(
    look: Callable[[], Found], ended: Judge[Found, T], late: Late[Found], timeout: Seconds | None
) -> T:
    """The same for code that is not async."""
    waiting = _Waiting(ended, late, timeout)
    while True:
        try:
            found = look()
        except Exception as error:
            waiting.missed(error)
        else:
            if (result := waiting.saw(found)) is not None:
                return result[0]
        time.sleep(waiting.pause())


class _Waiting(Generic[Found, T]):
    def __init__(self, ended: Judge[Found, T], late: Late[Found], timeout: Seconds | None) -> None:
        self._ended = ended
        self._late = late
        if timeout is not None and not isinstance(timeout, (int, float, timedelta)):
            raise InvalidSetting(
                f"timeout must be seconds (a number, or a timedelta) or None, got {timeout!r}"
            )
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        self._timeout = math.inf if seconds is None else seconds
        self._deadline = time.monotonic() + self._timeout
        self._pause = FIRST_PAUSE

    def saw(self, found: Found) -> tuple[T] | None:
        result = self._ended(found)
        if result is None and self._is_over:
            raise ResultTimeout(self._late(found, self._timeout))
        return result

    def missed(self, error: Exception) -> None:
        """A look failed; the next may not."""
        if not is_transient(error):
            raise error
        if self._is_over:
            raise ResultTimeout(
                f"no answer from the database at the end of {self._timeout:g} s: {error}"
            ) from error

    def pause(self) -> float:
        pause, self._pause = self._pause, min(LONGEST_PAUSE, self._pause * 1.5)
        return pause

    @property
    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline
