"""What hooks are told: of a run, of its failure, of calls on their way to the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from mainspring.declaring import Seconds
from mainspring.kernel import Run, instant

if TYPE_CHECKING:
    from mainspring.tasks.declare.handle import Handle
    from mainspring.tasks.declare.task import Call


class RunInfo:
    """A run of a task, a step, a decider, a reactive task or a stage, as hooks see it."""

    __slots__ = ("_run", "arguments", "result")

    def __init__(self, run: Run, arguments: Mapping[str, object] = MappingProxyType({})) -> None:
        self._run = run
        self.arguments = arguments  # of the function, by name
        self.result: object = None  # what it returned: known after it has

    def __repr__(self) -> str:
        return f"<RunInfo of {self.task} {self.id}, attempt {self.attempt}>"

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


class Enqueueing:
    """Calls that are about to be enqueued together. A hook may change how, or refuse by an exception."""

    __slots__ = ("calls", "handles")

    def __init__(self, calls: Sequence[Call[object]]) -> None:
        self.calls = calls
        self.handles: Sequence[Handle[object]] = ()  # of them, when they are enqueued

    def __repr__(self) -> str:
        return f"<Enqueueing of {len(self.calls)} calls>"

    @property
    def tasks(self) -> list[str]:
        """The names of their tasks, each once."""
        return sorted({call.task.name for call in self.calls})

    def enqueued(self, handles: Sequence[Handle[object]]) -> None:
        """They are: a hook finds their handles after its `yield`."""
        self.handles = handles

    def set_options(
        self,
        *,
        at: datetime | None = None,
        delay: Seconds | None = None,
        priority: int | None = None,
        group: str | None = None,
        expires_at: datetime | None = None,
    ) -> None:
        """Give all of them options, which mean what they mean for `task.options(...)`."""
        given = {
            "at": at,
            "delay": delay,
            "priority": priority,
            "group": group,
            "expires_at": expires_at,
        }
        options = {name: value for name, value in given.items() if value is not None}
        self.calls = [
            msgspec.structs.replace(call, options=replace(call.options, **options))  # type: ignore[arg-type]
            for call in self.calls
        ]
