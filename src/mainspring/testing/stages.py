"""Stages without a database: one kind's stages on entities in memory, with a clock that moves.

The same rules as the engine's (who is asked about what, timers, private state, patches), one visit
after the other, so half a year of timers takes milliseconds. What the simulation does not have is
what only a database has: triggers, types of columns, conflicts.

    simulation = Simulation(listing)
    id = simulation.put(Listing(id=1, ...))
    simulation.advance(timedelta(days=180))
    assert simulation.entity(id).status == "expired"

`mainspring.testing.confluence` runs stages in many orders and compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.entities.declare.consumer import hook_of
from mainspring.entities.declare.event import Saved
from mainspring.entities.declare.ids import id_text
from mainspring.entities.declare.outcome import (
    KEEP,
    Untouched,
    at_moment,
    check_answer,
    check_state,
    seconds_until,
)
from mainspring.entities.declare.partial_model import model_of
from mainspring.entities.declare.stage import Stage, find
from mainspring.entities.declare.state import Stored
from mainspring.entities.kind import AnyKind
from mainspring.errors import InvalidSetting, NotFound
from mainspring.testing.answers import call_hook, called, fields_of, patch_of, rebuilt, seen_by
from mainspring.testing.order import SYSTEM, Order

START = datetime(2026, 1, 1, tzinfo=UTC)
# A single moment in which an entity is visited so often is a loop.
VISITS_AT_ONCE = 300


class NotAtRest(AssertionError):
    """The stages go on for ever on one entity: each sets another off."""


@dataclass(frozen=True, slots=True)
class StageStep:
    """One run of a stage. `changed` has the fields it changed: before and after."""

    at: datetime
    id: object
    stage: str
    changed: dict[str, tuple[object, object]]
    visit_at: datetime | None

    def __str__(self) -> str:
        changes = ", ".join(
            f"{name} {old!r} -> {new!r}" for name, (old, new) in self.changed.items()
        )
        again = f"; again at {self.visit_at.isoformat()}" if self.visit_at else ""
        return f"{self.at.isoformat()} {self.stage}: {changes or 'untouched'}{again}"


@dataclass(slots=True)
class _Visit:
    due_at: datetime
    # Of a system visit: what a change left in it, united at every merge.
    fields: set[str] = field(default_factory=set)
    is_new: bool = False
    asked: set[str] = field(default_factory=set)
    by: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Entity:
    value: Any
    version: int = 1
    states: dict[str, Stored] = field(default_factory=dict)
    visits: dict[str, _Visit] = field(default_factory=dict)
    at_once: int = 0  # visits since the clock last moved


class Simulation:
    """The stages of a kind on entities in memory.

    `order` says which of several due visits comes first (as declared unless given). `unasked`:
    `should_process` is never asked, as if it always failed; the engine then visits every stage, and
    what comes out must be the same. `hooks`: the hooks of the stages are called for what happened.
    """

    def __init__(
        self,
        kind: AnyKind,
        *,
        start: datetime = START,
        order: Order | None = None,
        unasked: bool = False,
        hooks: bool = False,
    ) -> None:
        if not kind.stages:
            raise InvalidSetting(f"kind {kind.name!r} has no stages to simulate")
        if start.utcoffset() is None:
            raise InvalidSetting(f"start must be a time with its zone, got {start!r}")
        self.now = start
        self.steps: list[StageStep] = []
        self.events: list[Saved] = []
        self._kind = kind
        self._models = {name: model_of(kind, stage) for name, stage in kind.stages.items()}
        self._order = order or Order.declared(kind)
        self._unasked = unasked
        self._hooks = hooks
        self._entities: dict[object, _Entity] = {}
        self._numbers = 0

    # -- what the outside does

    def put(self, entity: Any, /, id: Any = None) -> Any:
        """Create an entity, or replace it whole; answers its id, which a document needs to be given."""
        id = self._id_of(entity) if id is None else id
        known = self._entities.get(id)
        if known is None:
            self._entities[id] = _Entity(deepcopy(entity))
            self._offer(self._entities[id], SYSTEM, is_new=True)
        else:
            self.change(id, **fields_of(entity))
        return id

    def change(self, id: object, /, **fields: object) -> None:
        """Change fields of an entity from outside; what is as it was is no change."""
        row = self._find(id)
        changed = patch_of(row.value, fields)
        if changed:
            row.value = rebuilt(row.value, changed)
            self._offer_changed(row, changed)

    def delete(self, id: object, /) -> None:
        """Delete an entity: its states and visits end with it; the stages' `deleted` hears it."""
        row = self._find(id)
        del self._entities[id]
        for stage in self._kind.stages.values():
            if stage.has_hook:
                self._tell(id, row, stage, what="deleted")

    def offer(self, stage: str, id: object, /, at: datetime | None = None) -> None:
        """A visit that somebody else wishes, now or at a time; an earlier one stays."""
        self._offer(self._find(id), find(self._kind, stage).name, at=at)

    def set_state(self, stage: str, id: object, /, value: object) -> None:
        """An outside change of a stage's state; the stage is asked again."""
        row, found = self._find(id), find(self._kind, stage)
        row.states[found.name] = found.state.encode(value)
        self._tell(id, row, found, what="state", outside=True)
        self._offer(row, SYSTEM, asked={found.name})

    def crawl(self) -> None:
        """Ask every stage about every entity."""
        for row in self._entities.values():
            self._offer(row, SYSTEM, is_new=True)

    # -- what can be seen

    def entity(self, id: Any, /) -> Any:
        """An entity as it is now."""
        return deepcopy(self._find(id).value)

    def state(self, stage: str, id: Any, /) -> Any:
        """A stage's private state; None if there is none."""
        found = find(self._kind, stage)
        return found.state.decode(self._find(id).states.get(found.name))

    def timer(self, stage: str, id: object, /) -> datetime | None:
        """When a stage will look at an entity again; None if it will not by itself."""
        visit = self._find(id).visits.get(find(self._kind, stage).name)
        return visit.due_at if visit else None

    def story(self, id: object, /) -> str:
        """What happened to an entity, one line a run."""
        return "\n".join(str(step) for step in self.steps if step.id == id)

    @property
    def ids(self) -> list[object]:
        return list(self._entities)

    # -- time

    def run(self) -> Simulation:
        """Run until nothing is due at this moment."""
        for id in list(self._entities):
            row = self._entities[id]
            while due := [name for name, visit in row.visits.items() if visit.due_at <= self.now]:
                self._visit(id, row, self._order.first(due))
        return self

    def advance(self, duration: timedelta) -> Simulation:
        """Let time pass; every timer on the way is run at its own time."""
        if duration < timedelta(0):
            raise InvalidSetting(f"time does not go back, got {duration!r}")
        end = self.now + duration
        self.run()
        while (coming := self._next_due()) is not None and coming <= end:
            self._move(coming)
            self.run()
        self._move(end)
        return self

    def _next_due(self) -> datetime | None:
        visits = (v for row in self._entities.values() for v in row.visits.values())
        return min((visit.due_at for visit in visits), default=None)

    def _move(self, moment: datetime) -> None:
        if moment > self.now:
            self.now = moment
            for row in self._entities.values():
                row.at_once = 0

    # -- visits

    def _visit(self, id: object, row: _Entity, name: str) -> None:
        row.at_once += 1
        if row.at_once > VISITS_AT_ONCE:
            raise NotAtRest(_endless(self._kind.name, id, self.steps))
        visit = row.visits.pop(name)
        with at_moment(self.now):
            if name == SYSTEM:
                self._ask_all(row, visit)
            else:
                self._process(id, row, self._kind.stages[name])

    def _ask_all(self, row: _Entity, visit: _Visit) -> None:
        for stage in self._kind.stages.values():
            if not _concerns(stage, visit, row.version):
                continue
            waiting = row.visits.get(stage.name)
            if waiting is not None and waiting.due_at <= self.now:
                continue  # due already: it will see the entity as it is then
            answer = True if self._unasked else self._ask(stage, row)
            if isinstance(answer, datetime):
                self._offer(row, stage.name, at=answer)
            elif answer:
                self._offer(row, stage.name)

    def _ask(self, stage: Stage, row: _Entity) -> object:
        if stage.should_process is None:
            return True
        entity = seen_by(self._models[stage.name], self._kind, row.value)
        state = stage.state.decode(row.states.get(stage.name))
        return called(self._kind, stage, "should_process", stage.should_process, entity, state)

    def _process(self, id: object, row: _Entity, stage: Stage) -> None:
        entity = seen_by(self._models[stage.name], self._kind, row.value)
        state = stage.state.decode(row.states.get(stage.name))
        answer = check_answer(
            called(self._kind, stage, "process", stage.process, entity, state), stage.name
        )
        wanted: dict[str, object] = {}
        if not isinstance(answer, Untouched):
            if answer.state is not KEEP and not stage.state.type:
                check_state(answer, stage.name, fields_of(row.value))
            wanted = fields_of(answer.entity) if answer.entity is not None else answer.patch or {}
        changed = patch_of(row.value, wanted, stage=stage, kind=self._kind)
        before = {name: fields_of(row.value)[name] for name in changed}
        after = seconds_until(answer, self.now)
        visit_at = None if after is None else self.now + timedelta(seconds=after)
        if answer.state is not KEEP:
            row.states[stage.name] = stage.state.encode(answer.state)
        if changed:
            row.value = rebuilt(row.value, changed)
            self._offer_changed(row, changed, stage.name)
        if visit_at is not None:
            self._offer(row, stage.name, at=visit_at)
        changes = {name: (before[name], new) for name, new in changed.items()}
        self.steps.append(StageStep(self.now, id, stage.name, changes, visit_at))
        if changed or answer.state is not KEEP:
            self._tell(id, row, stage, what="saved" if changes else "state", changes=changes)

    def _tell(
        self,
        id: object,
        row: _Entity,
        stage: Stage,
        *,
        what: str,
        changes: dict[str, tuple[object, object]] | None = None,
        outside: bool = False,
    ) -> None:
        """An event, as the stage's own hooks hear it."""
        self._numbers += 1
        gone = what == "deleted"
        event = Saved(
            kind=self._kind.name,
            id=id,
            consumer=stage.name,
            number=self._numbers,
            what=what,
            stage=None if gone else stage.name,
            entity=deepcopy(row.value),
            state=None if gone else stage.state.decode(row.states.get(stage.name)),
            entity_version=row.version,
            state_version=None,
            changed={name: list(pair) for name, pair in (changes or {}).items()},
            created_at=self.now,
            outside=outside,
        )
        self.events.append(event)
        hook = hook_of(stage, what, outside)
        if self._hooks and hook is not None:
            call_hook(hook, event)

    def _offer_changed(
        self, row: _Entity, changed: Iterable[str], stage: str | None = None
    ) -> None:
        """A change, from outside or by a stage: asked about, but for fields that are ignored."""
        row.version += 1
        if fields := set(changed) - set(self._kind.settings.ignore):
            by = {} if stage is None else {stage: row.version}
            self._offer(row, SYSTEM, fields=fields, by=by)

    def _offer(
        self,
        row: _Entity,
        name: str,
        *,
        at: datetime | None = None,
        fields: Iterable[str] = (),
        is_new: bool = False,
        asked: Iterable[str] = (),
        by: dict[str, int] | None = None,
    ) -> None:
        due_at = max(self.now, at or self.now)
        visit = row.visits.setdefault(name, _Visit(due_at))
        visit.due_at = min(visit.due_at, due_at)
        visit.fields.update(fields)
        visit.asked.update(asked)
        visit.is_new = visit.is_new or is_new
        visit.by.update(by or {})

    def _find(self, id: object) -> _Entity:
        try:
            return self._entities[id]
        except (KeyError, TypeError):
            raise NotFound(f"no {self._kind.name} {id!r} was put into this simulation") from None

    def _id_of(self, entity: object) -> object:
        fields = fields_of(entity)
        if missing := [name for name in self._kind.keys if name not in fields]:
            raise InvalidSetting(
                f"{self._kind.name} has no field {missing[0]!r} for its id; say put(entity, id=...)"
            )
        parts = tuple(fields[name] for name in self._kind.keys)
        codec = self._kind.codec
        if codec is not None:
            return codec.id(self._kind.name, id_text(parts, self._kind.keys))
        return parts[0] if len(parts) == 1 else parts


def _concerns(stage: Stage, visit: _Visit, version: int) -> bool:
    """Whether a change is a stage's business (S13, S17)."""
    if stage.name in visit.asked:
        return True
    if visit.by.get(stage.name) == version and not stage.settings.sees_own:
        return False
    if visit.is_new:
        return True
    interest = stage.settings.interest
    return bool(visit.fields) if interest is None else not visit.fields.isdisjoint(interest)


def _endless(kind: str, id: object, steps: list[StageStep]) -> str:
    last = [step for step in steps if step.id == id][-12:]
    lines = "\n  ".join(str(step) for step in last)
    return (
        f"the stages of {kind} {id!r} do not come to rest: {VISITS_AT_ONCE} visits in one moment. "
        f"A stage must answer Untouched() when there is nothing to do. The last ones:\n  {lines}"
    )
