"""Settling: the outcomes of runs are written, many in one statement.

batches.py  what a settle says and is told: arguments and answers of settle.sql and its short
            forms, settle_done.sql and settle_bundle.sql
locks.py    locking the visits of runs: what a layer does first when it writes more than a
            settle
settler.py  writes the outcomes of runs, many in one statement
sql/        the statements that they send, one a file
"""
