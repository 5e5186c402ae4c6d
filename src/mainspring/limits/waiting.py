"""What waits for a limit: a visit, as far as limits are concerned."""

from __future__ import annotations

from typing import Protocol, TypeAlias, TypeVar

Position: TypeAlias = tuple[float, str]  # when it is due, and its key


class Waits(Protocol):
    """A visit: its group lies in one shard, and others come before or after it."""

    @property
    def shard(self) -> int: ...

    @property
    def group(self) -> str | None: ...

    @property
    def priority(self) -> int: ...

    @property
    def position(self) -> Position: ...


V = TypeVar("V", bound=Waits)


def urgency(visit: Waits) -> tuple[int, Position]:
    """By priority, then the oldest first."""
    return (-visit.priority, visit.position)
