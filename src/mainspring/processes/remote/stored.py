"""What actors elsewhere bring, as it is stored where values are encrypted: they have no cipher."""

from __future__ import annotations

import msgspec

from mainspring.errors import InvalidDecision
from mainspring.kernel import Done, Outcome, Parked, Postponed, Retry
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.sealed import sealed_change
from mainspring.processes.remote.answers import GIVEN_BACK
from mainspring.tasks.declare.sealing import Sealing


def stored(sealing: Sealing, outcome: Outcome | TaskChange, actor: str) -> Outcome | TaskChange:
    """The same with its values encrypted."""
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
