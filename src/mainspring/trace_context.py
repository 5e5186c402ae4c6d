"""Trace contexts (W3C Trace Context) for what is run elsewhere.

The trace is made of an id that history has: of a process, else of the visit. So what a service or an actor
logs under its trace is found here by the same id, over all attempts.
"""

from __future__ import annotations

import hashlib
import random
import re
from uuid import UUID

# Version 00; sampled: whoever reads it decides itself what it keeps.
_FORMAT = "00-{trace}-{span:016x}-01"
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # as they are stored
_NONE = "1".zfill(32)  # all zeros are no trace


def trace_context(id: UUID | str) -> dict[str, str]:
    """The entries of a `trace` field: of one run of what has this id."""
    span = random.getrandbits(64) or 1
    return {"traceparent": _FORMAT.format(trace=_trace(id), span=span)}


def _trace(id: UUID | str) -> str:
    if isinstance(id, str) and _UUID.fullmatch(id):
        id = id.replace("-", "")
        return id if id.strip("0") else _NONE
    try:
        found = (id if isinstance(id, UUID) else UUID(id)).hex
    except ValueError:  # an id of the user's own
        found = hashlib.sha256(id.encode()).hexdigest()[:32]  # type: ignore[union-attr]
    return found if found.strip("0") else _NONE
