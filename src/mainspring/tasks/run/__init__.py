"""Running tasks: handlers, threads, the context, connections for the tasks' own SQL.

connections.py  connections for the tasks' own SQL: one per slot at most, opened when first
                asked for (T9)
context.py      what a running task can know and do
cutting.py      connections that tasks are using, and how they are broken off when the worker
                is fenced
execute.py      the kernel's handler of a task, and threads for plain functions
queue.py        A task as the kernel sees it: its queue, and its cron line as a recurring
                visit
"""
