"""What an actor elsewhere tells, as it is stored: without what its task hides, and encrypted."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mainspring.db.sql import Steps, rows
from mainspring.errors import InvalidDecision, UnknownCipherKey
from mainspring.failure_text import clean_text
from mainspring.kernel import Done, Outcome, Parked, Postponed, Retry
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.sealed import opened_input, sealed_change
from mainspring.processes.commit.task_input import TaskInput
from mainspring.processes.record.arguments import fill
from mainspring.processes.record.sealed_values import opened_value
from mainspring.processes.remote.answers import GIVEN_BACK, Answer, FailedInput, GivenBack
from mainspring.redact.redactor import HIDDEN, Redactor
from mainspring.redact.statements import SQL
from mainspring.redact.stored import RuleRow, Rules
from mainspring.tasks.declare.sealing import Sealing

MESSAGE_BYTES = 16_000


def read_rule_steps() -> Steps[Rules]:
    """What is hidden, by queue."""
    return Rules((yield from rows(SQL["read_rules"], RuleRow)))


def without_hidden(
    answer: Answer,
    rules: Rules,
    sealing: Sealing | None,
    queue: str,
    payload: str | None,
    task_input: TaskInput | None,
) -> Answer:
    """The answer as it is stored. `payload`: of a call of its own; a step has its task input. Nothing is
    told where what is hidden cannot be opened here."""
    scrub = _scrub_of(rules.of(queue), sealing, queue, payload, task_input)

    def told(text: str) -> str:  # cut last: a part of what is hidden would not be known
        return clean_text(scrub(text), MESSAGE_BYTES)

    if isinstance(answer, FailedInput):
        return msgspec.structs.replace(answer, message=told(answer.message))
    if isinstance(answer, GivenBack):
        return msgspec.structs.replace(answer, why=told(answer.why))
    if (error := answer.error) is None:
        return answer
    error = msgspec.structs.replace(error, message=told(error.message), trace=told(error.trace))
    return msgspec.structs.replace(answer, error=error)


def _scrub_of(
    rule: Redactor,
    sealing: Sealing | None,
    queue: str,
    payload: str | None,
    task_input: TaskInput | None,
) -> Callable[[str], str]:
    if not rule:
        return str
    try:
        if task_input is None:
            given = opened_value(sealing, payload or "null", f"the payload of task {queue!r}")
        else:
            task_input = opened_input(sealing, task_input)
            given = fill(task_input.args, task_input.inputs)
    except UnknownCipherKey:
        return lambda text: HIDDEN if text else text
    return rule.scrubber_of(given)


def stored(sealing: Sealing, outcome: Outcome | TaskChange, actor: str) -> Outcome | TaskChange:
    """The same with its values encrypted: an actor elsewhere has no cipher."""
    if isinstance(outcome, TaskChange):
        if outcome.attrs:
            raise InvalidDecision(
                f"attributes of a process are in the clear, and {actor!r} runs elsewhere, where nothing "
                "says which may be: set them by a decider of the application"
            )
        return sealed_change(sealing, outcome)
    if isinstance(outcome, Done) and outcome.result is not None:
        return msgspec.structs.replace(outcome, result=sealing.result(outcome.result))
    if isinstance(outcome, Postponed) and outcome.error != GIVEN_BACK:
        return msgspec.structs.replace(outcome, error=sealing.error(f"Postponed: {outcome.error}"))
    if isinstance(outcome, Retry | Parked):
        return msgspec.structs.replace(outcome, error=sealing.error(outcome.error))
    return outcome
