"""Static checks of reactive tasks: what can be known to go wrong before anything runs. Pure.

| code  | finding |
|-------|---------|
| MS101 | may run without pause: the trigger can be true with no Delta in it |
| MS102 | tasks produce and consume in a circle |
| MS103 | a task produces a param of its own trigger |
| MS104 | Delay or RefDelay decides, and nobody is told when it never comes true |
| MS105 | nobody produces a param of the trigger |
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches

from mainspring.reactive.model.triggers import (
    AllOf,
    AnyOf,
    ChunkDelta,
    Delta,
    Trigger,
    leaves_of,
    params_of,
)
from mainspring.reactive.model.values import AnyParam


@dataclass(frozen=True, slots=True)
class Declared:
    """A reactive task as the checks see it."""

    name: str
    trigger: Trigger
    produces: tuple[AnyParam, ...] = ()
    expect_within: timedelta | None = None


@dataclass(frozen=True, slots=True)
class LintFinding:
    """Something that is probably not meant."""

    code: str
    task: str
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.task}: {self.text}"


def may_spin(trigger: Trigger) -> bool:
    """Whether the trigger can be true while no Delta in it is: then its task may run without pause.

    Exact: with every param at the current moment and seen there, all Deltas are false and all other
    leaves are true, so the tree is true then if and only if it can be true without a Delta.
    """
    match trigger:
        case AllOf(children=children):
            return all(may_spin(child) for child in children)
        case AnyOf(children=children):
            return any(may_spin(child) for child in children)
    return not isinstance(trigger, Delta | ChunkDelta)


def is_reliable(trigger: Trigger) -> bool:
    """Whether it will come true some day if the data keeps coming (R14): some way of Deltas alone."""
    match trigger:
        case AllOf(children=children):
            return all(is_reliable(child) for child in children)
        case AnyOf(children=children):
            return any(is_reliable(child) for child in children)
    return isinstance(trigger, Delta | ChunkDelta)


def check_task(task: Declared) -> list[LintFinding]:
    """What a declaration alone tells: warned about where the task is declared."""
    return [*_spin(task), *_own_product(task), *_no_expectation(task)]


def check_tasks(tasks: Sequence[Declared], *, known: Collection[str] = ()) -> list[LintFinding]:
    """Everything, over all tasks of an application.

    `known`: params that somebody outside sets, by full name, besides those declared `external`.
    """
    found = [finding for task in tasks for finding in check_task(task)]
    return [*found, *_circles(tasks), *_nobody(tasks, frozenset(known))]


def _spin(task: Declared) -> Iterator[LintFinding]:
    if not may_spin(task.trigger):
        return
    where = ""
    if isinstance(task.trigger, AnyOf):
        loose = [child for child in task.trigger.children if may_spin(child)]
        where = f": {loose[0]} needs no Delta"
    yield LintFinding(
        "MS101",
        task.name,
        f"may run without pause{where}; every way to come true needs a Delta (in all_of one is enough, "
        "in any_of every child needs it), or set min_interval",
    )


def _own_product(task: Declared) -> Iterator[LintFinding]:
    used = {param.key for param in params_of(task.trigger)}
    for param in task.produces:
        if param.key in used:
            yield LintFinding(
                "MS103",
                task.name,
                f"produces {param.key}, which its own trigger waits for: each run may start the next",
            )


def _no_expectation(task: Declared) -> Iterator[LintFinding]:
    if task.expect_within is None and not is_reliable(task.trigger):
        loose = next(x for x in leaves_of(task.trigger) if not isinstance(x, Delta | ChunkDelta))
        yield LintFinding(
            "MS104",
            task.name,
            f"may never run: {loose} need not ever come true; say expect_within= to be told",
        )


def _circles(tasks: Sequence[Declared]) -> Iterator[LintFinding]:
    for circle in find_circles(tasks):
        steps = " -> ".join(f"{name} -> {param}" for name, param in circle)
        yield LintFinding(
            "MS102",
            circle[0][0],
            f"produces and consumes in a circle: {steps} -> {circle[0][0]}; they may start each "
            "other for ever",
        )


def find_circles(tasks: Sequence[Declared]) -> list[list[tuple[str, str]]]:
    """One shortest circle through every group of tasks that feed each other: (task, what it hands on).

    A task that feeds itself is no circle here: that is a finding of its own.
    """
    feeds = _feeds(tasks)
    circles: list[list[tuple[str, str]]] = []
    covered: set[str] = set()
    for start in sorted(feeds):
        if start in covered:
            continue
        circle = _shortest_circle(start, feeds)
        if circle:
            circles.append(circle)
            covered.update(name for name, _ in circle)
    return circles


def _feeds(tasks: Sequence[Declared]) -> dict[str, dict[str, str]]:
    """Who feeds whom, by which param."""
    consumers: dict[str, list[str]] = {}
    for task in tasks:
        for param in params_of(task.trigger):
            consumers.setdefault(param.key, []).append(task.name)
    return {
        task.name: {
            consumer: param.key
            for param in sorted(task.produces, key=lambda p: p.key)
            for consumer in consumers.get(param.key, ())
            if consumer != task.name
        }
        for task in tasks
    }


def _shortest_circle(start: str, feeds: dict[str, dict[str, str]]) -> list[tuple[str, str]]:
    """By breadth: the shortest way from a task back to itself."""
    came: dict[str, str] = {}
    edge = [start]
    while edge:
        following = []
        for name in edge:
            for consumer in sorted(feeds.get(name, ())):
                if consumer == start:
                    return _way_back(start, name, came, feeds)
                if consumer not in came:
                    came[consumer] = name
                    following.append(consumer)
        edge = following
    return []


def _way_back(
    start: str, last: str, came: dict[str, str], feeds: dict[str, dict[str, str]]
) -> list[tuple[str, str]]:
    way = [last]
    while way[0] != start:
        way.insert(0, came[way[0]])
    after = [*way[1:], start]
    return [(name, feeds[name][to]) for name, to in zip(way, after, strict=True)]


def _nobody(tasks: Sequence[Declared], known: frozenset[str]) -> Iterator[LintFinding]:
    produced = {param.key for task in tasks for param in task.produces}
    for task in tasks:
        for param in params_of(task.trigger):
            if param.external or param.key in produced or param.key in known:
                continue
            near = get_close_matches(param.key, produced | known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ";"
            yield LintFinding(
                "MS105",
                task.name,
                f"nobody produces {param.key}{hint} declare the task that does with produces=, or the "
                "param with external=True",
            )
