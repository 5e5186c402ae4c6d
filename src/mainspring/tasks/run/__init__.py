"""Running tasks: handlers, threads, the context, connections for the tasks' own SQL.

connections.py  connections for the tasks' own SQL: at most one a slot, opened when asked for
context.py      what a running task can know and do (`ctx`)
cutting.py      cuts the connections that tasks are using when the worker is fenced
execute.py      the kernel's handler of a task, and threads for plain functions
progress.py    how far runs are, written for many at once
queue.py        a task as the kernel sees it: a queue, and perhaps a recurring visit
"""
