"""How a service stands with one worker: what may be sent, and what a failed call means. Pure, no I/O.

A call carries several entities. When it fails, it says seldom whose fault that was:

- the service did not get it: nobody's fault, and the gate closes;
- the connection broke with the call in hand: perhaps one of its entities kills the service. They are
  *suspects*. When the service is back, each goes alone, with nothing else under way. Who breaks it again
  alone has crashed it;
- it failed otherwise: halves are sent, until the one is found that fails alone.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from enum import Enum

# Calls of one method of a stage under way.
AT_ONCE = 4
# So many deadlines with no answer between them: it hangs.
HANGS_AFTER = 5
# How long an overloaded service is left alone, unless it says so itself; doubled each time (seconds).
OVERLOAD_REST = 1.0
LONGEST_OVERLOAD_REST = 30.0
# So many suspects are remembered. One that is forgotten goes with others, and is suspected again.
MOST_SUSPECTS = 10_000


class Fault(Enum):
    """How a call failed."""

    AWAY = "away"  # it reached nobody, or was refused whatever was in it
    BROKE = "broke"  # the connection broke with the call in hand
    SAID_AWAY = "said away"  # the service, or who stands before it, answered that it is away
    DEADLINE = "deadline"
    PERHAPS = "perhaps"  # perhaps one of its entities is at fault
    OVERLOADED = "overloaded"
    TOO_LARGE = "too large"  # its answer is larger than we take


class Fate(Enum):
    """What becomes of the entities of a failed call."""

    PUT_OFF = "put off"  # no attempt; the gate is closed
    CRASHED = "crashed"  # put off too, and counted: it broke the service alone
    HALVED = "halved"  # sent again in halves, no attempt
    FAILED = "failed"  # an attempt
    PARKED = "parked"


class Standing:
    """What one worker knows of a service beside whether it is there."""

    def __init__(self, *, at_once: int = AT_ONCE, hangs_after: int = HANGS_AFTER) -> None:
        self.at_once = at_once  # calls of one method, at the moment
        self.deadlines = 0  # that were missed since the last answer
        self._most = at_once
        self._hangs_after = hangs_after
        self._rest = OVERLOAD_REST
        self._answers = 0
        # Who is to go alone, and how many answers there had been when it was last in a call that broke.
        self._suspects: dict[Hashable, int] = {}

    @property
    def hangs(self) -> bool:
        return self.deadlines >= self._hangs_after

    def is_suspect(self, key: Hashable) -> bool:
        return key in self._suspects

    def may_send(self, *, of_method: int, of_all: int, is_alone: bool, alone_out: bool) -> bool:
        """Whether a call may go out beside those that are under way. `alone_out`: one of them is to be
        alone, or waits for it."""
        if is_alone:
            return of_all == 0
        return not alone_out and of_method < self.at_once

    def answered(self, keys: Iterable[Hashable]) -> None:
        """A call came back."""
        self.deadlines = 0
        self._answers += 1
        self._rest = OVERLOAD_REST
        self.at_once = min(self._most, self.at_once + 1)
        for key in keys:
            self._suspects.pop(key, None)

    def failed(self, keys: Collection[Hashable], fault: Fault, *, alone: bool) -> Fate:
        """What becomes of the entities of a call that failed. `alone`: it was sent as a suspect's."""
        match fault:
            case Fault.AWAY:
                return Fate.PUT_OFF
            case Fault.BROKE | Fault.SAID_AWAY:
                return self._broke(keys, fault, alone)
            case Fault.OVERLOADED:
                self.at_once = max(1, self.at_once // 2)
                return Fate.PUT_OFF
            case Fault.DEADLINE:
                self.deadlines += 1
                if self.hangs:
                    return Fate.PUT_OFF
            case Fault.TOO_LARGE if len(keys) == 1:
                return Fate.PARKED
        if len(keys) > 1:
            return Fate.HALVED
        for key in keys:
            self._suspects.pop(key, None)  # it failed, and broke nothing
        return Fate.FAILED

    def _broke(self, keys: Collection[Hashable], fault: Fault, alone: bool) -> Fate:
        """What a service says itself may be true of everything: then it is no entity's fault, unless others
        were answered since this one last broke it."""
        blamed = all(self._suspects.get(key, self._answers) < self._answers for key in keys)
        crashed = alone and (fault is Fault.BROKE or blamed)
        for key in keys:
            self._suspects.pop(key, None)
            self._suspects[key] = self._answers
        while len(self._suspects) > MOST_SUSPECTS:
            del self._suspects[next(iter(self._suspects))]
        return Fate.CRASHED if crashed else Fate.PUT_OFF

    def rest(self, asked: float | None) -> float | None:
        """For how long an overloaded service is left alone."""
        if asked is not None:
            return asked
        rest, self._rest = self._rest, min(LONGEST_OVERLOAD_REST, 2 * self._rest)
        return rest


class AskRecord:
    """Whether a stage's answers to `should_process` are worth asking for: it rests after too many bad ones,
    then one question is the trial."""

    LAST = 100
    BAD = 20
    REST = 5.0  # seconds

    def __init__(self) -> None:
        self._last: list[bool] = []
        self._rests_until = float("-inf")
        self._on_trial = False

    def may_ask(self, now: float) -> bool:
        """Whether to ask now; the first after a rest is the trial, and the others wait for its answer."""
        if self._on_trial:
            if now < self._rests_until:
                return False
            self._rests_until = now + self.REST
        return True

    def told(self, good: bool, now: float) -> None:
        """A question had a good answer in time, or not."""
        if self._on_trial:
            if good:
                self._on_trial, self._last = False, []
            else:
                self._rests_until = now + self.REST
            return
        self._last = [*self._last[1 - self.LAST :], good]
        if self._last.count(False) >= self.BAD:
            self._on_trial, self._rests_until = True, now + self.REST
