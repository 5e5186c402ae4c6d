"""An endpoint: somebody elsewhere whom the runs of some queues need, such as a stage service or a broker.

That it is away is one fact about it, not a failure of each visit. While it is away, nothing of its queues
is read, and nothing starts. It is tried again, ever more rarely. When it is back, one run goes first,
whichever of its queues that is of; each success lets twice as many go. Of one worker; used by its event
loop, and read by its heart. It knows nothing of visits: layers make it, and the kernel asks it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime

from msgspec import json

from mainspring.errors import EndpointAway
from mainspring.failure_text import clean_text

log = logging.getLogger("mainspring")
# Bytes of a reason that others are shown.
REASON_BYTES = 400
# One that is away is tried after so long, and ever more rarely up to this (seconds).
FIRST_TRIAL = 0.5
LONGEST_REST = 30.0
# By this part these times differ, so that workers do not come in step.
APART = 0.2
# From so many runs at once on, one that was away is trusted again.
TRUSTED = 256
# What the row has while everybody is there.
NOBODY = "[]"


class Endpoint:
    """Whether somebody is there. Starts as being there.

    `probe` tries it: it returns when it is back, and raises when it is not.
    """

    def __init__(self, name: str, probe: Callable[[], Awaitable[None]]) -> None:
        self.name = name
        self.reason: str | None = None  # why it is away; None while it is there
        self.away_since: datetime | None = None
        self.most: int | None = None  # runs at once, while it is coming back
        self.running = 0  # of all its queues
        self._probe = probe
        self._rest = FIRST_TRIAL
        self._trying: asyncio.Task[None] | None = None
        self._told: list[Callable[[], None]] = []

    @property
    def is_away(self) -> bool:
        return self.reason is not None

    def when_back(self, told: Callable[[], None]) -> None:
        """Have this called each time that more runs may start."""
        self._told.append(told)

    def left(self, error: EndpointAway) -> None:
        """A run found it away. The first moment counts and is logged; the newest reason is shown."""
        self.reason = self._why(error)
        if self.away_since is None:
            self.away_since = datetime.now(UTC)
            log.warning("endpoint.away", extra={"endpoint": self.name, "reason": self.reason})
        if self._trying is None or self._trying.done():
            self._try_soon(max(self._rest, error.retry_after or 0.0))

    def _why(self, error: Exception) -> str:
        """What the error says, but not once more of whom."""
        return str(error).removeprefix(f"{self.name}: ")

    def _try_soon(self, rest: float) -> None:
        self._trying = asyncio.get_running_loop().create_task(self._try(rest))

    async def _try(self, rest: float) -> None:
        while True:
            await asyncio.sleep(rest * random.uniform(1 - APART, 1 + APART))
            rest = self._rest = min(LONGEST_REST, 2 * self._rest)
            try:
                await self._probe()
            except EndpointAway as error:
                self.reason = self._why(error)
                rest = max(rest, error.retry_after or 0.0)
            except Exception as error:
                self.reason = f"{type(error).__name__}: {error}"
            else:
                break
        self.back()

    def back(self) -> None:
        """It is there again."""
        self.reason, self.most = None, 1
        self._tell()

    def succeeded(self) -> None:
        """A run had what it needed."""
        if self.most is None or self.is_away:
            return
        if (since := self.away_since) is not None:
            seconds = round((datetime.now(UTC) - since).total_seconds(), 1)
            log.info("endpoint.back", extra={"endpoint": self.name, "seconds": seconds})
        self._rest, self.away_since = FIRST_TRIAL, None
        self.most = 2 * self.most if 2 * self.most < TRUSTED else None
        self._tell()

    def _tell(self) -> None:
        for told in self._told:
            told()

    @property
    def has_room(self) -> bool:
        """Whether one more run may start."""
        return not self.is_away and (self.most is None or self.running < self.most)

    def began(self) -> None:
        """A run of one of its queues."""
        self.running += 1

    def ended(self) -> None:
        self.running -= 1

    def shown(self) -> dict[str, object] | None:
        """As operators are told; None while it is there and trusted. Called by the heart's thread."""
        reason, since, most = self.reason, self.away_since, self.most
        if since is None or (reason is None and most is None):
            return None
        return {
            "endpoint": clean_text(self.name, REASON_BYTES),
            "since": since.isoformat(timespec="seconds"),
            "reason": None if reason is None else clean_text(reason, REASON_BYTES),
            "at_once": None if reason is not None else most,
        }

    async def close(self) -> None:
        """Try it no more."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.gather(self._trying, return_exceptions=True)


class AwayNews:
    """What a worker's row says of its endpoints: sent with a beat, and only when it has changed."""

    def __init__(self, needs: Iterable[tuple[str, Endpoint | None]]) -> None:
        """Queues, with whom their runs need."""
        self._queues: dict[Endpoint, list[str]] = {}
        for queue, endpoint in needs:
            if endpoint is not None:
                self._queues.setdefault(endpoint, []).append(queue)
        self._sent = self._told = NOBODY

    def joined(self) -> None:
        """The row is a new one."""
        self._told = NOBODY

    def news(self) -> str | None:
        """What the row should say; None if it says so."""
        shown = (
            {**found, "queues": names}
            for endpoint, names in self._queues.items()
            if (found := endpoint.shown()) is not None
        )
        self._sent = json.encode(list(shown)).decode()
        return None if self._sent == self._told else self._sent

    def answered(self) -> None:
        """The row says it now."""
        self._told = self._sent
