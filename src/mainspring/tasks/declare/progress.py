"""How far a call is, as its runs said last."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class Progress(NamedTuple):
    """What `ctx.progress(0.4, "rows")` said last: a part of the whole, and a note."""

    done: float
    note: str | None
    attempt: int
    at: datetime


class HowFar(NamedTuple):
    """Where a call is, and how far."""

    state: str
    progress: Progress | None
