"""Names of a package that are imported when they are first asked for.

    if not TYPE_CHECKING:
        __getattr__ = on_demand(__name__, {"tasks.task": "Task Call"})

A type checker reads the same imports under TYPE_CHECKING.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` for the names of its parts, which are given by part."""
    part_of = {name: part for part, names in places.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        if (part := part_of.get(name)) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{part}"), name)
        vars(import_module(package))[name] = value
        return value

    return __getattr__
