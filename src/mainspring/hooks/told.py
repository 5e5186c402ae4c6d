"""What hooks are told of a run, and of its failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from uuid import UUID

from mainspring.hooks.traced import trace_of
from mainspring.kernel import Run, instant


class RunInfo:
    """A run of a task, a step, a decider, a reactive task or a stage, as hooks see it."""

    __slots__ = ("_run", "arguments", "result")

    def __init__(self, run: Run, arguments: Mapping[str, object] = MappingProxyType({})) -> None:
        self._run = run
        self.arguments = arguments  # of the function, by name
        self.result: object = None  # what it returned: known after it has

    def __repr__(self) -> str:
        return f"<RunInfo of {self.task} {self.id}, attempt {self.attempt}>"

    def returned(self, result: object) -> None:
        """The function has ended with this."""
        self.result = result

    @property
    def task(self) -> str:
        """The name of the task, or of the queue of what else is run."""
        return self._run.visit.queue

    @property
    def id(self) -> UUID:
        """The call's id: the same over retries."""
        return self._run.visit.id

    @property
    def key(self) -> str:
        """The visit's key: the id, or the uniqueness key."""
        return self._run.visit.key

    @property
    def group(self) -> str | None:
        """The group the call was enqueued in."""
        return self._run.visit.group

    @property
    def attempt(self) -> int:
        """1 for the first run, 2 for the first retry..."""
        return self._run.visit.attempt + 1

    @property
    def trace(self) -> str | None:
        """The W3C `traceparent` of whoever enqueued it, if it was carried with the call."""
        return trace_of(self._run.visit.payload)

    @property
    def due_at(self) -> datetime:
        """When it was due: since then it waited."""
        return self._run.visit.due_at

    @property
    def started_at(self) -> datetime:
        """When the run began, by the database's clock."""
        return instant(self._run.started)


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that failed, with the exception itself: its traceback, its cause, its notes."""

    run: RunInfo
    error: BaseException
    is_final: bool  # no retry follows
