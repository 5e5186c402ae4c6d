"""Visits and runs as they are shown: their values read, and without what their queue hides."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Protocol, TypeVar

from mainspring.db.sql import decoded
from mainspring.redact.stored import Rules

_DROPPED = {"$": {"dropped": True}}  # in place of a result that was kept for its time
_STEP = "@"  # in the payload of a step's visit: its process


class HasPayload(Protocol):
    """A visit or a run as a statement finds it: its payload is JSON as yet."""

    @property
    def queue(self) -> str: ...
    @property
    def payload(self) -> str | None: ...
    @property
    def error(self) -> str | None: ...


class HasResult(HasPayload, Protocol):
    @property
    def result(self) -> str | None: ...


V = TypeVar("V", bound=HasPayload)


def shown_visit(found: V, rules: Rules, at: datetime) -> V:
    """With its payload read, as it is shown; so is what the text of its failure, told at that time, quotes
    of that. What a step of a process was given is not in its visit."""
    payload, rule = decoded(found.payload), rules.of(found.queue)
    if not rule:
        return replace(found, payload=payload)  # type: ignore[type-var]
    error = found.error
    if isinstance(payload, dict) and _STEP in payload:
        error = rules.told(found.queue, error, at)
    elif error is not None:
        error = rule.text(error, payload)
    return replace(found, payload=rule.value(payload), error=error)  # type: ignore[type-var]


def shown_result(found: HasResult, rules: Rules) -> object:
    """Its result, as it is shown."""
    result = decoded(found.result)
    return "[dropped]" if result == _DROPPED else rules.of(found.queue).result(result)
