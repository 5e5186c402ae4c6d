"""Values that an operator gives to a process by hand: encrypted, where those of the process are."""

from __future__ import annotations

import msgspec

from mainspring.db.database import Connection
from mainspring.processes.commit.signals import in_the_clear
from mainspring.processes.record.sealed_values import sealed_failure
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.promise import Failure
from mainspring.tasks.declare.sealing import Sealing


def given_value(sealing: Sealing | None, value: object) -> str:
    """A value as it is stored."""
    text = msgspec.json.encode(value).decode()
    return text if sealing is None else sealing.result(text)


def given_failure(sealing: Sealing | None, failure: Failure) -> Failure:
    """A failure as it is stored."""
    return failure if sealing is None else sealed_failure(sealing, failure)


async def check_given(connection: Connection, sealing: Sealing | None, id: str) -> None:
    """Refuse a value in the clear for a process whose values are encrypted."""
    if sealing is None and await connection.first(SQL["is_sealed"], bool, id=id):
        raise in_the_clear(id)
