"""Settings of actors as an operator sees and changes them, audited (P14), and what was counted of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.errors import InvalidSetting, NotFound
from mainspring.kernel import QUEUE_LIMITS, check_limit, nearest
from mainspring.processes.statements import SQL
from mainspring.tasks.declare.policy import NAMES, RETRY, Policy, check, policy_of

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


async def list_actors(database: Database, connection: Any) -> dict[str, dict[str, Any]]:
    """The actors and their settings as they are in force, defaults included."""
    rows = await _ask(database, connection, "list_actors")
    return {row[0]: _in_force(msgspec.json.decode(row[1]), row[2:]) for row in rows}


async def change_actor(
    database: Database, connection: Any, name: str, changes: Mapping[str, Any], *, source: str
) -> dict[str, Any]:
    """Change settings of an actor from now on; answers all of them. The workers are told at once."""
    _check(changes)
    rows = await _ask(database, connection, "lock_actor", name=name)
    if not rows:
        known = [row[0] for row in await _ask(database, connection, "list_actors")]
        raise NotFound(
            f"no actor is named {name!r}{nearest(name, known)}; one is known from the first start of a "
            "worker of its pool on"
        )
    policy: dict[str, Any] = msgspec.json.decode(rows[0][0])
    limits = dict(zip(QUEUE_LIMITS, rows[0][1:], strict=True))
    before = policy | limits
    for setting, value in changes.items():
        if setting in QUEUE_LIMITS:
            limits[setting] = value
        elif setting.startswith("retry."):
            policy["retry"] = policy.get("retry", {}) | {setting.removeprefix("retry."): value}
        else:
            policy[setting] = value
    await _ask(
        database,
        connection,
        "change_actor",
        name=name,
        policy=_json(policy),
        source=source,
        before=_json(before),
        after=_json(policy | limits),
        **limits,
    )
    return _in_force(policy, list(limits.values()))


def _check(changes: Mapping[str, Any]) -> None:
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


def _in_force(policy: Mapping[str, Any], limits: Any) -> dict[str, Any]:
    try:
        found = msgspec.structs.asdict(policy_of(policy))
    except InvalidSetting:  # made by hand: the workers go by the defaults
        found = msgspec.structs.asdict(Policy())
    return found | dict(zip(QUEUE_LIMITS, limits, strict=True))


async def count(
    database: Database,
    connection: Any,
    *,
    since: datetime | timedelta,
    actor: str | None = None,
) -> list[Counts]:
    """What was counted since a time (or for so long), by actor."""
    is_span = isinstance(since, timedelta)
    values = {"since": None if is_span else since, "span": since if is_span else None}
    rows = await _ask(database, connection, "list_counters", **values, actor=actor)
    found: dict[str, dict[str, int]] = {}
    for name, counted, n in rows:
        found.setdefault(name, {})[counted] = n
    return [Counts(name, counts) for name, counts in found.items()]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


async def _ask(database: Database, connection: Any, name: str, /, **values: Any) -> list[Any]:
    statement = SQL[name]
    return await database.fetch(connection, statement, *statement.arguments(values))
