"""Orders about schedules: what the code declares, and what is made, changed or paused at run time.

A schedule is a row and a visit of the queue `mainspring.recurring`, due at the next tick; in another
pool than the default one the queue is `mainspring.recurring@pool`, so that whoever serves the target
makes its ticks. ticking.py makes them. A changed line holds from its change on. Who ordered what is kept in
`mainspring.setting_change`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from mainspring.db.database import Database
from mainspring.db.sql import decoded
from mainspring.db.tx import Tx
from mainspring.declaring import OWN
from mainspring.errors import InvalidSetting, NotFound
from mainspring.jobs.cron import next_tick, ticks
from mainspring.jobs.schedule import CATCH_UP, Recurring, Schedule, ScheduleSettings, changed
from mainspring.jobs.statements import SQL
from mainspring.kernel import Offer, offer_new_visits, offer_visits, own_queue, read_now
from mainspring.phrases import nearest
from mainspring.redact import read_rules

QUEUE = "mainspring.recurring"
# Where the ticks of process types go: a worker of their pool starts the process.
START_QUEUE = "mainspring.start"


class PausedRecurring(NamedTuple):
    """A schedule that was paused or resumed."""

    name: str
    cron: str
    zone: str
    pool: str


class DeclaredPayload(NamedTuple):
    """A row of read_declared.sql."""

    name: str
    payload: str | None


class TargetQueue(NamedTuple):
    """A row of find_target.sql."""

    kind: str
    pool: str


async def sync_recurring(
    database: Database,
    tx: Tx,
    declared: Sequence[Schedule],
    *,
    targets: Iterable[str],
    former: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Make the schedules of these targets what the code declares, in the caller's transaction.

    One that is new or changed is offered, one that is no longer declared is removed. Schedules of
    targets that this code does not have are another application's, and are left alone; so are those that
    were made at run time. `former`: former names of targets, by name; their schedules go with them.
    """
    kept = [schedule.name for schedule in declared]
    renamed = await _rename(tx, kept, former)
    await tx.run(SQL["forget_recurring"], targets=list(targets), kept=kept)
    if declared:
        await _keep(database, tx, declared)
    await _offer_renamed(database, tx, renamed)


async def take_along(
    database: Database, tx: Tx, declared: Sequence[Schedule], former: Mapping[str, str]
) -> None:
    """Take along what a worker of the release before declared again under the former names."""
    renamed = await _rename(tx, [schedule.name for schedule in declared], former)
    await _offer_renamed(database, tx, renamed)


async def _rename(tx: Tx, kept: Sequence[str], former: Mapping[str, str]) -> list[str]:
    if not former:
        return []
    news = list(former.values())
    return await tx.rows(SQL["rename_recurring"], str, olds=list(former), news=news, kept=kept)


async def _offer_renamed(database: Database, tx: Tx, renamed: Sequence[str]) -> None:
    """At once: their visits have other keys than before, and a tick may be due."""
    if not renamed:
        return
    now = await read_now(tx)
    for name in sorted(renamed):
        found = await tx.first(SQL["list_recurring"], Recurring, name=name)
        if found is not None:
            await offer_visits(database, tx, [Offer(own_queue(QUEUE, found.pool), name, now)])


async def _keep(database: Database, tx: Tx, declared: Sequence[Schedule]) -> None:
    names = [schedule.name for schedule in declared]
    if any(schedule.are_same for schedule in declared):
        rows = await tx.rows(SQL["read_declared"], DeclaredPayload, names=names)
        stored = {row.name: row.payload for row in rows}
        declared = [schedule.kept(stored.get(schedule.name)) for schedule in declared]
    written = await tx.rows(
        SQL["keep_recurring"], str, names=names, declared=[s.declaration() for s in declared]
    )
    now = await read_now(tx)
    by_name = {s.name: s for s in declared}
    # A visit that is there keeps its time: if that has passed, a tick was missed.
    await offer_new_visits(database, tx, [_offer(s, now) for s in declared])
    if written:
        await offer_visits(database, tx, [_offer(by_name[name], now) for name in sorted(written)])


def _offer(schedule: Schedule | PausedRecurring, now: datetime) -> Offer:
    at = next_tick(schedule.cron, schedule.zone, now)
    return Offer(own_queue(QUEUE, schedule.pool), schedule.name, at)


async def list_recurring(database: Database, tx: Tx) -> list[Recurring]:
    """All schedules, by name."""
    return [
        _as_shown(found) for found in await tx.rows(SQL["list_recurring"], Recurring, name=None)
    ]


async def read_recurring(database: Database, tx: Tx, name: str) -> Recurring:
    """One schedule; an error that names the nearest otherwise."""
    found = await tx.first(SQL["list_recurring"], Recurring, name=name)
    if found is None:
        raise await _unknown(database, tx, name)
    return _as_shown(found)


async def show_schedules(database: Database, tx: Tx, name: str | None = None) -> list[Recurring]:
    """One schedule or all as they are shown: without what their targets hide."""
    if name is None:
        found = await list_recurring(database, tx)
    else:
        found = [await read_recurring(database, tx, name)]
    rules = await read_rules(tx)
    return [replace(each, payload=rules.of(each.target).value(each.payload)) for each in found]


async def list_ticks(database: Database, tx: Tx, name: str, count: int) -> list[datetime]:
    """The next ticks of a schedule, whether it is paused or not."""
    found = await read_recurring(database, tx, name)
    since = max(found.paused_until or found.since, await read_now(tx))
    return list(islice(ticks(found.cron, found.zone, since), count))


def _as_shown(found: Recurring) -> Recurring:
    next_at = found.next_at if found.paused_at is None else found.paused_until
    return replace(found, payload=decoded(found.payload), next_at=next_at)


async def place_of(database: Database, tx: Tx, target: str) -> tuple[str, str]:
    """The queue in which the ticks of a task or process type are enqueued, and its pool."""
    found = await tx.first(SQL["find_target"], TargetQueue, name=target)
    if found is None or target.startswith(OWN) or found.kind not in ("task", "remote", "process"):
        raise NotFound(
            f"no task or process type is named {target!r}; a worker or mainspring migrate module:app "
            "registers those of an application"
        )
    is_process = found.kind == "process"
    return own_queue(START_QUEUE, found.pool) if is_process else target, found.pool


async def add_recurring(database: Database, tx: Tx, schedule: Schedule, *, source: str) -> None:
    """Make a schedule at run time."""
    columns = ("name", "queue", "target", "cron", "zone", "payload", *_CHANGEABLE)
    values = {name: getattr(schedule, name) for name in columns}
    if not await tx.rows(SQL["add_recurring"], str, **values, source=source):
        raise InvalidSetting(
            f"a schedule is named {schedule.name!r} already; change it, remove it first, or take "
            "another name"
        )
    await offer_visits(database, tx, [_offer(schedule, await read_now(tx))])


_CHANGEABLE = ("priority", "group", "catch_up", "catch_up_max", "tick_argument")


async def change_recurring(
    database: Database, tx: Tx, name: str, wishes: ScheduleSettings, *, source: str
) -> None:
    """Change some settings of a schedule, by name; `payload` is JSON text. A new line holds from now on."""
    if not wishes:
        raise InvalidSetting("name something to change: cron, zone, arguments, catch_up, ...")
    await tx.rows(SQL["lock_recurring"], str, name=name)
    schedule = changed(await read_recurring(database, tx, name), wishes)
    columns = ("name", "cron", "zone", *_CHANGEABLE)
    values = {column: getattr(schedule, column) for column in columns}
    await tx.run(SQL["change_recurring"], **values, payload=wishes.get("payload"), source=source)
    await offer_visits(database, tx, [_offer(schedule, await read_now(tx))])


async def pause_recurring(
    database: Database,
    tx: Tx,
    name: str,
    *,
    reason: str | None = None,
    until: datetime | None = None,
    source: str = "",
) -> None:
    """Make no tick until it is resumed, or until a time."""
    if until is not None and until <= await read_now(tx):
        raise InvalidSetting(f"a pause must end in the future, got until={until.isoformat()}")
    paused = await _pause(
        database, tx, name, paused=True, reason=reason, until=until, source=source
    )
    if until is not None:  # a later one is offered again by the run that comes before
        offer = Offer(own_queue(QUEUE, paused.pool), name, until)
        await offer_visits(database, tx, [offer])


async def resume_recurring(
    database: Database, tx: Tx, name: str, *, catch_up: str = "skip", source: str = ""
) -> None:
    """Go on with the next tick, in the caller's transaction. Ticks of the pause are skipped, unless
    `catch_up` says to make the latest "one" or "all"."""
    if catch_up not in CATCH_UP:
        raise InvalidSetting(f"catch_up must be 'skip', 'one' or 'all', got {catch_up!r}")
    make_up = None if catch_up == "skip" else catch_up
    resumed = await _pause(database, tx, name, paused=False, make_up=make_up, source=source)
    now = await read_now(tx)
    offer = _offer(resumed, now)
    await offer_visits(database, tx, [offer if make_up is None else replace(offer, due_at=now)])


async def remove_recurring(database: Database, tx: Tx, name: str, *, source: str = "") -> None:
    """Remove a schedule for good; code that declares it brings it back at a worker's start."""
    if not await tx.rows(SQL["remove_recurring"], str, name=name, source=source):
        raise await _unknown(database, tx, name)


async def _pause(
    database: Database,
    tx: Tx,
    name: str,
    *,
    paused: bool,
    source: str,
    reason: str | None = None,
    until: datetime | None = None,
    make_up: str | None = None,
) -> PausedRecurring:
    found = await tx.first(
        SQL["pause_recurring"],
        PausedRecurring,
        name=name,
        paused=paused,
        until=until,
        reason=reason,
        make_up=make_up,
        source=source,
    )
    if found is None:
        raise await _unknown(database, tx, name)
    return found


async def _unknown(database: Database, tx: Tx, name: str) -> NotFound:
    names = [recurring.name for recurring in await list_recurring(database, tx)]
    return NotFound(f"no schedule is named {name!r}{nearest(name, names)}")
