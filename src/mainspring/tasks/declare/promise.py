"""Promises: what a task called inside a decider gives, and what their errors teach.

A decider runs once, to its end, before any of its tasks has started: a promise has no value there.
It can be passed on (which is an edge of the graph), returned (a tail call), put into a list of
arguments, waited for (`after=`), and nothing else. Everything else raises, and says what to write.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeVar

import msgspec

from mainspring.errors import OutcomeFailed, PromiseAttribute, PromiseMisused

T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
T = TypeVar("T")

CONTINUE = (
    "write what needs the value as a task or process of its own and pass the promise to it: "
    "its parameter gets the value when it is there"
)


class Compensates(Protocol):
    """What can give a recorded call its compensation: the recorder that made the promise."""

    def compensate(
        self, ref: int | str, undo: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None: ...


class Accepted(Protocol[T_contra]):
    """What may be given for a parameter though it is no value of its type: see `Promise.accepted_as`."""

    def accepted_as(self, parameter: T_contra, /) -> None: ...


class Promise(Generic[T_co]):
    """The result of a call that has not run yet.

    `ref` is the number of the child in the decision that makes it, or the id of a promise that the
    deciding task was given as a `Promise[T]` parameter. `maker` is the decision's recorder.
    """

    __slots__ = ("label", "maker", "ref")

    def __init__(self, ref: int | str, label: str = "", maker: Compensates | None = None) -> None:
        self.ref = ref
        self.label = label
        self.maker = maker

    def __repr__(self) -> str:
        return f"<Promise of {self.label or self.ref}>"

    def compensate(self, undo: object, /, *args: object, **kwargs: object) -> Promise[T_co]:
        """Say how the step is undone when its scope fails: `charge(...).compensate(refund, id)`.

        The promise itself may be an argument, for a parameter of the type `Outcome[T]`: the step may
        have been stopped half way, so an undo must cope with nothing to undo.
        """
        if self.maker is None:
            raise PromiseMisused(
                f"{self!r} was given to this task, and only the decision that makes a call can say "
                "how it is undone: add .compensate(...) where the call is made"
            )
        self.maker.compensate(self.ref, undo, args, kwargs)
        return self

    def _misused(self, use: str, instead: str = CONTINUE) -> NoReturn:
        raise PromiseMisused(
            f"{use}: {self!r} has no value yet, its task starts after this decider has ended; {instead}"
        )

    # -- each of these is a way to ask for a value that is not there

    def __await__(self) -> Generator[object, object, T_co]:
        self._misused(
            "a promise cannot be awaited in a decider",
            f"nothing waits here, so no worker is kept busy; {CONTINUE}",
        )

    def __bool__(self) -> bool:
        self._misused("a promise is neither true nor false")

    def __eq__(self, other: object) -> bool:
        self._misused("a promise cannot be compared")

    def __ne__(self, other: object) -> bool:
        self._misused("a promise cannot be compared")

    def __hash__(self) -> int:
        return id(self)

    def __str__(self) -> str:
        self._misused(
            "a promise cannot be written as text",
            "log its repr (`%r`, `!r`) if you mean the promise itself; for its value, " + CONTINUE,
        )

    def __format__(self, spec: str) -> str:
        return str(self)

    def __reduce__(self) -> NoReturn:
        self._misused(
            "a promise cannot be stored", "pass it on as an argument of the type Promise[T]"
        )

    if TYPE_CHECKING:

        def accepted_as(self, parameter: Outcome[T_co] | Promise[T_co], /) -> None:
            """For checkers: a promise of T may be given where an outcome of T or its promise is taken."""

    if not TYPE_CHECKING:  # a checker refuses these by itself, as long as it does not see them

        def __lt__(self, other: object) -> bool:
            self._misused("a promise cannot be compared")

        __le__ = __gt__ = __ge__ = __lt__

        def __iter__(self) -> NoReturn:
            self._misused(
                "a promise cannot be iterated",
                "for a task per element write a process that takes the list and calls one for each, "
                "and pass the promise to it",
            )

        def __len__(self) -> int:
            self._misused("a promise has no length")

        def __contains__(self, item: object) -> bool:
            self._misused("a promise contains nothing")

        def __getitem__(self, item: object) -> NoReturn:
            self._misused("a promise has no items")

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):  # protocols that Python asks for: copy, pickle, numbers
                raise AttributeError(name)
            raise PromiseAttribute(
                f"a promise has no attribute {name!r}: {self!r} has no value yet, its task starts "
                f"after this decider has ended; {CONTINUE}"
            )

        def __call__(self, *_: object, **__: object) -> NoReturn:
            self._misused("a promise cannot be called")

        def _calculate(self, other: object = None) -> NoReturn:
            self._misused("a promise cannot be calculated with")

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _calculate
        __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _calculate
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _calculate
        __neg__ = __pos__ = __abs__ = __invert__ = _calculate
        __int__ = __float__ = __index__ = _calculate


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a task came to no value: the exception's type and text, and the task it began with."""

    type: str
    message: str
    trace: str = ""
    cause: str | None = None  # the id of the task that failed first
    actor: str | None = None

    def __str__(self) -> str:
        return (
            self.message if self.message.startswith(self.type) else f"{self.type}: {self.message}"
        )


class Outcome(msgspec.Struct, Generic[T], frozen=True, omit_defaults=True):
    """How a task ended: a parameter of this type gets the value or the failure, and catches it.

        @app.process
        def finish(order: int, payment: Outcome[Receipt]) -> str:
            if payment.failed:
                return f"not paid: {payment.failure}"
            return payment.value.number

    `match` works on `Outcome(ok=value, failure=None)`.
    """

    ok: T | None = None
    failure: Failure | None = None

    @property
    def failed(self) -> bool:
        return self.failure is not None

    @property
    def value(self) -> T:
        """The value; raises `OutcomeFailed` if there is none."""
        if self.failure is not None:
            raise OutcomeFailed(
                f"the task came to no value: {self.failure}; look at `failed` first", self.failure
            )
        return self.ok  # type: ignore[return-value]

    def or_else(self, default: T) -> T:
        """The value, or `default` if the task failed."""
        return default if self.failure is not None else self.ok  # type: ignore[return-value]
