"""The database: how to reach it, how statements are loaded, how the schema is made.

Knows nothing of visits; everything above may import it.

batcher.py       many callers, one statement
database.py      an address that was checked, and connections to it
home.py          whether a connection of a caller's leads to the application's own database
idle.py          connections that are kept for the next one who needs them
pool.py          the application's pool of connections
reconnecting.py  what goes on through an outage: connections, loops, a worker's start
shared.py        the connections that the parts of a worker share
session.py       the connection of one thread, opened again when it breaks
sql.py           statements from files, values as text, and generators of statements without I/O
tx.py            statements with types, on a connection of any driver; the engine's own connection
unread.py        whether an idle connection was closed by the other side

caller/   a caller's own transaction, of whatever library
connect/  one connection, whatever the network does
schema/   migrations, functions, rights of roles
"""
