"""The decision of a check: fire, or wait for what. Pure; the scheduler and the simulation share it.

What is read for it is one snapshot. Whether the task is paused, retired, in flight or asked for by
hand is looked at before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias

from mainspring.errors import InvalidSetting
from mainspring.reactive.decide.evaluate import Fact, LeafVerdict, Verdict, evaluate
from mainspring.reactive.decide.lint import may_spin
from mainspring.reactive.decide.rewinds import OnRewind, Rewind, SeenValue, fact_of
from mainspring.reactive.decide.texts import show_cause
from mainspring.reactive.model.gates import NO_GATES, Gates
from mainspring.reactive.model.triggers import Trigger, params_of
from mainspring.reactive.model.values import Param, Value, dump_value

FirstRun: TypeAlias = Literal["now", "baseline"]

# Between the end of a run and the next firing, where no Delta paces the task (R15).
SPIN_PAUSE: Final = timedelta(seconds=1)


class Current(NamedTuple):
    """A param as it is now."""

    value: Value | None
    rewinds: int = 0
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """What a task's declaration says about when it runs."""

    trigger: Trigger
    gates: Gates = NO_GATES
    on_rewind: OnRewind = "report"
    first_run: FirstRun = "now"
    params: tuple[Param, ...] = field(init=False, compare=False)
    safe: bool = field(init=False, compare=False)  # a Delta paces it

    def __post_init__(self) -> None:
        if self.first_run not in ("now", "baseline"):
            raise InvalidSetting(
                f"first_run is 'now' (run at once on what is there) or 'baseline' (take what is there "
                f"as seen), not {self.first_run!r}"
            )
        object.__setattr__(self, "params", params_of(self.trigger))
        object.__setattr__(self, "safe", not may_spin(self.trigger))


@dataclass(frozen=True, slots=True)
class View:
    """What one statement read about a task: its own state, and its params, of one snapshot."""

    current: Mapping[str, Current]
    seen: Mapping[str, SeenValue] = field(default_factory=dict)
    rewinds_since: Mapping[str, Sequence[Rewind]] = field(default_factory=dict)
    retry_at: datetime | None = None
    verdict: bool | None = None  # of the last check that was stored
    since: datetime | None = None  # since when it is so
    fired_at: datetime | None = None  # the last regular firing
    succeeded_at: datetime | None = None  # the last recorded success
    ended_at: datetime | None = None  # the end of the last run


@dataclass(frozen=True, slots=True)
class Fire:
    """Run it now. A run that was asked for by hand may have no verdict."""

    verdict: Verdict | None
    cause: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now. `again_at`: time alone may change that. `verdict` is none where it was not looked at."""

    verdict: Verdict | None
    again_at: datetime | None
    cause: str


Decision: TypeAlias = Fire | Wait


def decide(definition: Definition, view: View, now: datetime) -> Decision:
    """Fire, or wait: for a retry, for a repair, for params, for time, for a gate."""
    if view.retry_at is not None and view.retry_at > now:
        return Wait(None, view.retry_at, "backing off after a failure")
    if definition.on_rewind == "hold" and (moved := rewound(definition, view)):
        names = ", ".join(moved)
        return Wait(None, None, f"held: {names} was rewound; repair it or run it with --record")
    verdict = evaluate(definition.trigger, facts_of(definition, view), now)
    if not verdict.true:
        return Wait(verdict, verdict.again_at, "the trigger is false")
    if not definition.safe and view.ended_at is not None and now < view.ended_at + SPIN_PAUSE:
        return Wait(verdict, view.ended_at + SPIN_PAUSE, "no Delta paces it: a second's pause")
    since = view.since if view.verdict and view.since is not None else now
    changes = [view.current[p.key].changed_at for p in definition.params if p.key in view.current]
    held = definition.gates.hold(
        now,
        since=since,
        changed_at=max((moment for moment in changes if moment is not None), default=None),
        fired_at=view.fired_at,
    )
    if held is not None:
        return Wait(verdict, held.until, held.cause)
    return Fire(verdict, show_cause(verdict))


def facts_of(definition: Definition, view: View) -> dict[str, Fact]:
    """The facts that the trigger is judged by."""
    facts = {}
    for param in definition.params:
        current = view.current.get(param.key, Current(None))
        facts[param.key] = fact_of(
            current.value,
            view.seen.get(param.key),
            view.rewinds_since.get(param.key, ()),
            definition.on_rewind,
        )
    return facts


def rewound(definition: Definition, view: View) -> list[str]:
    """The params of the trigger that were rewound since the task's last recorded check (R13)."""
    return [
        param.key
        for param in definition.params
        if (seen := view.seen.get(param.key)) is not None
        and param.key in view.current
        and view.current[param.key].rewinds > seen.rewinds
    ]


def leaf_bits(verdict: Verdict) -> tuple[bool, ...]:
    """The verdicts on the leaves; a check is worth a row of history when these change."""
    return tuple(leaf.true for leaf in verdict.leaves())


def leaves_json(verdict: Verdict) -> list[dict[str, object]]:
    """The leaves with what they looked at, for the history of evaluations."""
    return [_leaf_json(leaf) for leaf in verdict.leaves()]


def _leaf_json(leaf: LeafVerdict) -> dict[str, object]:
    described: dict[str, object] = {"leaf": str(leaf.trigger), "true": leaf.true}
    values = {"value": leaf.fact.value, "last": leaf.fact.last, "behind": leaf.behind.value}
    described.update({k: dump_value(v) for k, v in values.items() if v is not None})
    return described
