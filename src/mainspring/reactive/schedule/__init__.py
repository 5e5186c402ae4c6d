"""Scheduling: changes lead to checks, checks to firings, firings to slots.

admit.py    admitting firings to a pool with a cap: one decision at a time, in the order of
            importance (R8, R9)
audit.py    looking after reactive tasks: what must not be and what is old hourly, the missing
            each minute
change.py   a param was set, so its consumers are to be checked
check.py    read everything in one statement, decide in memory, write if the turn holds
expect.py   a task that says within what time it expects a success is reported (R14)
reserve.py  slots kept for a more important task whose data is being brought
sql/        the statements that they send, one a file
"""
