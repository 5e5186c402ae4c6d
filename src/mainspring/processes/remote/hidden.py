"""What an actor elsewhere tells of a failure, without what its task hides."""

from __future__ import annotations

from mainspring.db.sql import Steps, rows
from mainspring.processes.commit.task_input import TaskInput
from mainspring.processes.record.arguments import fill
from mainspring.redact.statements import SQL
from mainspring.redact.stored import RuleRow, Rules


def told_by_actor(
    queue: str, message: str, payload: str | None, task_input: TaskInput | None
) -> Steps[str]:
    """The message as it is stored. `payload`: of a call of its own; a step has its task input."""
    rules = Rules((yield from rows(SQL["read_rules"], RuleRow)))
    if not (rule := rules.of(queue)):
        return message
    given = payload if task_input is None else fill(task_input.args, task_input.inputs)
    return rule.scrubber_of(given or "null")(message)
