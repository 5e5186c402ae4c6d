"""The queues of reactive tasks, by what their visits mean."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

CHANGE = "mainspring.change"  # key: a param. Its consumers are to be checked
CHECK = "mainspring.check"  # key: a task. Its trigger is to be evaluated
ADMIT = "mainspring.admit"  # key: a pool. Ready tasks may find a free slot
EXPECT = "mainspring.expect"  # key: a task. A recorded success is due
AUDIT = "mainspring.audit"  # one visit: what must not be, what is old
RUN = "mainspring.run."  # and the pool; key: a task. A firing is to be run

FIRST = 9  # what the scheduler itself does comes before what it starts

# Told of a queue to which this worker has just offered visits, due at a time: its own reader is not
# notified while it is busy, and would find them at its next look only.
Offered: TypeAlias = Callable[[str, datetime], None]


def nobody(queue: str, due_at: datetime) -> None:
    """Nobody is told: readers find what was offered by themselves."""


def run_queue(pool: str) -> str:
    """The queue in which the firings of a pool wait for a worker."""
    return RUN + pool
