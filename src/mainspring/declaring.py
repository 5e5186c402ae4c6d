"""What a decorator or an operator gave: checked in one way, whatever it is for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from typing import Any

from mainspring.errors import InvalidSetting, InvalidTask, MainspringError
from mainspring.phrases import nearest

Seconds = float | timedelta
RESERVED = "mainspring"  # and what begins with it and a dot
# Names of the engine's own queues begin so. Every pool has them, and its workers serve them.
OWN = f"{RESERVED}."
SECONDS = "seconds (a number, or a timedelta)"
STARTS = "starts a second"
POSITIVE = (0.000_001, 10_000_000)
PAGE_MOST = 500  # of what is listed


def check_settings(
    what: str,
    given: Iterable[str],
    known: Collection[str],
    error: Callable[[str], MainspringError] = InvalidTask,
    word: str = "setting",
) -> None:
    """Refuse a setting that does not exist, with the nearest that does."""
    for name in given:
        if name not in known:
            near = nearest(name, known) or f"; there are {', '.join(sorted(known))}"
            raise error(f"{what} has no {word} {name!r}{near}")


def name_of(
    given: dict[str, Any], function: object, error: Callable[[str], MainspringError] = InvalidTask
) -> str:
    """The name that was given, else the function's own."""
    name = given.pop("name", None)
    if name is None:
        return str(getattr(function, "__name__", ""))
    if not isinstance(name, str) or not name:
        raise error(
            f"name= must be a text that is not empty, got {name!r}; leave it out to have the "
            "function's name"
        )
    check_own(name, error)
    return name


def check_own(name: object, error: Callable[[str], MainspringError] = InvalidTask) -> None:
    """Refuse a name that is the engine's own."""
    if isinstance(name, str) and (name == RESERVED or name.startswith(f"{RESERVED}.")):
        raise error(f"{name!r} is reserved: names of the engine's own begin so; choose another")


def in_seconds(given: dict[str, Any]) -> None:
    """Times may be given as a timedelta too."""
    for name, value in given.items():
        if isinstance(value, timedelta) and (
            name.endswith("timeout") or name in ("hold_after", "grace")
        ):
            given[name] = value.total_seconds()


def as_names(setting: str, value: Iterable[str] | None) -> tuple[str, ...]:
    """A setting that lists names; one text is not a list of its letters."""
    if isinstance(value, str):
        raise InvalidTask(f"{setting} must be a list of names, got a text; write [{value!r}]")
    return () if value is None else tuple(value)


def check_whole(name: str, value: int, least: int, most: int) -> None:
    """Refuse what is no whole number of this range."""
    check_number(name, value, least, most)
    if not isinstance(value, int):
        raise InvalidSetting(f"{name} must be a whole number, got {value!r}")


def check_number(name: str, value: float, least: float, most: float, unit: str = "") -> None:
    """Refuse what is no number of this range; the unit says what it counts."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        span = f"{least:.6f}".rstrip("0").rstrip(".") + f" to {most}"
        raise InvalidSetting(f"{name} must be {span}{unit and f' {unit}'}, got {value!r}")


def check_page(limit: int) -> int:
    """The size of a page, if it can be one."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= PAGE_MOST:
        raise InvalidSetting(f"limit must be 1 to {PAGE_MOST}, got {limit!r}; read page by page")
    return limit
