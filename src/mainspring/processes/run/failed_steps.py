"""What is said of steps that failed for good. The end of their run is an ordinary one: only the commit
finds whether somebody catches the failure or the step parks.
"""

from __future__ import annotations

import logging

from mainspring.failure_text import heads
from mainspring.kernel import Parked
from mainspring.processes.commit.commit import Commit

log = logging.getLogger("mainspring")


def tell_failed(commit: Commit) -> None:
    """One event for each: an error where an operator is waited for, else a warning."""
    for run, change, verdict in zip(commit.runs, commit.changes, commit.verdicts, strict=True):
        if not change.failing or change.error is None or isinstance(verdict, str):
            continue
        visit, failure = run.visit, change.error
        facts = {
            "queue": visit.queue,
            "key": visit.key,
            "process_id": change.process_id,
            "attempt": visit.attempt + 1,
        }
        text = f"{failure.type}: {failure.message}\n{failure.trace}".strip()
        if isinstance(verdict, Parked):
            log.error("step.parked", extra={**facts, "error": text[:4000]})
        else:
            log.warning("step.failed", extra={**facts, "error": heads(text)[:1000]})
