"""Running: slots execute the visits that were read, and the buffer chooses the next.

buffer.py      visits that wait for a slot, and what keeps each of them back
doubted.py     what waits and is said to be gone is read again before it starts
fairness.py    which visit starts next, and whether it may, as far as other queues are concerned
hanging.py     stops runs; those that do not end go on outside of their slots
own_slots.py   slots of queues that have slots of their own
queue.py       a queue in memory: settings, limits, groups, how far it was read, and what waits
run_log.py     the log events of runs: began, held, ended, failed
runner.py      the slots: call a handler, wait for it, stop it, note its outcome
suspects.py    visits that may have killed a worker are started a few at a time
suspended.py   the rest of a handler that has suspended, in its own context
"""
