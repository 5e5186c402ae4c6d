"""The queues of reactive tasks, by what their visits mean."""

from __future__ import annotations

CHANGE = "mainspring.change"  # key: a param. Its consumers are to be checked
CHECK = "mainspring.check"  # key: a task. Its trigger is to be evaluated
ADMIT = "mainspring.admit"  # key: a pool. Ready tasks may find a free slot
EXPECT = "mainspring.expect"  # key: a task. A recorded success is due
AUDIT = "mainspring.audit"  # one visit: what must not be, what is old
RUN = "mainspring.run."  # and the pool; key: a task. A firing is to be run

FIRST = 9  # what the scheduler itself does comes before what it starts


def run_queue(pool: str) -> str:
    """The queue in which the firings of a pool wait for a worker."""
    return RUN + pool
