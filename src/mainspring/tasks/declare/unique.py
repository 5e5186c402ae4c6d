"""What a call does whose key is taken: the words for it, checked once.

The rule itself is in SQL (functions/unique.sql).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias, get_args

import msgspec

from mainspring.declaring import Seconds
from mainspring.errors import InvalidSetting
from mainspring.phrases import nearest

UniquePolicy: TypeAlias = Literal[
    "again", "existing", "reject", "replace", "debounce", "keep_earliest"
]
OnParked: TypeAlias = Literal["restart", "return", "reject"]
# What an enqueue came to. The first three have a run of their own.
Placed: TypeAlias = Literal[
    "new", "after", "restarted", "existing", "replaced", "debounced", "parked", "done"
]
OWN_RUN = ("new", "after", "restarted")
REFUSED = ("rejected", "not placed")
LONGEST = 10_000_000_000.0  # seconds


@dataclass(frozen=True, slots=True)
class Unique:
    """What a call does that meets another under its key.

    `policy`, while the other waits: "again", "existing": it is returned; "replace": it gets this call's
    arguments, time and priority; "debounce": these too, and each call puts it off (by its delay), at most
    `debounce_max` after the first; "keep_earliest": the call with the earlier time counts; "reject":
    AlreadyEnqueued is raised. While the other runs: this call runs after it, but with "existing" it is
    returned, and with "reject" refused.
    `on_parked`: a parked one gives way to this call ("restart"), is returned, or the call is refused.
    `done_within`: so long after one was done, that one is returned.
    `by`: names of arguments. Calls without a key are unique by their values.
    """

    policy: UniquePolicy = "again"
    by: Iterable[str] = ()
    done_within: Seconds | None = None
    on_parked: OnParked = "restart"
    debounce_max: Seconds | None = None

    def __post_init__(self) -> None:
        _check_word("policy", self.policy, get_args(UniquePolicy))
        _check_word("on_parked", self.on_parked, get_args(OnParked))
        if isinstance(self.by, str) or not isinstance(self.by, Iterable):
            raise InvalidSetting(f"by must be a list of names of arguments, got {self.by!r}")
        object.__setattr__(self, "by", tuple(self.by))
        for name in ("done_within", "debounce_max"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, _seconds(name, given))
        if self.debounce_max is not None and self.policy != "debounce":
            raise InvalidSetting(
                f'debounce_max is for Unique("debounce"), and the policy is {self.policy!r}'
            )

    def spec(
        self, defaults: Mapping[str, object] | None = None, *, may_refuse: bool = True
    ) -> dict[str, object]:
        """As the database reads it. `may_refuse`: whether there is somebody to be refused."""
        found: dict[str, object] = {"policy": self.policy, "on_parked": self.on_parked}
        if not may_refuse:
            found["policy"] = "existing" if self.policy == "reject" else self.policy
            found["on_parked"] = "return" if self.on_parked == "reject" else self.on_parked
        if by := list(self.by):
            found["by"] = by
            if known := {name: defaults[name] for name in by if defaults and name in defaults}:
                found["defaults"] = known
        if self.done_within is not None:
            found["done_within"] = self.done_within
        if self.debounce_max is not None:
            found["debounce_max"] = self.debounce_max
        return found


def as_unique(given: object, declared: Unique | None = None) -> Unique:
    """What was given as `unique=`; a policy's name changes only that of what the task declares."""
    if isinstance(given, Unique):
        return given
    _check_word("unique", given, get_args(UniquePolicy))
    base = declared or Unique()
    longest = base.debounce_max if given == "debounce" else None
    return Unique(given, base.by, base.done_within, base.on_parked, longest)  # type: ignore[arg-type]


def _check_word(name: str, given: object, words: tuple[str, ...]) -> None:
    if given not in words:
        near = nearest(given, words) if isinstance(given, str) else ""
        more = ", or a Unique(...)" if name == "unique" else ""
        raise InvalidSetting(
            f"{name} must be one of {', '.join(map(repr, words))}{more}, got {given!r}{near}"
        )


def _seconds(name: str, given: object) -> float:
    value = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST:
        raise InvalidSetting(
            f"{name} must be more than 0 seconds (a number, or a timedelta), got {given!r}"
        )
    return float(value)


def spec_text(spec: Mapping[str, object]) -> str:
    """A spec as JSON."""
    return msgspec.json.encode(spec).decode()
