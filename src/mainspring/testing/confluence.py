"""Checks that stages fit together: the order does not matter, timers are kept, rest is rest.

    def test_my_stages_fit_together():
        check_stages(listing, [Listing(id=1, ...)])

Stages that ask a world with a memory need a fresh one for each run: give a function that makes the
kind instead of the kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from mainspring.entities.kind import AnyKind, Kind
from mainspring.testing.answers import fields_of
from mainspring.testing.order import SYSTEM, Order
from mainspring.testing.stages import START, Simulation

Source = AnyKind | Callable[[], AnyKind]


class NotConfluent(AssertionError):
    """What an entity comes to depends on the order in which its stages ran."""


class TimerLost(AssertionError):
    """A stage that was visited early forgot the time at which it wanted to come back."""


def check_stages(
    source: Source,
    entities: Sequence[object],
    *,
    orders: int = 20,
    after: timedelta = timedelta(0),
    start: datetime = START,
    hooks: bool = False,
) -> None:
    """All checks on these entities, with so many random orders of stages.

    `hooks`: the hooks of the stages are called, too; the world that they change must be one of its own
    for each run (give a function that makes the kind). Every entity is deleted at the end.
    """
    names = [SYSTEM, *_kind(source).stages]
    draw = random.Random(0)
    for seed in range(orders):
        ranks = tuple(draw.sample(names, len(names)))
        order = Order(ranks, seed if seed % 2 else None)
        check_confluence(source, entities, order, after=after, start=start, hooks=hooks)
    check_unasked(source, entities, after=after, start=start, hooks=hooks)
    check_early_visits(source, entities, after=after, start=start, hooks=hooks)
    check_deletes(source, entities, after=after, start=start, hooks=hooks)


def check_confluence(
    source: Source,
    entities: Sequence[object],
    order: Order,
    *,
    after: timedelta = timedelta(0),
    start: datetime = START,
    hooks: bool = False,
) -> None:
    """Run the stages as declared and in this order: entities, states and timers must be the same.

    They are compared at rest, `after` some time.
    """
    declared = _run(source, entities, after, start, hooks=hooks)
    other = _run(source, entities, after, start, hooks=hooks, order=order.again())
    _compare(declared, other, f"as declared and in {order}")


def check_unasked(
    source: Source,
    entities: Sequence[object],
    *,
    after: timedelta = timedelta(0),
    start: datetime = START,
    hooks: bool = False,
) -> None:
    """Run the stages asked and unasked: when `should_process` fails, a stage is visited all the same.

    So `process` must look for itself whether there is anything to do (S8).
    """
    asked = _run(source, entities, after, start, hooks=hooks)
    unasked = _run(source, entities, after, start, hooks=hooks, unasked=True)
    _compare(asked, unasked, "with should_process asked and with should_process failing")


def check_early_visits(
    source: Source,
    entities: Sequence[object],
    *,
    after: timedelta = timedelta(0),
    start: datetime = START,
    hooks: bool = False,
) -> None:
    """At rest, visit each stage before its time: nothing may change, its timer least of all (S9).

    An outcome states its timer anew, so a stage that answers an early visit without one has lost it.
    """
    for name in _kind(source).stages:
        plain = _run(source, entities, after, start, hooks=hooks)
        early = _run(source, entities, after, start, hooks=hooks)
        moment = _halfway(plain, name)
        for simulation in (plain, early):
            simulation.advance(moment - simulation.now)
        for id in early.ids:
            early.offer(name, id)
        early.run()
        for id in early.ids:
            _check_timer(plain, early, name, id)
        _compare(plain, early, f"with and without an early visit of stage {name!r}")


def check_deletes(
    source: Source,
    entities: Sequence[object],
    *,
    after: timedelta = timedelta(0),
    start: datetime = START,
    hooks: bool = False,
) -> None:
    """Delete each entity at rest and at once after it was put: no visit is left, and with `hooks` every
    stage's `deleted` hears of it, which may come before anything of the entity was saved."""
    for wait in (after, None):
        simulation = Simulation(_kind(source), start=start, hooks=hooks)
        for entity in entities:
            simulation.put(entity)
        if wait is not None:
            simulation.advance(wait)
        for id in simulation.ids:
            simulation.delete(id)
        simulation.advance(after)


def _halfway(simulation: Simulation, stage: str) -> datetime:
    """A moment before the stage's next timer, and before anything else happens."""
    timers = [t for id in simulation.ids if (t := simulation.timer(stage, id)) is not None]
    first = min(timers, default=simulation.now)
    soonest = simulation._next_due() or simulation.now
    return simulation.now + max(timedelta(0), min(first, soonest) - simulation.now) / 2


def _check_timer(plain: Simulation, early: Simulation, stage: str, id: object) -> None:
    wanted, found = plain.timer(stage, id), early.timer(stage, id)
    if wanted is None or (found is not None and found <= wanted):
        return
    now = f"puts it off to {found.isoformat()}" if found else "forgets it"
    raise TimerLost(
        f"stage {stage!r} wants to visit {id!r} at {wanted.isoformat()}; visited early, at "
        f"{early.now.isoformat()}, it {now}. State the timer in every outcome: "
        "Untouched(visit_at=...)"
    )


def _kind(source: Source) -> AnyKind:
    return source if isinstance(source, Kind) else source()


def _run(
    source: Source, entities: Sequence[object], after: timedelta, start: datetime, **options: Any
) -> Simulation:
    simulation = Simulation(_kind(source), start=start, **options)
    for entity in entities:
        simulation.put(entity)
    return simulation.advance(after)


def _compare(one: Simulation, other: Simulation, ways: str) -> None:
    for id in one.ids:
        found = [f"{what}: {a!r} or {b!r}" for what, a, b in _facts(one, other, id) if a != b]
        if found:
            differences = "\n  ".join(found)
            raise NotConfluent(
                f"{id!r} comes to different states at rest {ways}:\n  {differences}\n"
                f"one:\n{one.story(id)}\nother:\n{other.story(id)}"
            )


def _facts(one: Simulation, other: Simulation, id: object) -> list[tuple[str, object, object]]:
    version = one._kind.settings.version
    ours, theirs = fields_of(one.entity(id)), fields_of(other.entity(id))
    facts = [(f"field {name}", ours[name], theirs[name]) for name in ours if name != version]
    for stage in one._kind.stages:
        facts.append((f"state of {stage}", one.state(stage, id), other.state(stage, id)))
        facts.append((f"timer of {stage}", one.timer(stage, id), other.timer(stage, id)))
    return facts
