"""The time as a stage's code sees it: the engine's, so that a simulation or a test can move it."""

from __future__ import annotations

from contextvars import ContextVar, Token
from datetime import UTC, datetime

_moment: ContextVar[datetime | None] = ContextVar("mainspring.entities.moment", default=None)


def now() -> datetime:
    """The engine's time, for `should_process` and `process`.

    Inside a stage it is the database's time at which the visit began, and never before the time
    that the visit was due at; a test that moves its clock moves this too. Elsewhere it is this
    machine's time.
    """
    return _moment.get() or datetime.now(UTC)


class at:
    """Within the block `now()` answers this moment. (A class: every visit has such a block.)"""

    __slots__ = ("_before", "_moment")

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def __enter__(self) -> None:
        self._before: Token[datetime | None] = _moment.set(self._moment)

    def __exit__(self, *_: object) -> None:
        _moment.reset(self._before)
