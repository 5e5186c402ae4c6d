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
R = TypeVar("R")
Promised = Promise[Any] | Iterable[Promise[Any]] | Mapping[str, Promise[Any]]


class Calls(Generic[P, R]):
    """What is called with the arguments of a function, or with promises of them."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Promise[R]: ...
    @overload
    def __call__(self, a: Promised, /, *args: Any, **kwargs: Any) -> Promise[R]: ...
    @overload
    def __call__(self, a: Any, b: Promised, /, *args: Any, **kwargs: Any) -> Promise[R]: ...
    @overload
    def __call__(self, a: Any, b: Any, c: Promised, /, *args: Any, **kwargs: Any) -> Promise[R]: ...
    @overload
    def __call__(
        self, a: Any, b: Any, c: Any, d: Promised, /, *args: Any, **kwargs: Any
    ) -> Promise[R]: ...
    @overload
    def __call__(
        self, a: Any, b: Any, c: Any, d: Any, e: Promised, /, *args: Any, **kwargs: Any
    ) -> Promise[R]: ...
    @overload
    def __call__(
        self, *args: Any, after: Promise[Any] | Iterable[Promise[Any]], **kwargs: Any
    ) -> Promise[R]: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Promise[R]:
        return self._called(args, kwargs)

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Promise[R]:
        raise NotImplementedError
