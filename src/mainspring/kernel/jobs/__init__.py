"""The engine's own work: bulk operations, recurring visits, the upkeep of history.

bulk.py       the kernel's kinds of operations: restart or delete parked visits, put past
              tasks back
cron.py       when they come, in the time zone they name
flood.py      a role that only enqueues can fill a queue faster than anybody notices
operation.py  an operator's bulk jobs, with items, progress, pause, resume and cancel
recurring.py  targets that come again by a cron line, in the time zone they name
upkeep.py     history's days are made ahead and dropped by age, notes of dead workers
              forgotten
sql/          the statements that they send, one a file
"""
