"""One call: its request, how its answer is read, how long it may take, whether it may be repeated."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message

T = TypeVar("T")
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
AFTER_WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RemoteCall(Generic[T]):
    """A call that is ready to be sent; sent again it is the same call, with the same ids."""

    method: str
    request: Message
    answer: type[Message]
    read: Callable[[Any], T]
    wait: float = 0.0  # for which the server may keep the answer
    repeatable: bool = True

    @property
    def path(self) -> str:
        return f"/mainspring.v1.{self.method}"


class Sends(Protocol):
    """What sends calls: a client."""

    def send(self, call: RemoteCall[T]) -> T: ...


class AsyncSends(Protocol):
    """The same to be awaited."""

    async def send(self, call: RemoteCall[T]) -> T: ...


class Attempts:
    """The attempts of a call within its time: only one that reached nobody is followed by another."""

    def __init__(self, call: RemoteCall[Any], seconds: float) -> None:
        self._until = (
            time.monotonic() + seconds + (AFTER_WAIT_SECONDS if call.wait else 0) + call.wait
        )
        self._repeatable = call.repeatable
        self._pause = FIRST_PAUSE

    @property
    def left(self) -> float:
        """Seconds that the next attempt may take."""
        return max(0.001, self._until - time.monotonic())

    def pause_after(self, status: str) -> float | None:
        """Seconds until the next attempt; None: that was the last."""
        if status != "UNAVAILABLE" or not self._repeatable:
            return None
        pause = self._pause * (0.5 + random.random() / 2)
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
        return pause if time.monotonic() + pause < self._until else None
