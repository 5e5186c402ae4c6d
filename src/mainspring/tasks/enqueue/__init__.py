"""Enqueueing calls, and waiting for what they come to.

by_function.py  enqueueing by the schema's function: for roles that may not write or read
                `mainspring.visit`
copy_rows.py    fresh calls as rows in COPY's binary form
enqueue.py      visits from calls, one or many, on the application's connection or the
                caller's
sql/            the statements that they send, one a file
"""
