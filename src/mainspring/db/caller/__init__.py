"""A caller's own transaction: what is given as `on=`, of whatever library it is, as a `Tx` of ours.

It promises that what is written is part of the caller's transaction, if one is open or would be opened by
the next statement; where the connection commits by itself, the verb is a transaction of its own. What is no
connection, or leads to another database, is refused before anything is sent to it.
No library is imported that the caller has not imported: an object is judged by modules that are loaded.

drivers.py          connections of psycopg and asyncpg, and their state
from_django.py      Django's connections and their aliases
from_sqlalchemy.py  sessions and connections of SQLAlchemy 2
refused.py          the errors: what was given, what is taken
tx_on.py            the door: the caller's transaction, or a connection of ours
types.py            what `on=` takes, as types
"""

from __future__ import annotations

from mainspring.db.caller.tx_on import Verb as Verb
from mainspring.db.caller.tx_on import caller_tx as caller_tx
from mainspring.db.caller.tx_on import caller_tx_sync as caller_tx_sync
from mainspring.db.caller.tx_on import tx_on as tx_on
from mainspring.db.caller.tx_on import tx_on_sync as tx_on_sync
from mainspring.db.caller.types import AsyncCaller as AsyncCaller
from mainspring.db.caller.types import Caller as Caller
from mainspring.db.caller.types import SyncCaller as SyncCaller
