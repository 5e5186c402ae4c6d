"""The kernel's statements by name, and what is common to questions.

The rooms' `sql/` are the whole protocol with the database.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from mainspring.db.sql import Statement, load
from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting

SQL: dict[str, Statement] = load("mainspring.kernel")
PAGE_MOST = 500


class ClockReading(NamedTuple):
    """What the database's clock says."""

    now: datetime


async def read_now(tx: Tx) -> datetime:
    """The engine's time."""
    return (await tx.one(SQL["read_clock"], ClockReading)).now


def check_page(limit: int) -> int:
    """The size of a page, if it can be one."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= PAGE_MOST:
        raise InvalidSetting(f"limit must be 1 to {PAGE_MOST}, got {limit!r}; read page by page")
    return limit


def decoded(text: str | None) -> Any:
    """A JSON column, which travels as text."""
    return None if text is None else msgspec.json.decode(text)
