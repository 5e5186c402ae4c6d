"""Settling: the outcomes of runs are written, many in one statement.

batches.py  which runs are settled together; arguments and answers of the settle statements
locks.py    locks the visits of runs, for a layer that writes more than their settle
settler.py  collects runs that have ended, and writes their outcomes, with what layers write
sql/        the statements that they send, one a file
"""
