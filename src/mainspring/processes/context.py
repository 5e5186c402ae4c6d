"""The context of a task that belongs to a process: its own SQL and its decision, in one commit."""

from __future__ import annotations

from typing import Any

from mainspring.errors import MainspringError
from mainspring.kernel.visit import Run
from mainspring.processes.decider import Recorder
from mainspring.processes.hand_out import Handout
from mainspring.tasks.connections import Connections
from mainspring.tasks.context import Context, Transaction


class ProcessContext(Context):
    """The run of a process's task, seen from inside."""

    def __init__(
        self,
        run: Run,
        encode: Any,
        connections: Connections,
        timeout: float | None,
        handout: Handout,
        records: Recorder | None,
        shard_count: int,
    ) -> None:
        super().__init__(run, encode, connections, timeout)
        self._handout = handout
        self._records = records
        self._shard_count = shard_count

    @property
    def process(self) -> str:
        """The id of the process."""
        return self._handout.process_id

    @property
    def generation(self) -> int:
        """How often the task was restarted; a part of its idempotency key."""
        return self._handout.generation

    def transaction(self) -> Transaction:
        raise MainspringError(
            f"ctx.transaction() of {self.task!r} is not there yet for tasks of a process: make the "
            "effect idempotent by ctx.idempotency_key, in a transaction of your own"
        )
