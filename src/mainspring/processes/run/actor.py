"""Actors that are functions of this worker: tasks as workers, and deciders.

Both get the arguments that were recorded, with the holes filled by what their inputs came to. What a
task returns is its result; what a decider called on its way is recorded and becomes the decision.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextvars import Token
from typing import Any

from mainspring.errors import InvalidArguments
from mainspring.kernel import Run
from mainspring.processes.commit.task_input import TaskInput
from mainspring.processes.declare.process import AnyProcess, Process
from mainspring.processes.declare.versions import Unread, Versions
from mainspring.processes.record.arguments import fill
from mainspring.processes.record.decision import Decision, Recorded
from mainspring.processes.record.recorder import Recorder
from mainspring.processes.run.context import ProcessContext, Seams
from mainspring.redact import guarded
from mainspring.tasks.declare.recording import Records, recorder
from mainspring.tasks.declare.signature import Signature
from mainspring.tasks.declare.task import Task
from mainspring.tasks.helpers.helpers import Helpers
from mainspring.tasks.hiding import note_of
from mainspring.tasks.run.connections import Connections
from mainspring.tasks.run.context import concluded
from mainspring.tasks.run.execute import Executor


class FunctionActor:
    """A function that decides: a task (its result), or a decider (what it records)."""

    def __init__(
        self,
        callee: Task[..., Any] | AnyProcess,
        executor: Executor,
        connections: Connections,
        versions: Versions,
        *,
        shard_count: int,
        seams: Seams,
        helpers: Helpers | None = None,
    ) -> None:
        """`helpers`: those in which its runs have processes of their own."""
        self.name = callee.name
        self._function: Callable[..., Any] = callee.function
        self._signature: Signature = callee.signature
        self._timeout = callee.settings.timeout
        self._is_decider = isinstance(callee, Process)
        self._is_async = inspect.iscoroutinefunction(callee.function)
        self._executor = executor
        self._connections = connections
        self._versions = versions
        self._shard_count = shard_count
        self._seams = seams
        self._callee = callee
        self._helpers = helpers

    def decide(self, task_input: TaskInput, run: Run) -> Awaitable[Decision]:
        """Run the function with what the task was given."""
        around = self._executor.around
        deciding = self._decide(task_input, run)
        return deciding if around is None else around.reported(run, deciding)

    async def _decide(self, task_input: TaskInput, run: Run) -> Decision:
        try:
            args = self._versions.upcast(self.name, task_input.args_version, task_input.args)
            payload = fill(args, task_input.inputs)
            arguments = self._signature.decode(payload)
        except InvalidArguments as error:
            is_newer = task_input.args_version > self._versions.of(self.name)
            raise Unread(error, is_newer=is_newer) from error
        records = self._recorder(task_input) if self._is_decider else None
        context = None
        if (parameter := self._signature.context_parameter) is not None:
            arguments[parameter] = context = ProcessContext(
                run, self._signature.write_result, self._connections, self._timeout, task_input,
                records, self._shard_count, self._seams,
            )  # fmt: skip
        function = self._function
        if (redactor := self._signature.redactor) is not None:
            function = guarded(function, redactor, payload)
        if context is not None and (note := note_of(self._signature, payload)) is not None:
            context.tell_notes_through(note)
        if self._helpers is not None and isinstance(self._callee, Task):
            return Recorded(result=await self._helpers.call(run, self._callee, payload, context))
        if records is None:
            returned = await self._call(run, function, arguments)
        else:
            mark: Token[Records | None] = recorder.set(records)
            try:
                returned = await self._call(run, function, arguments)
            finally:
                recorder.reset(mark)
        if context is not None:
            returned = concluded(context, returned)
        if run.settled:
            return Decision()
        if records is None:
            return Recorded(result=self._signature.write_result(returned))
        return records.conclude(returned, self._signature.write_result)

    def _call(
        self, run: Run, function: Callable[..., Any], arguments: dict[str, object]
    ) -> Awaitable[Any]:
        if self._executor.around is not None:
            return self._executor.call(run, function, arguments, self._signature.needs)
        if self._is_async:
            return function(**arguments)  # type: ignore[no-any-return]
        return self._executor.call_in_thread(run, function, arguments)

    def _recorder(self, task_input: TaskInput) -> Recorder:
        given = {given.promise for given in task_input.inputs}
        searchable = None
        if self._signature.sealing is not None and isinstance(self._callee, Process):
            searchable = self._callee.settings.searchable
        return Recorder(
            given, decider=self.name, version_of=self._versions.of, searchable=searchable
        )
