"""The doctor of reactive tasks: whether every firing meets a worker that has its task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mainspring.db.database import Database
from mainspring.kernel import Finding, missing_rights
from mainspring.reactive.declare.register import LIVING_SECONDS
from mainspring.reactive.statements import ask

NAMED = 3  # tasks of a pool
_READ = tuple(
    ("SELECT", f"mainspring.reactive_{table}") for table in ("instance", "release", "task")
)


async def examine(database: Database, connection: Any) -> list[Finding]:
    """Look at what the living processes of each pool declare. Nothing is changed or locked."""
    if await missing_rights(database, connection, _READ):
        return []  # a role that has nothing to do with reactive tasks
    return list(judge_uneven(await ask(database, connection, "list_uneven", living=LIVING_SECONDS)))


def judge_uneven(rows: list[Any]) -> Iterator[Finding]:
    """Firings of a pool are one queue: whoever owns a shard gets all of them there."""
    for row in rows:
        pool, tasks = row["pool"], row["tasks"]
        named = ", ".join(repr(task) for task in tasks[:NAMED])
        more = f" and {len(tasks) - NAMED} more" if len(tasks) > NAMED else ""
        text = (
            f"not all workers of pool {pool!r} have the reactive tasks {named}{more}: a firing waits "
            "while the worker that owns its shard lacks its task"
        )
        remedy = (
            "in a deploy, replace the older workers; of two applications give each a pool of its "
            "own: Mainspring(pool='...')"
        )
        yield Finding("reactive_pool", "warn", text, remedy)
