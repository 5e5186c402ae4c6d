"""What a decider can say besides calling tasks: wait, join, race, enclose, remember.

All of it is recorded and happens later; nothing here blocks, and none of it holds a worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

import msgspec

from mainspring.errors import InvalidArguments, InvalidSetting, PayloadTooLarge, PromiseMisused
from mainspring.foreign import pydantic_types
from mainspring.processes.record.arguments import check_attrs, promises_of
from mainspring.processes.record.recorder import Recorder, current
from mainspring.processes.record.scope_draft import ScopeDraft
from mainspring.shape import fault, shape
from mainspring.tasks.declare.options import check_text, check_time
from mainspring.tasks.declare.promise import Promise
from mainspring.tasks.declare.signature import PAYLOAD_BYTES, with_zone
from mainspring.tasks.declare.storable import check_storable

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
T = TypeVar("T")
NAME_BYTES = 200


@overload
def gather(a: Iterable[Promise[T]], /) -> Promise[list[T]]: ...
@overload
def gather(a: Promise[A], b: Promise[B], /) -> Promise[tuple[A, B]]: ...
@overload
def gather(a: Promise[A], b: Promise[B], c: Promise[C], /) -> Promise[tuple[A, B, C]]: ...
@overload
def gather(
    a: Promise[A], b: Promise[B], c: Promise[C], d: Promise[D], /
) -> Promise[tuple[A, B, C, D]]: ...
@overload
def gather(*promises: Promise[Any]) -> Promise[tuple[Any, ...]]: ...
def gather(*promises: Promise[object] | Iterable[Promise[object]]) -> Promise[object]:
    """The values of several promises, in their order; the first failure is its failure.

    A list of promises can be an argument as it is; gather is for returning one.
    """
    return current("gather(...)").builtin("@gather", {}, several_of("gather", promises))


def sleep(
    duration: timedelta | float | None = None, *, until: datetime | None = None
) -> Promise[None]:
    """A promise that is kept after a time (seconds or a timedelta), or at a moment.

    Nothing sleeps: pass it on, or write `after=[sleep(60)]`.
    """
    record = current("sleep(...)")
    if (duration is None) == (until is None):
        raise InvalidSetting(
            f"sleep takes a duration or until=, got {duration!r} and until={until!r}"
        )
    if until is not None:
        check_time("until", until)
        return record.builtin("@sleep", {"until": until.isoformat()})
    return record.builtin("@sleep", {"seconds": seconds("duration", duration)})


def set_attrs(**attrs: str | int | float | bool | None) -> None:
    """Set search attributes of the process; None removes one."""
    check_attrs({name: value for name, value in attrs.items() if value is not None})
    current("set_attrs(...)").set_attrs(attrs)


class Signal(Generic[T]):
    """A message that a process can wait for; made by `app.signal(name, type)`.

    approved = app.signal("approved", bool)

    @app.process
    def publish(page: int) -> str:
        return decide(page, approved.wait(timeout=timedelta(days=7)))
    """

    def __init__(self, name: str, kind: type[T]) -> None:
        check_text("a signal's name", name, NAME_BYTES)
        self.name = name
        self.kind = kind
        try:
            # Of what is sent.
            self._decoder = msgspec.json.Decoder(
                with_zone(pydantic_types.adapted(kind)), dec_hook=pydantic_types.read
            )
        except TypeError as error:
            raise InvalidSetting(
                f"the type of signal {name!r} cannot travel as JSON: {error}; such as bool, or a dataclass"
            ) from None

    def __repr__(self) -> str:
        return f"<signal {self.name}>"

    def wait(self, *, timeout: timedelta | float | None = None) -> Promise[T]:
        """A promise of the next such signal; it fails with `SignalTimeout` when none came in time.

        One that came early is kept and taken. Each signal is taken once.
        """
        return self._wait(timeout, {})

    def now(self, *, timeout: timedelta | float | None = None) -> Promise[T]:
        """A promise of the next such signal that is sent while this waits: none that was kept is taken.

        Whoever sends one while nobody waits so has sent it in vain (unless somebody calls `.wait()`).
        """
        return self._wait(timeout, {"now": True})

    def _wait(self, timeout: timedelta | float | None, more: dict[str, object]) -> Promise[T]:
        limit = None if timeout is None else seconds("timeout", timeout)
        args = {"name": self.name, "timeout": limit, **more}
        return current(f"signal {self.name!r}").builtin("@signal", args)

    def encode(self, value: object) -> str:
        """A payload as JSON, checked against the signal's type."""
        try:
            text = msgspec.json.encode(value, enc_hook=pydantic_types.write)
            self._decoder.decode(text)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise InvalidArguments(
                f"the payload of signal {self.name!r} does not fit its type: {fault(error)}; "
                f"got {shape(value)}"
            ) from None
        what = f"the payload of signal {self.name!r}"
        if len(text) > PAYLOAD_BYTES:
            raise PayloadTooLarge(
                f"{what} is {len(text)} bytes, the limit is {PAYLOAD_BYTES}; store it elsewhere and "
                "send a reference"
            )
        check_storable(f"{what} contains", text, value)
        return text.decode()


class scope:
    """Tasks that succeed or fail together: `with scope(timeout=3600) as s:`.

    When one of them fails, or the time is over, what is open in it is called off, what is done is
    undone in reverse order (`.compensate(...)`), and the handler runs (`s.on_error(task, ...)`).
    `s.returns(promise)` names its result, `s.promise` is that of the whole, for use after the block:
    the result, or what the handler came to. Under its `name` it can be called off while it is open.
    """

    def __init__(
        self,
        *,
        on_error: object = None,
        timeout: timedelta | float | None = None,
        name: str | None = None,
    ) -> None:
        if name is not None:
            check_text("a scope's name", name, NAME_BYTES)
        self._name = name
        self._handler = on_error
        self._timeout = None if timeout is None else seconds("timeout", timeout)
        if self._timeout == 0:
            raise InvalidSetting("timeout of a scope must be more than 0 seconds, got 0")
        self._recorder: Recorder | None = None
        self._draft: ScopeDraft | None = None
        self._promise: Promise[Any] | None = None

    def __enter__(self) -> scope:
        if self._recorder is not None:
            raise PromiseMisused("a scope can be entered once; make another one")
        self._recorder = current("scope(...)")
        self._draft = self._recorder.open_scope(self._timeout, self._name)
        if self._handler is not None:
            self.on_error(self._handler)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        recorder, draft = self._inside("leave")
        if kind is None:  # else the whole attempt is void
            self._promise = recorder.close_scope(draft)

    def on_error(self, handler: object, /, *args: object, **kwargs: object) -> None:
        """The call made when the scope has failed; a parameter of the type `Failure` gets why."""
        recorder, draft = self._inside("on_error")
        recorder.handle_errors(draft, handler, args, kwargs)

    def returns(self, promise: Promise[object]) -> None:
        """Name the promise whose value the scope has."""
        recorder, draft = self._inside("returns")
        if not isinstance(promise, Promise):
            raise InvalidArguments(f"returns takes the promise of a call, got {promise!r}")
        recorder.name_result(draft, promise)

    @property
    def promise(self) -> Promise[Any]:
        """What the scope came to; to be used after its block."""
        if self._promise is None:
            raise PromiseMisused("s.promise is there after the scope's block has ended, not in it")
        return self._promise

    def _inside(self, what: str) -> tuple[Recorder, ScopeDraft]:
        if self._recorder is None or self._draft is None or self._promise is not None:
            raise PromiseMisused(f"{what} belongs inside the block of `with scope(...) as s:`")
        return self._recorder, self._draft


def seconds(name: str, given: timedelta | float | None) -> float:
    """A duration as seconds: a timedelta or a number, not negative."""
    value = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e10:
        raise InvalidSetting(f"{name} must be a timedelta or seconds, 0 or more, got {given!r}")
    return float(value)


def several_of(what: str, given: Sequence[object]) -> list[Promise[object]]:
    """The promises, given one by one or as a list of them."""
    if len(given) == 1 and not isinstance(given[0], Promise) and isinstance(given[0], Iterable):
        return promises_of(what, given[0])
    return promises_of(what, given)
