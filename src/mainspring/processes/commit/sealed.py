"""What a process keeps of its users' values, encrypted. Pure.

Arguments of tasks, results and the texts of failures are sealed in what is written (a change), and opened
in what a task is run with (its input). So whatever lies between has ciphertext alone: the commit,
structural changes, operators, the database. Arguments of the engine's own tasks that hold no value of a
user's stay in the clear, for statements look into them.
"""

from __future__ import annotations

import msgspec

from mainspring.processes.commit.change import NewScope, NewTask, TaskChange
from mainspring.processes.commit.task_input import InputValue, TaskInput
from mainspring.processes.record.arguments import ERROR_BESIDE, with_error
from mainspring.processes.record.decision import Undo
from mainspring.processes.record.race import RACES
from mainspring.processes.record.sealed_values import (
    opened_failure,
    opened_value,
    sealed_args,
    sealed_failure,
)
from mainspring.tasks.declare.promise import Failure
from mainspring.tasks.declare.sealing import SEALED, Sealing, opened

# Tasks of the engine's own whose arguments are names, numbers and times.
PLAIN = frozenset(
    {
        "@answer",
        "@call_off",
        "@concat",
        "@gather",
        "@leave",
        "@lock",
        "@pass_on",
        "@signal",
        "@sleep",
        *RACES,
    }
)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


def opened_input(sealing: Sealing | None, task_input: TaskInput) -> TaskInput:
    """What a task is run with, as it was before it was encrypted; raises UnknownCipherKey."""
    of = f"of a step of {task_input.actor!r}"
    return msgspec.structs.replace(
        task_input,
        args=_opened_args(sealing, task_input.args, f"what was recorded {of}"),
        inputs=tuple([_opened(sealing, given, f"an input {of}") for given in task_input.inputs]),
    )


def _opened(sealing: Sealing | None, given: InputValue, what: str) -> InputValue:
    if given.error is not None:
        return msgspec.structs.replace(given, error=opened_failure(sealing, given.error))
    if given.result is None:
        return given
    return msgspec.structs.replace(given, result=opened_value(sealing, given.result, what))


def _opened_args(sealing: Sealing | None, args: str, what: str) -> str:
    if not args.startswith(SEALED):
        return args
    fields = _fields.decode(args)
    beside = fields.pop(ERROR_BESIDE, None)
    inside = opened(sealing, msgspec.json.encode(fields).decode(), what)
    if beside is None:
        return inside
    failure = msgspec.json.decode(beside, type=Failure)
    return with_error(inside, opened_failure(sealing, failure))


def sealed_change(sealing: Sealing, change: TaskChange) -> TaskChange:
    """A change as it is stored. What came in as ciphertext, a signal's payload, is none of it."""
    return msgspec.structs.replace(
        change,
        result=None if change.result is None else sealing.result(change.result),
        error=None if change.error is None else sealed_failure(sealing, change.error),
        tasks=[_sealed_task(sealing, task) for task in change.tasks],
        scopes=[_sealed_scope(sealing, scope) for scope in change.scopes],
        child=change.child
        and msgspec.structs.replace(change.child, args=sealed_args(sealing, change.child.args)),
    )


def _sealed_task(sealing: Sealing, task: NewTask) -> NewTask:
    args = task.args if task.actor in PLAIN else sealed_args(sealing, task.args)
    return msgspec.structs.replace(task, args=args, undo=_sealed_undo(sealing, task.undo))


def _sealed_scope(sealing: Sealing, scope: NewScope) -> NewScope:
    return msgspec.structs.replace(scope, on_error=_sealed_undo(sealing, scope.on_error))


def _sealed_undo(sealing: Sealing, stored: object) -> object:
    if stored is None:
        return None
    undo = msgspec.convert(stored, Undo)
    return msgspec.to_builtins(msgspec.structs.replace(undo, args=sealed_args(sealing, undo.args)))
