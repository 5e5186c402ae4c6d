"""The policy of an actor: when a run is overtaken, whose result counts, when a task is given up (P3, P4).

It concerns the tasks of processes. What the code declares is kept with the actor's queue; an operator
changes it while the engine runs, until the code declares something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import msgspec

from mainspring.errors import InvalidSetting
from mainspring.phrases import nearest
from mainspring.retry_policy import LONGEST_DELAY, MOST_ATTEMPTS, STEEPEST

LEAST, MOST = 1.0, 1e10  # seconds
CHOICES: Mapping[str, tuple[str, ...]] = {
    "accept": ("first", "last"),
    "on_work_timeout": ("requeue", "fail"),
    "on_task_timeout": ("slide", "force"),
}
# The numbers of a retry policy that can be set; which exceptions it is for stays with the code.
# From the least to the most that a retry policy takes: what it refuses, every worker would refuse.
RETRY: Mapping[str, tuple[float, float]] = {
    "attempts": (1, MOST_ATTEMPTS),
    "first": (0, LONGEST_DELAY),
    "factor": (1, STEEPEST),
    "most": (0, LONGEST_DELAY),
}


class Policy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How the engine deals with the tasks of an actor. Times are seconds."""

    # A run that neither ends nor beats for so long is overtaken: another one is started.
    work_timeout: float = 60.0
    # Of several runs of a task: the "first" result that comes counts, or only that of the "last" run.
    accept: str = "first"
    # What a passed work timeout is: a reason to "requeue" the task, or a failure of it ("fail").
    on_work_timeout: str = "requeue"
    # After so many of them the task fails in any case; None: never.
    work_timeout_limit: int | None = None
    # A task that has not ended so long after it was first queued ends with an error; None: never.
    task_timeout: float | None = None
    # A run that is under way then may "slide" on to its work timeout, or is stopped ("force").
    on_task_timeout: str = "slide"
    # Numbers of the retry policy that stand in for the code's.
    retry: dict[str, float] = {}

    def __post_init__(self) -> None:
        check(msgspec.structs.asdict(self))


NAMES = tuple(field.name for field in msgspec.structs.fields(Policy))


def declared(settings: object) -> dict[str, Any]:
    """What a declaration says of it, where that is not the default."""
    names = (name for name in NAMES if name != "retry")
    found: dict[str, Any] = msgspec.to_builtins(
        Policy(**{name: getattr(settings, name) for name in names})
    )
    return found


def policy_of(stored: Mapping[str, Any]) -> Policy:
    """A policy as the database has it; what this release does not know is left out."""
    return Policy(**{name: value for name, value in stored.items() if name in NAMES})


def check(given: Mapping[str, object]) -> None:
    """Refuse what is out of range."""
    for name, value in given.items():
        if name in CHOICES:
            if value not in CHOICES[name]:
                this, that = CHOICES[name]
                raise InvalidSetting(f"{name} must be {this!r} or {that!r}, got {value!r}")
        elif name == "retry":
            _check_retry(value)
        elif value is None and name in ("task_timeout", "work_timeout_limit"):
            continue
        elif name == "work_timeout_limit":
            if not _is_number(value) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
                raise InvalidSetting(f"{name} must be a whole number from 1 on, got {value!r}")
        elif not _is_number(value) or not LEAST <= value < MOST:
            raise InvalidSetting(f"{name} must be 1 or more seconds, got {value!r}")


def _check_retry(value: object) -> None:
    if not isinstance(value, Mapping):
        raise InvalidSetting(f"retry must be numbers by name ({', '.join(RETRY)}), got {value!r}")
    for name, number in value.items():
        if name not in RETRY:
            raise InvalidSetting(
                f"retry has {', '.join(RETRY)}, not {name!r}{nearest(str(name), RETRY)}"
            )
        least, most = RETRY[name]
        whole = name == "attempts"
        in_range = _is_number(number) and least <= number <= most
        if not in_range or (whole and not isinstance(number, int)):
            kind = "a whole number" if whole else "a number"
            raise InvalidSetting(
                f"retry.{name} must be {kind} of {least:.0f} to {most:.0f}, got {number!r}"
            )


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
