"""Code that changes while processes run: arguments written by an older version are brought up.

    @app.upcast(charge, version=1)
    def _(old: dict) -> dict:
        return {**old, "currency": "EUR"}

The version of an actor's arguments is one more than its newest upcast; calls are recorded with it,
and a task that was recorded before is brought up step by step when it is handed out. Upcasts see
the arguments by name; a promise among them is an opaque text, to be kept or moved as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mainspring.errors import InvalidArguments, InvalidSetting


class Unread(Exception):
    """The recorded arguments of a task cannot be read by this worker's code; others may be able to."""

    def __init__(self, error: InvalidArguments, *, is_newer: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_newer = is_newer  # they were recorded by newer code than this worker's


Upcast = Callable[[dict[str, Any]], dict[str, Any]]


class Versions:
    """The upcasts of all actors, and the former names of those that were renamed."""

    def __init__(self) -> None:
        self._upcasts: dict[str, dict[int, Upcast]] = {}

    def of(self, actor: str) -> int:
        """The version in which calls of this actor are recorded now."""
        steps = self._upcasts.get(actor)
        return 1 if not steps else max(steps) + 1

    def add(self, actor: str, version: int, upcast: Upcast) -> None:
        """Say how arguments of `version` become those of the next."""
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise InvalidSetting(f"version must be a whole number of 1 or more, got {version!r}")
        steps = self._upcasts.setdefault(actor, {})
        if version in steps:
            raise InvalidSetting(
                f"{actor!r} has an upcast from version {version} already; the next is from "
                f"{self.of(actor)}"
            )
        steps[version] = upcast

    def upcast(self, actor: str, version: int, args: str) -> str:
        """Arguments as they were recorded, brought up to the version of the code."""
        now = self.of(actor)
        if version == now:
            return args
        if version > now:
            raise InvalidArguments(
                f"the arguments of {actor!r} are of version {version} and this worker knows {now}: "
                "it runs older code than the one that recorded them"
            )
        found = msgspec.json.decode(args)
        mark = found.pop("@", None)  # holes are texts made with it, and it must stay in front
        for step in range(version, now):
            upcast = self._upcasts[actor].get(step)
            if upcast is None:
                raise InvalidArguments(
                    f"the arguments of {actor!r} are of version {version} and nothing brings version "
                    f"{step} up to {step + 1}; declare it with @app.upcast({actor}, version={step})"
                )
            found = upcast(found)
        return msgspec.json.encode(found if mark is None else {"@": mark, **found}).decode()
