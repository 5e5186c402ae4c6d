"""The audit: what operators ordered, noted in the transaction that carries the order out.

An order without its row, or a row without its order, there is not. Looks and dry runs leave none.
Who orders is told by whoever opens the door (`ordered_by`): the command line, a server, the console.
Values of payloads are never in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Literal

import msgspec

from mainspring.db.sql import decoded
from mainspring.db.tx import Tx
from mainspring.declaring import check_page
from mainspring.failure_text import clean_text
from mainspring.operate.statements import SQL

DETAIL_BYTES = 4_000
Door = Literal["python", "cli", "grpc", "http", "console"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Who orders, by which door, from where, and why."""

    actor: str
    via: Door = "python"
    address: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PastOrder:
    """An order that was carried out."""

    id: int
    at: datetime
    actor: str
    via: str
    address: str | None
    action: str
    target: str
    reason: str | None
    details: object
    result: str | None
    operation: int | None


_origin: ContextVar[Origin | None] = ContextVar("mainspring_origin", default=None)


@contextmanager
def ordered_by(origin: Origin) -> Iterator[None]:
    """Orders that are given within come from there."""
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)


def origin() -> Origin:
    """Who orders here: whoever a door named, else the user of this process."""
    return _origin.get() or Origin(process_user())


@cache
def process_user() -> str:
    """The user of this process and its host."""
    import getpass
    import socket

    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):
        return socket.gethostname()


def _storable(details: Mapping[str, object]) -> dict[str, object]:
    """Whatever somebody typed: JSON in the database takes no NUL."""
    return {
        name: clean_text(value, DETAIL_BYTES) if isinstance(value, str) else value
        for name, value in details.items()
    }


async def record_order(
    tx: Tx,
    action: str,
    target: str,
    *,
    details: Mapping[str, object] | None = None,
    result: str | None = None,
    operation: int | None = None,
    source: str | None = None,
) -> None:
    """Note an order in the transaction that carries it out. `source`: who gave it, where he was named."""
    by = origin()
    if source and _origin.get() is None:
        by = replace(by, actor=source)
    await tx.run(
        SQL["record_order"],
        actor=by.actor,
        via=by.via,
        address=by.address,
        action=action,
        target=target,
        reason=by.reason,
        details=msgspec.json.encode(_storable(details or {})).decode(),
        result=result,
        operation=operation,
    )


async def list_orders(
    tx: Tx,
    *,
    actor: str | None = None,
    action: str | None = None,
    target: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[PastOrder]:
    """A page of what was ordered, newest first; the next one begins before the last one's id.

    `action`: one, or the group that it begins with (`queues`).
    """
    rows = await tx.rows(
        SQL["list_orders"],
        PastOrder,
        actor=actor,
        action=action,
        target=target,
        before=before,
        most=check_page(limit),
    )
    return [replace(row, details=decoded(str(row.details))) for row in rows]
