"""What a worker's row says of the endpoints that its queues need. Pure memory, no I/O."""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.db.sql import as_rows
from mainspring.endpoint import Endpoint
from mainspring.kernel.settings import QueueSettings

# What the row has while everybody is there.
NOBODY = "[]"


class AwayNews:
    """It is sent with a beat, and only when it has changed."""

    def __init__(self, queues: Iterable[QueueSettings]) -> None:
        self._queues: dict[Endpoint, list[str]] = {}
        for queue in queues:
            if queue.endpoint is not None:
                self._queues.setdefault(queue.endpoint, []).append(queue.name)
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
        self._sent = as_rows(list(shown))
        return None if self._sent == self._told else self._sent

    def answered(self) -> None:
        """The row says it now."""
        self._told = self._sent
