"""`call_off`: a step of a process ends a part of it, while the rest goes on."""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.errors import InvalidArguments
from mainspring.processes.record.arguments import promises_after, promises_of
from mainspring.processes.record.recorder import current
from mainspring.tasks.declare.promise import Promise


def call_off(
    promise: Promise[object] | None = None,
    *,
    scope: str | None = None,
    after: Promise[object] | Iterable[Promise[object]] = (),
) -> Promise[int]:
    """End what would fulfil a promise, with all that it made, or the open scopes of a name.

    Whoever waits for the promise is told a failure, `Cancelled`; a scope ends as one that failed. The
    result is how many tasks and scopes were called off: 0 where all had ended. `after`: not before these.

        call_off(search, after=[gave_up.wait()])
    """
    if (promise is None) == (scope is None):
        raise InvalidArguments("call_off takes a promise, or the name of a scope: one of them")
    inputs = [] if promise is None else promises_of("call_off", [promise])
    waits = list(promises_after(after))
    about = {} if scope is None else {"scope": scope}
    return current("call_off(...)").builtin("@call_off", about, inputs, "handle", waits)
