"""What is said of runs (T12): one event at the end of each, with both of its times, and one before that of
a run that lasts, when it is held. At level debug also its start.

Runs end many at a time, and a record each takes longer than a short task. So where a handler can write
many at once (`runs_ended`) and is the only one, it is given all that ended well together.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from mainspring.failure_text import heads
from mainspring.kernel.outcome import Parked, Retry
from mainspring.kernel.visit import Run, instant

log = logging.getLogger("mainspring")
FAILED = (Retry, Parked)  # of these is told however little one wants to know


class TakesRuns(Protocol):
    """A handler that writes the ends of many runs at once."""

    def runs_ended(self, runs: Sequence[Run], worker: str) -> None: ...


def began(run: Run, worker: str) -> None:
    log.debug("run.started", extra=facts(run, worker))


def held(runs: Sequence[Run], worker: str) -> None:
    """They last, and their rows say from now on who runs them."""
    if log.isEnabledFor(logging.INFO):
        for run in runs:
            log.info("run.held", extra=facts(run, worker))


def ended(runs: Sequence[Run], worker: str) -> None:
    """In the order in which they ended."""
    taker = _taker()
    usual: list[Run] = []
    for run in runs:
        if taker is not None and not isinstance(run.outcome, FAILED):
            usual.append(run)
            continue
        if usual and taker is not None:
            taker.runs_ended(usual, worker)
            usual = []
        _ended(run, worker)
    if usual and taker is not None:
        taker.runs_ended(usual, worker)


def _taker() -> TakesRuns | None:
    """The handler that will write all records of this logger, if it can write many at once."""
    found: Any = None
    logger: logging.Logger | None = log
    if log.filters:
        return None
    while logger is not None:
        for handler in logger.handlers:
            if found is not None or not hasattr(handler, "runs_ended"):
                return None
            found = handler
        logger = logger.parent if logger.propagate else None
    return found  # type: ignore[no-any-return]


def _ended(run: Run, worker: str) -> None:
    outcome = run.outcome
    told = end_facts(run, worker)
    match outcome:
        case Retry(error=error):
            log.warning("run.ended", extra={**told, "error": heads(error)[:1000]})
        case Parked(error=error):
            log.error("run.ended", extra={**told, "error": error[:4000]})
        case _:
            log.info("run.ended", extra=told)


def facts(run: Run, worker: str) -> dict[str, Any]:
    """What names a run."""
    visit = run.visit
    return {
        "queue": visit.queue,
        "key": visit.key,
        "id": str(visit.id),
        "attempt": visit.attempt + 1,
        "run": run.token,
        "worker": worker,
        "started_at": instant(run.started).isoformat(),
    }


def end_facts(run: Run, worker: str) -> dict[str, Any]:
    """And how it ended."""
    return {
        **facts(run, worker),
        "ended_at": instant(run.started + run.seconds).isoformat(),
        "outcome": type(run.outcome).__name__.lower(),
        "duration_ms": round(run.seconds * 1000, 3),
    }
