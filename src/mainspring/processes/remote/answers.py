"""What actors elsewhere answer."""

from __future__ import annotations

import msgspec

from mainspring.failure_text import clean_text
from mainspring.processes.record.decision import Decision

GIVEN_BACK = "an actor gave it back"


class FailedInput(msgspec.Struct, frozen=True):
    """It did not work."""

    type: str
    message: str
    retry: bool


class GivenBack(msgspec.Struct, frozen=True):
    """It was not tried, or cannot be now: due again after so many seconds, no attempt is counted."""

    after: float = 0.0
    why: str = GIVEN_BACK


Answer = Decision | FailedInput | GivenBack


def failed(type: str, message: str, retry: bool) -> FailedInput:
    """A failure. Its message is cut when what its task hides was taken out (hidden.py)."""
    return FailedInput(clean_text(type, 500), message, retry)


def tells(answer: Answer) -> bool:
    """Whether it has words of the actor's."""
    if isinstance(answer, Decision):
        return answer.error is not None
    return isinstance(answer, FailedInput) or answer.why != GIVEN_BACK
