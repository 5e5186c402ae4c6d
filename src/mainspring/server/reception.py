"""One call, whatever carried it: who calls, how long it may take, how many of his are at work.

A transport reads the request and writes the answer; what is decided between the two is decided here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from google.protobuf.message import Message

from mainspring.errors import Overloaded, Unauthenticated
from mainspring.server.access.caller import Caller
from mainspring.server.access.callers import Callers, no_longer_good
from mainspring.server.handlers.methods import Method

DEADLINE_SECONDS = 30.0
AFTER_WAIT_SECONDS = 10.0
WATCH_SECONDS = 1.0  # with those of a token that is believed: five seconds
AT_WORK = 64
WAITING = 256
RECEIVED_BYTES = 4 * 1024 * 1024
SENT_BYTES = 16 * 1024 * 1024


class Reception:
    """Lets calls in; counts those of each caller over all transports of a process."""

    def __init__(self, callers: Callers, *, at_work: int = AT_WORK, waiting: int = WAITING) -> None:
        self._callers = callers
        self._most = {"work": at_work, "wait": waiting}
        self._here: Counter[tuple[str, str]] = Counter()
        self._waits: dict[Caller, set[asyncio.Timeout]] = {}
        self._watch: asyncio.Task[None] | None = None

    async def caller(self, authorizations: Sequence[str], names: Sequence[str]) -> Caller:
        """Who calls: by his header, or by the names in his certificate."""
        if len(authorizations) > 1:
            raise Unauthenticated("the authorization is given more than once")
        return await self._callers.find(authorizations[0] if authorizations else None, names)

    async def answer(
        self, method: Method, caller: Caller, request: Message, seconds: float | None = None
    ) -> Message:
        """The answer of a call, which may take so long as its caller says, or as long as is usual."""
        wait = max(0.0, method.wait_seconds(request))
        usual = wait + AFTER_WAIT_SECONDS if wait else DEADLINE_SECONDS
        with self._counted(caller, "wait" if wait else "work"):
            async with asyncio.timeout(usual if seconds is None else seconds):
                if wait:
                    async with self._watched(caller):
                        response = await method.answer(caller, request)
                else:
                    response = await method.answer(caller, request)
        if (size := response.ByteSize()) > SENT_BYTES:
            raise Overloaded(f"the answer has {size} bytes: ask for less at once")
        return response

    async def stream(
        self, method: Method, caller: Caller, request: Message
    ) -> AsyncIterator[Message]:
        """The answers of a stream; it ends by itself."""
        with self._counted(caller, "wait"):
            async for response in method.stream(caller, request):
                if caller.proof is not None and not await self._callers.is_good(caller):
                    raise no_longer_good(caller.proof)
                yield response

    def here(self, kind: str) -> int:
        """How many calls of a kind (work, wait) are here just now."""
        return sum(count for (_, of), count in self._here.items() if of == kind)

    @asynccontextmanager
    async def _watched(self, caller: Caller) -> AsyncIterator[None]:
        """While he waits his token may be revoked: then he waits no longer."""
        if caller.proof is None:
            yield
            return
        try:
            async with asyncio.timeout(None) as patience:
                self._waits.setdefault(caller, set()).add(patience)
                if self._watch is None or self._watch.done():
                    self._watch = asyncio.create_task(self._watching(), name="mainspring.callers")
                try:
                    yield
                finally:
                    self._waits[caller].discard(patience)
                    if not self._waits[caller]:
                        del self._waits[caller]
        except TimeoutError:
            if patience.expired():
                raise no_longer_good(caller.proof) from None
            raise

    async def _watching(self) -> None:
        """One look for all the waiting calls of a caller."""
        while self._waits:
            await asyncio.sleep(WATCH_SECONDS)
            for caller in list(self._waits):
                if not await self._callers.is_good(caller):
                    for patience in self._waits.get(caller, ()):
                        patience.reschedule(asyncio.get_running_loop().time())

    @contextmanager
    def _counted(self, caller: Caller, kind: str) -> Iterator[None]:
        place = (caller.name, kind)
        if self._here[place] >= self._most[kind]:
            raise Overloaded(
                f"{self._here[place]} calls of {caller.name!r} are here already ({kind})"
            )
        self._here[place] += 1
        try:
            yield
        finally:
            self._here[place] -= 1
            if not self._here[place]:
                del self._here[place]
