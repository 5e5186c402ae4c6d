"""What the capture offered: for the tests of triggers."""

from __future__ import annotations

from typing import Any

from stages import Stages


def offered(stages: Stages, kind: str = "listing") -> dict[str, dict[str, Any]]:
    """The payloads of the system visits, by key; they are taken away."""
    rows = stages.query(
        "delete from mainspring.visit where queue = %s returning key, payload", kind
    )
    return {row["key"]: row["payload"] for row in rows}


def fields(stages: Stages, kind: str = "listing") -> dict[str, set[str]]:
    """The fields that changed, by key; 'new' for what is new or unknown."""
    found = offered(stages, kind)
    return {
        key: {name.removeprefix("f:") for name in payload if name not in ("out", "v")}
        for key, payload in found.items()
    }
