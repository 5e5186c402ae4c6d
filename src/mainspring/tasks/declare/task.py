"""What `@app.task` makes: a function whose calls can be enqueued."""

from __future__ import annotations

import logging
from collections.abc import (
    AsyncIterable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Never,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
)

import msgspec

from mainspring.breakers.breaker import Breaker
from mainspring.chunks import chunks_of
from mainspring.db.caller import Caller
from mainspring.declaring import Seconds
from mainspring.errors import (
    InvalidArguments,
    InvalidTask,
    InvalidTime,
    NoDecider,
    PayloadTooLarge,
)
from mainspring.kernel import DEFAULT_PRIORITY
from mainspring.redact import Redactor
from mainspring.retry_policy import RetryPolicy
from mainspring.tasks.declare.calls import Maps
from mainspring.tasks.declare.habits import VERBS, verb_hint
from mainspring.tasks.declare.handle import Handle
from mainspring.tasks.declare.options import CallOptions, with_options
from mainspring.tasks.declare.promise import Promise
from mainspring.tasks.declare.recording import recorder
from mainspring.tasks.declare.sealing import Sealing
from mainspring.tasks.declare.signature import PAYLOAD_WARNING_BYTES, Signature
from mainspring.tasks.declare.unique import Unique, UniquePolicy, as_unique, spec_text

if TYPE_CHECKING:
    from mainspring.tasks.run.context import Context

log = logging.getLogger("mainspring")
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """A task as it is declared. Times are seconds."""

    name: str
    pool: str = "default"
    priority: int = DEFAULT_PRIORITY
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout: float | None = None
    grace: float = 5.0
    hold_after: float = 1.0
    crash_limit: int = 3
    concurrency: int | None = None
    rate: float | None = None
    group_concurrency: int | None = None
    group_rate: float | None = None
    burst: int | None = None
    group_burst: int | None = None
    breaker: Breaker | None = None
    searchable: tuple[str, ...] = ()
    unique: Unique | None = None
    keep_result: float | None = None  # seconds after its run's end; None: as long as its history
    keep_history: float | None = None  # None: as long as workers keep history
    cron: str | Sequence[str] | None = None
    zone: str = "UTC"
    cron_args: Mapping[str, object] | None = None
    catch_up: str = "one"
    catch_up_max: int = 100
    tick_argument: str | None = None
    # As a step of a process; see Policy.
    work_timeout: float = 60.0
    accept: str = "first"
    on_work_timeout: str = "requeue"
    work_timeout_limit: int | None = None
    task_timeout: float | None = None
    on_task_timeout: str = "slide"
    remote: bool = False  # its runs are pulled by an actor elsewhere
    executor: str | None = None  # "process": in a helper
    memory_max: int | None = None  # bytes that its helper may have

    def __post_init__(self) -> None:
        if self.remote and self.breaker is not None:
            raise InvalidTask(
                f"task {self.name!r}: a breaker counts runs of workers, and those of a remote task are "
                "pulled by an actor elsewhere: leave breaker= out"
            )
        if self.cron is not None and not isinstance(self.cron, str):
            if not isinstance(self.cron, Iterable):
                raise InvalidTask(
                    f"task {self.name!r}: cron must be a cron line or several, got {self.cron!r}"
                )
            object.__setattr__(self, "cron", tuple(self.cron))


class Call(msgspec.Struct, Generic[R_co], frozen=True, gc=False):
    """One call to be enqueued: a task, its encoded arguments, its options."""

    task: Task[..., R_co]
    payload: bytes
    options: CallOptions


def priority_of(task: Task[..., object], options: CallOptions) -> int:
    """What the call asks for, or else its task."""
    return task.settings.priority if options.priority is None else options.priority


def spec_of(call: Call[object], *, may_refuse: bool = True) -> str | None:
    """How a call is unique, as JSON for the database; None if no other can have its key."""
    unique = call.options.unique or Unique()
    if not call.options.keyed:
        return None
    if unique.policy == "debounce" and call.options.at is None and call.options.delay is None:
        raise InvalidTime(
            f'task {call.task.name!r}: Unique("debounce") puts a call off by its delay, and there is '
            "none: give delay= (or at=)"
        )
    by = tuple(unique.by)
    defaults = call.task.signature.defaults(by) if by else None
    return spec_text(unique.spec(defaults, may_refuse=may_refuse))


def warn_if_large(call: Call[object], id: str) -> None:
    if len(call.payload) > PAYLOAD_WARNING_BYTES:
        size = len(call.payload)
        log.warning("payload.large", extra={"task": call.task.name, "bytes": size, "id": id})


class Uniform(Sequence[Call[R]]):
    """Calls of one task with the same options; the arguments of each are checked when it is asked for.

    So those of a bulk are while the server takes in the ones before.
    """

    def __init__(
        self, task: Task[..., R], arguments: Sequence[Mapping[str, object]], options: CallOptions
    ) -> None:
        self.task = task
        self.options = options
        self._arguments = list(arguments)

    def __len__(self) -> int:
        return len(self._arguments)

    @overload
    def __getitem__(self, index: int) -> Call[R]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Call[R]]: ...
    def __getitem__(self, index: int | slice) -> Call[R] | list[Call[R]]:
        if isinstance(index, int):
            return _row(self.task, index, self._arguments[index], self.options)
        numbers = range(len(self))[index]
        return [_row(self.task, n, self._arguments[n], self.options) for n in numbers]


def _row(
    task: Task[..., R], number: int, arguments: Mapping[str, object], options: CallOptions
) -> Call[R]:
    """One of many calls; an error says which."""
    # The look at the class itself is a quarter of a microsecond less.
    if type(arguments) is not dict and not isinstance(arguments, Mapping):
        raise InvalidArguments(
            f"call {number} of enqueue_many must be a dict of arguments by name "
            f"({', '.join(task.signature.fields)}), got {arguments!r}"
        )
    try:
        return Call(task, task.payload_of((), arguments, options), options)
    except (InvalidArguments, PayloadTooLarge) as error:
        raise type(error)(f"call {number} of enqueue_many: {error}") from None


class Enqueues(Protocol):
    """What enqueues calls: the application."""

    async def enqueue_call(self, call: Call[R], on: Caller | None) -> Handle[R]: ...
    async def enqueue_calls(
        self, calls: Sequence[Call[R]], on: Caller | None
    ) -> list[Handle[R]]: ...
    def enqueue_calls_sync(
        self, calls: Sequence[Call[R]], on: Caller | None
    ) -> list[Handle[R]]: ...


class Task(Maps[P, R_co]):
    """A function whose calls are durable.

    Calling it runs the function here and now; `enqueue` makes the call a row in PostgreSQL.
    Inside a decider (`@app.process`) calling it records a step of the process and gives a promise;
    that is the type a checker sees. `task.function` is the function itself.

        await send_email.enqueue(to="someone@example.org")
        await send_email.options(delay=timedelta(hours=1), key="welcome-7").enqueue(to="...")
    """

    def __init__(
        self,
        function: Callable[..., Any],
        settings: TaskSettings,
        signature: Signature,
        enqueuer: Enqueues,
        options: CallOptions | None = None,
    ) -> None:
        self.function = function
        self.settings = settings
        self.signature = signature
        self._enqueuer = enqueuer
        self._options = CallOptions(unique=settings.unique) if options is None else options
        self.__doc__ = function.__doc__
        self.__name__ = settings.name
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def adopted(self, *, pool: str | None, sealing: Sealing | None, redactor: Redactor) -> None:
        """It was declared without an application: its pool, its cipher and what it hides are the task's."""
        if pool is not None:
            self.settings = replace(self.settings, pool=pool)
        self.signature.seal_with(sealing)
        self.signature.redact_by(redactor)

    if not TYPE_CHECKING:  # else a checker would take any attribute

        def __getattr__(self, name: str) -> Never:
            hint = verb_hint(self.name, name) if name in VERBS else f"a task has no {name!r}"
            raise AttributeError(hint, name=name, obj=self)

    @property
    def name(self) -> str:
        """The task's name, which is its queue's."""
        return self.settings.name

    def _called(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Promise[R_co]:
        """Call the function itself, as if it were no task; in a decider: record the call."""
        if (records := recorder.get()) is not None:
            return records.call(self, args, kwargs)
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    def _mapped(
        self, items: Iterable[object], named: dict[str, object], window: int | None
    ) -> Promise[list[R_co]]:
        if (records := recorder.get()) is None:
            raise NoDecider(
                f"{self.name}.map(...) is for deciders: elsewhere call the function for each item, or "
                "use enqueue_many"
            )
        return records.map(self, items, named, window=window)

    @property
    def call_options(self) -> CallOptions:
        """How calls made through this object are enqueued."""
        return self._options

    def options(
        self,
        *,
        at: datetime | None = None,
        delay: Seconds | None = None,
        priority: int | None = None,
        group: str | None = None,
        key: str | None = None,
        expires_at: datetime | None = None,
        unique: Unique | UniquePolicy | None = None,
        on: Caller | None = None,
        **unknown: Never,
    ) -> Task[P, R_co]:
        """The same task with options for the calls made through it.

        `at` or `delay` (seconds or a timedelta): not before. `priority`: 0 to 9, greater is sooner.
        `group`: what limits per group count by. `key`: at most one such call waits, and one runs, at a
        time (within the group). `unique`: what a call does whose key is taken, a policy or a
        `Unique(...)`. `expires_at`: not started after. `on`: your own connection or session (psycopg,
        asyncpg, SQLAlchemy, Django); the call is part of its transaction.
        """
        given = {
            "at": at,
            "delay": delay,
            "priority": priority,
            "group": group,
            "key": key,
            "expires_at": expires_at,
            "unique": None if unique is None else self._unique(unique),
            "on": on,
        }
        options = with_options(f"task {self.name!r}", self._options, given, unknown)
        return Task(self.function, self.settings, self.signature, self._enqueuer, options)

    def _unique(self, given: Unique | UniquePolicy) -> Unique:
        unique = as_unique(given, self._options.unique)
        self.signature.check_fields("unique", tuple(unique.by))
        return unique

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        """A call that is checked but not enqueued yet: for `app.enqueue_many`."""
        return Call(self, self.payload_of(args, kwargs, self._options), self._options)

    def payload_of(
        self, args: Sequence[object], kwargs: Mapping[str, object], options: CallOptions
    ) -> bytes:
        """The arguments of a call as they are stored, checked against the signature."""
        payload, sealing = self.signature.encode(args, kwargs), self.signature.sealing
        if sealing is None:
            return payload
        by = () if options.unique is None else options.unique.by
        return sealing.payload(payload, {*self.settings.searchable, *by})

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R_co]:
        """Enqueue a call; when this returns it is committed (or part of your transaction)."""
        return await self._enqueuer.enqueue_call(self.bind(*args, **kwargs), self._options.on)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R_co]:
        """The same for code that is not async."""
        handles = self._enqueuer.enqueue_calls_sync([self.bind(*args, **kwargs)], self._options.on)
        return handles[0]

    async def enqueue_many(self, calls: Iterable[Mapping[str, object]]) -> list[Handle[R_co]]:
        """Enqueue many calls at once: all or none."""
        return await self._enqueuer.enqueue_calls(self._bind_all(calls), self._options.on)

    def enqueue_many_sync(self, calls: Iterable[Mapping[str, object]]) -> list[Handle[R_co]]:
        """The same for code that is not async."""
        return self._enqueuer.enqueue_calls_sync(self._bind_all(calls), self._options.on)

    async def enqueue_from(
        self,
        calls: Iterable[Mapping[str, object]] | AsyncIterable[Mapping[str, object]],
        *,
        chunk: int = 5_000,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Enqueue calls as they are brought, a chunk at a time; answers how many.

        Each chunk is all or none, and no more than one is in memory. `progress` is told how many are in
        after each. An error leaves those in, and says how many they are.
        """
        done = 0
        try:
            async for part in chunks_of(calls, chunk):
                listed = [_row(self, done + n, each, self._options) for n, each in enumerate(part)]
                await self._enqueuer.enqueue_calls(listed, self._options.on)
                done += len(part)
                if progress is not None:
                    progress(done)
        except Exception as error:
            error.add_note(f"{done} calls were enqueued before that")
            raise
        return done

    def _bind_all(self, calls: Iterable[Mapping[str, object]]) -> Sequence[Call[R_co]]:
        if isinstance(calls, list | tuple):
            return Uniform(self, calls, self._options)
        # What else gives them may give the same object again and again, changed: each is written at once.
        return [_row(self, n, arguments, self._options) for n, arguments in enumerate(calls)]


class TaskDecorator(Protocol):
    """`@app.task(...)`: the result of an async function is what it comes to. A context is not given."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
