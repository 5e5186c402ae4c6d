"""What an operator asks and orders.

history.py     searches past runs by queue, key, time, outcome, error and payload field
invariants.py  looks for broken invariants (`mainspring.violation`) within a bounded time
parked.py      parked visits: listed, counted, restarted, cancelled
queues.py      queues: their load, pause and resume, limits
register.py    makes the queues that the code declares known to the database
rights.py      which rights a role lacks, for the doctor
status.py      the engine at a glance: workers, pools, queues, lag, throughput
visits.py      live visits: found by key, listed by queue
why.py         why a visit has not run: named causes with facts
sql/           the statements that they send, one a file
"""
