"""Orders on one call: cancel it, have it run now. Steps without I/O that answer how it stands then."""

from __future__ import annotations

from typing import NamedTuple

from mainspring.db.caller import Verb
from mainspring.db.sql import Steps, one
from mainspring.failure_text import ERROR_BYTES, clean_text
from mainspring.tasks.declare.handle import Handle
from mainspring.tasks.statements import SQL

CANCEL, CANCEL_SYNC = Verb("cancel", "cancel_sync"), Verb("cancel_sync", "cancel")
RUN_NOW, RUN_NOW_SYNC = Verb("run_now", "run_now_sync"), Verb("run_now_sync", "run_now")


class CallStanding(NamedTuple):
    """How a call stands; None: nothing is known of it."""

    state: str | None


def cancelling(handle: Handle[object], reason: str | None) -> Steps[str | None]:
    """Call it off, whether it waits or runs."""
    reason = "cancelled" if reason is None else clean_text(reason, ERROR_BYTES)
    values = {"task": handle.task, "id": handle.id, "key": handle.key, "reason": reason}
    return (yield from one(SQL["cancel"], CallStanding, **values)).state


def running_now(handle: Handle[object]) -> Steps[str | None]:
    """Make it due, if it is for later."""
    values = {"task": handle.task, "id": handle.id, "key": handle.key}
    return (yield from one(SQL["run_now"], CallStanding, **values)).state
