"""A record of a broker as a source's function gets it. Pure data, no I/O."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")


class BrokerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record. `value` is None for a tombstone; `topic` is the subject in NATS."""

    topic: str
    partition: str  # "orders/0"; in NATS the stream and the filter, "ORDERS/orders.*"
    offset: int  # in NATS the stream's sequence
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    time_ms: int = 0  # when it was made, as the broker says; 0: unknown

    @property
    def time(self) -> datetime:
        """When it was made, as the broker says."""
        return datetime.fromtimestamp(self.time_ms / 1000, UTC)

    def header(self, name: str) -> bytes | None:
        """The last header of that name."""
        return next((value for known, value in reversed(self.headers) if known == name), None)

    @overload
    def json(self) -> Any: ...
    @overload
    def json(self, type: type[T]) -> T: ...
    def json(self, type: Any = Any) -> Any:
        """The value as JSON, of this type if one is given."""
        return msgspec.json.decode(self.value or b"", type=type)
