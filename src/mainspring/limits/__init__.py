"""Limits: how much may run, by queue, group and key. Pure memory, no I/O; nothing here knows what a run is.

bucket.py  how many starts a rate allows
parts.py   this worker's part of a queue's limits
groups.py  limits per group (a tenant, an account): how many run, how many start a second
turns.py   queues of one class run one visit of a key at a time
waiting.py what limits must know of a visit
tuning.py  the constants, with their reasons

The kernel imports the names below, and nothing behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazily import on_demand

if TYPE_CHECKING:
    from mainspring.limits.bucket import Bucket
    from mainspring.limits.groups import Groups
    from mainspring.limits.parts import Part, QueueLimits, fair_size, next_part
    from mainspring.limits.tuning import LimitTuning
    from mainspring.limits.turns import Turn, Turns
else:
    __getattr__ = on_demand(
        __name__,
        {
            "bucket": "Bucket",
            "groups": "Groups",
            "parts": "Part QueueLimits fair_size next_part",
            "tuning": "LimitTuning",
            "turns": "Turn Turns",
        },
    )
