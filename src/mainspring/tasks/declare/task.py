"""What `@app.task` makes: a function whose calls can be enqueued."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Never, ParamSpec, Protocol, TypeVar, overload

import msgspec
import psycopg

from mainspring.declaring import Seconds, check_settings
from mainspring.errors import (
    InvalidArguments,
    InvalidKey,
    InvalidSetting,
    InvalidTask,
    InvalidTime,
    NoDecider,
    PayloadTooLarge,
)
from mainspring.kernel import DEFAULT_PRIORITY, EARLIEST, LATEST, RetryPolicy
from mainspring.tasks.declare.calls import Calls
from mainspring.tasks.declare.handle import Handle
from mainspring.tasks.declare.promise import Promise
from mainspring.tasks.declare.recording import recorder
from mainspring.tasks.declare.signature import PAYLOAD_WARNING_BYTES, Signature

if TYPE_CHECKING:
    from mainspring.tasks.run.context import Context

log = logging.getLogger("mainspring")
P = ParamSpec("P")
R = TypeVar("R")
Connection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

KEY_BYTES = 1024
GROUP_BYTES = 255
LONGEST_DELAY = timedelta(days=365_000)


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """A task as it is declared. Times are seconds."""

    name: str
    pool: str = "default"
    priority: int = DEFAULT_PRIORITY
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout: float | None = None
    hold_after: float = 1.0
    crash_limit: int = 3
    concurrency: int | None = None
    rate: float | None = None
    group_concurrency: int | None = None
    group_rate: float | None = None
    searchable: tuple[str, ...] = ()
    cron: str | None = None
    zone: str = "UTC"
    # As a step of a process; see Policy.
    work_timeout: float = 60.0
    accept: str = "first"
    on_work_timeout: str = "requeue"
    work_timeout_limit: int | None = None
    task_timeout: float | None = None
    on_task_timeout: str = "slide"
    remote: bool = False  # its runs are pulled by an actor elsewhere


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How a call is enqueued."""

    at: datetime | None = None
    delay: timedelta | None = None
    priority: int | None = None
    group: str | None = None
    key: str | None = None
    expires_at: datetime | None = None
    # What a call with a taken key does. The other policies come later; this is their place.
    if_taken: str = "existing"
    on: Connection | None = None

    def __post_init__(self) -> None:
        check_time("at", self.at)
        check_time("expires_at", self.expires_at)
        if self.at is not None and self.delay is not None:
            raise InvalidTime(f"give at or delay, not both: at={self.at!r}, delay={self.delay!r}")
        if self.delay is not None:
            object.__setattr__(self, "delay", _as_delay(self.delay))
        if self.priority is not None:
            check_priority(self.priority)
        if self.key is not None:
            check_text("key", self.key, KEY_BYTES)
        if self.group is not None:
            check_text("group", self.group, GROUP_BYTES)
        if self.if_taken != "existing":
            raise InvalidSetting(f"if_taken must be 'existing', got {self.if_taken!r}")


def _as_delay(given: timedelta | float) -> timedelta:
    if isinstance(given, bool) or not isinstance(given, timedelta | int | float):
        raise InvalidTime(f"delay must be seconds (a number, or a timedelta), got {given!r}")
    try:
        delay = given if isinstance(given, timedelta) else timedelta(seconds=given)
    except (OverflowError, ValueError):
        delay = timedelta.max
    if abs(delay) > LONGEST_DELAY:
        shown = f"{given.days} days" if isinstance(given, timedelta) else f"{given!r} seconds"
        raise InvalidTime(f"delay must be at most {LONGEST_DELAY.days} days, got {shown}")
    return delay


Opted = TypeVar("Opted", bound=CallOptions)


def with_options(
    what: str, options: Opted, given: Mapping[str, Any], unknown: Iterable[str]
) -> Opted:
    """Options with those changed that were given; one that does not exist is refused."""
    check_settings(what, unknown, given, InvalidSetting, "option")
    return replace(options, **{name: value for name, value in given.items() if value is not None})


def check_priority(priority: int) -> None:
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= 9:
        raise InvalidSetting(f"priority must be 0 to 9 (greater is sooner), got {priority!r}")


def check_time(name: str, at: datetime | None) -> None:
    """A time must say its zone: a naive one means another moment on every machine."""
    if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
        raise InvalidTime(
            f"{name} must be a datetime with a time zone, got {at!r}; "
            "use datetime.now(UTC) + ... or .replace(tzinfo=...)"
        )
    if at is not None and at >= LATEST:
        raise InvalidTime(f"{name} must be before the year 9999, got {at.isoformat()}")
    if at is not None and at < EARLIEST:
        raise InvalidTime(f"{name} must not be before the year 1 in UTC, got {at.isoformat()}")


def check_text(name: str, value: str, most: int) -> None:
    """Keys and groups are short texts that PostgreSQL can store."""
    if not isinstance(value, str):
        raise InvalidKey(f"{name} must be a str, got {type(value).__name__}: {value!r}")
    if not value:
        raise InvalidKey(f"{name} must not be empty; leave it out to have none")
    if "\x00" in value:
        raise InvalidKey(
            f"{name} {value!r} contains the character NUL, which PostgreSQL cannot store"
        )
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidKey(f"{name} {value!r} contains a lone surrogate, which is no text") from None
    if size > most:
        raise InvalidKey(
            f"{name} {value[:40]!r}... is {size} bytes, the limit is {most}; use a digest"
        )


class Call(msgspec.Struct, frozen=True, gc=False):
    """One call to be enqueued: a task, its encoded arguments, its options."""

    task: Task[Any, Any]
    payload: bytes
    options: CallOptions


def warn_if_large(call: Call, id: str) -> None:
    if len(call.payload) > PAYLOAD_WARNING_BYTES:
        size = len(call.payload)
        log.warning("payload.large", extra={"task": call.task.name, "bytes": size, "id": id})


class Uniform(Sequence[Call]):
    """Calls of one task with the same options; the arguments of each are checked when it is asked for.

    So those of a bulk are while the server takes in the ones before.
    """

    def __init__(
        self, task: Task[Any, Any], arguments: Sequence[Mapping[str, Any]], options: CallOptions
    ) -> None:
        self.task = task
        self.options = options
        self._arguments = list(arguments)

    def __len__(self) -> int:
        return len(self._arguments)

    @overload
    def __getitem__(self, index: int) -> Call: ...
    @overload
    def __getitem__(self, index: slice) -> list[Call]: ...
    def __getitem__(self, index: int | slice) -> Call | list[Call]:
        if isinstance(index, int):
            return _row(self.task, index, self._arguments[index], self.options)
        numbers = range(len(self))[index]
        return [_row(self.task, n, self._arguments[n], self.options) for n in numbers]


def _row(
    task: Task[Any, Any], number: int, arguments: Mapping[str, Any], options: CallOptions
) -> Call:
    """One of many calls; an error says which."""
    # The look at the class itself is a quarter of a microsecond less.
    if type(arguments) is not dict and not isinstance(arguments, Mapping):
        raise InvalidArguments(
            f"call {number} of enqueue_many must be a dict of arguments by name "
            f"({', '.join(task.signature.fields)}), got {arguments!r}"
        )
    try:
        return Call(task, task.signature.encode((), arguments), options)
    except (InvalidArguments, PayloadTooLarge) as error:
        raise type(error)(f"call {number} of enqueue_many: {error}") from None


class Enqueuer(Protocol):
    """What enqueues calls: the application."""

    async def enqueue_call(self, call: Call, on: Connection | None) -> Handle[Any]: ...
    async def enqueue_calls(
        self, calls: Sequence[Call], on: Connection | None
    ) -> list[Handle[Any]]: ...
    def enqueue_calls_sync(
        self, calls: Sequence[Call], on: Connection | None
    ) -> list[Handle[Any]]: ...


class Task(Calls[P, R]):
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
        enqueuer: Enqueuer,
        options: CallOptions | None = None,
    ) -> None:
        self.function = function
        self.settings = settings
        self.signature = signature
        self._enqueuer = enqueuer
        self._options = options if options is not None else CallOptions()
        self.__doc__ = function.__doc__
        self.__name__ = settings.name
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    @property
    def name(self) -> str:
        """The task's name, which is its queue's."""
        return self.settings.name

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Promise[R]:
        """Call the function itself, as if it were no task; in a decider: record the call."""
        if (records := recorder.get()) is not None:
            return records.call(self, args, kwargs)
        return self.function(*args, **kwargs)  # type: ignore[no-any-return]

    def map(
        self, items: Iterable[Any], /, *, window: int | None = None, **named: Any
    ) -> Promise[list[R]]:
        """In a decider: a call for each item (the first parameter), made in chunks.

        `window`: about so many of them at a time. `named`: arguments that are the same for all.
        """
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
        on: Connection | None = None,
        **unknown: Never,
    ) -> Task[P, R]:
        """The same task with options for the calls made through it.

        `at` or `delay` (seconds or a timedelta): not before. `priority`: 0 to 9, greater is sooner.
        `group`: what limits per group count by. `key`: at most one such call at a time (within the
        group); a second one returns the first. `expires_at`: not started after. `on`: your own psycopg
        connection, sync or async; the call is part of its transaction.
        """
        given = {
            "at": at,
            "delay": delay,
            "priority": priority,
            "group": group,
            "key": key,
            "expires_at": expires_at,
            "on": on,
        }
        options = with_options(f"task {self.name!r}", self._options, given, unknown)
        return Task(self.function, self.settings, self.signature, self._enqueuer, options)

    def bind(self, *args: Any, **kwargs: Any) -> Call:
        """A call that is checked but not enqueued yet: for `app.enqueue_many`."""
        if self.settings.remote:
            self._refuse_remote()
        return Call(self, self.signature.encode(args, kwargs), self._options)

    async def enqueue(self, *args: Any, **kwargs: Any) -> Handle[R]:
        """Enqueue a call; when this returns it is committed (or part of your transaction)."""
        return await self._enqueuer.enqueue_call(self.bind(*args, **kwargs), self._options.on)

    def enqueue_sync(self, *args: Any, **kwargs: Any) -> Handle[R]:
        """The same for code that is not async."""
        handles = self._enqueuer.enqueue_calls_sync([self.bind(*args, **kwargs)], self._options.on)
        return handles[0]

    async def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[Handle[R]]:
        """Enqueue many calls at once: all or none."""
        return await self._enqueuer.enqueue_calls(self._bind_all(calls), self._options.on)

    def enqueue_many_sync(self, calls: Iterable[Mapping[str, Any]]) -> list[Handle[R]]:
        """The same for code that is not async."""
        return self._enqueuer.enqueue_calls_sync(self._bind_all(calls), self._options.on)

    def _refuse_remote(self) -> None:
        if self.settings.remote:
            raise InvalidSetting(
                f"task {self.name!r} is remote: it is a step of processes, which actors elsewhere pull; "
                "no worker would run a plain call"
            )

    def _bind_all(self, calls: Iterable[Mapping[str, Any]]) -> Sequence[Call]:
        self._refuse_remote()
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


def as_names(setting: str, value: Iterable[str] | None) -> tuple[str, ...]:
    """A setting that lists names; one text is not a list of its letters."""
    if isinstance(value, str):
        raise InvalidTask(f"{setting} must be a list of names, got a text; write [{value!r}]")
    return () if value is None else tuple(value)


def check_given(name: str, given: Mapping[str, Any], triggered_only: Collection[str]) -> None:
    """Refuse settings that a task does not have, or has only with a trigger."""
    for setting in given:
        if setting in triggered_only:
            raise InvalidTask(
                f"task {name!r}: {setting}= is for reactive tasks and needs when=, a trigger"
            )
    known = {*TaskSettings.__dataclass_fields__, "when"}
    check_settings(f"task {name!r}", given, known)
