"""What `process` returns: `Untouched`, or `Update` with a whole entity or a patch.

Both may carry a new private state and the time of the next visit. No time means that the stage is done
with the entity until something changes: an outcome states its timer anew or has none (S9). The time that
a stage's code sees is the engine's, so that a simulation or a test can move it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from contextvars import ContextVar, Token
from datetime import UTC, datetime, timedelta
from typing import Final

from mainspring.errors import InvalidOutcome, InvalidTime
from mainspring.shape import shape

# A timer further away than this is taken for a mistake (days).
FURTHEST_DAYS = 3660
_moment: ContextVar[datetime | None] = ContextVar("mainspring.entities.moment", default=None)


def now() -> datetime:
    """The engine's time, for `should_process` and `process`.

    Inside a stage it is the database's time at which the visit began, and never before the time
    that the visit was due at; a test that moves its clock moves this too. Elsewhere it is this
    machine's time.
    """
    return _moment.get() or datetime.now(UTC)


class at_moment:
    """Within the block `now()` answers this moment. (A class: every visit has such a block.)"""

    __slots__ = ("_before", "_moment")

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def __enter__(self) -> None:
        self._before: Token[datetime | None] = _moment.set(self._moment)

    def __exit__(self, *_: object) -> None:
        _moment.reset(self._before)


class _Keep:
    """The state stays as it is."""

    def __repr__(self) -> str:
        return "KEEP"


KEEP: Final = _Keep()


class Untouched:
    """The entity stays as it is.

    `state`: the stage's new private state (left out: as it is; None: emptied).
    `visit_at` (a time with a zone) or `visit_in` (a timedelta, or seconds): look again then.
    """

    __slots__ = ("state", "visit_at", "visit_in")

    def __init__(
        self,
        *,
        state: object = KEEP,
        visit_at: datetime | None = None,
        visit_in: timedelta | float | None = None,
    ) -> None:
        self.state = state
        self.visit_at = _checked_time(visit_at, visit_in)
        self.visit_in = _seconds(visit_in)

    def __repr__(self) -> str:
        return f"Untouched({_shown(self)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and _values(self) == _values(other)

    __hash__ = None  # type: ignore[assignment]  # states are seldom hashable


class Update:
    """The entity changes: a whole new entity, or a patch of some of its fields.

        Update(replace(listing, price=10))
        Update(price=10)
        Update(patch={"price": 10}, state=PriceState(...), visit_in=timedelta(days=30))

    Only fields that the stage declares in `writes` may change. What equals the loaded value is no
    change; an update that changes nothing is taken as untouched.
    """

    __slots__ = ("entity", "patch", "state", "visit_at", "visit_in")

    def __init__(
        self,
        entity: object = None,
        /,
        *,
        patch: Mapping[str, object] | None = None,
        state: object = KEEP,
        visit_at: datetime | None = None,
        visit_in: timedelta | float | None = None,
        **fields: object,
    ) -> None:
        if patch is not None and not isinstance(patch, Mapping):
            raise InvalidOutcome(f"patch must be a mapping of fields to values, got {shape(patch)}")
        if entity is not None and (patch is not None or fields):
            raise InvalidOutcome("an Update has a whole entity or a patch, not both")
        self.entity = entity
        self.patch: dict[str, object] | None = (
            None if entity is not None else {**(patch or {}), **fields}
        )
        self.state = state
        self.visit_at = _checked_time(visit_at, visit_in)
        self.visit_in = _seconds(visit_in)

    def __repr__(self) -> str:
        what = repr(self.entity) if self.entity is not None else f"patch={self.patch!r}"
        rest = _shown(self)
        return f"Update({what}{', ' if rest else ''}{rest})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and _values(self) == _values(other)

    __hash__ = None  # type: ignore[assignment]


Answer = Untouched | Update


def check_answer(answer: object, stage: str) -> Answer:
    """What `process` returned, if it is one of the two; a clear error otherwise."""
    if isinstance(answer, Answer):
        return answer
    raise InvalidOutcome(
        f"process of stage {stage!r} must return Untouched(...) or Update(...), "
        f"got {shape(answer)}; a stage that changes nothing returns Untouched()"
    )


def check_state(answer: Update, stage: str, fields: Collection[str]) -> None:
    """Refuse `Update(state=...)` of a stage without a type of state, where the entity has such a field."""
    if "state" in fields:
        raise InvalidOutcome(
            f"Update(state=...) of stage {stage!r} may mean its private state or the entity's field "
            "'state': write the field by patch={'state': ...}, or declare the private state's type "
            "with state="
        )


def _checked_time(at: datetime | None, after: timedelta | float | None) -> datetime | None:
    if at is None:
        return None
    if after is not None:
        raise InvalidTime(f"give visit_at or visit_in, not both: {at!r}, {after!r}")
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise InvalidTime(
            f"visit_at must be a datetime with a time zone, got {at!r}; use mainspring.now() + ... or "
            ".replace(tzinfo=...)"
        )
    return at


def _seconds(after: timedelta | float | None) -> float | None:
    if after is None:
        return None
    if isinstance(after, timedelta):
        after = after.total_seconds()
    if isinstance(after, bool) or not isinstance(after, int | float) or math.isnan(after):
        raise InvalidTime(f"visit_in must be a timedelta or a number of seconds, got {after!r}")
    if after > FURTHEST_DAYS * 86_400:
        raise InvalidTime(f"visit_in must be at most {FURTHEST_DAYS} days, got {after!r} seconds")
    return max(0.0, float(after))


def seconds_until(answer: Answer, now: datetime) -> float | None:
    """When the next visit is to come, from now on; None for no visit. A time in the past is now."""
    if answer.visit_in is not None:
        return answer.visit_in
    if answer.visit_at is None:
        return None
    after = (answer.visit_at - now).total_seconds()
    if after > FURTHEST_DAYS * 86_400:
        raise InvalidTime(
            f"visit_at must be at most {FURTHEST_DAYS} days from now, got {answer.visit_at!r}"
        )
    return max(0.0, after)


def check_visit_time(answer: datetime, stage: str, now: datetime) -> None:
    """Refuse a time that should_process cannot mean."""
    if answer.utcoffset() is None:
        raise InvalidTime(
            f"should_process of stage {stage!r} answered a time without a zone, {answer!r}; use "
            "mainspring.now(), or .replace(tzinfo=...)"
        )
    if answer - now > timedelta(days=FURTHEST_DAYS):
        raise InvalidTime(f"should_process of stage {stage!r} answered {answer!r}, too far away")


def _values(answer: Answer) -> list[object]:
    return [getattr(answer, name) for name in answer.__slots__]


def _shown(answer: Answer) -> str:
    parts = []
    if answer.state is not KEEP:
        parts.append(f"state={answer.state!r}")
    if answer.visit_at is not None:
        parts.append(f"visit_at={answer.visit_at!r}")
    if answer.visit_in is not None:
        parts.append(f"visit_in={answer.visit_in!r}")
    return ", ".join(parts)
