"""Drafts: the calls and scopes of a decider that is still running."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mainspring.processes.record.decision import ChildTask, Edge, Ref, Scope, Undo
from mainspring.tasks.declare.promise import Promise


@dataclass(slots=True)
class Draft:
    """A child under way. Edges keep the order of their first use; the strongest kind wins."""

    actor: str
    args: str = "{}"
    edges: dict[Ref, str] = field(default_factory=dict)
    scope: int | None = None
    undo: Undo | None = None
    delay: float | None = None
    at: datetime | None = None
    priority: int | None = None
    group: str | None = None
    args_version: int = 1

    def child(self) -> ChildTask:
        return ChildTask(
            self.actor,
            self.args,
            tuple(Edge(promise, kind) for promise, kind in self.edges.items()),
            self.args_version,
            self.scope,
            self.undo,
            self.delay,
            self.at,
            self.priority,
            self.group,
        )


@dataclass(slots=True)
class ScopeDraft:
    """A scope under way: what was made in it, and what it will come to."""

    number: int
    parent: int | None
    timeout: float | None
    members: list[int] = field(default_factory=list)
    on_error: Undo | None = None
    result: Promise[Any] | None = None
    leave: int | None = None  # the child that ends it, once it is left

    def scope(self) -> Scope:
        assert self.leave is not None, "a scope is closed by its with block"
        return Scope(self.leave, self.parent, self.on_error, self.timeout)
