"""Settling: the outcomes of runs are written, many in one statement.

batches.py  which runs are settled together; locks, arguments and answers of their statements
settler.py  collects runs that have ended, and writes their outcomes, with what layers write
sql/        the statements that they send, one a file
"""
