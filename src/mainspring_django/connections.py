"""Django's connections around each task that runs, as Django has it around each request.

Before a task the thread has no connection that is broken or older than CONN_MAX_AGE, and none that the
server has closed meanwhile. After it none is left that is older, or in a state that the task left.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections


@contextmanager
def fresh() -> Iterator[None]:
    """For code that runs in this thread."""
    _close_unusable()
    try:
        yield
    finally:
        _discard_unended()
        close_old_connections()


def closing(function: Callable[..., object]) -> Callable[..., object]:
    """The same function with connections closed around it; of an async one those of Django's own thread
    for what is sync."""
    if getattr(function, "closes_connections", False):
        return function
    made: Callable[..., object]
    if inspect.iscoroutinefunction(function):
        close = sync_to_async(_close_unusable, thread_sensitive=True)

        @wraps(function)
        async def awaited(*args: object, **named: object) -> object:
            await close()
            try:
                return await function(*args, **named)
            finally:
                await close()

        made = awaited
    else:

        @wraps(function)
        def called(*args: object, **named: object) -> object:
            with fresh():
                return function(*args, **named)

        made = called
    vars(made)["closes_connections"] = True
    return made


def _close_unusable() -> None:
    """An idle connection that the server has ended looks open: it is asked, where one was kept at all."""
    close_old_connections()
    for wrapper in connections.all(initialized_only=True):
        if wrapper.connection is not None and not wrapper.in_atomic_block:
            if wrapper.is_usable():
                wrapper.health_check_done = True
            else:
                wrapper.close()


def _discard_unended() -> None:
    """A task that was stopped inside of `atomic`, or left autocommit off, has left a transaction open."""
    for wrapper in connections.all(initialized_only=True):
        if wrapper.connection is not None and (
            wrapper.in_atomic_block
            or wrapper.get_autocommit() != wrapper.settings_dict["AUTOCOMMIT"]
        ):
            wrapper.close()
            del connections[wrapper.alias]
