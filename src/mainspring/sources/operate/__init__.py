"""Questions and orders about sources.

operator.py  how partitions stand; pause, resume, seek; records that were put aside
doctor.py    what is wrong with sources
"""
