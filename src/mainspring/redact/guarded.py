"""Functions whose failures do not tell what is hidden of what they were given."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import cast

from mainspring.failure_text import scrub_with
from mainspring.redact.redactor import Redactor


def guarded(
    function: Callable[..., object], redactor: Redactor, *payloads: str
) -> Callable[..., object]:
    """The same function for one run, which was given these payloads (JSON). An exception on its way out is
    itself as ever, for policies and hooks; its text, wherever it is told, goes without what is hidden."""
    if inspect.iscoroutinefunction(function):

        async def call_async(*args: object, **kwargs: object) -> object:
            try:
                return await cast("Awaitable[object]", function(*args, **kwargs))
            except BaseException as error:
                scrub_with(error, redactor.scrubber_of(*payloads))
                raise

        return call_async

    def call(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            scrub_with(error, redactor.scrubber_of(*payloads))
            raise

    return call
