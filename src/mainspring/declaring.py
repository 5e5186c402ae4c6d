"""What a decorator was given: checked in one way, whatever it declares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from typing import Any

from mainspring.errors import InvalidTask, MainspringError
from mainspring.phrases import nearest

Seconds = float | timedelta
RESERVED = "mainspring"  # and what begins with it and a dot


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
