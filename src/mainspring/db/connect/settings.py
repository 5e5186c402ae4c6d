"""What a session of ours sets, so that no default of the server or the role can weaken a promise.

Behind a transaction pooler (PgBouncer) nothing belongs to a session: there each transaction sets what it
needs by the texts ENGINE_LOCAL and CLIENT_LOCAL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

from mainspring.db.connect import keepalive

# The engine's waits are shorter than the server's deadlock_timeout (1 s): in a deadlock with a
# user's transaction the engine gives way, never the user.
ENGINE: Mapping[LiteralString, LiteralString] = {
    "synchronous_commit": "on",
    "default_transaction_isolation": "read committed",
    "datestyle": "ISO",  # psycopg reads no other, whatever the database's own setting
    "statement_timeout": "30s",
    "lock_timeout": "200ms",
    "idle_in_transaction_session_timeout": "30s",
    # The hot statements must ride their indexes whatever the statistics say: a plan made while the
    # table was empty would else scan it when it holds a million rows.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}
CLIENT: Mapping[LiteralString, LiteralString] = {
    "synchronous_commit": "on",
    "default_transaction_isolation": "read committed",
    "datestyle": "ISO",
    "statement_timeout": "60s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "jit": "off",
}
LINE: Mapping[str, str] = {**keepalive.SERVER, **keepalive.SERVER_LOOKS}
OURS: Mapping[str, str] = {**ENGINE, **CLIENT, **LINE, "application_name": ""}


def _local(settings: Mapping[LiteralString, LiteralString]) -> LiteralString:
    kept = {k: v for k, v in settings.items() if k != "default_transaction_isolation"}
    return "; ".join([f"set local {name} = '{value}'" for name, value in kept.items()])


ENGINE_LOCAL: LiteralString = _local(ENGINE)
CLIENT_LOCAL: LiteralString = _local(CLIENT)
