"""Running: slots execute the visits that were read, and the buffer chooses the next.

buffer.py      visits that wait for a slot, and the choice of the next one to start
current.py     the run that the executing code belongs to, as a context variable
hanging.py     runs that were told to end and have not: their slots go on without them
level.py       the waiting visits of one queue and priority, the oldest first
loop_watch.py  finds out that a task blocks the event loop, and on which line
queue.py       a queue in memory: its settings, limits, groups and known keys
run_log.py     the log events of runs: began, held, ended, failed
runner.py      the slots: start a run, wait for it, stop it, note its outcome
suspects.py    visits that may have killed a worker are started a few at a time
suspended.py   the rest of a handler that has suspended, resumed in its own context
threads.py     waits for a thread even if the waiting task is cancelled
"""
