"""The doctor of reactive tasks: whether every firing meets a worker that has its task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mainspring.db.database import Database
from mainspring.db.tx import Tx
from mainspring.operate import Finding, missing_rights
from mainspring.reactive.declare.register import LIVING_SECONDS
from mainspring.reactive.statements import SQL

NAMED = 3  # tasks of a pool
_READ = tuple(
    ("SELECT", f"mainspring.reactive_{table}") for table in ("instance", "release", "task")
)


class UnevenPool(NamedTuple):
    """A pool in which some living workers lack tasks that others declare."""

    pool: str
    tasks: list[str]


async def examine(database: Database, tx: Tx) -> list[Finding]:
    """Look at what the living processes of each pool declare. Nothing is changed or locked."""
    if await missing_rights(database, tx, _READ):
        return []  # a role that has nothing to do with reactive tasks
    return list(judge_uneven(await tx.rows(SQL["list_uneven"], UnevenPool, living=LIVING_SECONDS)))


def judge_uneven(pools: Iterable[UnevenPool]) -> Iterator[Finding]:
    """Firings of a pool are one queue: whoever owns a shard gets all of them there."""
    for pool, tasks in pools:
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
