"""What a source asks of a broker: which partitions there are, and the records of one from an offset on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mainspring.errors import MainspringError
from mainspring.sources.declare.record import BrokerRecord


class OffsetGone(MainspringError, code="offset_gone"):
    """The broker does not have the records from a stored offset on any more, or never had them."""


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Records in their order, and the offset after them; `end` is the broker's own, where it is known."""

    records: list[BrokerRecord]
    next: int
    end: int | None


class RecordStream(Protocol):
    """The records of one partition, from an offset on. Closed by who opened it."""

    async def read(self, most: int, seconds: float) -> RecordChunk:
        """What there is, as soon as there is any; none after so many seconds.

        Raises EndpointAway, or OffsetGone.
        """
        ...

    async def close(self) -> None: ...


class BrokerClient(Protocol):
    """A broker's client in one worker. What it raises when the broker is away is EndpointAway."""

    async def partitions(self) -> list[str]:
        """The partitions that there are."""
        ...

    async def offset_at(self, partition: str, start: str) -> int:
        """The first offset of 'earliest', 'latest', or an instant (ISO)."""
        ...

    async def read_from(self, partition: str, offset: int) -> RecordStream:
        """The records from this offset on."""
        ...

    def note(self, partition: str, next: int) -> None:
        """Tell the broker, for its own tools, how far records were taken in. Nothing depends on it."""
        ...

    async def probe(self) -> None:
        """Returns if the broker is there."""
        ...

    async def close(self) -> None: ...


class RecordBroker(Protocol):
    """What an application declares: where records come from."""

    @property
    def address(self) -> str:
        """As people are told."""
        ...

    def client(self, source: str) -> BrokerClient:
        """A client for one worker; nothing is opened yet."""
        ...
