"""Breakers of queues and groups, which all workers share: counted and opened in the database.

breaker.py   what a queue or a group does when its runs fail in a row
breaking.py  tells the database of runs that failed or succeeded, and starts nothing until it has answered

That it is open reaches each worker with the
settings of its queues (lease/sql/read_queues.sql): an open one is a pause, one that is tried is a limit.
"""
