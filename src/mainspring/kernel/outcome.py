"""What a run can come to. Handlers return one of these, or raise to fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec

# Writes of a layer that belong to a settle: called with the settling connection, in its transaction.
Write = Callable[[Any], Awaitable[None]]


class Done(msgspec.Struct, frozen=True):
    """The visit is over. `result` is JSON text."""

    result: str | None = None
    write: Write | None = None


class Again(msgspec.Struct, frozen=True):
    """The visit goes on later: at a time, or after some seconds."""

    at: datetime | None = None
    after: float = 0.0
    write: Write | None = None


class Retry(msgspec.Struct, frozen=True):
    """The run failed; the visit is tried again after a backoff."""

    after: float
    error_type: str
    error: str


class Parked(msgspec.Struct, frozen=True):
    """The run failed for good; the visit waits for an operator."""

    error_type: str
    error: str


class Cancelled(msgspec.Struct, frozen=True):
    """The visit was called off."""

    error: str | None = None


class Expired(msgspec.Struct, frozen=True):
    """The visit was not started in time, and is not any more."""


Outcome = Done | Again | Retry | Parked | Cancelled | Expired
