"""What a type checker knows of a call that a decider records.

The signature of the function, which a `ParamSpec` holds, checks plain values. "A value or a promise of it",
for all parameters at once, no type of Python's can say; for the first few it can, one by one. So an
argument given by position may be a promise of the parameter's type, and is checked as such. A promise given
by name a checker refuses, and a call with `after=` is checked where it is recorded and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from mainspring.tasks.declare.promise import Accepted, Promise

P = ParamSpec("P")
Q = ParamSpec("Q")
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A", contravariant=True)
B = TypeVar("B", contravariant=True)
C = TypeVar("C", contravariant=True)
D = TypeVar("D", contravariant=True)
E = TypeVar("E", contravariant=True)
Promises = Iterable[Promise[object]] | Mapping[str, Promise[object]]
Promised = Promise[object] | Promises


# Read from a call's own signature what its first parameters take. Concatenate on the class itself is not
# solved by every checker; on a function it is.


class Takes1(Protocol[A, Q, R_co]):
    def signed(self) -> Callable[Concatenate[A, Q], R_co]: ...


class Takes2(Protocol[A, B, Q, R_co]):
    def signed(self) -> Callable[Concatenate[A, B, Q], R_co]: ...


class Takes3(Protocol[A, B, C, Q, R_co]):
    def signed(self) -> Callable[Concatenate[A, B, C, Q], R_co]: ...


class Takes4(Protocol[A, B, C, D, Q, R_co]):
    def signed(self) -> Callable[Concatenate[A, B, C, D, Q], R_co]: ...


class Takes5(Protocol[A, B, C, D, E, Q, R_co]):
    def signed(self) -> Callable[Concatenate[A, B, C, D, E, Q], R_co]: ...


class Calls(Generic[P, R_co]):
    """What is called with the arguments of a function, or with promises of them."""

    if TYPE_CHECKING:

        def signed(self) -> Callable[P, R_co]: ...

    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Promise[R_co]: ...
    @overload
    def __call__(
        self: Takes1[A, Q, R_co],
        a: A | Promise[A] | Accepted[A] | Promises,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> Promise[R_co]: ...
    @overload
    def __call__(
        self: Takes2[A, B, Q, R_co],
        a: A | Promise[A] | Accepted[A] | Promises,
        b: B | Promise[B] | Accepted[B] | Promises,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> Promise[R_co]: ...
    @overload
    def __call__(
        self: Takes3[A, B, C, Q, R_co],
        a: A | Promise[A] | Accepted[A] | Promises,
        b: B | Promise[B] | Accepted[B] | Promises,
        c: C | Promise[C] | Accepted[C] | Promises,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> Promise[R_co]: ...
    @overload
    def __call__(
        self: Takes4[A, B, C, D, Q, R_co],
        a: A | Promise[A] | Accepted[A] | Promises,
        b: B | Promise[B] | Accepted[B] | Promises,
        c: C | Promise[C] | Accepted[C] | Promises,
        d: D | Promise[D] | Accepted[D] | Promises,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> Promise[R_co]: ...
    @overload
    def __call__(
        self: Takes5[A, B, C, D, E, Q, R_co],
        a: A | Promise[A] | Accepted[A] | Promises,
        b: B | Promise[B] | Accepted[B] | Promises,
        c: C | Promise[C] | Accepted[C] | Promises,
        d: D | Promise[D] | Accepted[D] | Promises,
        e: E | Promise[E] | Accepted[E] | Promises,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> Promise[R_co]: ...
    @overload
    def __call__(
        self,
        a: object,
        b: object,
        c: object,
        d: object,
        e: object,
        f: Promised,
        /,
        *args: object,
        **kwargs: object,
    ) -> Promise[R_co]: ...
    @overload
    def __call__(
        self, /, *args: object, after: Promise[object] | Iterable[Promise[object]], **kwargs: object
    ) -> Promise[R_co]: ...
    def __call__(self, /, *args: Any, **kwargs: Any) -> Promise[R_co]:
        return self._called(args, kwargs)

    def _called(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Promise[R_co]:
        raise NotImplementedError


class Maps(Calls[P, R_co]):
    """What can be called for each of many items too."""

    def map(
        self: Takes1[A, ..., R_co],
        items: Iterable[A],
        /,
        *,
        window: int | None = None,
        **named: object,
    ) -> Promise[list[R_co]]:
        """In a decider: a call for each item (the first parameter), made in chunks.

        `window`: about so many of them at a time. `named`: arguments that are the same for all.
        """
        return cast("Maps[..., R_co]", self)._mapped(items, named, window)

    def _mapped(
        self, items: Iterable[object], named: dict[str, object], window: int | None
    ) -> Promise[list[R_co]]:
        raise NotImplementedError
