"""What an operator asks and orders.

history.py     what was run, searched by queue, key, time, outcome, error and payload field
               (T7)
invariants.py  the invariants (`mainspring.violation`), looked at within a time that an
               operator waits
parked.py      those that need an operator
queues.py      queues as an operator sees and sets them: their load, pause and resume, limits
register.py    what the code declares becomes known to the database
rights.py      the rights that a role needs (T11), for the doctor to look for
status.py      the state of the engine at a glance: workers, pools, queues, lag, throughput
visits.py      live visits as an operator sees them: found by key, listed by queue
why.py         why a visit has not run: named causes with facts, from one look at the database
sql/           the statements that they send, one a file
"""
