"""Settings of actors as an operator sees and changes them, audited (P14), and what was counted of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting, NotFound
from mainspring.operate import QUEUE_LIMITS, check_limit
from mainspring.phrases import nearest
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.policy import NAMES, RETRY, Policy, check, policy_of

Settings = dict[str, object]  # by name
KNOWN = (
    *(name for name in NAMES if name != "retry"),
    *(f"retry.{name}" for name in RETRY),
    *QUEUE_LIMITS,
)


# What recovery counts, of each actor.
COUNTERS = ("work_timeout", "task_timeout", "worker_death", "late_result")


class Counts(msgspec.Struct, frozen=True):
    """What recovery did for an actor, by the names of COUNTERS."""

    actor: str
    counts: dict[str, int]


class ActorLimits(NamedTuple):
    """An actor's policy and limits: a row of lock_actor.sql."""

    policy: str  # JSON
    concurrency: int | None
    rate: float | None
    group_concurrency: int | None
    group_rate: float | None

    def limits(self) -> Settings:
        """The limits by name."""
        return {name: getattr(self, name) for name in QUEUE_LIMITS}


class ListedActor(NamedTuple):
    """A row of list_actors.sql."""

    name: str
    policy: str
    concurrency: int | None
    rate: float | None
    group_concurrency: int | None
    group_rate: float | None


class CounterRow(NamedTuple):
    """A row of list_counters.sql."""

    actor: str
    name: str
    n: int


async def list_actors(tx: Tx) -> dict[str, Settings]:
    """The actors and their settings as they are in force, defaults included."""
    return {
        actor.name: _in_force(_stored(actor.policy), ActorLimits(*actor[1:]).limits())
        for actor in await tx.rows(SQL["list_actors"], ListedActor)
    }


async def change_actor(
    tx: Tx, name: str, changes: Mapping[str, object], *, source: str
) -> Settings:
    """Change settings of an actor from now on; returns all of them. The workers are told at once."""
    _check(changes)
    locked = await tx.first(SQL["lock_actor"], ActorLimits, name=name)
    if locked is None:
        known = [actor.name for actor in await tx.rows(SQL["list_actors"], ListedActor)]
        raise NotFound(
            f"no actor is named {name!r}{nearest(name, known)}; one is known from the first start of a "
            "worker of its pool on"
        )
    policy, limits = _stored(locked.policy), locked.limits()
    before = policy | limits
    for setting, value in changes.items():
        if setting in QUEUE_LIMITS:
            limits[setting] = value
        elif setting.startswith("retry."):
            retry = msgspec.convert(policy.get("retry", {}), dict[str, object])
            policy["retry"] = retry | {setting.removeprefix("retry."): value}
        else:
            policy[setting] = value
    await tx.run(
        SQL["change_actor"],
        name=name,
        policy=_json(policy),
        source=source,
        before=_json(before),
        after=_json(policy | limits),
        **limits,
    )
    return _in_force(policy, limits)


def _check(changes: Mapping[str, object]) -> None:
    if not changes:
        raise InvalidSetting(f"name a setting to change: {', '.join(KNOWN)}")
    for name, value in changes.items():
        if name not in KNOWN:
            raise InvalidSetting(
                f"a setting of an actor is one of {', '.join(KNOWN)}, got {name!r}"
                f"{nearest(name, KNOWN)}"
            )
        if name in QUEUE_LIMITS:
            check_limit(name, value)
        elif name.startswith("retry."):
            check({"retry": {name.removeprefix("retry."): value}})
        else:
            check({name: value})


def _stored(policy: str) -> Settings:
    return msgspec.json.decode(policy, type=dict[str, object])


def _in_force(policy: Settings, limits: Settings) -> Settings:
    try:
        found = msgspec.structs.asdict(policy_of(policy))
    except InvalidSetting:  # made by hand: the workers go by the defaults
        found = msgspec.structs.asdict(Policy())
    return found | limits


async def count(
    tx: Tx,
    *,
    since: datetime | timedelta,
    actor: str | None = None,
) -> list[Counts]:
    """What was counted since a time (or for so long), by actor."""
    is_span = isinstance(since, timedelta)
    rows = await tx.rows(
        SQL["list_counters"],
        CounterRow,
        since=None if is_span else since,
        span=since if is_span else None,
        actor=actor,
    )
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        found.setdefault(row.actor, {})[row.name] = row.n
    return [Counts(name, counts) for name, counts in found.items()]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
