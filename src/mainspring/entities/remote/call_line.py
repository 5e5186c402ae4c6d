"""A line of runs that wait for one method of one stage elsewhere: what goes into the next call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from mainspring.entities.remote.items import Bad, StageRef
from mainspring.errors import MainspringError

if TYPE_CHECKING:
    from mainspring.entities.remote.peer import StagePeer


class Weighed(Protocol):
    """Something that has an id and a size."""

    @property
    def id(self) -> str: ...

    @property
    def size(self) -> int: ...


Item = TypeVar("Item", bound=Weighed)
Found = TypeVar("Found")


class TooLarge(MainspringError, code="too_large"):
    """An entity, or what the service answered about it, is too large for a call."""


class CallWish(msgspec.Struct, Generic[Item, Found], eq=False):
    """An entity that waits for the service."""

    item: Item
    key: Hashable
    now: float  # as its code is to see the time
    answer: asyncio.Future[Found | Bad]


SomeWish: TypeAlias = "CallWish[Any, Any]"
SomeLine: TypeAlias = "CallLine[Any, Any]"


class Size(NamedTuple):
    """What one call may carry."""

    items: int
    bytes: int


class CallLine(Generic[Item, Found]):
    """Those that wait for one method of one stage."""

    def __init__(
        self,
        peer: StagePeer,
        ref: StageRef,
        size: Callable[[], Size],
        call: Callable[[datetime, Sequence[Item]], Awaitable[list[tuple[str, Found]]]],
        word: str,
    ) -> None:
        self._word = word
        self.ref = ref
        self.under_way = 0
        self.call = call
        self._peer = peer
        self._size = size
        self._waiting: deque[CallWish[Item, Found]] = deque()
        self._suspects: deque[CallWish[Item, Found]] = deque()  # each is to go alone
        self._ready: deque[list[CallWish[Item, Found]]] = deque()  # halves of calls that failed

    async def __call__(self, item: Item, *, now: float, alone: bool) -> Found | Bad:
        """The service's answer; EndpointAway, PutOff, TooLarge or StageFailed where there is none."""
        if not self._peer.has_met(self.ref):
            await self._peer.meet(self.ref)
        if item.size > (most := self._size().bytes):
            raise TooLarge(f"the entity has {item.size} bytes, and a call takes {most}")
        answer: asyncio.Future[Found | Bad] = asyncio.get_running_loop().create_future()
        key = (self._word, self.ref, item.id)
        alone = alone or self._peer.standing.is_suspect(key)
        (self._suspects if alone else self._waiting).append(CallWish(item, key, now, answer))
        self._peer.pump_soon()
        return await answer

    def began(self) -> None:
        """A call of it."""
        self.under_way += 1

    def ended(self) -> None:
        self.under_way -= 1

    @property
    def has_suspect(self) -> bool:
        while self._suspects and self._suspects[0].answer.done():
            self._suspects.popleft()
        return bool(self._suspects)

    def take_suspect(self) -> list[CallWish[Item, Found]]:
        """The first that is to go alone."""
        return [self._suspects.popleft()] if self.has_suspect else []

    def take(self) -> list[CallWish[Item, Found]]:
        """What goes into the next call: halves first, else what waits, as far as it fits."""
        while self._ready:
            if batch := [wish for wish in self._ready.popleft() if not wish.answer.done()]:
                return batch
        size, weight = self._size(), 0
        batch, ids, left = [], set[str](), list[CallWish[Item, Found]]()
        while self._waiting and len(batch) < size.items:
            wish = self._waiting.popleft()
            if wish.answer.done():
                continue
            wanted = wish.item.size
            if wish.item.id in ids or (batch and weight + wanted > size.bytes):
                left.append(wish)  # a call has each id once: the same entity may run in both lanes
                continue
            weight += wanted
            ids.add(wish.item.id)
            batch.append(wish)
        self._waiting.extendleft(reversed(left))
        return batch

    def halve(self, batch: list[CallWish[Item, Found]]) -> None:
        middle = len(batch) // 2
        self._ready.extend((batch[:middle], batch[middle:]))

    def put_off(self, error: Exception) -> None:
        """Nobody waits any longer: the service is away."""
        batches, waiting, suspects = self._ready, self._waiting, self._suspects
        self._ready, self._waiting, self._suspects = deque(), deque(), deque()
        for batch in (*batches, list(waiting), list(suspects)):
            tell(batch, error)


def tell(batch: Sequence[SomeWish], error: Exception) -> None:
    """Each of these has this error."""
    for wish in batch:
        if not wish.answer.done():
            wish.answer.set_exception(error)
            wish.answer.exception()  # seen: its run may have been stopped
