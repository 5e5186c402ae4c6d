"""The policy in force for an actor's tasks: as declared, or as operators have set it (P3, P4, P14)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from mainspring.db.sql import Steps, rows
from mainspring.errors import InvalidSetting
from mainspring.kernel import QueueSettings, Visit
from mainspring.processes.commit.change import NewTask
from mainspring.processes.commit.task_input import NO_OPTIONS
from mainspring.processes.commit.visits import is_process_visit
from mainspring.processes.statements import SQL
from mainspring.retry_policy import RetryPolicy
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


def with_timeouts(
    tasks: Sequence[NewTask], timeout_of: Callable[[str], float | None]
) -> list[NewTask]:
    """New tasks with the task timeout of their actor, unless their call has one of its own."""
    return [_with_timeout(task, timeout_of(task.actor)) for task in tasks]


def _with_timeout(task: NewTask, timeout: float | None) -> NewTask:
    options = task.options or NO_OPTIONS
    if timeout is None or options.task_timeout is not None:
        return task
    options = msgspec.structs.replace(options, task_timeout=timeout)
    return msgspec.structs.replace(task, options=options)


class ActorTimeout(NamedTuple):
    """A row of read_task_timeouts.sql."""

    name: str  # of the actor
    seconds: float | None


def with_stored_timeouts(tasks: Sequence[NewTask]) -> Steps[Sequence[NewTask]]:
    """The same where no worker knows the actors' policies: as the database has them."""
    actors = sorted({task.actor for task in tasks})
    if not actors:
        return tasks
    found = yield from rows(SQL["read_task_timeouts"], ActorTimeout, actors=actors)
    timeouts = {actor.name: actor.seconds for actor in found}
    return with_timeouts(tasks, timeouts.get)
