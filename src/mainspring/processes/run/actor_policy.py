"""The policy in force for an actor's tasks: as declared, or as operators have set it (P3, P4, P14)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from mainspring.errors import InvalidSetting
from mainspring.kernel import QueueSettings, RetryPolicy, Visit
from mainspring.processes.commit.change import NewTask
from mainspring.processes.commit.task_input import NO_OPTIONS
from mainspring.processes.commit.visits import is_process_visit
from mainspring.processes.statements import SQL
from mainspring.processes.steps import Step
from mainspring.tasks.declare.policy import Policy, policy_of

log = logging.getLogger("mainspring")


class PolicyInForce:
    """Of one actor. The kernel tells it what has changed, and asks how its visits are held."""

    def __init__(self, settings: QueueSettings) -> None:
        self._declared = settings
        self.policy = policy_of(settings.policy)
        self.settings = settings  # of a run of a process's task
        self.holds_first = False
        self._apply()

    def work_timeout(self, visit: Visit) -> float | None:
        """After how long a run is overtaken; a plain call has no such time unless its queue has."""
        if is_process_visit(visit):
            return self.policy.work_timeout
        return self._declared.work_timeout

    def changed(self, policy: Mapping[str, Any]) -> None:
        """An operator, or the declaration, has changed it."""
        try:
            self.policy = policy_of(policy)
        except InvalidSetting as error:  # made by hand: what was in force stays
            log.error("policy.refused", extra={"queue": self._declared.name, "error": str(error)})
            return
        self._apply()

    def _apply(self) -> None:
        # Where only the newest run counts, each is marked in the row before it starts.
        self.holds_first = self.policy.accept == "last"
        self.settings = replace(
            self._declared,
            any_pass=self.policy.accept == "first",
            retry=retry_of(self._declared.retry, self.policy),
        )


def retry_of(declared: RetryPolicy, policy: Policy) -> RetryPolicy:
    """The code's retry policy with the numbers that an operator has set."""
    if not policy.retry:
        return declared
    numbers: dict[str, Any] = dict(policy.retry)
    if "first" in numbers or "most" in numbers:
        numbers["most"] = max(numbers.get("most", declared.most), numbers.get("first", 0.0))
        numbers["first"] = min(numbers.get("first", declared.first), numbers["most"])
    return replace(declared, **numbers)


def add_timeouts(tasks: Iterable[NewTask], timeout_of: Callable[[str], float | None]) -> None:
    """New tasks get the task timeout of their actor, unless their call has one of its own."""
    for task in tasks:
        if (timeout := timeout_of(task.actor)) is None:
            continue
        options = task.options or NO_OPTIONS
        if options.task_timeout is None:
            task.options = msgspec.structs.replace(options, task_timeout=timeout)


def add_stored_timeouts(tasks: Sequence[NewTask]) -> Generator[Step, list[Any], None]:
    """The same where no worker knows the actors' policies: as the database has them."""
    if actors := sorted({task.actor for task in tasks}):
        rows = yield SQL["read_task_timeouts"], {"actors": actors}
        add_timeouts(tasks, dict(rows).get)
