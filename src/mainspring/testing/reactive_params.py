"""The params of a simulation: their values, and how often they were moved back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from mainspring.errors import InvalidSetting, WentBack
from mainspring.reactive.decide.decide import Current, Rewind, SeenValue
from mainspring.reactive.model.values import (
    AnyParam,
    Value,
    check_instant,
    check_value,
    compare,
)


@dataclass(slots=True)
class _Held:
    value: Value | None = None
    rewinds: list[Rewind] = field(default_factory=list)
    changed_at: datetime | None = None


class SimulatedParams:
    """Values of params by full name; a param that was never set has none."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def advance(self, param: AnyParam, value: object, now: datetime, *, if_greater: bool) -> bool:
        """Set a param forward; answers whether it moved."""
        checked, held = check_value(param, value), self._find(param.key)
        step = compare(held.value, checked)
        if step == "lower" and not if_greater:
            raise WentBack(param.key, held.value, checked)
        if step == "greater":
            held.value, held.changed_at = checked, now
        return step == "greater"

    def rewind(
        self, param: AnyParam, to: object, chunks: Iterable[datetime], now: datetime
    ) -> None:
        """Move a param back, or restate chunks below where it is."""
        checked, held = check_value(param, to), self._find(param.key)
        starts = tuple(check_instant(chunk, what="a restated chunk") for chunk in chunks)
        step = compare(held.value, checked)
        if step == "greater" or (step == "same" and not starts):
            raise InvalidSetting(
                f"param {param.key!r} is at {held.value}, {checked} is not back; use set, or name the "
                "chunks that were restated"
            )
        held.value, held.changed_at = checked, now
        held.rewinds.append(Rewind(len(held.rewinds) + 1, checked, starts))

    def seen(self, key: str) -> SeenValue:
        """A param as a check captures it."""
        held = self._find(key)
        return SeenValue(held.value, len(held.rewinds))

    def current(self, key: str) -> Current:
        """A param as a check reads it."""
        held = self._find(key)
        return Current(held.value, len(held.rewinds), held.changed_at)

    def rewinds_after(self, key: str, seen: SeenValue | None) -> list[Rewind]:
        """The rewinds that whoever saw this has not seen."""
        if seen is None:
            return []
        return [rewind for rewind in self._find(key).rewinds if rewind.number > seen.rewinds]

    def _find(self, key: str) -> _Held:
        return self._held.setdefault(key, _Held())
