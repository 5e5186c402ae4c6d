"""Names of a package that are imported when they are first asked for.

    if not TYPE_CHECKING:
        __getattr__ = on_demand(__name__, {"tasks.task": "Task Call"})

A type checker reads the same imports under TYPE_CHECKING.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def on_demand(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """A module's `__getattr__` for the names of its parts, which are given by part."""
    part_of = {}
    for part, words in places.items():
        for word in words.split():
            inner, _, name = word.partition(
                ":"
            )  # "inner:name" where the package has another name for it
            part_of[name or inner] = (part, inner)

    def __getattr__(name: str) -> object:
        if (found := part_of.get(name)) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        part, inner = found
        value = getattr(import_module(f"{package}.{part}"), inner)
        vars(import_module(package))[name] = value
        return value

    return __getattr__
