"""Who holds locks and who waits for them, as an operator sees it; circles of waiting."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from mainspring.db.tx import Tx
from mainspring.phrases import counted, instant
from mainspring.processes.statements import SQL

MOST = 10_000  # rows that are read


class LockClaim(msgspec.Struct, frozen=True):
    """One who holds a lock, or waits for it."""

    name: str
    type: str  # of its process
    key: str
    process_id: str
    task: str  # that asked
    scope_id: str
    asked_at: datetime
    held_at: datetime | None
    is_ending: bool  # its scope is being undone
    within: list[str]  # the scopes around its own, from within

    @property
    def who(self) -> str:
        return f"{self.type} {self.key}"


class ProcessLock(msgspec.Struct, frozen=True):
    """A lock: who holds it, who waits in line, and with whom it waits in a circle."""

    name: str
    holder: LockClaim | None
    waiters: list[LockClaim]
    circle: list[
        str
    ] = []  # names of locks, this one first, each waited for by who holds the one before

    def __str__(self) -> str:
        held = "held by nobody yet"
        if self.holder is not None and self.holder.held_at is not None:
            held = f"held by {self.holder.who} since {instant(self.holder.held_at)}"
            held += ", whose scope is being undone" if self.holder.is_ending else ""
        text = f"{self.name}: {held}; {counted(len(self.waiters), 'waiter')}"
        return f"{text}; a deadlock: {' -> '.join(self.circle)}" if self.circle else text


async def read_locks(tx: Tx, name: str | None = None) -> list[ProcessLock]:
    """All locks that somebody holds or waits for, by name; or the one of a name."""
    claims = await tx.rows(SQL["list_locks"], LockClaim, name=None, limit=MOST)
    return [lock for lock in locks_of(claims) if name is None or lock.name == name]


async def lock_waits(tx: Tx, process_id: str) -> dict[str, str]:
    """What tasks of a process wait for, in a sentence each."""
    told = {}
    for lock in await read_locks(tx):
        for n, claim in enumerate(lock.waiters):
            if claim.process_id == process_id:
                ahead = f", {n} before it" if n else ""
                told[claim.task] = f"it waits for the lock {lock}{ahead}"
    return told


def locks_of(claims: Sequence[LockClaim]) -> list[ProcessLock]:
    """The locks of these claims, which are in line. Pure."""
    holders = {claim.name: claim for claim in claims if claim.held_at is not None}
    waiters: dict[str, list[LockClaim]] = {claim.name: [] for claim in claims}
    for claim in claims:
        if claim.held_at is None:
            waiters[claim.name].append(claim)
    next_of: dict[str, set[str]] = {name: set() for name in waiters}
    by_scope = {claim.scope_id: name for name, claim in holders.items()}
    for name, line in waiters.items():
        for claim in line:  # who waits within the scope of another lock keeps that one held
            for scope in claim.within:
                if scope in by_scope:
                    next_of[by_scope[scope]].add(name)
    return [
        ProcessLock(name, holders.get(name), waiters[name], _circle(name, next_of))
        for name in sorted(waiters)
    ]


def _circle(name: str, next_of: dict[str, set[str]]) -> list[str]:
    """The way from a lock back to itself, if there is one."""
    ways = [[name, following] for following in sorted(next_of[name])]
    seen: set[str] = set()
    while ways:
        way = ways.pop(0)
        if way[-1] == name:
            return way
        if way[-1] not in seen:
            seen.add(way[-1])
            ways += [[*way, following] for following in sorted(next_of[way[-1]])]
    return []
