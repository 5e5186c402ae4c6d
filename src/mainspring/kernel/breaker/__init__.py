"""Breakers of queues and groups, which all workers share: counted and opened in the database.

breaking.py  tells the database of runs that failed or succeeded, and starts nothing until it has answered

What a breaker is, and what counts, is in limits/breaker.py. That it is open reaches each worker with the
settings of its queues (lease/sql/read_queues.sql): an open one is a pause, one that is tried is a limit.
"""
