"""A schedule, and which of its ticks are to be made. Pure, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec

from mainspring.declaring import check_whole
from mainspring.errors import InvalidSetting
from mainspring.jobs.cron import check_schedule, last_tick, last_ticks
from mainspring.kernel import DEFAULT_POOL, DEFAULT_PRIORITY, PRIORITIES

CATCH_UP = ("skip", "one", "all")
MOST_TICKS = 10_000  # that are made up for at once
# A tick is missed when nobody makes it for so long: more than it takes to take over from a dead worker.
LATE = timedelta(seconds=60)


class ScheduleSettings(TypedDict, total=False):
    """What can be set of a schedule, and changed; `payload` is JSON text."""

    cron: str
    zone: str
    payload: str
    priority: int
    group: str | None
    catch_up: str
    catch_up_max: int
    tick_argument: str | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """What comes again by a cron line; `payload` is JSON text. Checked when made.

    `catch_up`: of ticks that nobody made in time "skip" all, make the latest "one", or "all", the latest
    `catch_up_max` at most. `tick_argument`: the argument that gets the tick's time. `are_same`: whether two
    payloads say the same, where each is encrypted and looks another way each time.
    """

    name: str
    queue: str
    cron: str
    zone: str = "UTC"
    payload: str = "{}"
    priority: int = DEFAULT_PRIORITY
    pool: str = DEFAULT_POOL
    target: str = ""  # the task or process type; a task's queue is itself
    group: str | None = None
    catch_up: str = "one"
    catch_up_max: int = 100
    tick_argument: str | None = None
    are_same: Callable[[str, str], bool] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 1 <= len(self.name.encode()) <= 200:
            raise InvalidSetting(f"a schedule's name must have 1 to 200 bytes, got {self.name!r}")
        if not self.name.isprintable() or "@" in self.name:
            raise InvalidSetting(
                f"a schedule's name must be printable, without '@', got {self.name!r}"
            )
        check_schedule(self.cron, self.zone)
        if self.priority not in PRIORITIES:
            raise InvalidSetting(
                f"priority must be 0 to 9 (greater is sooner), got {self.priority!r}"
            )
        if self.catch_up not in CATCH_UP:
            raise InvalidSetting(f"catch_up must be 'skip', 'one' or 'all', got {self.catch_up!r}")
        check_whole("catch_up_max", self.catch_up_max, 1, MOST_TICKS)
        if not self.target:
            object.__setattr__(self, "target", self.queue)

    def kept(self, stored: str | None) -> Schedule:
        """With the payload that was declared before, if that says the same."""
        if self.are_same is None or stored is None or not self.are_same(stored, self.payload):
            return self
        return replace(self, payload=stored)

    def declaration(self) -> str:
        """As JSON, for the database to compare with what was declared before."""
        declared = {
            name: getattr(self, name)
            for name in ("queue", "target", "cron", "zone", "priority", "group", "catch_up",
                         "catch_up_max", "tick_argument")
        }  # fmt: skip
        return msgspec.json.encode(
            {**declared, "payload": msgspec.Raw(self.payload.encode())}
        ).decode()


class DeclaredSchedules(NamedTuple):
    """What the code declares, the names of its tasks and process types, and those that they had before."""

    schedules: Sequence[Schedule] = ()
    targets: Collection[str] = ()
    former: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Recurring:
    """A schedule as it stands. `next_at` is None while it is paused or was never offered."""

    name: str
    target: str  # the task or process type
    queue: str
    cron: str
    zone: str
    payload: Any  # JSON text as it is read
    priority: int
    group: str | None
    catch_up: str
    catch_up_max: int
    tick_argument: str | None
    paused_at: datetime | None
    paused_until: datetime | None
    pause_reason: str | None
    last_at: datetime | None
    last_id: UUID | None
    created_at: datetime
    changed_at: datetime
    next_at: datetime | None
    pool: str  # that of its queue, whose workers make the ticks
    is_declared: bool  # in code; else it was made at run time
    changed_by: str | None  # who made it, or changed what the code declares
    revision: int
    make_up: str | None

    @property
    def since(self) -> datetime:
        """No tick until then is made any more."""
        return max(self.last_at or self.created_at, self.changed_at)

    @property
    def arguments(self) -> dict[str, object]:
        """Those of its task or process."""
        arguments: dict[str, object] = (
            self.payload if self.target == self.queue else self.payload["args"]
        )
        return arguments

    def payload_at(self, tick: datetime) -> str:
        """What a tick starts its target with."""
        payload = self.payload
        if self.tick_argument is not None:
            arguments = {**self.arguments, self.tick_argument: tick}
            payload = arguments if self.target == self.queue else {**payload, "args": arguments}
        return msgspec.json.encode(payload).decode()


class DueTicks(NamedTuple):
    """Ticks to be made, the oldest first; and the latest that is left out for good, if one is."""

    ticks: list[datetime]
    left_out: datetime | None = None


def due_ticks(found: Recurring, now: datetime) -> DueTicks:
    """The ticks that are due, by the policy for those that nobody made in time."""
    cron, zone, since = found.cron, found.zone, found.since
    if since >= now:
        return DueTicks([])
    policy = found.make_up or found.catch_up
    if policy == "all":
        most = found.catch_up_max
        latest = last_ticks(cron, zone, since=since, until=now, most=most)
        if len(latest) < most:
            return DueTicks(latest)
        before = last_tick(cron, zone, since=since, until=latest[0] - timedelta(microseconds=1))
        return DueTicks(latest, before)
    tick = last_tick(cron, zone, since=since, until=now)
    if tick is None:
        return DueTicks([])
    if policy == "skip" and now - tick > LATE:
        return DueTicks([])
    return DueTicks(
        [tick], last_tick(cron, zone, since=since, until=tick - timedelta(microseconds=1))
    )


def changed(found: Recurring, wishes: ScheduleSettings) -> Schedule:
    """A schedule with some of its settings changed; checked anew."""
    settings: ScheduleSettings = {
        "cron": found.cron,
        "zone": found.zone,
        "payload": msgspec.json.encode(found.payload).decode(),
        "priority": found.priority,
        "group": found.group,
        "catch_up": found.catch_up,
        "catch_up_max": found.catch_up_max,
        "tick_argument": found.tick_argument,
    }
    settings.update(wishes)
    return Schedule(
        name=found.name, queue=found.queue, target=found.target, pool=found.pool, **settings
    )
