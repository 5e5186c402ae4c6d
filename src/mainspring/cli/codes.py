"""Exit codes, and which error means which."""

from __future__ import annotations

from mainspring.errors import (
    DatabaseUnavailable,
    InvalidArguments,
    InvalidKey,
    InvalidSetting,
    InvalidTime,
    InvalidTrigger,
    InvalidValue,
    MainspringError,
    MissingExtra,
    MixedPool,
    NotFound,
    UnknownKind,
    UnknownParam,
    UnknownProcess,
    UnknownReactiveTask,
    UnknownSignal,
    UnknownStage,
    UnknownTask,
)

OK = 0
PROBLEM = 1
USAGE = 2
UNAVAILABLE = 3
NOT_FOUND = 4
WORN_OUT = 75  # of a worker process: too many of its runs hang; it left in order, start another
INTERRUPTED = 130  # as a shell says it: twice signalled, or before anything began

HELP = (
    "Exit codes: 0 done; 1 failed, or a problem was found; 2 wrong usage; "
    "3 the database is not available; 4 what was named is not there."
)


def code_of(error: BaseException) -> int | None:
    """The exit code of an error that a user may meet; None for one that is our own fault."""
    import asyncpg  # the drivers are heavy, and not every command needs them
    import psycopg

    match error:
        case DatabaseUnavailable() | OSError() | asyncpg.PostgresConnectionError():
            return UNAVAILABLE
        case asyncpg.InterfaceError() | asyncpg.CannotConnectNowError():
            return UNAVAILABLE
        case NotFound() | UnknownTask() | UnknownKind() | UnknownStage():
            return NOT_FOUND
        case UnknownParam() | UnknownReactiveTask() | UnknownProcess() | UnknownSignal():
            return NOT_FOUND
        case InvalidValue() | InvalidTrigger() | MissingExtra():
            return USAGE
        case MixedPool() | InvalidSetting() | InvalidArguments() | InvalidKey() | InvalidTime():
            return USAGE
        case MainspringError() | asyncpg.PostgresError() | psycopg.Error():
            return PROBLEM
        case _:
            return None
