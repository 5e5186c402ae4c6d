"""Enqueueing: calls become visits.

by_function.py  through the schema's function, for roles without rights on the tables
copy_rows.py    many fresh calls as rows in COPY's binary form
enqueue.py      one call or many, on the application's connection or the caller's
keys.py          whose calls are encrypted with a key that is not here
orders.py       cancel a call, or have it run now
results.py      what became of many calls, each as it ends; how far one is
sql/            the statements that they send, one a file
"""
