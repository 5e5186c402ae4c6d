"""Breakers of queues and groups, which all workers share: counted and opened in the database.

breaker.py     what a queue or a group declares: after how many failures it stops, and for how long
counts.py      what runs have come to and the database does not know yet
judgement.py   when a queue or a group is halted, and how its breaker stands; no I/O
breaking.py    tells the database of what it has to know
layer.py       breakers as a layer of a worker
statements.py  their statements by name
sql/           one a file

A layer above the kernel, which asks it for a `Judge` and knows no more of it. That a breaker is open
reaches each worker with the settings of its queues (kernel, read_queues.sql): an open one is a pause, one
that is tried is a limit.
"""
