"""Reaching PostgreSQL: one connection, whatever the network does.

address.py    an address: checked, shown, and in the form that each driver reads
attempt.py    opens a connection within a time limit, whatever the network does
hosts.py      the hosts of an address: their order, and how long each is tried
keepalive.py  how soon a dead client or server is noticed
options.py    reads the `options` of an address, so that ours can be added
outage.py     the errors that callers get when the database fails them, and which of them pass
settings.py   what each session of ours sets
tries.py      the hosts are tried until one lets us in
types.py      what the catalog says of types, asked for once
"""
