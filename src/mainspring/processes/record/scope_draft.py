"""A scope while its decider still writes it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from mainspring.processes.record.decision import Scope, Undo
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
    leave: int | None = None  # the child that ends it, once it is left

    def handle_errors(self, handler: Undo) -> None:
        """Call this when it has failed."""
        self.on_error = handler

    def come_to(self, result: Promise[object]) -> None:
        """This is what it comes to."""
        self.result = result

    def end_with(self, leave: int) -> None:
        """This child waits for all that is in it."""
        self.leave = leave

    def scope(self) -> Scope:
        assert self.leave is not None, "a scope is closed by its with block"
        return Scope(self.leave, self.parent, self.on_error, self.timeout, self.name)
