"""What history keeps of a run: which fields it changed, and the versions it made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

# Longer values are cut (characters of JSON).
SHOWN = 200


def summary(
    changed: Mapping[str, tuple[bytes, bytes]], version: int | None, state_version: int | None
) -> str:
    """The result of a stage run that saved something, as JSON."""
    result: dict[str, Any] = {
        "version": version,
        "state": state_version,
        "changed": {name: [_cut(old), _cut(new)] for name, (old, new) in changed.items()},
    }
    return msgspec.json.encode(result).decode()


def _cut(value: bytes) -> Any:
    if len(value) <= SHOWN:
        return msgspec.Raw(value)
    return value[:SHOWN].decode("utf-8", "ignore") + "..."
