"""Every exception a caller of Mainspring may meet.

A message says what happened, with which value, and what to do. The values are attributes too,
and `code` is stable: it is what an API or a log filter may rely on.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class MainspringError(Exception):
    """The base of all errors that Mainspring raises on purpose."""

    code = "error"


class InvalidSetting(MainspringError, ValueError):
    """A setting is out of range, contradicts another or is not of its type."""

    code = "invalid_setting"


class InvalidUrl(InvalidSetting):
    """The database's address cannot be read."""

    code = "invalid_url"


class DatabaseUnavailable(MainspringError):
    """The database cannot be reached; nothing is known of what was under way."""

    code = "database_unavailable"


class UnsupportedServer(MainspringError):
    """The server is too old, or set up in a way Mainspring cannot work with."""

    code = "unsupported_server"


class EmbeddedServerError(MainspringError):
    """The embedded PostgreSQL could not be started, reached or stopped."""

    code = "embedded_server"


class MissingRights(MainspringError):
    """The role may not do what Mainspring needs."""

    code = "missing_rights"


class SchemaError(MainspringError):
    """The schema is absent, older than the code needs, or newer than the code knows."""

    code = "schema"


class MigrationFailed(SchemaError):
    """A migration was rolled back; the schema is as it was before it."""

    code = "migration_failed"


class InvalidTask(MainspringError, TypeError):
    """A function cannot be a task as it is declared."""

    code = "invalid_task"


class DuplicateTask(InvalidTask):
    """Two functions claim one task name."""

    code = "duplicate_task"


class UnknownTask(MainspringError, LookupError):
    """No task of that name is declared in this application."""

    code = "unknown_task"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        near = get_close_matches(name, list(known), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(f"no task is named {name!r}{hint} declare it with @app.task")


class InvalidArguments(MainspringError, TypeError):
    """The arguments of a task do not fit its signature or cannot be written as JSON."""

    code = "invalid_arguments"


class PayloadTooLarge(InvalidArguments):
    """The arguments or the result are larger than a visit may carry."""

    code = "payload_too_large"


class InvalidKey(MainspringError, ValueError):
    """A key or group is empty, too long, or has characters PostgreSQL cannot store."""

    code = "invalid_key"


class InvalidTime(MainspringError, ValueError):
    """A time has no zone, is not finite or contradicts another."""

    code = "invalid_time"


class Fenced(MainspringError):
    """This run no longer counts: its visit was settled, taken over or deleted meanwhile.

    Raised by `ctx.transaction()`, which has rolled everything back.
    """

    code = "fenced"


class TaskFailed(MainspringError):
    """Raised by `handle.result()` when the task was parked or cancelled."""

    code = "task_failed"

    def __init__(self, message: str, *, outcome: str, error: str | None = None) -> None:
        self.outcome = outcome
        self.error = error
        super().__init__(message)


class ResultTimeout(MainspringError, TimeoutError):
    """Raised by `handle.result(timeout=...)` when the task has not ended in time."""

    code = "result_timeout"


class NotFound(MainspringError, LookupError):
    """What was asked for is not there."""

    code = "not_found"


class MixedPool(MainspringError):
    """Workers of another application serve this pool: neither could run the other's visits."""

    code = "mixed_pool"

    def __init__(self, pool: str, mine: list[str], theirs: list[str], place: str) -> None:
        self.pool = pool
        self.mine = mine
        self.theirs = theirs
        super().__init__(
            f"pool {pool!r} is served by another application ({place}, with the queues "
            f"{_listed(theirs)}), which cannot run this one's ({_listed(mine)}); give the tasks of "
            "one of them a pool of their own: @app.task(pool='...') and mainspring worker --pool"
        )


def _listed(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


class WorkerLost(MainspringError):
    """A worker process ended for a reason of its own and was not replaced."""

    code = "worker_lost"


class PromiseMisused(MainspringError, TypeError):
    """A decider asked a promise for the value that it does not have yet."""

    code = "promise_misused"


class PromiseAttribute(PromiseMisused, AttributeError):
    """The same, by an attribute of the value."""

    code = "promise_attribute"


class OutcomeFailed(MainspringError):
    """The value of an `Outcome` was asked for, and its task had failed."""

    code = "outcome_failed"

    def __init__(self, message: str, failure: object = None) -> None:
        self.failure = failure
        super().__init__(message)


class InvalidDecision(MainspringError, ValueError):
    """A decision cannot be committed: it names a promise it was not given, or is too wide."""

    code = "invalid_decision"


class NoDecider(MainspringError, RuntimeError):
    """Something that only a decider can do was asked for outside of one."""

    code = "no_decider"


class InvalidProcess(InvalidTask):
    """A function cannot be a process as it is declared."""

    code = "invalid_process"


class UnknownProcess(MainspringError, LookupError):
    """No process type of that name is declared in this application."""

    code = "unknown_process"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        near = get_close_matches(name, list(known), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        super().__init__(f"no process type is named {name!r}{hint} declare it with @app.process")


class UnknownSignal(MainspringError, LookupError):
    """No signal of that name is declared in this application."""

    code = "unknown_signal"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        near = get_close_matches(name, list(known), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        super().__init__(
            f"no signal is named {name!r}{hint} declare it with app.signal(name, type)"
        )


class IdInUse(MainspringError):
    """A process was started with an id that another one has, and it was asked to refuse that."""

    code = "id_in_use"


class ProcessFailed(MainspringError):
    """Raised by `process.result()` when the process ended with an error or was cancelled."""

    code = "process_failed"

    def __init__(self, message: str, *, state: str, failure: object = None) -> None:
        self.state = state
        self.failure = failure
        super().__init__(message)


class Refused(MainspringError):
    """An order to a process was refused as it stands; the message says what to do instead."""

    code = "refused"
