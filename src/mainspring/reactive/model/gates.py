"""Gates: what holds a true trigger back for a while. Pure.

`not_before`: a cron line; the task fires once a tick at most, and never before the tick: the first
one after its last firing (a task that never fired waits for the first one after its trigger came true).
`debounce`: fire when no param of the trigger has changed for that long; `debounce_max` bounds the wait
under a steady stream, counted from when the trigger came true (ten times the debounce by default).
`min_interval`: so much time at least from one firing to the next.
A gate never makes a trigger true, and a manual run passes them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from mainspring.errors import InvalidSetting
from mainspring.jobs import check_schedule, next_tick
from mainspring.reactive.model.durations import Duration, check_duration, show_duration
from mainspring.reactive.model.values import MICROSECOND, later

DEBOUNCES_AT_MOST: Final = 10


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron line in a time zone."""

    line: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        check_schedule(self.line, self.zone)

    def __str__(self) -> str:
        return self.line if self.zone == "UTC" else f"{self.line} in {self.zone}"


def cron(line: str, zone: str = "UTC") -> Cron:
    """A cron line, for `not_before`."""
    return Cron(line, zone)


@dataclass(frozen=True, slots=True)
class Held:
    """Held back until a moment, and why."""

    until: datetime
    cause: str


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates of one task."""

    not_before: Cron | None = None
    debounce: timedelta | None = None
    debounce_max: timedelta | None = None
    min_interval: timedelta | None = None

    def hold(
        self,
        now: datetime,
        *,
        since: datetime,
        changed_at: datetime | None = None,
        fired_at: datetime | None = None,
    ) -> Held | None:
        """What holds a trigger back that has been true since a moment; the gate that holds longest.

        `changed_at`: when a param of the trigger was last set. `fired_at`: the last regular firing.
        """
        holds = [
            *self._by_debounce(since, changed_at),
            *self._by_interval(fired_at),
            *self._by_cron(since, fired_at),
        ]
        ahead = [held for held in holds if held.until > now]
        return max(ahead, key=lambda held: held.until, default=None)

    def _by_debounce(self, since: datetime, changed_at: datetime | None) -> list[Held]:
        if self.debounce is None or changed_at is None:
            return []
        quiet = later(changed_at, self.debounce) or changed_at
        most = self.debounce_max or DEBOUNCES_AT_MOST * self.debounce
        last = later(since, most)
        if last is not None and last < quiet:
            return [Held(last, f"debounce: at most {show_duration(most)} after it came true")]
        return [Held(quiet, f"debounce: {show_duration(self.debounce)} after the last change")]

    def _by_interval(self, fired_at: datetime | None) -> list[Held]:
        if self.min_interval is None or fired_at is None:
            return []
        until = later(fired_at, self.min_interval)
        shown = show_duration(self.min_interval)
        return (
            [] if until is None else [Held(until, f"min_interval: {shown} after the last firing")]
        )

    def _by_cron(self, since: datetime, fired_at: datetime | None) -> list[Held]:
        if self.not_before is None:
            return []
        tick = next_tick(self.not_before.line, self.not_before.zone, fired_at or since)
        return [Held(tick, f"not_before: the tick of {self.not_before}")]


NO_GATES: Final = Gates()


def make_gates(
    *,
    not_before: Cron | str | None = None,
    debounce: Duration | None = None,
    debounce_max: Duration | None = None,
    min_interval: Duration | None = None,
) -> Gates:
    """The gates as a user writes them; refuses what cannot be."""
    if isinstance(not_before, str):
        not_before = Cron(not_before)
    if not_before is not None and not isinstance(not_before, Cron):
        raise InvalidSetting(f"not_before takes cron('0 6 * * *', zone=...), got {not_before!r}")
    quiet = None if debounce is None else check_duration(debounce, name="debounce")
    most = None if debounce_max is None else check_duration(debounce_max, name="debounce_max")
    if most is not None and (quiet is None or most < quiet):
        raise InvalidSetting(
            f"debounce_max bounds debounce and is not shorter; got debounce={debounce!r}, "
            f"debounce_max={debounce_max!r}"
        )
    least = None if min_interval is None else check_duration(min_interval, name="min_interval")
    return Gates(not_before, quiet, most, least)


class StoredGates(msgspec.Struct):
    """The gates as JSON has them: lengths in microseconds."""

    not_before: tuple[str, str] | None = None
    debounce: int | None = None
    debounce_max: int | None = None
    min_interval: int | None = None


def dump_gates(gates: Gates) -> dict[str, object]:
    """The gates as JSON; what is not set is left out."""
    stored: dict[str, object] = {}
    if gates.not_before is not None:
        stored["not_before"] = [gates.not_before.line, gates.not_before.zone]
    for name in ("debounce", "debounce_max", "min_interval"):
        if (length := getattr(gates, name)) is not None:
            stored[name] = length // MICROSECOND
    return stored


def load_gates(stored: StoredGates) -> Gates:
    """The gates from JSON."""
    line = stored.not_before
    return Gates(
        not_before=None if line is None else Cron(*line),
        debounce=_length(stored.debounce),
        debounce_max=_length(stored.debounce_max),
        min_interval=_length(stored.min_interval),
    )


def _length(micros: int | None) -> timedelta | None:
    return None if micros is None else micros * MICROSECOND
