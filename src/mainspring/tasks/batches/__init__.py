"""Batches: one call of a function for many calls of its task that wait.

collector.py  collects the runs of a batch task, calls its function, and gives each its own end
"""
