"""Named steps of the worker: the places where tests observe it or make it die.

`passed(step)` costs a comparison when nobody listens. The list is the contract of the crash tests:
a worker is killed at each of them and the promises are checked after.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

STEPS = (
    "pool.joined",
    "leases.taken",
    "page.read",
    "run.started",
    "run.ended",
    "hold.writing",
    "hold.written",
    "settle.sending",
    "settle.answered",
    "operation.stepping",
    "operation.stepped",
    "transaction.settled",
    "transaction.committed",
    "relay.sending",
    "relay.sent",
    "relay.acknowledged",
    "shards.giving",
    "shards.given",
    "recut.locking",
    "recut.workers_read",
    "recut.written",
    "dead.declared",
    "visits.recovered",
    "pool.leaving",
    "batch.writing",
    "batch.fenced",
    "batch.written",
    "batch.committed",
    "pull.held",
    "answers.committed",
)

listener: Callable[[str], None] | None = None


def passed(step: str) -> None:
    """Tell the listener, if there is one, that this step was reached."""
    if listener is not None:
        listener(step)


def die_at(step: str, times: int = 1) -> None:
    """Kill this process (SIGKILL) when a step is reached for the nth time."""
    global listener
    if step not in STEPS:
        raise ValueError(f"no step is named {step!r}; there are {', '.join(STEPS)}")
    left = times

    def count(reached: str) -> None:
        nonlocal left
        if reached == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    listener = count


if _wish := os.environ.get("MAINSPRING_DIE_AT"):
    _step, _, _times = _wish.partition(":")
    die_at(_step, int(_times or 1))
