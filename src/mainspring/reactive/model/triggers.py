"""Triggers: from the clock, the current values and those last seen, whether the event has happened.

Six leaves (R3, R4) and two ways to combine them (R5), all frozen values without behaviour of their
own: they are stored in the database and judged by whoever comes along (`evaluate`). They speak of
params only, never of arbitrary code, so a verdict takes small constant time (R6).

|              | news since the last success | behind the clock | behind another param |
|--------------|-----------------------------|------------------|----------------------|
| exact        | Delta                       | Delay            | RefDelay             |
| whole chunks | ChunkDelta                  | ChunkDelay       | ChunkRefDelay        |

These are the low level; `words` has functions with plain names that build them (R16).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from mainspring.errors import InvalidSetting, InvalidTrigger
from mainspring.reactive.model.chunks import Chunk, check_chunk
from mainspring.reactive.model.durations import Duration, check_duration, show_duration
from mainspring.reactive.model.values import AnyParam, Param

MOST_LEAVES: Final = 50


@dataclass(frozen=True, slots=True)
class Delta:
    """current - last seen >= `at_least`; left out: any growth (for a version: any difference).

    True at once when there is a current value and none was seen before.
    """

    param: AnyParam
    at_least: timedelta | int | None

    def __init__(self, param: AnyParam, at_least: Duration | int | None = None) -> None:
        check_param(self, param)
        object.__setattr__(self, "param", param)
        object.__setattr__(self, "at_least", self._least(param, at_least))

    def _least(self, param: AnyParam, given: Duration | int | None) -> timedelta | int | None:
        if given is None:
            return None
        if param.kind == "version":
            raise InvalidTrigger(
                f"versions have no distance: Delta of {param.key!r} takes no minimum, got {given!r}; "
                "leave it out, then any other version counts"
            )
        least = check_amount("Delta", param, given)
        if not least:
            raise InvalidTrigger(
                f"Delta of {param.key!r} with a minimum of zero would always be true and its task "
                "would run without pause; leave the minimum out, then any growth counts"
            )
        return least

    def __str__(self) -> str:
        least = "" if self.at_least is None else f" >= {show_amount(self.at_least)}"
        return f"Delta({self.param}{least})"


@dataclass(frozen=True, slots=True)
class Delay:
    """now - current <= `at_most`. It may never come true: say `expect_within` too."""

    param: AnyParam
    at_most: timedelta

    def __init__(self, param: AnyParam, at_most: Duration) -> None:
        check_param(self, param, instant=True)
        object.__setattr__(self, "param", param)
        object.__setattr__(self, "at_most", _duration(f"Delay of {param.key!r}", at_most))

    def __str__(self) -> str:
        return f"Delay({self.param} <= {show_duration(self.at_most)})"


@dataclass(frozen=True, slots=True)
class RefDelay:
    """reference - current <= `at_most`; a param that is ahead of its reference is not behind it."""

    param: AnyParam
    behind: AnyParam
    at_most: timedelta | int

    def __init__(self, param: AnyParam, behind: AnyParam, at_most: Duration | int) -> None:
        check_pair(self, param, behind)
        object.__setattr__(self, "param", param)
        object.__setattr__(self, "behind", behind)
        object.__setattr__(self, "at_most", check_amount("RefDelay", param, at_most))

    def __str__(self) -> str:
        return f"RefDelay({self.param} behind {self.behind} <= {show_amount(self.at_most)})"


@dataclass(frozen=True, slots=True)
class ChunkDelta:
    """At least so many chunks further than what was seen; left out: in a later chunk."""

    param: AnyParam
    chunk: Chunk
    at_least: int | None

    def __init__(
        self, param: AnyParam, chunk: Chunk | str | timedelta, at_least: int | None = None
    ) -> None:
        check_param(self, param, instant=True)
        object.__setattr__(self, "param", param)
        object.__setattr__(self, "chunk", check_chunk(chunk))
        object.__setattr__(self, "at_least", _chunks("ChunkDelta", param, at_least, least=1))

    def __str__(self) -> str:
        return f"ChunkDelta({self.param}, {self.chunk}{_shown(self.at_least, '>=')})"


@dataclass(frozen=True, slots=True)
class ChunkDelay:
    """At most so many chunks behind the clock; left out: in the same chunk as now, not a later one."""

    param: AnyParam
    chunk: Chunk
    at_most: int | None

    def __init__(
        self, param: AnyParam, chunk: Chunk | str | timedelta, at_most: int | None = None
    ) -> None:
        check_param(self, param, instant=True)
        object.__setattr__(self, "param", param)
        object.__setattr__(self, "chunk", check_chunk(chunk))
        object.__setattr__(self, "at_most", _chunks("ChunkDelay", param, at_most, least=0))

    def __str__(self) -> str:
        return f"ChunkDelay({self.param}, {self.chunk}{_shown(self.at_most, '<=')})"


@dataclass(frozen=True, slots=True)
class ChunkRefDelay:
    """At most so many chunks behind another param; left out: in the same chunk as that one."""

    param: AnyParam
    behind: AnyParam
    chunk: Chunk
    at_most: int | None

    def __init__(
        self,
        param: AnyParam,
        behind: AnyParam,
        chunk: Chunk | str | timedelta,
        at_most: int | None = None,
    ) -> None:
        check_pair(self, param, behind)
        check_param(self, param, instant=True)
        object.__setattr__(self, "param", param)
        object.__setattr__(self, "behind", behind)
        object.__setattr__(self, "chunk", check_chunk(chunk))
        object.__setattr__(self, "at_most", _chunks("ChunkRefDelay", param, at_most, least=0))

    def __str__(self) -> str:
        most = _shown(self.at_most, "<=")
        return f"ChunkRefDelay({self.param} behind {self.behind}, {self.chunk}{most})"


Leaf: TypeAlias = Delta | Delay | RefDelay | ChunkDelta | ChunkDelay | ChunkRefDelay
LEAVES: Final = (Delta, Delay, RefDelay, ChunkDelta, ChunkDelay, ChunkRefDelay)


@dataclass(frozen=True, slots=True)
class AllOf:
    """True when every child is."""

    children: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        _check_children("all_of", self)

    def __str__(self) -> str:
        return f"all_of({', '.join(map(str, self.children))})"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True when one child is."""

    children: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        _check_children("any_of", self)

    def __str__(self) -> str:
        return f"any_of({', '.join(map(str, self.children))})"


Trigger: TypeAlias = Leaf | AllOf | AnyOf


def all_of(*triggers: Trigger) -> AllOf:
    """True when every one of them is. An all_of among them (all_arrived is one) is taken apart."""
    return AllOf(_flat(triggers, AllOf))


def any_of(*triggers: Trigger) -> AnyOf:
    """True when one of them is. An any_of among them is taken apart."""
    return AnyOf(_flat(triggers, AnyOf))


def _flat(triggers: Iterable[Trigger], kind: type[AllOf] | type[AnyOf]) -> tuple[Trigger, ...]:
    return tuple(
        inner
        for trigger in triggers
        for inner in (trigger.children if isinstance(trigger, kind) else (trigger,))
    )


def leaves_of(trigger: Trigger) -> Iterator[Leaf]:
    """The leaves, from left to right."""
    if isinstance(trigger, AllOf | AnyOf):
        for child in trigger.children:
            yield from leaves_of(child)
    else:
        yield trigger


def params_of(trigger: Trigger) -> tuple[AnyParam, ...]:
    """Every param that the trigger speaks of, once each, by name."""
    found: dict[str, AnyParam] = {}
    for leaf in leaves_of(trigger):
        found.setdefault(leaf.param.key, leaf.param)
        if isinstance(leaf, RefDelay | ChunkRefDelay):
            found.setdefault(leaf.behind.key, leaf.behind)
    return tuple(found[key] for key in sorted(found))


def check_trigger(trigger: object, *, nested: bool = True) -> Trigger:
    """A trigger that a task may have. `nested=False`: the setting that forbids the one layer (R5)."""
    if not isinstance(trigger, (*LEAVES, AllOf, AnyOf)):
        raise InvalidTrigger(
            f"a trigger is made by Delta, Delay, ..., all_of and any_of, or by a function of "
            f"mainspring.reactive.model.plain; got {trigger!r}"
        )
    if not nested and isinstance(trigger, AllOf | AnyOf):
        for child in trigger.children:
            if isinstance(child, AllOf | AnyOf):
                raise InvalidTrigger(
                    f"nested triggers are switched off in this application, got {trigger}; make it "
                    "two tasks, or one flat all_of or any_of"
                )
    kinds: dict[str, str] = {}
    for param in _every_param(trigger):
        if kinds.setdefault(param.key, param.kind) != param.kind:
            raise InvalidTrigger(
                f"param {param.key!r} is of kind {kinds[param.key]!r} in one place of the trigger and "
                f"{param.kind!r} in another; declare it once and use that"
            )
    return trigger


def _every_param(trigger: Trigger) -> Iterator[AnyParam]:
    for leaf in leaves_of(trigger):
        yield leaf.param
        if isinstance(leaf, RefDelay | ChunkRefDelay):
            yield leaf.behind


def _check_children(name: str, parent: AllOf | AnyOf) -> None:
    if not parent.children:
        raise InvalidTrigger(f"{name} needs at least one trigger, got none")
    for child in parent.children:
        if isinstance(child, type(parent)):
            raise InvalidTrigger(
                f"{name} inside {name} says nothing new: put the inner triggers into the outer one"
            )
        if isinstance(child, AllOf | AnyOf):
            if any(isinstance(grandchild, AllOf | AnyOf) for grandchild in child.children):
                raise InvalidTrigger(
                    f"triggers nest one layer deep, all_of inside any_of or any_of inside all_of; "
                    f"{name} has two layers below it; split the task, or find a simpler trigger"
                )
        else:
            _check_leaf(name, child)
    if (count := sum(1 for _ in leaves_of(parent))) > MOST_LEAVES:
        raise InvalidTrigger(f"a trigger has at most {MOST_LEAVES} leaves, this {name} has {count}")


def _check_leaf(name: str, child: object) -> None:
    if not isinstance(child, LEAVES):
        many = isinstance(child, list | tuple | set)
        hint = "; write the triggers one by one, not as a list" if many else ""
        raise InvalidTrigger(f"{name} takes triggers, got {child!r}{hint}")


def check_param(trigger: object, param: object, *, instant: bool = False) -> None:
    """A leaf speaks of a param, and most leaves of an instant."""
    name = type(trigger).__name__
    if not isinstance(param, Param):
        raise InvalidTrigger(
            f"{name} takes a param, made by app.data('dwh.orders').param('loaded_to'); got {param!r}"
        )
    if instant and param.kind != "instant":
        raise InvalidTrigger(
            f"{name} compares instants, but param {param.key!r} is of kind {param.kind!r}"
        )


def check_pair(trigger: object, param: object, behind: object) -> None:
    """Both sides of a RefDelay: two params of one kind that has distances."""
    name = type(trigger).__name__
    check_param(trigger, param)
    check_param(trigger, behind)
    assert isinstance(param, Param)
    assert isinstance(behind, Param)
    if param.key == behind.key:
        raise InvalidTrigger(
            f"{name} compares a param with another one, got {param.key!r} on both sides; to compare "
            "it with the clock take Delay"
        )
    if param.kind != behind.kind or param.kind == "version":
        raise InvalidTrigger(
            f"{name} cannot compare {param.key!r} of kind {param.kind!r} with {behind.key!r} of kind "
            f"{behind.kind!r}; both must be instants, or both integers"
        )


def check_amount(name: str, param: AnyParam, given: object) -> timedelta | int:
    """A distance between two values of a param's kind: a length of time, or a number."""
    if param.kind == "instant":
        return _duration(f"{name} of {param.key!r}", given)
    if isinstance(given, bool) or not isinstance(given, int):
        raise InvalidTrigger(
            f"{name} of {param.key!r}, an integer, takes a whole number, got {given!r}"
        )
    if given < 0:
        raise InvalidTrigger(f"{name} of {param.key!r} takes zero or more, got {given}")
    return given


def _duration(name: str, given: object) -> timedelta:
    try:
        return check_duration(given, name=name, zero=True)
    except InvalidSetting as error:
        raise InvalidTrigger(str(error)) from None


def _chunks(name: str, param: AnyParam, given: object, *, least: int) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        hint = "; leave it out for 'in a later chunk'" if least and given == 0 else ""
        raise InvalidTrigger(
            f"{name} of {param.key!r} takes a whole number of chunks, {least} or more; got "
            f"{given!r}{hint}"
        )
    return given


def show_amount(amount: timedelta | int) -> str:
    """A distance as people read it."""
    return show_duration(amount) if isinstance(amount, timedelta) else str(amount)


def _shown(count: int | None, sign: str) -> str:
    return "" if count is None else f", {sign} {count}"
