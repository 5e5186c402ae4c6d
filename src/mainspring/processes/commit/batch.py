"""The state of one commit: the changes of a batch, what became of each, and the visits that they make.

`commit.py` walks the steps; each kind of step is a file of its own that reads and writes this state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from mainspring.kernel import EARLIEST, Run, Verdict, new_id, tokens
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.task_input import (
    DEADLINE_AFTER,
    NO_OPTIONS,
    TaskInput,
    TaskOptions,
    deadline_of,
)
from mainspring.processes.commit.visits import (
    NewVisit,
    Serves,
    asked_look,
    engine_visit,
    queue_of,
    task_visit,
)


class Torn(RuntimeError):
    """A row was not as every commit leaves it: nothing is written."""


class NotSettled(TimeoutError):
    """Something of the batch is not as it was read: all is rolled back, and each looked at."""


class CommitBatch:
    """Changes that are committed together. `verdicts` answers each by its place."""

    def __init__(
        self,
        changes: Sequence[TaskChange],
        shard_count: int,
        *,
        runs: Sequence[Run] = (),
        waiting: bool = False,
        serves: Serves = lambda queue, shard: False,
        settle: Mapping[str, object] | None = None,
        worker_id: UUID | None = None,
    ) -> None:
        self.changes = changes
        # Whose visits say whether each change still counts; none of a change that nobody ran for.
        # Not in the change: runs note theirs, and a circle of the two would wait for the collector.
        self.runs = runs
        self.shard_count = shard_count
        self.waiting = waiting  # for a structural change under way, instead of leaving it alone
        self.serves = serves  # what the committing worker will start itself
        self.worker_id = worker_id  # of the worker that starts what it serves
        # The arguments of settle.sql, if every change is a plain success: see lock.settle_visits.
        self.settle = settle
        self.verdicts: list[Verdict] = [None] * len(changes)
        self.visits: list[NewVisit] = []  # that this commit added
        self.task_inputs: dict[int, TaskInput] = {}  # by the version of the visit
        self.offers: list[NewVisit] = []  # that may be there already
        self.looks: set[str] = set()  # processes that must be looked at
        self.roots: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.engines: dict[str, str] = {}  # the queue in which the engine works for each process
        self.root_closed: set[str] = set()
        self._tokens: list[int] = []  # drawn and not used yet
        self.now = EARLIEST

    def took(
        self, id: str, root: str, type: str, engine: str, now: datetime, root_closed: bool
    ) -> None:
        """A process is locked, and may be changed."""
        self.roots[id], self.types[id], self.engines[id] = root, type, engine
        self.now = now
        if root_closed:
            self.root_closed.add(id)

    def ready(
        self,
        process_id: str,
        task: str,
        actor: str,
        options: TaskOptions,
        generation: int,
        background: int | None,
    ) -> None:
        if options is NO_OPTIONS and generation == 0 and background is None:  # most: no detour
            queue = queue_of(actor, self.engines[process_id])
            self.visits.append(NewVisit(queue, task, process_id, task, self._token()))
            return
        due_at = options.at
        if options.delay is not None:
            due_at = self.now + timedelta(seconds=options.delay)
        deadline_at = deadline_of(options, due_at or self.now)
        if deadline_at is not None:
            looked_at = deadline_at + DEADLINE_AFTER
            self.offers.append(self.engine_visit("deadline", process_id, task, looked_at))
        self.visits.append(
            task_visit(
                process_id,
                task,
                actor,
                engine=self.engines[process_id],
                generation=generation,
                due_at=due_at,
                priority=background if options.priority is None else options.priority,
                group=options.group,
                deadline_at=deadline_at,
                version=self._token(),
            )
        )

    def _token(self) -> int:
        if not self._tokens:
            self._tokens = list(tokens(64))
        return self._tokens.pop()

    def asked_look(self, process_id: str, due_at: datetime | None = None) -> NewVisit:
        return asked_look(process_id, self.engines[process_id], due_at)

    def engine_visit(
        self, kind: str, process_id: str, subject: str, due_at: datetime | None = None
    ) -> NewVisit:
        engine = self.engines[process_id]
        return engine_visit(kind, process_id, subject, id=new_id(), engine=engine, due_at=due_at)

    def hand_over(self, task_input: TaskInput) -> None:
        """What the visit that was added last is run with: known here, so nobody need read it."""
        self.task_inputs[self.visits[-1].version] = task_input

    def place_of(self, change: TaskChange) -> int:
        return next(n for n, other in enumerate(self.changes) if other is change)
