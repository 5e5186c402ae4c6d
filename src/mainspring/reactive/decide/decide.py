"""The decision of a check: fire, or wait for what. Pure; the scheduler and the simulation share it.

What is read for it is one snapshot. Whether the task is paused, retired, in flight or asked for by
hand is looked at before.

What a rewind means to a task is computed here from how often the param was rewound, and never stored. A
value travels with the number of rewinds its param had (R13, protocol of `docs/design/reactive.md`), so a
run that was under way during a rewind cannot hide it: its success records the old number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from mainspring.errors import InvalidSetting
from mainspring.reactive.decide.evaluate import Fact, LeafVerdict, Verdict, evaluate, show_cause
from mainspring.reactive.decide.lint import may_spin
from mainspring.reactive.model.chunks import Chunk
from mainspring.reactive.model.gates import NO_GATES, Gates
from mainspring.reactive.model.triggers import Trigger, params_of
from mainspring.reactive.model.values import (
    AnyParam,
    Kind,
    Raw,
    Value,
    compare,
    dump_value,
    from_raw,
    moment_of,
)

FirstRun: TypeAlias = Literal["now", "baseline"]
OnRewind: TypeAlias = Literal["report", "rerun", "hold"]
POLICIES: Final[tuple[str, ...]] = get_args(OnRewind)

# Between the end of a run and the next firing, where no Delta paces the task (R15).
SPIN_PAUSE: Final = timedelta(seconds=1)


class Current(NamedTuple):
    """A param as it is now."""

    value: Value | None
    rewinds: int = 0
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Rewind:
    """One rewind of a param: its number (from 1), where it went, the chunks it restated."""

    number: int
    to: Value
    chunks: tuple[datetime, ...] = ()


class SeenValue(NamedTuple):
    """What a task saw of a param at its last recorded success, and how often it was rewound by then."""

    value: Value | None
    rewinds: int = 0


class RawRewind(NamedTuple):
    """A rewind as tables have it."""

    param: str
    number: int
    to: Raw
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Definition:
    """What a task's declaration says about when it runs."""

    trigger: Trigger
    gates: Gates = NO_GATES
    on_rewind: OnRewind = "report"
    first_run: FirstRun = "now"
    params: tuple[AnyParam, ...] = field(init=False, compare=False)
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


def rewinds_of(raw: Iterable[RawRewind], kinds: Mapping[str, Kind]) -> dict[str, list[Rewind]]:
    """Rewinds by param; of those of a known kind."""
    found: dict[str, list[Rewind]] = {}
    for rewind in raw:
        if (kind := kinds.get(rewind.param)) is not None:
            chunks = tuple(map(moment_of, rewind.chunks))
            made = Rewind(rewind.number, from_raw(kind, rewind.to), chunks)
            found.setdefault(rewind.param, []).append(made)
    return found


def check_policy(given: object) -> OnRewind:
    """What a task wants done when a param of its trigger is rewound."""
    if given not in POLICIES:
        raise InvalidSetting(
            f"on_rewind is one of {', '.join(map(repr, POLICIES))}, not {given!r}; 'report' lists the "
            "task as affected, 'rerun' does the data again, 'hold' waits for a repair"
        )
    return given  # type: ignore[return-value]


def fact_of(
    value: Value | None, seen: SeenValue | None, rewinds: Iterable[Rewind], policy: OnRewind
) -> Fact:
    """The current value, and the last one as the task's policy has it."""
    if seen is None or seen.value is None:
        return Fact(value, None)
    if policy != "rerun":
        return Fact(value, seen.value)
    last, restated = seen.value, False
    for rewind in rewinds_since(seen, rewinds):
        if compare(last, rewind.to) == "lower":
            last = rewind.to
        restated = restated or bool(_loaded(rewind.chunks, value))
    return Fact(value, last, restated)


def rewinds_since(seen: SeenValue | None, rewinds: Iterable[Rewind]) -> list[Rewind]:
    """The rewinds that the task's last recorded success had not seen, oldest first."""
    if seen is None:
        return []
    return sorted((r for r in rewinds if r.number > seen.rewinds), key=lambda r: r.number)


def chunks_to_do(
    chunk: Chunk, fact: Fact, seen: SeenValue | None = None, rewinds: Iterable[Rewind] = ()
) -> list[datetime]:
    """The starts of the chunks that a run has to do, oldest first.

    All chunks later than that of the last value, up to that of the current one; and those that were
    restated since. Without a last value: the current chunk only.
    """
    if not isinstance(fact.value, datetime):
        return []
    if isinstance(fact.last, datetime):
        starts = set(chunk.starts(fact.last, fact.value))
    else:
        starts = {chunk.floor(fact.value)}
    for rewind in rewinds_since(seen, rewinds):
        starts.update(chunk.floor(start) for start in _loaded(rewind.chunks, fact.value))
    return sorted(starts)


def _loaded(chunks: Sequence[datetime], value: Value | None) -> list[datetime]:
    """Of restated chunks, those that are there again: they begin before the current value."""
    return [start for start in chunks if isinstance(value, datetime) and start < value]


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
