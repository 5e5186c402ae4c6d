"""Every exception a caller of Mainspring may meet.

A message says what happened, with which value, and what to do. The values are attributes too,
and `code` is stable: it is what an API or a log filter may rely on.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from mainspring.phrases import nearest


class MainspringError(Exception):
    """The base of all errors that Mainspring raises on purpose."""

    code = "error"

    def __init_subclass__(cls, code: str | None = None) -> None:
        cls.code = code or cls.code


class UnknownName(MainspringError, LookupError, code="unknown_name"):
    """Nothing of that name is declared; the nearest name that is one is said."""

    noun = how = name = ""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        near = nearest(name, known) or ";"
        super().__init__(f"no {self.noun} is named {name!r}{near} {self.how}")


class InvalidSetting(MainspringError, ValueError, code="invalid_setting"):
    """A setting is out of range, contradicts another or is not of its type."""


class InvalidUrl(InvalidSetting, code="invalid_url"):
    """The database's address cannot be read."""


class DatabaseUnavailable(MainspringError, code="database_unavailable"):
    """The database cannot be reached, or cannot do what was asked just now.

    It is a `NotDone` or an `OutcomeUnknown`, where that is known.
    """

    passes = False  # a server is there, and said that it takes nobody just now


class NotDone(DatabaseUnavailable, code="not_done"):
    """Nothing was done: it may be sent again."""


class OutcomeUnknown(DatabaseUnavailable, code="outcome_unknown"):
    """The connection was lost before the answer: it may have been done, or not."""


class UnsupportedServer(MainspringError, code="unsupported_server"):
    """The server is too old, or set up in a way Mainspring cannot work with."""


class EmbeddedServerError(MainspringError, code="embedded_server"):
    """The embedded PostgreSQL could not be started, reached or stopped."""


class MissingRights(MainspringError, code="missing_rights"):
    """The role may not do what Mainspring needs."""


class SchemaError(MainspringError, code="schema"):
    """The schema is absent, older than the code needs, or newer than the code knows."""


class MigrationFailed(SchemaError, code="migration_failed"):
    """A migration was rolled back; the schema is as it was before it."""


class QueueFull(MainspringError, code="queue_full"):
    """So many calls of the task wait as may: nothing was enqueued."""


class InvalidTask(MainspringError, TypeError, code="invalid_task"):
    """A function cannot be a task as it is declared."""


class DuplicateTask(InvalidTask, code="duplicate_task"):
    """Two functions claim one task name."""


class UnknownTask(UnknownName, code="unknown_task"):
    """No task of that name is declared in this application."""

    noun = "task"
    how = "declare it with @app.task"


class InvalidKind(MainspringError, ValueError, code="invalid_kind"):
    """A kind of entities cannot be as it is declared, or cannot stand on its table."""


class DuplicateKind(InvalidKind, code="duplicate_kind"):
    """Two kinds, or a kind and a task, claim one name."""


class UnknownKind(MainspringError, LookupError, code="unknown_kind"):
    """No kind of that name is declared, or registered in the database."""


class InvalidStage(MainspringError, TypeError, code="invalid_stage"):
    """A class or function cannot be a stage as it is declared."""


class DuplicateStage(InvalidStage, code="duplicate_stage"):
    """Two stages of a kind claim one name."""


class UnknownStage(MainspringError, LookupError, code="unknown_stage"):
    """The kind has no stage of that name."""

    kind = name = ""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind = kind
        self.name = name
        hint = nearest(name, known) or f"; declare it with @{kind}.stage"
        super().__init__(f"kind {kind!r} has no stage {name!r}{hint}")


class InvalidOutcome(MainspringError, TypeError, code="invalid_outcome"):
    """A stage returned what is no outcome, or one that cannot be saved."""


class UndeclaredField(InvalidOutcome, code="undeclared_field"):
    """A stage changed a field that it does not declare in `writes`."""


class UnreadableEntity(MainspringError, code="unreadable_entity"):
    """An entity does not fit its kind's model."""


class UnreadableState(MainspringError, ValueError, code="unreadable_state"):
    """A stage's stored state does not decode; it is kept as it is."""


class NewerState(UnreadableState, code="newer_state"):
    """A stage's stored state was written by newer code than this."""


class SaveRefused(MainspringError, code="save_refused"):
    """A save or an edit did not change its row: a trigger or the database keeps it as it was."""


class StageLoop(MainspringError, code="stage_loop"):
    """Stages set each other off without end; the save that would close the circle was not written."""


class InvalidArguments(MainspringError, TypeError, code="invalid_arguments"):
    """The arguments of a task do not fit its signature or cannot be written as JSON."""


class PayloadTooLarge(InvalidArguments, code="payload_too_large"):
    """The arguments or the result are larger than a visit may carry."""


class UnknownCipherKey(InvalidArguments, code="unknown_cipher_key"):
    """What is stored is encrypted with a key that this process does not have."""

    def __init__(self, text: str, *, key: str) -> None:
        self.key = key
        super().__init__(text)


class InvalidKey(MainspringError, ValueError, code="invalid_key"):
    """A key or group is empty, too long, or has characters PostgreSQL cannot store."""


class InvalidTime(MainspringError, ValueError, code="invalid_time"):
    """A time has no zone, is not finite or contradicts another."""


class Fenced(MainspringError, code="fenced"):
    """This run no longer counts: its visit was settled, taken over or deleted meanwhile.

    Raised by `ctx.transaction()`, which has rolled everything back.
    """


class HelperDied(MainspringError, code="helper_died"):
    """The process that ran a function with `executor="process"` has ended before the function did.

    `signal` is the name of what ended it, such as "SIGSEGV"; else it left with `exit_code`.
    """

    def __init__(
        self, message: str, *, exit_code: int | None = None, signal: str | None = None
    ) -> None:
        self.exit_code = exit_code
        self.signal = signal
        super().__init__(message)


class RetryAfter(MainspringError, code="retry_after"):
    """Raise it in a task that is told to come later: it runs again after so many seconds, or at that time.

    It is no attempt, unless `counts`: nothing is counted, and history has no row of such a run. With
    `counts` it is a failure with a delay of its own, so the retry policy's `attempts` end it.
    `pauses="queue"`: what the other side says holds for all calls of the task, `"group"` for those of its
    group: none of them starts until then, in any worker. Then one is tried, and each success lets twice as
    many run.

        raise RetryAfter(float(response.headers["Retry-After"]), "the API asks for it", pauses="queue")
    """

    MOST = 315_360_000.0  # ten years

    def __init__(
        self,
        after: float | timedelta | datetime,
        reason: str = "",
        *,
        counts: bool = False,
        pauses: Literal["queue", "group"] | None = None,
    ) -> None:
        if pauses not in (None, "queue", "group"):
            raise InvalidSetting(f"RetryAfter pauses the 'queue' or the 'group', got {pauses!r}")
        if isinstance(after, datetime) and after.tzinfo is None:
            raise InvalidTime(
                f"RetryAfter must have a time with a time zone, got {after!r}; use datetime.now(UTC) + ..."
            )
        if isinstance(after, timedelta):
            after = after.total_seconds()
        if not isinstance(after, datetime) and (
            isinstance(after, bool)
            or not isinstance(after, int | float)
            or not 0 <= after <= self.MOST
        ):
            raise InvalidSetting(
                f"RetryAfter must have 0 to {self.MOST:.0f} seconds, a timedelta or a datetime, "
                f"got {after!r}"
            )
        self.after = after
        self.counts = counts
        self.pauses = pauses
        super().__init__(reason or "asked to come later")

    def seconds(self, now: datetime) -> float:
        """From that moment on; none if the time has passed."""
        if isinstance(self.after, datetime):
            return min(self.MOST, max(0.0, (self.after - now).total_seconds()))
        return float(self.after)


class TaskFailed(MainspringError, code="task_failed"):
    """Raised by `handle.result()` when the task was parked or cancelled."""

    def __init__(self, message: str, *, outcome: str, error: str | None = None) -> None:
        self.outcome = outcome
        self.error = error
        super().__init__(message)


class AlreadyEnqueued(MainspringError, code="already_enqueued"):
    """A call was refused because another has its key; `id` is that of the other. Nothing was enqueued."""

    def __init__(self, message: str, *, task: str, key: str, id: str) -> None:
        self.task = task
        self.key = key
        self.id = id
        super().__init__(message)


class ResultTimeout(MainspringError, TimeoutError, code="result_timeout"):
    """Raised by `handle.result(timeout=...)` when the task has not ended in time."""


class NotFound(MainspringError, LookupError, code="not_found"):
    """What was asked for is not there."""


class MixedPool(MainspringError, code="mixed_pool"):
    """Workers of another application serve this pool, of the release before, which cannot share it."""

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


class WorkerLost(MainspringError, code="worker_lost"):
    """A worker process ended for a reason of its own and was not replaced."""


class InvalidValue(MainspringError, ValueError, code="invalid_value"):
    """A param cannot have this value: another kind, no time zone, or out of range."""


class InvalidTrigger(MainspringError, ValueError, code="invalid_trigger"):
    """A trigger cannot be as it is written."""


class InvalidChunk(InvalidTrigger, code="invalid_chunk"):
    """No such chunk of time, or one whose starts would not follow the zone's clock."""


class UnknownFormat(MainspringError, code="unknown_format"):
    """A trigger was written by a newer release than this one."""


class UnknownParam(UnknownName, code="unknown_param"):
    """No param of that name is declared or created."""

    noun = "param"
    how = "declare it with app.data(...).param(...), or create it with `mainspring params create`"


class WentBack(MainspringError, ValueError, code="went_back"):
    """A param would go back by a plain advance; the caller's transaction is not spoilt."""

    def __init__(self, param: str, old: object, new: object) -> None:
        self.param = param
        self.old = old
        self.new = new
        super().__init__(
            f"param {param!r} would go back from {old} to {new}; if the data was restated say so with "
            "rewind, if others may be ahead use if_greater=True "
            "(`mainspring params rewind`, `--if-greater`)"
        )


class UnknownReactiveTask(UnknownName, code="unknown_reactive_task"):
    """No reactive task of that name is registered."""

    noun = "reactive task"
    how = (
        "declare it with @app.task(when=...); it is registered by a worker or by "
        "`mainspring reactive apply`"
    )


class PromiseMisused(MainspringError, TypeError, code="promise_misused"):
    """A decider asked a promise for the value that it does not have yet."""


class PromiseAttribute(PromiseMisused, AttributeError, code="promise_attribute"):
    """The same, by an attribute of the value."""


class OutcomeFailed(MainspringError, code="outcome_failed"):
    """The value of an `Outcome` was asked for, and its task had failed."""

    def __init__(self, message: str, failure: object = None) -> None:
        self.failure = failure
        super().__init__(message)


class InvalidDecision(MainspringError, ValueError, code="invalid_decision"):
    """A decision cannot be committed: it names a promise it was not given, or is too wide."""


class NoDecider(MainspringError, RuntimeError, code="no_decider"):
    """Something that only a decider can do was asked for outside of one."""


class InvalidProcess(InvalidTask, code="invalid_process"):
    """A function cannot be a process as it is declared."""


class UnknownProcess(UnknownName, code="unknown_process"):
    """No process type of that name is declared in this application."""

    noun = "process type"
    how = "declare it with @app.process"


class UnknownSignal(UnknownName, code="unknown_signal"):
    """No signal of that name is declared in this application."""

    noun = "signal"
    how = "declare it with app.signal(name, type)"


class IdInUse(MainspringError, code="id_in_use"):
    """A process was started with an id that another one has, and it was asked to refuse that."""


class WorkTimeout(MainspringError, TimeoutError, code="work_timeout"):
    """A run of a process's task neither ended nor beat within its actor's work timeout."""


class ProcessFailed(MainspringError, code="process_failed"):
    """Raised by `process.result()` when the process ended with an error or was cancelled."""

    def __init__(self, message: str, *, state: str, failure: object = None) -> None:
        self.state = state
        self.failure = failure
        super().__init__(message)


class Refused(MainspringError, code="refused"):
    """An order was refused as it stands; the message says what to do instead."""


class EndpointAway(MainspringError, code="endpoint_away"):
    """Raised by a sink or a remote stage: the other side is away, so nothing was tried.

    Nothing is counted, and nothing more is sent until it is back. It asked for `retry_after` seconds.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class ReceiverGone(EndpointAway, code="receiver_gone"):
    """Raised by a sink: the other side wants no more events, ever. What is sent to it is paused."""


class PutOff(MainspringError, code="put_off"):
    """A stage or a consumer elsewhere will have this entity later: no attempt is counted.

    `crash`: the service broke while it had this entity alone, which counts as a death of its worker would.
    """

    def __init__(self, message: str, after: float, *, crash: bool = False) -> None:
        self.after = after
        self.crash = crash
        super().__init__(message)


class EventRefused(MainspringError, code="event_refused"):
    """Raised by a sink: the other side will never take this event. Its entity is parked for this sink."""


class StageFailed(MainspringError, code="stage_failed"):
    """A remote stage said that it failed for an entity, or a call with that entity alone failed."""


class InvalidAnswer(MainspringError, ValueError, code="invalid_answer"):
    """What a remote stage answered about an entity is none of the answers that there are."""


class InvalidRequest(MainspringError, ValueError, code="invalid_request"):
    """A field of a call from outside is missing, too large or not what it must be."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        super().__init__(f"{field} {problem}")


class Unauthenticated(MainspringError, code="unauthenticated"):
    """A caller from outside did not say who it is, or could not prove it."""


class Forbidden(MainspringError, code="forbidden"):
    """A caller from outside has no scope for what it asked."""

    def __init__(self, caller: str, scope: str) -> None:
        self.scope = scope
        super().__init__(
            f"{caller!r} has no scope {scope!r}; `mainspring tokens create --scope` makes a token that has"
        )


class Overloaded(MainspringError, code="overloaded"):
    """So many calls wait for the database as may, or so many of this caller are at work."""


class MovedOn(MainspringError, code="moved_on"):
    """What was to be changed is no longer what the caller saw; nothing was done."""


class MissingExtra(MainspringError, ImportError, code="missing_extra"):
    """A part of Mainspring was asked for whose packages are not installed."""

    def __init__(self, what: str, module: str | None, extra: str) -> None:
        self.extra = extra
        super().__init__(
            f"{what} is not installed ({module} is missing); install it with: "
            f"pip install 'mainspring[{extra}]'"
        )
