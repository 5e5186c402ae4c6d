"""A function that takes many calls at once: `@app.batch_task`.

Each call is one item, and a task's call like any other: its arguments, attempts, result and history are its
own. Only the function is called for many of them.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypedDict, TypeVar, cast, overload

from mainspring.declaring import Seconds, check_number, check_whole
from mainspring.errors import InvalidTask
from mainspring.retry_policy import RetryPolicy
from mainspring.tasks.declare.task import Task
from mainspring.tasks.declare.unique import Unique, UniquePolicy

if TYPE_CHECKING:
    from mainspring.tasks.run.context import Context

A = TypeVar("A")
R = TypeVar("R")
ITEM = "item"  # the name of a call's only argument
MOST_ITEMS = 5_000
MOST_WAIT = 60.0


class BatchOptions(TypedDict, total=False):
    """Settings of a task that a batch has too."""

    name: str | None
    pool: str | None
    priority: int
    retry: RetryPolicy | None
    timeout: Seconds | None
    grace: Seconds
    hold_after: float
    crash_limit: int
    concurrency: int | None
    rate: float | None
    group_concurrency: int | None
    group_rate: float | None
    unique: Unique | UniquePolicy | None


class BatchDecorator(Protocol):
    """`@app.batch_task(...)`: a list of items in, a list of results out, or nothing."""

    @overload
    def __call__(
        self, function: Callable[[list[A]], Awaitable[Sequence[R | BaseException]]], /
    ) -> Task[[A], R]: ...
    @overload
    def __call__(self, function: Callable[[list[A]], Awaitable[None]], /) -> Task[[A], None]: ...
    @overload
    def __call__(
        self,
        function: Callable[[list[A], list[Context]], Awaitable[Sequence[R | BaseException]]],
        /,
    ) -> Task[[A], R]: ...
    @overload
    def __call__(
        self, function: Callable[[list[A], list[Context]], Awaitable[None]], /
    ) -> Task[[A], None]: ...
    @overload
    def __call__(
        self, function: Callable[[list[A]], Sequence[R | BaseException]], /
    ) -> Task[[A], R]: ...
    @overload
    def __call__(self, function: Callable[[list[A]], None], /) -> Task[[A], None]: ...
    @overload
    def __call__(
        self, function: Callable[[list[A], list[Context]], Sequence[R | BaseException]], /
    ) -> Task[[A], R]: ...
    @overload
    def __call__(
        self, function: Callable[[list[A], list[Context]], None], /
    ) -> Task[[A], None]: ...


@dataclass(frozen=True, slots=True)
class BatchFunction:
    """The function as it is declared."""

    name: str
    function: Callable[..., object]
    size: int
    wait: float | None
    contexts: str | None  # the name of the parameter that takes them
    is_async: bool

    def results(self, returned: object, count: int) -> Sequence[object]:
        """What it returned, for each item: a result, or the exception that is its failure."""
        if returned is None:
            return [None] * count
        if not isinstance(returned, list | tuple) or len(returned) != count:
            shown = (
                f"{len(returned)}" if isinstance(returned, list | tuple) else repr(type(returned))
            )
            raise InvalidTask(
                f"batch task {self.name!r} must return a list with a result for each of its {count} items, "
                f"or None, got {shown}"
            )
        return returned


def declare_batch(
    name: str,
    function: Callable[..., object],
    context_type: type,
    *,
    size: int,
    wait: float | None,
) -> tuple[BatchFunction, Callable[..., object]]:
    """The batch, and the function of one call, whose signature is that of its item."""
    check_whole("size", size, 1, MOST_ITEMS)
    if wait is not None:
        check_number("wait", wait, 0, MOST_WAIT)
    items, contexts, result = _shape(name, function, context_type)
    is_async = inspect.iscoroutinefunction(function)
    batch = BatchFunction(name, function, size, wait, contexts, is_async)

    async def one(item: object) -> object:
        """A call by itself: in a process, or where the task is called as a function."""
        if contexts is not None:
            raise InvalidTask(
                f"batch task {name!r} takes contexts, so it can be enqueued and not be called alone"
            )
        returned = function([item])
        if is_async:
            returned = await cast("Awaitable[object]", returned)
        (found,) = batch.results(returned, 1)
        if isinstance(found, BaseException):
            raise found
        return found

    functools.update_wrapper(
        one, function, ("__name__", "__qualname__", "__module__", "__doc__"), ()
    )
    vars(one).pop("__wrapped__")  # its signature is not that of the function
    one.__annotations__.update({ITEM: items, "return": result})
    return batch, one


def _shape(
    name: str, function: Callable[..., object], context_type: type
) -> tuple[object, str | None, object]:
    """The type of an item, the parameter for the contexts, the type of a result."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InvalidTask(
            f"an annotation of batch task {name!r} cannot be resolved: {error}; import the type where the "
            "function is defined"
        ) from None
    parameters = list(inspect.signature(function).parameters)
    kinds = [hints.get(parameter) for parameter in parameters]
    is_for_contexts = len(kinds) == 2 and kinds[1] == list[context_type]  # type: ignore[valid-type]
    if not kinds or typing.get_origin(kinds[0]) is not list or len(kinds) > 1 + is_for_contexts:
        raise InvalidTask(
            f"batch task {name!r} must take a list of items, and may take their contexts: "
            f"def {name}(items: list[Item], contexts: list[Context]); got {inspect.signature(function)}"
        )
    return (
        typing.get_args(kinds[0])[0],
        parameters[1] if is_for_contexts else None,
        _result(name, hints.get("return", object)),
    )


def _result(name: str, returned: object) -> object:
    """The type of one result; failures among them are none."""
    if returned in (None, type(None), object):
        return returned
    if typing.get_origin(returned) is not list:
        raise InvalidTask(
            f"batch task {name!r} must return a list with a result for each item, or None; it says "
            f"{returned}"
        )
    (kind,) = typing.get_args(returned)
    parts = [
        p
        for p in typing.get_args(kind)
        if not (isinstance(p, type) and issubclass(p, BaseException))
    ]
    if not parts or len(parts) == len(typing.get_args(kind)):
        return kind
    return typing.Union[tuple(parts)]  # noqa: UP007
