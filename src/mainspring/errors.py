"""Every exception a caller of Mainspring may meet.

A message says what happened, with which value, and what to do. The values are attributes too,
and `code` is stable: it is what an API or a log filter may rely on.
Past 400 lines: one short class after another, all a caller may meet in one place.
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
    """The database cannot be reached, or cannot do what was asked just now.

    It is a `NotDone` or an `OutcomeUnknown`, where that is known.
    """

    code = "database_unavailable"
    passes = False  # a server is there, and said that it takes nobody just now


class NotDone(DatabaseUnavailable):
    """Nothing was done: it may be sent again."""

    code = "not_done"


class OutcomeUnknown(DatabaseUnavailable):
    """The connection was lost before the answer: it may have been done, or not."""

    code = "outcome_unknown"


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


class QueueFull(MainspringError):
    """So many calls of the task wait as may: nothing was enqueued."""

    code = "queue_full"


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
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        super().__init__(f"no task is named {name!r}{hint} declare it with @app.task")


class InvalidKind(MainspringError, ValueError):
    """A kind of entities cannot be as it is declared, or cannot stand on its table."""

    code = "invalid_kind"


class DuplicateKind(InvalidKind):
    """Two kinds, or a kind and a task, claim one name."""

    code = "duplicate_kind"


class UnknownKind(MainspringError, LookupError):
    """No kind of that name is declared, or registered in the database."""

    code = "unknown_kind"


class InvalidStage(MainspringError, TypeError):
    """A class or function cannot be a stage as it is declared."""

    code = "invalid_stage"


class DuplicateStage(InvalidStage):
    """Two stages of a kind claim one name."""

    code = "duplicate_stage"


class UnknownStage(MainspringError, LookupError):
    """The kind has no stage of that name."""

    code = "unknown_stage"

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        near = get_close_matches(name, list(known), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"declare it with @{kind}.stage"
        super().__init__(f"kind {kind!r} has no stage {name!r}; {hint}")


class InvalidOutcome(MainspringError, TypeError):
    """A stage returned what is no outcome, or one that cannot be saved."""

    code = "invalid_outcome"


class UndeclaredField(InvalidOutcome):
    """A stage changed a field that it does not declare in `writes`."""

    code = "undeclared_field"


class UnreadableEntity(MainspringError):
    """An entity does not fit its kind's model."""

    code = "unreadable_entity"


class UnreadableState(MainspringError, ValueError):
    """A stage's stored state does not decode; it is kept as it is."""

    code = "unreadable_state"


class NewerState(UnreadableState):
    """A stage's stored state was written by newer code than this."""

    code = "newer_state"


class SaveRefused(MainspringError):
    """A save or an edit did not change its row: a trigger or the database keeps it as it was."""

    code = "save_refused"


class StageLoop(MainspringError):
    """Stages set each other off without end; the save that would close the circle was not written."""

    code = "stage_loop"


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
    """Workers of another application serve this pool, of the release before, which cannot share it."""

    code = "mixed_pool"

    def __init__(self, pool: str, mine: list[str], theirs: list[str], place: str) -> None:
        self.pool = pool
        self.mine = mine
        self.theirs = theirs
        super().__init__(
            f"pool {pool!r} is served by another application ({place}, with the queues "
            f"{_listed(theirs)}), which cannot run this one's ({_listed(mine)}) and is of the "
            "release before, which cannot share a pool; upgrade it first, or give one of them a pool of "
            "its own: Mainspring(pool='...')"
        )


def _listed(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


class WorkerLost(MainspringError):
    """A worker process ended for a reason of its own and was not replaced."""

    code = "worker_lost"


class InvalidValue(MainspringError, ValueError):
    """A param cannot have this value: another kind, no time zone, or out of range."""

    code = "invalid_value"


class InvalidTrigger(MainspringError, ValueError):
    """A trigger cannot be as it is written."""

    code = "invalid_trigger"


class InvalidChunk(InvalidTrigger):
    """No such chunk of time, or one whose starts would not follow the zone's clock."""

    code = "invalid_chunk"


class UnknownFormat(MainspringError):
    """A trigger was written by a newer release than this one."""

    code = "unknown_format"


class UnknownParam(MainspringError, LookupError):
    """No param of that name is declared or created."""

    code = "unknown_param"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        near = get_close_matches(name, list(known), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        super().__init__(
            f"no param is named {name!r}{hint} declare it with app.data(...).param(...), or create "
            "it with `mainspring params create`"
        )


class WentBack(MainspringError, ValueError):
    """A param would go back by a plain advance; the caller's transaction is not spoilt."""

    code = "went_back"

    def __init__(self, param: str, old: object, new: object) -> None:
        self.param = param
        self.old = old
        self.new = new
        super().__init__(
            f"param {param!r} would go back from {old} to {new}; if the data was restated say so with "
            "rewind, if others may be ahead use if_greater=True "
            "(`mainspring params rewind`, `--if-greater`)"
        )


class UnknownReactiveTask(MainspringError, LookupError):
    """No reactive task of that name is registered."""

    code = "unknown_reactive_task"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        near = get_close_matches(name, list(known), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        super().__init__(
            f"no reactive task is named {name!r}{hint} declare it with @app.task(when=...); it is "
            "registered by a worker or by `mainspring reactive apply`"
        )


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


class WorkTimeout(MainspringError, TimeoutError):
    """A run of a process's task neither ended nor beat within its actor's work timeout."""

    code = "work_timeout"


class ProcessFailed(MainspringError):
    """Raised by `process.result()` when the process ended with an error or was cancelled."""

    code = "process_failed"

    def __init__(self, message: str, *, state: str, failure: object = None) -> None:
        self.state = state
        self.failure = failure
        super().__init__(message)


class Refused(MainspringError):
    """An order was refused as it stands; the message says what to do instead."""

    code = "refused"
