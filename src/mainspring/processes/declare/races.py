"""Races: what a decider says of several promises of which not all are needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Literal, TypeAlias, TypeVar, overload

import msgspec

from mainspring.errors import InvalidArguments, InvalidSetting
from mainspring.processes.declare.decider_api import several_of
from mainspring.processes.record.race import FIRST_OF, SOME_OF
from mainspring.processes.record.recorder import current
from mainspring.tasks.declare.promise import Promise

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
T = TypeVar("T")
# What becomes of the others once it is decided.
Others: TypeAlias = Literal["cancel", "go_on"]


class First(msgspec.Struct, Generic[T], frozen=True):
    """Which of several came first, and its value."""

    index: int
    value: T


@overload
def first_of(promises: Iterable[Promise[T]], /, *, others: Others = ...) -> Promise[First[T]]: ...
@overload
def first_of(a: Promise[A], b: Promise[B], /, *, others: Others = ...) -> Promise[First[A | B]]: ...
@overload
def first_of(
    a: Promise[A], b: Promise[B], c: Promise[C], /, *, others: Others = ...
) -> Promise[First[A | B | C]]: ...
@overload
def first_of(*promises: Promise[object], others: Others = ...) -> Promise[First[object]]: ...
def first_of(
    *promises: Promise[object] | Iterable[Promise[object]], others: Others = "cancel"
) -> Promise[object]:
    """The first of several promises that comes to its end, well or not; the others are called off.

    What is called off: those in whose result nothing else is interested. `others="go_on"` lets them run
    to their end.
    """
    if others == "cancel":
        several = _racing("first_of", 1, promises, others)
        return current("first_of(...)").builtin(FIRST_OF, {}, several, "outcome")
    return _race("first_of", 1, promises, others, ends=True, one=True)


@overload
def first_success(
    promises: Iterable[Promise[T]], /, *, others: Others = ...
) -> Promise[First[T]]: ...
@overload
def first_success(
    a: Promise[A], b: Promise[B], /, *, others: Others = ...
) -> Promise[First[A | B]]: ...
@overload
def first_success(
    a: Promise[A], b: Promise[B], c: Promise[C], /, *, others: Others = ...
) -> Promise[First[A | B | C]]: ...
@overload
def first_success(*promises: Promise[object], others: Others = ...) -> Promise[First[object]]: ...
def first_success(
    *promises: Promise[object] | Iterable[Promise[object]], others: Others = "cancel"
) -> Promise[object]:
    """The first of several promises that is kept; failures of others are passed over.

    It fails with `TooFewSucceeded` when all have failed. The others are called off when it is decided,
    or (`others="go_on"`) run to their end.
    """
    return _race("first_success", 1, promises, others, one=True)


@overload
def some_of(
    need: int, promises: Iterable[Promise[T]], /, *, others: Others = ...
) -> Promise[list[First[T]]]: ...
@overload
def some_of(
    need: int, /, *promises: Promise[T], others: Others = ...
) -> Promise[list[First[T]]]: ...
def some_of(
    need: int, /, *promises: Promise[object] | Iterable[Promise[object]], others: Others = "cancel"
) -> Promise[object]:
    """The first `need` of several promises that are kept, in the order in which they were.

    It fails with `TooFewSucceeded` as soon as too few can be kept. `others` as for `first_success`.
    """
    if isinstance(need, bool) or not isinstance(need, int) or need < 1:
        raise InvalidArguments(f"some_of takes how many of the promises are needed, got {need!r}")
    return _race("some_of", need, promises, others)


def _race(
    what: str, need: int, promises: tuple[object, ...], others: Others, **terms: bool
) -> Promise[object]:
    several = _racing(what, need, promises, others)
    given: dict[str, object] = {**terms, "need": need}
    if others == "go_on":
        given["go_on"] = True
    return current(f"{what}(...)").builtin(SOME_OF, given, several, "outcome")


def _racing(
    what: str, need: int, promises: tuple[object, ...], others: str
) -> list[Promise[object]]:
    if others not in ("cancel", "go_on"):
        raise InvalidSetting(f"others of {what} is 'cancel' or 'go_on', got {others!r}")
    several = several_of(what, promises)
    if not several:
        raise InvalidArguments(f"{what}() of nothing would never end; give it promises")
    if (different := len({(id(p.maker), p.ref) for p in several})) < need:
        raise InvalidArguments(
            f"{what} needs {need} of {different} promises, and can never have so many"
        )
    return several
