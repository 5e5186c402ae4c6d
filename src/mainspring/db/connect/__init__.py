"""Reaching PostgreSQL: one connection, whatever the network does.

attempt.py    opening a connection without being at the mercy of the network
hosts.py      the hosts of an address, and in which order and for how long each is tried
keepalive.py  how long a connection outlives its other end: a dead client leaves no backend, a
              dead server no waiter
options.py    the `options` of an address, read as the server would read them, so that ours
              can be added
outage.py     what callers are told when the database fails them: one family of errors,
              whichever driver it was
"""
