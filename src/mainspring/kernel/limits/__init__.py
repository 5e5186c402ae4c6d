"""Limits: how much may run, by queue, group and key. Pure memory, no I/O.

breaker.py what a queue or a group does when its runs fail in a row
bucket.py  how many starts a rate allows, and this worker's part of a queue's limits
groups.py  limits per group (a tenant, an account): how many run, how many start a second
turns.py   queues of one class run one visit of a key at a time
"""
