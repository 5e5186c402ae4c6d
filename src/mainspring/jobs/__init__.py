"""The engine's own work, above the kernel's door: bulk operations, schedules, the upkeep of history.

bulk.py        operations on any visits: restart or delete parked ones, put past tasks back
chores.py      what layers do now and then to their tables
cron.py        when a cron line comes next, in the time zone it names; pure, no I/O
doctor.py      what is wrong with history's days and with recurring visits
flood.py       flags a queue in which more visits wait than its bound allows
layer.py       these jobs as a layer of the worker: their queues, handlers, operations and chores
operation.py   an operator's bulk jobs: items, progress, pause, resume and cancel
recurring.py   orders about schedules: declared by code, or made and changed at run time
schedule.py    a schedule, and which of its ticks are due; pure, no I/O
task_operator.py  orders on live calls of tasks, one at once, many as an operation
task_orders.py cancel live calls of tasks, or have them run now, by a filter
statements.py  the statements by name
ticking.py     the ticks of schedules, each once
upkeep.py      makes days of history ahead, drops old ones, forgets dead workers
sql/           the statements, one a file; those that write visits are in the kernel

This file is the door: layers import the names below and nothing behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazily import on_demand

if TYPE_CHECKING:
    from mainspring.jobs.bulk import OPERATIONS
    from mainspring.jobs.cron import check_schedule, next_tick
    from mainspring.jobs.operation import Operation, list_operations, start_operation
    from mainspring.jobs.recurring import START_QUEUE, sync_recurring
    from mainspring.jobs.schedule import Schedule
else:
    __getattr__ = on_demand(
        __name__,
        {
            "bulk": "OPERATIONS",
            "cron": "check_schedule next_tick",
            "operation": "Operation list_operations start_operation",
            "recurring": "START_QUEUE sync_recurring",
            "schedule": "Schedule",
        },
    )
