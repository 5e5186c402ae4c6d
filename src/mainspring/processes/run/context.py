"""The context of a task that belongs to a process: its own SQL and its decision, in one commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mainspring.db.sql import Steps, run
from mainspring.errors import InvalidDecision, MainspringError
from mainspring.kernel import KERNEL_SQL, Run, Verdict
from mainspring.processes.commit.change import TaskChange, change_of
from mainspring.processes.commit.commit import Commit
from mainspring.processes.commit.task_input import TaskInput
from mainspring.processes.record.decision import Decision, validate
from mainspring.processes.record.recorder import Recorder
from mainspring.tasks.run.connections import Connections, unsettled_values
from mainspring.tasks.run.context import Context, Transaction


class Seams(Protocol):
    """What a context needs of the layer that runs it."""

    def beat(self, run: Run) -> None: ...
    def prepared(self, change: TaskChange) -> TaskChange: ...


class ProcessContext(Context):
    """The run of a process's task, seen from inside.

    `transaction()` commits its SQL together with the decision: the calls that were made until the end
    of the block, and what `set_result` was given, which may be a promise.
    """

    def __init__(
        self,
        run: Run,
        encode: Callable[[object], str | None],
        connections: Connections,
        timeout: float | None,
        task_input: TaskInput,
        records: Recorder | None,
        shard_count: int,
        seams: Seams,
    ) -> None:
        super().__init__(run, lambda _: None, connections, timeout)  # results are in the task's row
        self._task_input = task_input
        self._records = records
        self._shard_count = shard_count
        self._encode_result = encode
        self._seams = seams

    @property
    def process(self) -> str:
        """The id of the process."""
        return self._task_input.process_id

    @property
    def generation(self) -> int:
        """How often the task was restarted; a part of its idempotency key."""
        return self._task_input.generation

    def beat(self) -> None:
        """Say that the run goes on: from now on it has its whole work timeout again."""
        self._seams.beat(self._run)

    def transaction(self) -> Transaction:
        """A transaction that completes the task, with all it decided, when it commits."""
        if self._run.settled:
            raise MainspringError(
                f"task {self.task!r} was already completed by its first transaction: put all its SQL in "
                "that block"
            )
        return _Transaction(self._run, self._connections, self)

    def completion(self, result: object) -> Transaction:
        """A step and what follows it are written together, on a connection of the engine's."""
        raise MainspringError(
            f"{self.task!r} runs as a step of a process, which ctx.transaction() completes: complete() and "
            "complete_sync() are for plain calls"
        )

    def _change(self) -> TaskChange:
        """The decision as it stands at the end of the block."""
        if self._records is None:
            decision = Decision(result=self._encode_result(self._result))
        else:
            decision = self._records.conclude(self._result, self._encode_result)
        given = {given.promise for given in self._task_input.inputs}
        if (problem := validate(decision, given)) is not None:
            raise InvalidDecision(problem.message)
        return self._seams.prepared(change_of(self._task_input, decision))


class _Transaction(Transaction):
    """The user's SQL, the decision, the settle: in this order, so the process is locked last."""

    _context: ProcessContext

    def steps(self) -> Steps[None]:
        change = self._context._change()
        verdict = yield from self._commit(change)
        if verdict == "locked":
            # Its visit is locked by somebody, likely by the heart that holds it just now: nothing was
            # written. Once the row is ours the decision is judged by what it says then.
            yield from run(KERNEL_SQL["lock_unsettled"], **unsettled_values(self._run))
            verdict = yield from self._commit(change)
        if verdict is not None:
            raise self._fenced()  # whatever is not to be settled rolls the whole block back
        yield from super().steps()

    def _commit(self, change: TaskChange) -> Steps[Verdict]:
        commit = Commit([change], self._context._shard_count, runs=[self._run], waiting=True)
        yield from commit.steps()
        return commit.verdicts[0]
