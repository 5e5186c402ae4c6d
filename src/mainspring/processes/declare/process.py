"""What `@app.process` makes: a decider whose calls start processes, and steps inside of one."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import (
    Any,
    Concatenate,
    NamedTuple,
    Never,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
)

from mainspring.db.caller import Caller
from mainspring.declaring import Seconds
from mainspring.errors import InvalidArguments, InvalidSetting, PayloadTooLarge
from mainspring.kernel import DEFAULT_PRIORITY, Handler, QueueSettings
from mainspring.processes.commit.start import Begin
from mainspring.processes.declare.handle import ProcessHandle
from mainspring.processes.record.arguments import check_attrs
from mainspring.processes.record.recorder import current
from mainspring.processes.record.sealed_values import check_searchable, opened_value
from mainspring.retry_policy import RetryPolicy
from mainspring.tasks.declare.calls import Calls, Maps
from mainspring.tasks.declare.options import KEY_BYTES, CallOptions, check_text, with_options
from mainspring.tasks.declare.policy import declared
from mainspring.tasks.declare.promise import Promise
from mainspring.tasks.declare.recording import recorder
from mainspring.tasks.declare.signature import Signature
from mainspring.tasks.run.context import Context

P = ParamSpec("P")
R = TypeVar("R")
DAY, HOUR = 86_400.0, 3_600.0


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """A process type as it is declared. Times are seconds."""

    name: str
    pool: str = "default"
    priority: int = DEFAULT_PRIORITY
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout: float | None = 10.0  # of one run of the decider
    crash_limit: int = 3
    work_timeout: float = 60.0
    accept: str = "first"
    on_work_timeout: str = "requeue"
    work_timeout_limit: int | None = None
    task_timeout: float | None = None
    on_task_timeout: str = "slide"
    process_timeout: float = DAY
    idle_timeout: float = HOUR
    searchable: tuple[str, ...] = ()  # attributes that stay in the clear where values are encrypted

    def __post_init__(self) -> None:
        for name in ("process_timeout", "idle_timeout"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 1 <= value < 1e10
            ):
                raise InvalidSetting(f"{name} must be 1 or more seconds, got {value!r}")

    def queue(self, handler: Handler) -> QueueSettings:
        """The kernel's queue of the decider."""
        return QueueSettings(
            name=self.name,
            handler=handler,
            pool=self.pool,
            kind="process",
            timeout=self.timeout,
            retry=self.retry,
            crash_limit=self.crash_limit,
            policy=declared(self),
        )


@dataclass(frozen=True, slots=True)
class StartOptions(CallOptions):
    """How a process is started, or a step of one called."""

    id: str | None = None
    attrs: dict[str, object] | None = None
    if_taken: str = "existing"  # what a start with a taken id does

    def __post_init__(self) -> None:
        if self.if_taken not in ("existing", "refuse"):
            raise InvalidSetting(
                f"if_taken must be 'existing' (the process with that id is answered) or 'refuse', "
                f"got {self.if_taken!r}"
            )
        object.__setattr__(self, "delay", replace_taken(self).delay)  # checked, as a timedelta
        if self.id is not None:
            check_text("id", self.id, KEY_BYTES)
        check_attrs(self.attrs)


def replace_taken(options: StartOptions) -> CallOptions:
    """The same as a task's options."""
    return CallOptions(
        options.at, options.delay, options.priority, options.group, options.key, options.expires_at
    )


class ProcessHost(Protocol):
    """What starts processes: the application."""

    async def start_process(
        self, process: Process[P, R], args: str, options: StartOptions
    ) -> ProcessHandle[R]: ...
    def start_process_sync(
        self, process: Process[P, R], args: str, options: StartOptions
    ) -> ProcessHandle[R]: ...
    async def start_processes(
        self,
        process: Process[P, R],
        starts: Sequence[tuple[str | None, str]],
        options: StartOptions,
    ) -> list[ProcessHandle[R]]: ...
    def start_processes_sync(
        self,
        process: Process[P, R],
        starts: Sequence[tuple[str | None, str]],
        options: StartOptions,
    ) -> list[ProcessHandle[R]]: ...


class ProcessSignature(Signature):
    """The signature of a decider, which may say that it returns a promise of its result."""

    noun = "process"

    def decode_result(self, result: str | None) -> object:
        """A stored result as the decider's return type; one that a race came to is made of several."""
        if result is not None:
            result = opened_value(self.sealing, result, f"the result of process {self.name!r}")
        return super().decode_result(result)

    def _result_type(self, declared: object) -> object:
        return unpromised(declared)


def unpromised(declared: object) -> object:
    """`Promise[T]` and `T | Promise[T]` as T."""
    if (typing.get_origin(declared) or declared) is Promise:
        return next(iter(typing.get_args(declared)), Any)
    if typing.get_origin(declared) in (typing.Union, types.UnionType):
        parts = [unpromised(part) for part in typing.get_args(declared)]
        return typing.Union[tuple(parts)]  # noqa: UP007 - made at run time
    return declared


class Process(Maps[P, R]):
    """A decider. `start` starts a process; called in another decider it is a step of that one.

    @app.process
    def order(number: int) -> Promise[Receipt]:
        return charge(number, after=[reserve(number)])

    handle = await order.options(id="order-7").start(7)
    receipt = await handle.result()
    """

    def __init__(
        self,
        function: Callable[..., object],
        settings: ProcessSettings,
        signature: Signature,
        host: ProcessHost,
        options: StartOptions | None = None,
    ) -> None:
        self.function = function
        self.settings = settings
        self.signature = signature
        self._host = host
        self._options = options if options is not None else StartOptions()
        self.__doc__ = function.__doc__
        self.__name__ = settings.name
        self.__wrapped__ = function

    def begin_of(self, options: StartOptions) -> Begin:
        """When one that is started so begins."""
        delay = None if options.delay is None else options.delay.total_seconds()
        priority = self.settings.priority if options.priority is None else options.priority
        return Begin(options.at, delay, priority)

    def __repr__(self) -> str:
        return f"<process {self.name}>"

    @property
    def name(self) -> str:
        """The type's name, which is its decider's queue."""
        return self.settings.name

    @property
    def call_options(self) -> CallOptions:
        return self._options

    def _called(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Promise[R]:
        """In a decider: a step of the same process. Elsewhere: the function itself."""
        if (records := recorder.get()) is not None:
            return records.call(self, args, kwargs)  # type: ignore[arg-type]
        return self.function(*args, **kwargs)  # type: ignore[return-value]

    def options(
        self,
        *,
        id: str | None = None,
        if_taken: str | None = None,
        attrs: dict[str, Any] | None = None,
        at: datetime | None = None,
        delay: Seconds | None = None,
        priority: int | None = None,
        on: Caller | None = None,
        **unknown: Never,
    ) -> Process[P, R]:
        """The same process with options for what is started through it.

        `id`: yours, one process of the type has it, for ever; started again with the same arguments
        it answers the one that is there, or refuses (`if_taken="refuse"`). `attrs`: what it can be
        searched by. `at` or `delay` (seconds or a timedelta): it does not begin before. `priority`: 0
        to 9, greater is sooner. `on`: your own connection or session (psycopg, asyncpg, SQLAlchemy,
        Django); the start is part of its transaction.
        """
        given = {"id": id, "if_taken": if_taken, "attrs": attrs, "at": at, "delay": delay,
                 "priority": priority, "on": on}  # fmt: skip
        options = with_options(f"process {self.name!r}", self._options, given, unknown)
        if attrs and self.signature.sealing is not None:
            check_searchable(attrs, self.settings.searchable, f"process {self.name!r}")
        return Process(self.function, self.settings, self.signature, self._host, options)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> ProcessCall:
        """A start that is checked but not made yet: for `app.schedule`."""
        return ProcessCall(self, self._encode(args, kwargs), self._options)

    async def start(self, *args: P.args, **kwargs: P.kwargs) -> ProcessHandle[R]:
        """Start a process; when this returns it is committed (or part of your transaction)."""
        return await self._host.start_process(self, self._encode(args, kwargs), self._options)

    def start_sync(self, *args: P.args, **kwargs: P.kwargs) -> ProcessHandle[R]:
        """The same for code that is not async."""
        return self._host.start_process_sync(self, self._encode(args, kwargs), self._options)

    async def start_many(
        self, calls: Iterable[Mapping[str, object]], *, ids: Iterable[str] | None = None
    ) -> list[ProcessHandle[R]]:
        """Start many at once: all or none. `calls`: the arguments of each by name; `ids`: one of your own
        for each, where a taken one is dealt with as the options say."""
        starts = self._starts(calls, ids)
        return await self._host.start_processes(self, starts, self._options)

    def start_many_sync(
        self, calls: Iterable[Mapping[str, object]], *, ids: Iterable[str] | None = None
    ) -> list[ProcessHandle[R]]:
        """The same for code that is not async."""
        return self._host.start_processes_sync(self, self._starts(calls, ids), self._options)

    def _starts(
        self, calls: Iterable[Mapping[str, object]], ids: Iterable[str] | None
    ) -> list[tuple[str | None, str]]:
        """The id and the encoded arguments of each, checked before anything is sent."""
        encoded: list[str] = []
        for number, arguments in enumerate(calls):
            if not isinstance(arguments, Mapping):
                raise InvalidArguments(
                    f"start {number} of start_many must be a dict of arguments by name "
                    f"({', '.join(self.signature.fields)}), got {type(arguments).__name__}"
                )
            try:
                encoded.append(self._encode((), dict(arguments)))
            except (InvalidArguments, PayloadTooLarge) as error:
                raise type(error)(f"start {number} of start_many: {error}") from None
        if ids is None:
            if self._options.id is not None:
                raise InvalidArguments(
                    f"start_many of process {self.name!r} has the id {self._options.id!r} of a single one: "
                    "give ids=, one for each"
                )
            return [(None, args) for args in encoded]
        own = list(ids)
        if len(own) != len(encoded):
            raise InvalidArguments(
                f"start_many has {len(encoded)} calls and {len(own)} ids: give one for each"
            )
        for id in own:
            check_text("id", id, KEY_BYTES)
        return list(zip(own, encoded, strict=True))

    @property
    def child(self) -> Calls[P, R]:
        """In a decider, called: start a process of its own and promise its result."""
        return Child(self)

    def call_child(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Promise[R]:
        options, begin = self._options, self.begin_of(self._options)
        how = {
            "key": options.id,
            "attrs": options.attrs,
            "at": begin.at,
            "delay": begin.delay,
            "priority": None if begin.priority == DEFAULT_PRIORITY else begin.priority,
        }
        return current(f"{self.name}.child(...)").child(self, args, kwargs, how)

    def _mapped(
        self, items: Iterable[object], named: dict[str, object], window: int | None
    ) -> Promise[list[R]]:
        return current(f"{self.name}.map(...)").map(self, items, named, window=window)

    def _encode(self, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
        text, sealing = self.signature.encode(args, kwargs), self.signature.sealing
        return (text if sealing is None else sealing.payload(text, ())).decode()


class Child(Calls[P, R]):
    """`process.child`: a call of it starts a process of its own."""

    def __init__(self, process: Process[P, R]) -> None:
        self._process = process

    def _called(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Promise[R]:
        return self._process.call_child(args, kwargs)


AnyProcess: TypeAlias = Process[..., Any]


class ProcessCall(NamedTuple):
    """One start to be made: a process type, its encoded arguments, its options."""

    process: AnyProcess
    args: str
    options: StartOptions


class ProcessDecorator(Protocol):
    """`@app.process(...)`: the result of a decider that returns a promise is what that comes to. A
    context is not given by who starts or calls it."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[object, Any, Promise[R]]], /
    ) -> Process[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coroutine[object, Any, Promise[R] | R]], /
    ) -> Process[P, R]: ...
    @overload
    def __call__(
        self,
        function: Callable[Concatenate[Context, P], Coroutine[object, Any, Promise[R] | None]],
        /,
    ) -> Process[P, R | None]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Promise[R]], /
    ) -> Process[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Promise[R] | R], /
    ) -> Process[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Promise[R] | None], /
    ) -> Process[P, R | None]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[object, Any, Promise[R]]], /
    ) -> Process[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[object, Any, Promise[R] | R]], /
    ) -> Process[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[object, Any, Promise[R] | None]], /
    ) -> Process[P, R | None]: ...
    @overload
    def __call__(self, function: Callable[P, Promise[R]], /) -> Process[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Promise[R] | R], /) -> Process[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Promise[R] | None], /) -> Process[P, R | None]: ...
