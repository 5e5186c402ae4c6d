"""What hooks are told of calls on their way to the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from mainspring.declaring import Seconds
from mainspring.hooks.traced import with_trace

if TYPE_CHECKING:
    from mainspring.tasks.declare.handle import Handle
    from mainspring.tasks.declare.task import Call


class Enqueueing:
    """Calls that are about to be enqueued together. A hook may change how, or refuse by an exception."""

    __slots__ = ("calls", "handles")

    def __init__(self, calls: Sequence[Call[object]]) -> None:
        self.calls = calls
        self.handles: Sequence[Handle[object]] = ()  # of them, when they are enqueued

    def __repr__(self) -> str:
        return f"<Enqueueing of {len(self.calls)} calls>"

    @property
    def tasks(self) -> list[str]:
        """The names of their tasks, each once."""
        return sorted({call.task.name for call in self.calls})

    def enqueued(self, handles: Sequence[Handle[object]]) -> None:
        """They are: a hook finds their handles after its `yield`."""
        self.handles = handles

    def set_trace(self, traceparent: str) -> None:
        """Carry a W3C `traceparent` with each of them, but those that are run by actors elsewhere."""
        self.calls = [
            call
            if call.task.settings.remote
            else msgspec.structs.replace(call, payload=with_trace(call.payload, traceparent))
            for call in self.calls
        ]

    def set_options(
        self,
        *,
        at: datetime | None = None,
        delay: Seconds | None = None,
        priority: int | None = None,
        group: str | None = None,
        expires_at: datetime | None = None,
    ) -> None:
        """Give all of them options, which mean what they mean for `task.options(...)`."""
        given = {
            "at": at,
            "delay": delay,
            "priority": priority,
            "group": group,
            "expires_at": expires_at,
        }
        options = {name: value for name, value in given.items() if value is not None}
        self.calls = [
            msgspec.structs.replace(call, options=replace(call.options, **options))  # type: ignore[arg-type]
            for call in self.calls
        ]
