"""Why a reactive task runs or does not: the tree with values, verdicts, since and until (R17). Pure.

Evaluated live from one snapshot; the stored verdict is history only, since time may have turned it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.phrases import instant
from mainspring.reactive.decide.decide import Definition, Fire, View, decide, facts_of, rewound
from mainspring.reactive.decide.evaluate import (
    LeafVerdict,
    Verdict,
    evaluate,
    show_kind,
    show_values,
)
from mainspring.reactive.decide.needs import Need, needs_of
from mainspring.reactive.model.durations import show_duration
from mainspring.reactive.model.triggers import AllOf, ChunkDelay, Delay
from mainspring.reactive.model.values import later


@dataclass(frozen=True, slots=True)
class SetBy:
    """When a param was last set, and by whom."""

    at: datetime | None
    by: str | None = None
    ahead: bool = False  # far ahead of the clock: every later advance goes back


@dataclass(frozen=True, slots=True)
class Producer:
    """A task that brings a param: since when it runs, if it does, and how long it usually takes."""

    task: str
    running_since: datetime | None = None
    usual: timedelta | None = None


@dataclass(frozen=True, slots=True)
class PastCheck:
    """A check that was stored because its outcome differed: when, and its leaves as stored."""

    at: datetime
    leaves: Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Around:
    """What is known besides the trigger: of params, of their producers, of past checks."""

    set_by: Mapping[str, SetBy] = field(default_factory=dict)
    producers: Mapping[str, Sequence[Producer]] = field(default_factory=dict)
    past: Sequence[PastCheck] = ()  # newest first


@dataclass(frozen=True, slots=True)
class Node:
    """A trigger of the tree with its verdict. `text`: what it asks; `values`: what it looked at."""

    true: bool
    text: str
    param: str | None = None
    values: str | None = None
    set_at: datetime | None = None
    set_by: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    needs: tuple[str, ...] = ()
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class NextFact:
    """A fact that would change the verdict, and who would bring it."""

    text: str
    producers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReactiveWhy:
    """The whole answer for one task. `waits_for`: what holds it now, in one line."""

    task: str
    now: datetime
    true: bool
    tree: Node
    waits_for: str | None
    again_at: datetime | None
    until: datetime | None
    next: tuple[NextFact, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As `mainspring why` tells it."""
        return "\n".join(lines_of(self))


def explain(
    task: str,
    definition: Definition,
    view: View,
    now: datetime,
    *,
    around: Around | None = None,
    notes: Sequence[str] = (),
) -> ReactiveWhy:
    """Explain a task. `notes`: what stands besides the trigger (paused, running, in the queue ...)."""
    around = around or Around()
    verdict = evaluate(definition.trigger, facts_of(definition, view), now)
    decision = decide(definition, view, now)
    waits = None if isinstance(decision, Fire) else decision.cause
    again_at = None if isinstance(decision, Fire) else decision.again_at
    moved = rewound(definition, view)
    told = [
        *notes,
        *(f"{key} was rewound since it was seen ({definition.on_rewind})" for key in moved),
    ]
    told += [
        f"{key} is far ahead of the clock: later advances go back; if it is wrong, rewind it"
        for key in sorted(_keys(definition))
        if key in around.set_by and around.set_by[key].ahead
    ]
    return ReactiveWhy(
        task=task,
        now=now,
        true=verdict.true,
        tree=_node(verdict, around, iter(range(1000))),
        waits_for=waits,
        again_at=again_at,
        until=verdict.until,
        next=_next(verdict, waits, again_at, around, now),
        notes=tuple(told),
    )


def _keys(definition: Definition) -> list[str]:
    return [param.key for param in definition.params]


def _node(verdict: Verdict, around: Around, numbers: Iterator[int]) -> Node:
    if not isinstance(verdict, LeafVerdict):
        word = "all_of" if isinstance(verdict.trigger, AllOf) else "any_of"
        children = tuple(_node(child, around, numbers) for child in verdict.children)
        return Node(verdict.true, word, until=verdict.until, children=children)
    number = next(numbers)
    param = verdict.trigger.param.key
    set_by = around.set_by.get(param, SetBy(None))
    return Node(
        verdict.true,
        f"{type(verdict.trigger).__name__}: {show_kind(verdict)}",
        param=param,
        values=show_values(verdict),
        set_at=set_by.at,
        set_by=set_by.by,
        since=_since(verdict, number, around.past),
        until=verdict.until,
        needs=tuple(str(need) for need in needs_of(verdict)),
    )


def _since(leaf: LeafVerdict, number: int, past: Sequence[PastCheck]) -> datetime | None:
    """Since when a leaf is what it is: time may have turned it, else the stored checks tell."""
    if (turned := _turned_by_time(leaf)) is not None:
        return turned
    since = None
    for check in past:
        if number >= len(check.leaves) or check.leaves[number].get("leaf") != str(leaf.trigger):
            break
        if check.leaves[number]["true"] != leaf.true:
            break
        since = check.at
    return since


def _turned_by_time(leaf: LeafVerdict) -> datetime | None:
    value = leaf.fact.value
    if leaf.true or not isinstance(value, datetime) or value > leaf.now:
        return None
    match leaf.trigger:
        case Delay(at_most=most):
            return later(value, most)
        case ChunkDelay(chunk=chunk, at_most=count):
            return chunk.shift(value, (count or 0) + 1)
    return None


def _next(
    verdict: Verdict, waits: str | None, again_at: datetime | None, around: Around, now: datetime
) -> tuple[NextFact, ...]:
    if verdict.true:
        if waits is not None and again_at is not None:
            return (NextFact(f"time: {instant(again_at)} ({waits})"),)
        return ()
    return tuple(_fact(need, around, now) for need in needs_of(verdict))


def _fact(need: Need, around: Around, now: datetime) -> NextFact:
    if need.param is None:
        return NextFact(str(need))
    producers = around.producers.get(need.param.key, ())
    return NextFact(str(need), tuple(_show_producer(producer, now) for producer in producers))


def _show_producer(producer: Producer, now: datetime) -> str:
    usual = "" if producer.usual is None else f"usually takes {_rounded(producer.usual)}"
    if producer.running_since is None:
        return f"{producer.task} brings it, is not running{f', {usual}' if usual else ''}"
    runs = f"running for {_rounded(now - producer.running_since)}"
    return f"{producer.task} brings it, {runs}{f', {usual}' if usual else ''}"


def _rounded(length: timedelta) -> str:
    if length >= timedelta(seconds=10):
        length = timedelta(seconds=round(length.total_seconds()))
    return show_duration(length)


def lines_of(why: ReactiveWhy) -> list[str]:
    """The answer as lines of text."""
    head = "the trigger is true" if why.true else "the trigger is false"
    if why.waits_for is not None and why.true:
        head += f", but held: {why.waits_for}"
    lines = [f"{why.task}: {head}", *_tree_lines(why.tree, 1)]
    lines += [f"  note: {note}" for note in why.notes]
    if why.again_at is not None:
        lines.append(f"  looked at again: {instant(why.again_at)}")
    if why.until is not None:
        lines.append(f"  true until: {instant(why.until)}")
    if not why.true and not why.next:
        lines.append("  next: nothing known would change it")
    for number, fact in enumerate(why.next):
        lines.append(f"  {'next' if not number else ' and'}: {fact.text}")
        lines += [f"        {producer}" for producer in fact.producers]
    return lines


def _tree_lines(node: Node, depth: int) -> Iterator[str]:
    mark = "YES" if node.true else "NO "
    if node.children:
        yield f"{'  ' * depth}{mark} {node.text}"
        for child in node.children:
            yield from _tree_lines(child, depth + 1)
        return
    yield f"{'  ' * depth}{mark} {node.text}"
    facts = [f"{node.param}: {node.values}"]
    if node.set_at is not None:
        facts.append(f"set {instant(node.set_at)}{f' by {node.set_by}' if node.set_by else ''}")
    if node.since is not None:
        facts.append(f"{'true' if node.true else 'false'} since {instant(node.since)}")
    if node.until is not None:
        facts.append(f"true until {instant(node.until)}")
    if node.needs:
        facts.append(f"needs {' and '.join(node.needs)}")
    yield f"{'  ' * depth}    {'; '.join(facts)}"
