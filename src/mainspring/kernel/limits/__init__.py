"""Limits: how much may run, by queue, group and key. Pure memory, no I/O.

bucket.py  pure arithmetic of rates, of groups and of a worker's part of a queue's limits
groups.py  limits per tenant, account or whatever users group by
turns.py   queues of one class run one visit of a key at a time
"""
