"""Granting locks: one look at a lock, in one transaction. Looks at one lock follow each other.

Whatever dies in between, the next look finds what is so: a row that does not count is dropped, and the
first in line has the lock where nobody holds it. The index process_lock_one_holder keeps it one.
"""

from __future__ import annotations

from typing import NamedTuple

from mainspring.db.sql import Steps, first, rows, run
from mainspring.processes.commit.signals import grant_steps
from mainspring.processes.statements import SQL

PAGE = 64  # rows of a line that are looked at by one statement
WAITING_SECONDS = 30.0  # in which who waits looks again, whatever was lost
ENDING_SECONDS = 1.0  # the same of who holds it while its scope is being undone


class GrantedLock(NamedTuple):
    """A row of grant_lock.sql."""

    process_id: str
    task: str
    generation: int


class OwnLock(NamedTuple):
    """A row of read_lock.sql: how a task stands in the line."""

    name: str
    is_held: bool
    is_ending: bool


def look_at_lock(task: str, shard_count: int) -> Steps[float | None]:
    """Look at the lock of a task's; answers in how many seconds to look again, None: nobody need."""
    name = yield from first(SQL["name_lock"], str, task=task)
    if name is None:
        return None
    yield from run(SQL["enter_lock"], name=name)
    while len((yield from rows(SQL["drop_stale_locks"], int, name=name, limit=PAGE))) >= PAGE:
        pass  # a holder that is not among the first of the line is one more
    granted = yield from first(SQL["grant_lock"], GrantedLock, name=name)
    if granted is not None:
        yield from grant_steps(*granted, shard_count=shard_count)
    own = yield from first(SQL["read_lock"], OwnLock, task=task)
    if own is None:
        return None
    if not own.is_held:
        return WAITING_SECONDS
    return ENDING_SECONDS if own.is_ending else None
