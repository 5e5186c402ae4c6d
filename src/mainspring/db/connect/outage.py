"""What callers are told when the database fails them: one family of errors, whichever driver it was.

`NotDone`: nothing was done, and it may be sent again. `OutcomeUnknown`: the connection went while the
answer was awaited. What the server says of the statement itself (a constraint, a right) stays as it is.
"""

from __future__ import annotations

import asyncpg
import psycopg

from mainspring.errors import DatabaseUnavailable, NotDone, OutcomeUnknown

# The session ended: told to, crashed, idle for too long.
_ENDED = ("57P01", "57P02", "57P05", "25P03", "25P04")
# The server said no to the statement for a reason of its own: read-only, a deadlock or conflict, no room,
# a lock that did not come, out of time, starting up, trouble with its files.
_NOT_NOW = ("25006", "40", "53", "55P03", "57014", "57P03", "58")

# SQLSTATE classes of the connection and the server: the statement is fine and can be sent again.
_TRANSIENT = ("08", "25", "26", "28", "3D", "40", "53", "55", "57", "58")


def outage(error: BaseException, *, lost: bool, undone: bool) -> DatabaseUnavailable | None:
    """The error for a caller; None if it is no matter of the connection or the server.

    `lost`: the connection is gone. `undone`: COMMIT was not sent, so nothing can have been done.
    """
    if not isinstance(error, _DRIVERS_ERRORS):
        return None
    state = str(getattr(error, "sqlstate", None) or "")
    reason = " ".join(str(error).split()) or type(error).__name__
    if state.startswith(_NOT_NOW):
        return NotDone(f"the database could not do it just now, and did nothing: {reason}")
    if not (lost or state in _ENDED or state.startswith("08") or is_unsent(error)):
        return None
    if undone or is_unsent(error):
        return NotDone(
            f"the connection to the database was lost before anything was done: {reason}"
        )
    return OutcomeUnknown(
        "the connection to the database was lost before the answer came; look whether it was done "
        f"before you send it again: {reason}"
    )


_DRIVERS_ERRORS = (
    *(asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError),
    *(psycopg.Error, OSError),
)


def is_unsent(error: BaseException) -> bool:
    """Whether asyncpg refused to send on a connection that had just been ended."""
    return isinstance(error, asyncpg.InternalClientError)


def is_transient(error: BaseException) -> bool:
    """Whether the same statement may succeed when sent again."""
    state = getattr(error, "sqlstate", None)
    if state:
        return str(state)[:2] in _TRANSIENT
    return isinstance(
        error,
        DatabaseUnavailable
        | OSError
        | asyncpg.InterfaceError
        | asyncpg.InternalClientError  # how asyncpg may meet a connection that was just cut
        | TimeoutError
        | EOFError
        | psycopg.OperationalError,
    )
