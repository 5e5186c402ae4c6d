"""The rights that a role needs (T11), for the doctor to look for. `mainspring rights` prints the grants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import asyncpg
import psycopg

from mainspring.db.database import Database
from mainspring.db.schema.rights import ENQUEUE_FUNCTIONS, READ_BY_ALL
from mainspring.db.tx import Tx
from mainspring.errors import MissingRights
from mainspring.operate.statements import SQL

_ALL = ("SELECT", "INSERT", "UPDATE", "DELETE")
_WRITTEN = (
    *("visit", "queue", "worker", "reach", "death", "blame", "lease", "band", "part"),
    *("history_run", "history_other", "history_bundle", "history_bundle_other"),
    *("operation", "operation_item", "recurring"),
)

# What connecting, enqueueing and asking for results needs.
ENQUEUE: tuple[tuple[str, str], ...] = (
    ("USAGE", "mainspring"),
    *(("SELECT", f"mainspring.{table}") for table in READ_BY_ALL),
    *(("EXECUTE", f"mainspring.{function}") for function in ENQUEUE_FUNCTIONS),
)
# What looking at everything needs: the doctor, and an operator's questions.
LOOK: tuple[tuple[str, str], ...] = (
    *(("SELECT", f"mainspring.{table}") for table in (*_WRITTEN, "kind", "history", "violation")),
    *(("EXECUTE", f"mainspring.{function}") for function in ("now()", "shard(text, integer)")),
)
# What a worker needs besides.
WORK: tuple[tuple[str, str], ...] = (
    *((privilege, f"mainspring.{table}") for table in _WRITTEN for privilege in _ALL),
    ("EXECUTE", "mainspring.make_day(text, date)"),
    ("EXECUTE", "mainspring.drop_day(text)"),
)


class MissingRight(NamedTuple):
    """A privilege that the connected role lacks on an object."""

    privilege: str
    object: str


async def missing_rights(
    database: Database, tx: Tx, wanted: Sequence[tuple[str, str]]
) -> list[MissingRight]:
    """Which of these the connected role lacks."""
    return await tx.rows(
        SQL["list_missing_rights"],
        MissingRight,
        privileges=[privilege for privilege, _ in wanted],
        objects=[name for _, name in wanted],
    )


@contextmanager
def explaining() -> Iterator[None]:
    """A question or order that is refused for want of a right says which, and who prints the grant."""
    try:
        yield
    except (asyncpg.InsufficientPrivilegeError, psycopg.errors.InsufficientPrivilege) as error:
        raise MissingRights(
            f"the role may not do this: {str(error).splitlines()[0]}; mainspring rights operator ROLE "
            "prints the SQL for a role that looks at everything, mainspring rights worker ROLE for one "
            "that orders everything"
        ) from error
