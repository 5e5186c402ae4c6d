"""What is called in a decider, and how: which calls, options and promises are refused at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeGuard

from mainspring.errors import InvalidArguments
from mainspring.tasks.declare.options import CallOptions
from mainspring.tasks.declare.promise import Promise
from mainspring.tasks.declare.signature import Signature


class Callee(Protocol):
    """What can be called in a decider: a task or a process."""

    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> Signature: ...
    @property
    def call_options(self) -> CallOptions: ...


def is_callee(value: object) -> TypeGuard[Callee]:
    """Whether it can be called so."""
    return hasattr(value, "signature")


def promises_after(after: object) -> list[Promise[object]]:
    """What `after=` was given: a promise, or several."""
    if isinstance(after, Promise) or not isinstance(after, Iterable):
        return promises_of("after", [after])
    return promises_of("after", after)


def promises_of(what: str, given: Iterable[object]) -> list[Promise[object]]:
    """These, if they are all promises."""
    several = []
    for promise in given:
        if not isinstance(promise, Promise):
            raise InvalidArguments(
                f"{what} takes promises of calls, got {type(promise).__name__}: {promise!r}"
            )
        several.append(promise)
    return several


def check_options(name: str, options: CallOptions) -> None:
    """Refuse what is for calls from outside."""
    refused = {"key": options.key, "expires_at": options.expires_at, "on": options.on}
    for option, value in refused.items():
        if value is not None:
            raise InvalidArguments(
                f"{name}.options({option}=...) does not apply in a decider: a step belongs to its "
                "process and is committed with it; use at, delay, priority or group"
            )


def check_step(name: str, options: CallOptions) -> None:
    """Refuse what is for processes of their own."""
    for option in ("id", "attrs"):
        if getattr(options, option, None) is not None:
            raise InvalidArguments(
                f"{name}.options({option}=...) does not apply to a step, which is a part of its "
                f"process; use {name}.options({option}=...).child(...), or set_attrs(...)"
            )
