"""Registering: what the code declares becomes definitions, index and first checks in the database.

All of one task is written in one transaction with the offer of its check, so no consumer is ever
missed by a change that was spread by the old index. A release has a number, given when it is first
seen: between two releases at once the newer one wins, whoever restarts (R11, R12).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import msgspec

from mainspring.db.database import Connection, Database
from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting
from mainspring.ids import token, tokens
from mainspring.kernel import Offer, offer_visits
from mainspring.reactive.declare.params import check_made, make
from mainspring.reactive.declare.task import ReactiveTask, release_fingerprint
from mainspring.reactive.model import codec
from mainspring.reactive.model.values import AnyParam
from mainspring.reactive.queues import ADMIT, CHECK, EXPECT, FIRST
from mainspring.reactive.statements import SQL

log = logging.getLogger("mainspring")
PAGE = 500
LIVING_SECONDS = 180.0  # a process that has not said so for longer does not live


class DeclaredTask(NamedTuple):
    """A task as the database has it: a digest of its declaration, and of which release."""

    task: str
    declared: str
    release: int
    retired: bool


class RegisteredTask(NamedTuple):
    """A task that was written; `expects`: a success of it is due some time."""

    task: str
    pool: str
    declared: str
    expects: bool


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """How many reactive tasks of a pool run at once, and how long slots may be kept for others."""

    pool: str
    cap: int | None = None
    reserve_max: timedelta = timedelta(minutes=2)

    def __post_init__(self) -> None:
        cap = self.cap
        if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int) or cap < 1):
            raise InvalidSetting(f"cap of pool {self.pool!r} must be 1 or more, got {cap!r}")
        if not isinstance(self.reserve_max, timedelta) or self.reserve_max < timedelta():
            raise InvalidSetting(
                f"reserve_max of pool {self.pool!r} must be a timedelta, got {self.reserve_max!r}"
            )


async def register(
    database: Database,
    connection: Connection,
    tasks: Iterable[ReactiveTask],
    params: Iterable[AnyParam],
    pools: Iterable[PoolSettings],
) -> tuple[int, list[str]]:
    """Make all known; returns the release's number and the tasks that a newer release holds."""
    listed = sorted(tasks, key=lambda t: t.name)
    await _make_params(connection, listed, params)
    await _keep_pools(database, connection, list(pools))
    if not listed:
        return 0, []
    names = [t.name for t in listed]
    release = await connection.one(
        SQL["name_release"], int, fingerprint=release_fingerprint(listed), tasks=names
    )
    return release, await apply(database, connection, listed, release)


async def apply(
    database: Database, connection: Connection, tasks: Sequence[ReactiveTask], release: int
) -> list[str]:
    """Write those of the tasks that differ; returns the ones that a newer release holds."""
    names = [t.name for t in tasks]
    rows = await connection.rows(SQL["read_declared"], DeclaredTask, tasks=names)
    known = {row.task: row.declared for row in rows if not row.retired}
    changed = [t for t in tasks if known.get(t.name) != t.declared]
    refused: list[str] = []
    for start in range(0, len(changed), PAGE):
        page = changed[start : start + PAGE]
        async with connection.atomic():
            written = await _register_page(database, connection, page, release)
        refused += [t.name for t in page if written.get(t.name) != t.declared]
    if refused:
        log.warning(
            "reactive.older_release", extra={"release": release, "tasks": ", ".join(refused[:20])}
        )
    return refused


async def apply_again(
    database: Database,
    connection: Connection,
    tasks: Mapping[str, ReactiveTask],
    refused: Iterable[str],
    release: int,
) -> list[str]:
    """Write the tasks that another release declares, if this one is newer or nobody carries that one any
    more; returns those left.

    Not only those that were refused: a release that came and went since (a roll-back, a trial) leaves
    tasks behind whose firings the code of this one may not start; and a process that was silent for
    long finds that an older release has declared its tasks again.
    """
    digests = [task.declared for task in tasks.values()]
    others = await connection.rows(SQL["list_differing"], str, tasks=list(tasks), declared=digests)
    differing = {*refused, *others}
    if not differing:
        return []
    return await apply(database, connection, [tasks[name] for name in sorted(differing)], release)


async def _make_params(
    connection: Connection, tasks: Sequence[ReactiveTask], params: Iterable[AnyParam]
) -> None:
    wanted = {p.key: p for t in tasks for p in (*t.params, *t.settings.produces)}
    wanted |= {p.key: p for p in params}
    if wanted:
        check_made(wanted.values(), await connection.follow(make(wanted.values())))


async def _keep_pools(
    database: Database, connection: Connection, pools: Sequence[PoolSettings]
) -> None:
    if not pools:
        return
    ordered = sorted(pools, key=lambda p: p.pool)
    reserves = [p.reserve_max.total_seconds() for p in ordered]
    changed = await connection.rows(
        SQL["keep_pools"],
        str,
        pools=[p.pool for p in ordered],
        caps=[p.cap for p in ordered],
        reserves=reserves,
        declared=[
            msgspec.json.encode([p.cap, reserve]).decode()
            for p, reserve in zip(ordered, reserves, strict=True)
        ],
    )
    if changed:
        offers = [Offer(ADMIT, pool, None, FIRST) for pool in changed]
        await offer_visits(database, connection, offers)


async def _register_page(
    database: Database, connection: Connection, tasks: Sequence[ReactiveTask], release: int
) -> dict[str, str]:
    """Definitions, states, index, baselines and the first checks, in the transaction that is open."""
    waiting = await _rename(connection, tasks)
    tasks = [t for t in tasks if t.name not in waiting]
    if not tasks:
        return {}
    await connection.run(
        SQL["keep_definitions"],
        fingerprints=[t.fingerprint for t in tasks],
        formats=[codec.FORMAT for _ in tasks],
        trees=[t.tree for t in tasks],
        options=[t.options for t in tasks],
    )
    registered = await connection.rows(
        SQL["register_tasks"],
        RegisteredTask,
        release=release,
        living=LIVING_SECONDS,
        tasks=[t.name for t in tasks],
        pools=[t.settings.pool for t in tasks],
        fingerprints=[t.fingerprint for t in tasks],
        declared=[t.declared for t in tasks],
        priorities=[t.settings.priority for t in tasks],
        turns=list(tokens(len(tasks))),
        debounces=[_seconds(t.settings.gates.debounce) or 0.0 for t in tasks],
        expects=[_seconds(t.settings.expect_within) for t in tasks],
    )
    written = {task.task: task.declared for task in registered}
    mine = [t for t in tasks if t.name in written]
    if not mine:
        return written
    used = [(t.name, p.key) for t in mine for p in t.params]
    made = [(t.name, p.key) for t in mine for p in t.settings.produces]
    await connection.run(
        SQL["index_tasks"],
        tasks=[t.name for t in mine],
        use_tasks=[task for task, _ in used],
        use_params=[param for _, param in used],
        make_tasks=[task for task, _ in made],
        make_params=[param for _, param in made],
    )
    baselines = [t.name for t in mine if t.settings.first_run == "baseline"]
    if baselines:
        drawn = list(tokens(len(baselines)))
        await connection.run(SQL["set_baseline"], tasks=baselines, tokens=drawn)
    offers = [Offer(CHECK, task.task, None, FIRST) for task in registered]
    offers += [Offer(EXPECT, task.task) for task in registered if task.expects]
    pools = sorted({task.pool for task in registered})
    offers += [Offer(ADMIT, pool, None, FIRST) for pool in pools]
    await offer_visits(database, connection, offers)
    return written


async def _rename(tx: Tx, tasks: Sequence[ReactiveTask]) -> set[str]:
    """Move states to new names; returns those that must wait until their old task has ended."""
    waiting: set[str] = set()
    for number in range(max((len(t.settings.was) for t in tasks), default=0)):
        renamed = [(t.settings.was[number], t.name) for t in tasks if t.settings.was[number:]]
        waiting |= set(
            await tx.rows(
                SQL["rename_tasks"],
                str,
                olds=[old for old, _ in renamed],
                tasks=[new for _, new in renamed],
                turns=[token() for _ in renamed],
            )
        )
    return waiting


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()
