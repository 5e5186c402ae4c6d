"""The engine's own work: bulk operations, recurring visits, the upkeep of history.

bulk.py       the kernel's operations: restart or delete parked visits, put past tasks back
cron.py       when a cron line comes next, in the time zone it names; pure, no I/O
flood.py      flags a queue in which more visits wait than its bound allows
layer.py      these jobs as a layer of the worker: their queues, handlers and operations
operation.py  an operator's bulk jobs: items, progress, pause, resume and cancel
recurring.py  visits that come again by a cron line
upkeep.py     makes days of history ahead, drops old ones, forgets dead workers
sql/          the statements that they send, one a file
"""
