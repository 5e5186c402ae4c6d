"""A scope while its decider still writes it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from mainspring.errors import InvalidArguments, PromiseMisused
from mainspring.processes.record.decision import ChildTask, Edge, Scope, Undo
from mainspring.tasks.declare.promise import Promise


@dataclass(slots=True)
class ScopeDraft:
    """A scope under way: what was made in it, and what it will come to."""

    number: int
    parent: int | None
    timeout: float | None
    name: str | None = None
    members: list[int] = field(default_factory=list)
    on_error: Undo | None = None
    result: Promise[object] | None = None
    lock_name: str | None = None
    lock: int | None = None  # the child that takes it
    leave: int | None = None  # the child that ends it, once it is left

    def handle_errors(self, handler: Undo) -> None:
        """Call this when it has failed."""
        self.on_error = handler

    def come_to(self, result: Promise[object]) -> None:
        """This is what it comes to."""
        self.result = result

    def check_lock(self, name: str, around: Iterable[ScopeDraft]) -> None:
        """Refuse a lock that one of the scopes around takes."""
        if name in (scope.lock_name for scope in around):
            raise InvalidArguments(
                f"the lock {name!r} is taken inside of itself: the inner one would wait for ever"
            )

    def lock_with(self, name: str, promise: Promise[object]) -> None:
        """What is called in it from here on waits for this promise."""
        assert isinstance(promise.ref, int)
        self.lock_name, self.lock = name, promise.ref

    def end_with(self, leave: int) -> None:
        """This child waits for all that is in it."""
        self.leave = leave

    def scope(self) -> Scope:
        assert self.leave is not None, "a scope is closed by its with block"
        return Scope(self.leave, self.parent, self.on_error, self.timeout, self.name)


def under_locks(child: ChildTask, around: Iterable[ScopeDraft]) -> ChildTask:
    """The call after the locks of the scopes around it."""
    named = {edge.promise for edge in child.edges}
    locks = [scope.lock for scope in around if scope.lock is not None and scope.lock not in named]
    edges = child.edges + tuple(Edge(lock, "order") for lock in locks)
    return msgspec.structs.replace(child, edges=edges)


def check_leaving(
    promise: Promise[object], around: Iterable[ScopeDraft], made_in: Iterable[ScopeDraft]
) -> None:
    """Refuse a promise outside of a scope with a handler in which it was made."""
    here = {scope.number for scope in around}
    for scope in made_in:
        if scope.number in here:
            return
        if scope.on_error is not None:
            raise PromiseMisused(
                f"{promise!r} was made inside a scope with an error handler and is used outside of "
                "it, where it would have no value if the scope fails: write `s.returns(promise)` "
                "in the scope and use `s.promise` after it"
            )
