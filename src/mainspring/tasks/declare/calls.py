"""What a type checker knows of a call that a decider records.

The signature of the function, which a `ParamSpec` holds, checks plain values. "A value or a promise of it",
for each parameter, no type of Python's can say, so a call that has a promise (or a list or dictionary of
promises) among its first arguments, or `after=`, is checked where it is recorded and not before.
A promise given by name is not among those: in typed code give it by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from mainspring.tasks.declare.promise import Promise

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
Promised = Promise[object] | Iterable[Promise[object]] | Mapping[str, Promise[object]]


class Calls(Generic[P, R_co]):
    """What is called with the arguments of a function, or with promises of them."""

    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Promise[R_co]: ...
    @overload
    def __call__(self, a: Promised, /, *args: object, **kwargs: object) -> Promise[R_co]: ...
    @overload
    def __call__(
        self, a: object, b: Promised, /, *args: object, **kwargs: object
    ) -> Promise[R_co]: ...
    @overload
    def __call__(
        self, a: object, b: object, c: Promised, /, *args: object, **kwargs: object
    ) -> Promise[R_co]: ...
    @overload
    def __call__(
        self, a: object, b: object, c: object, d: Promised, /, *args: object, **kwargs: object
    ) -> Promise[R_co]: ...
    @overload
    def __call__(
        self,
        a: object,
        b: object,
        c: object,
        d: object,
        e: Promised,
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
