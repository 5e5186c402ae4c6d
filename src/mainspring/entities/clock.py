"""The time as a stage's code sees it: the engine's, so that a simulation or a test can move it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

_moment: ContextVar[datetime | None] = ContextVar("mainspring.entities.moment", default=None)


def now() -> datetime:
    """The engine's time, for `should_process` and `process`.

    Inside a stage it is the database's time at which the visit began, and never before the time
    that the visit was due at; a test that moves its clock moves this too. Elsewhere it is this
    machine's time.
    """
    return _moment.get() or datetime.now(UTC)


@contextmanager
def at(moment: datetime) -> Iterator[None]:
    """Within the block `now()` answers this moment."""
    before = _moment.set(moment)
    try:
        yield
    finally:
        _moment.reset(before)
