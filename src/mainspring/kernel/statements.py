"""The kernel's statements by name, and what is common to those who ask; queues become known by them.

The rooms' `sql/` are the whole protocol with the database.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mainspring.db.sql import Statement, load
from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting

if TYPE_CHECKING:
    from mainspring.kernel.settings import QueueSettings

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


async def register_queues(tx: Tx, queues: Iterable[QueueSettings], *, update: bool) -> None:
    """Write the queues' settings; an operator's change stands until the declaration changes."""
    await tx.run(SQL["register_queues"], update=update, **register_arguments(queues))


def register_arguments(queues: Iterable[QueueSettings]) -> dict[str, object]:
    """Names and declarations, as register_queues.sql takes them."""
    listed = list(queues)
    return {
        "names": [q.name for q in listed],
        "declared": [msgspec.json.encode(q.declared()).decode() for q in listed],
    }
