"""Params and reactive tasks as an operator sees them, and as they are read. Texts of rows are JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mainspring.reactive.model.values import AnyParam, Kind, Param, Raw, Value, from_raw, split_key

if TYPE_CHECKING:  # most questions need no triggers
    from mainspring.reactive.model.triggers import Trigger


@dataclass(frozen=True, slots=True)
class ParamState:
    """A param as it stands."""

    param: AnyParam
    value: Value | None
    rewinds: int
    changed_at: datetime | None
    changed_by: str | None
    why: str | None
    ahead: bool
    consumers: tuple[str, ...]
    producers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParamChange:
    """What was set of a param once."""

    id: int
    param: str
    value: Value | None
    old: Value | None
    is_rewind: bool
    changed_by: str | None
    why: str | None
    at: datetime
    chunks: tuple[Value, ...] = ()  # of a rewind that named some


@dataclass(frozen=True, slots=True)
class ReactiveLoad:
    """The reactive tasks of a pool in numbers: what a dashboard shows and an alert looks at."""

    pool: str
    tasks: int
    ready: int
    running: int
    failing: int
    missed: int  # without the success that was expected (R14)
    paused: int
    retired: int
    oldest_ready_seconds: float


@dataclass(frozen=True, slots=True)
class TaskState:
    """A reactive task as it stands. `seen` and `captured` are raw: {param: [value, rewinds]}."""

    task: str
    pool: str
    priority: int
    release: int
    state: str
    kind: str | None
    cause: str | None
    fired_at: datetime | None
    started_at: datetime | None
    seen: dict[str, list[Raw | None]]
    captured: dict[str, list[Raw | None] | None] | None
    failures: int
    error: str | None
    retry_at: datetime | None
    succeeded_at: datetime | None
    ended_at: datetime | None
    missed_at: datetime | None
    expect_within: timedelta | None
    paused_at: datetime | None
    retired_at: datetime | None
    request: dict[str, object] | None
    verdict: bool | None
    since: datetime | None
    trigger: Trigger
    options: dict[str, object]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A check whose outcome differed from the one before."""

    id: int
    task: str
    at: datetime
    verdict: bool
    fired: bool
    leaves: list[dict[str, object]]
    cause: str | None


# -- as they are read


class ParamRow(NamedTuple):
    name: str
    kind: Kind
    value: str | None
    rewinds: int
    changed_at: datetime | None
    changed_by: str | None
    why: str | None
    ahead: bool
    consumers: list[str]
    producers: list[str]


class ParamLogRow(NamedTuple):
    id: int
    param: str
    kind: Kind
    value: str | None
    old: str | None
    is_rewind: bool
    changed_by: str | None
    why: str | None
    at: datetime
    chunks: list[int] | None


class TaskStateRow(NamedTuple):
    task: str
    pool: str
    priority: int
    release: int
    state: str
    kind: str | None
    cause: str | None
    fired_at: datetime | None
    started_at: datetime | None
    seen: str
    captured: str | None
    failures: int
    error: str | None
    retry_at: datetime | None
    succeeded_at: datetime | None
    ended_at: datetime | None
    missed_at: datetime | None
    expect_within: timedelta | None
    paused_at: datetime | None
    retired_at: datetime | None
    request: str | None
    verdict: bool | None
    since: datetime | None
    tree: str
    format: int
    options: str


class EvaluationRow(NamedTuple):
    id: int
    task: str
    at: datetime
    verdict: bool
    fired: bool
    leaves: str
    cause: str | None


_seen = msgspec.json.Decoder(dict[str, list[Raw | None]]).decode
_captured = msgspec.json.Decoder(dict[str, list[Raw | None] | None] | None).decode
_request = msgspec.json.Decoder(dict[str, object] | None).decode
_options = msgspec.json.Decoder(dict[str, object]).decode
_leaves = msgspec.json.Decoder(list[dict[str, object]]).decode


def param_state(row: ParamRow) -> ParamState:
    """A param as it stands."""
    return ParamState(
        Param(*split_key(row.name), row.kind),
        _value(row.kind, row.value),
        row.rewinds,
        row.changed_at,
        row.changed_by,
        row.why,
        row.ahead,
        tuple(row.consumers),
        tuple(row.producers),
    )


def param_change(row: ParamLogRow) -> ParamChange:
    """What was set of a param once."""
    return ParamChange(
        row.id,
        row.param,
        _value(row.kind, row.value),
        _value(row.kind, row.old),
        row.is_rewind,
        row.changed_by,
        row.why,
        row.at,
        tuple(from_raw(row.kind, raw) for raw in row.chunks or ()),
    )


def task_state(row: TaskStateRow) -> TaskState:
    """A reactive task as it stands."""
    from mainspring.reactive.model import codec

    values = row._asdict()
    trigger = codec.load(msgspec.json.decode(values.pop("tree")), format=values.pop("format"))
    values |= {
        "seen": _seen(row.seen),
        "captured": _captured(row.captured or "null"),
        "request": _request(row.request or "null"),
        "options": _options(row.options),
    }
    return TaskState(trigger=trigger, **values)


def evaluation(row: EvaluationRow) -> Evaluation:
    """A check whose outcome differed."""
    return Evaluation(**row._asdict() | {"leaves": _leaves(row.leaves)})


def _value(kind: Kind, raw: Raw | None) -> Value | None:
    return None if raw is None else from_raw(kind, raw)
