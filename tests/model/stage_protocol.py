"""The protocol of stages over one entity: capture, ask, run, save, and what outsiders do meanwhile.

Stage A keeps the field `low` equal to `x` (an update); stage B notes x, low and the marks that outsiders
set in its private state (a save of state alone). Outsiders write `x`, add to `n` (with the trigger or past
it), replace B's state by compare-and-set, delete and re-create the entity, delete a visit; a trigger of
theirs may veto a save. Two workers run any due visit with **no lease at all**, which is worse than any
hand-over. Runs crash, replies get lost and saves are sent again. Each rule can be switched off.
Not here: leases and holds (the visit protocol has them), rebase, relay, loop guard, crawl.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from explorer import Invariant

SYSTEM, A, B = "system", "A", "B"
QUEUES = (SYSTEM, A, B)
READ, LOADED, SENT = "read", "loaded", "sent"


class Entity(NamedTuple):
    version: int
    xmin: int  # another with every write, by whomever
    x: int = 0  # outsiders set it, A copies it
    n: int = 0  # outsiders add to it
    low: int = 0  # A's copy of x; n and low are one field


class Kept(NamedTuple):
    """B's private state."""

    version: int
    seen: tuple[int, int, int] = (0, 0, 0)  # x, low and marks when B last looked
    marks: int = 0  # outsiders add to it by compare-and-set


class Visit(NamedTuple):
    token: int
    fields: frozenset[str] = frozenset()  # 'new' among them: all
    by: tuple[tuple[str, int], ...] = ()
    ask: frozenset[str] = frozenset()


class Run(NamedTuple):
    queue: str
    step: str
    visit: Visit
    entity: Entity | None = None
    kept: Kept | None = None
    due: frozenset[str] = frozenset()
    fits: bool = True  # what the statement's snapshot showed


class World(NamedTuple):
    entity: Entity | None = Entity(1, 1)
    kept: Kept | None = Kept(1)
    visits: tuple[Visit | None, ...] = (None, None, None)
    runs: tuple[Run | None, Run | None] = (None, None)
    n: int = 0  # what outsiders added to n since the entity was created
    marks: int = 0
    spent: tuple[tuple[str, int], ...] = ()  # what happened so often
    wrong: str = ""  # a save that must not have been


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules; off, each loses a change, an update or an effect."""

    due_gets_token: bool = True  # off: a stage that is due already is skipped, not offered
    load_after_read: bool = True  # off: the entity may be older than the token
    own_by_version: bool = True  # off: a stage is skipped if it is among the authors
    fields_united: bool = True  # off: a merge replaces the changed fields
    ask_remembered: bool = True  # off: an outside change of state asks nobody
    save_offers: bool = True  # off: a stage's save asks nobody
    save_compares_version: bool = True
    save_compares_xmin: bool = True
    save_compares_state: bool = True
    state_save_locks_entity: bool = True  # off: it compares the entity by its snapshot
    visit_locked_first: bool = True  # off: a save without its visit
    settle_compares_token: bool = True
    driven_by_returning: bool = True  # off: a vetoed save is settled


@dataclass(frozen=True, slots=True)
class Bounds:
    """How often each thing may happen from outside."""

    write_x: int = 0
    add_n: int = 0
    bypass: int = 0
    cas: int = 0
    timer: int = 0  # A's timer comes due
    recreate: int = 0
    drop_visit: int = 0
    veto: int = 0
    crash: int = 0
    resend: int = 0


@dataclass(frozen=True, slots=True)
class StageProtocol:
    rules: Rules
    bounds: Bounds

    def invariants(self) -> dict[str, Invariant[World]]:
        return {
            "rest means seen": rest_means_seen,
            "no lost update": no_lost_update,
            "saves are sound": lambda world: world.wrong or None,
        }

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        for told, after in self.possible(world):
            yield told, _canonical(after)

    def possible(self, world: World) -> Iterator[tuple[str, World]]:
        yield from self.outside(world)
        for slot, run in enumerate(world.runs):
            if run is None:
                yield from self.read(world, slot)
                continue
            name = f"{run.queue} run {slot}"
            if run.step == READ:
                ready = self.prepare(world, run)
                yield f"{name} loads {_told(ready and ready.entity)}", _run(world, slot, ready)
            elif run.step == LOADED:
                sent = run._replace(step=SENT, fits=_fits(world, run, self.rules))
                yield f"{name} sends its result", _run(world, slot, sent)
            else:
                yield from self.finish(world, slot, run, name)
            if (crashed := self.spend(world, "crash")) is not None:
                yield f"{name} crashes", _run(crashed, slot, None)

    # -- what outsiders do

    def outside(self, world: World) -> Iterator[tuple[str, World]]:
        e = world.entity
        if e is not None:
            if (w := self.spend(world, "write_x")) is not None:
                w = w._replace(entity=_write(world, e, x=e.x + 1))
                yield "outsider writes x", self.offer_system(w, {"x"})
            if (w := self.spend(world, "add_n")) is not None:
                w = w._replace(entity=_write(world, e, n=e.n + 1), n=w.n + 1)
                yield "outsider adds to n", self.offer_system(w, {"n"})
            if (w := self.spend(world, "bypass")) is not None:
                past = e._replace(n=e.n + 1, xmin=_fresh(world))
                yield "outsider adds to n past the trigger", w._replace(entity=past, n=w.n + 1)
            if (w := self.spend(world, "timer")) is not None:
                yield "A's timer comes due", _visit(w, A, Visit(_fresh(w)))
            if world.kept and (w := self.spend(world, "cas")) is not None:
                kept = Kept(_fresh(world), world.kept.seen, world.kept.marks + 1)
                w = w._replace(kept=kept, marks=w.marks + 1)
                asked = {B} if self.rules.ask_remembered else set()
                yield "outsider replaces B's state", self.offer_system(w, set(), ask=asked)
            if (w := self.spend(world, "recreate")) is not None:
                fresh = Entity(1, _fresh(world), x=e.x + 1)
                w = w._replace(entity=fresh, kept=None, visits=(None, None, None), n=0, marks=0)
                yield (
                    "outsider deletes the entity and creates it anew",
                    self.offer_system(w, {"new"}),
                )
        if world.visits[1] and (w := self.spend(world, "drop_visit")) is not None:
            yield "somebody deletes A's visit", _visit(w, A, None)

    def spend(self, world: World, what: str) -> World | None:
        spent = dict(world.spent)
        if spent.get(what, 0) >= getattr(self.bounds, what):
            return None
        spent[what] = spent.get(what, 0) + 1
        return world._replace(spent=tuple(sorted(spent.items())))

    def offer_system(
        self,
        world: World,
        fields: set[str],
        *,
        by: tuple[tuple[str, int], ...] = (),
        ask: set[str] = frozenset(),  # type: ignore[assignment]
    ) -> World:
        old = world.visits[0]
        visit = Visit(_fresh(world), frozenset(fields), by, frozenset(ask))
        if old is not None:
            united = old.fields if self.rules.fields_united else frozenset()
            authors = tuple(sorted({**dict(old.by), **dict(by)}.items()))
            visit = Visit(visit.token, united | visit.fields, authors, old.ask | visit.ask)
        return _visit(world, SYSTEM, visit)

    # -- runs

    def read(self, world: World, slot: int) -> Iterator[tuple[str, World]]:
        if slot == 1 and world.runs[0] is None:
            return  # the workers are alike: the first one goes first
        for queue, visit in zip(QUEUES, world.visits, strict=True):
            if visit is None:
                continue
            run = Run(queue, READ, visit)
            if not self.rules.load_after_read:
                run = self.look(world, run)
            yield f"{queue} run {slot} reads its visit", _run(world, slot, run)

    def prepare(self, world: World, run: Run) -> Run | None:
        """Load, after the visit was read; the wrong way round the token is newer than the entity."""
        if self.rules.load_after_read:
            return self.look(world, run)._replace(step=LOADED)
        visit = world.visits[QUEUES.index(run.queue)]
        return None if visit is None else run._replace(visit=visit, step=LOADED)

    def look(self, world: World, run: Run) -> Run:
        due = frozenset(q for q, v in zip(QUEUES, world.visits, strict=True) if v is not None)
        return run._replace(entity=world.entity, kept=world.kept, due=due)

    def finish(self, world: World, slot: int, run: Run, name: str) -> Iterator[tuple[str, World]]:
        """The transaction of a result: writes and settle, or nothing."""
        for told, after in self.save(world, run):
            yield f"{name}: {told}", _run(after, slot, None)
            if (again := self.spend(after, "resend")) is not None:
                yield f"{name}: {told}, the answer is lost", _run(again, slot, run)

    def save(self, world: World, run: Run) -> Iterator[tuple[str, World]]:
        now = world.visits[QUEUES.index(run.queue)]
        if run.entity is None:
            yield "missing, done", self.settle(world, run)
        elif run.queue == SYSTEM:
            yield "asks the stages", self.settle(self.ask(world, run), run) if now else world
        elif run.queue == A and run.entity.low != run.entity.x:
            yield from self.save_entity(world, run, now)
        elif run.queue == B and _b_wants(run.entity, run.kept):
            yield from self.save_state(world, run, now)
        else:
            told = "untouched" if run.fits else "untouched, but the entity moved: rerun"
            yield told, self.settle(world, run) if run.fits else world

    def save_entity(self, world: World, run: Run, now: Visit | None) -> Iterator[tuple[str, World]]:
        e = world.entity
        if e is None or not _same(e, run.entity, self.rules):
            yield "conflict", world
            return
        if now is None and self.rules.visit_locked_first:
            yield "its visit is gone: dropped", world
            return
        assert run.entity is not None
        if (vetoed := self.spend(world, "veto")) is not None:
            settled = self.settle(vetoed, run)
            yield "vetoed by a trigger", vetoed if self.rules.driven_by_returning else settled
        # It writes n and low together, as it loaded n.
        saved = _write(world, e, n=run.entity.n, low=run.entity.x)
        after = world._replace(entity=saved)
        if now is None:
            after = after._replace(wrong="A saved although its visit was deleted")
        if self.rules.save_offers:
            after = self.offer_system(after, {"n", "low"}, by=((A, saved.version),))
        yield f"saves low = {saved.low}", self.settle(after, run)

    def save_state(self, world: World, run: Run, now: Visit | None) -> Iterator[tuple[str, World]]:
        fits = run.fits
        if self.rules.state_save_locks_entity:
            fits = world.entity is not None and _same(world.entity, run.entity, self.rules)
        moved = (world.kept and world.kept.version) != (run.kept and run.kept.version)
        if not fits or world.entity is None or (moved and self.rules.save_compares_state):
            yield "conflict", world
            return
        if now is None and self.rules.visit_locked_first:
            yield "its visit is gone: dropped", world
            return
        assert run.entity is not None
        marks = run.kept.marks if run.kept else 0
        kept = Kept(_fresh(world), (run.entity.x, run.entity.low, marks), marks)
        after = world._replace(kept=kept)
        if run.entity != world.entity:
            after = after._replace(wrong="B noted an entity that was no longer so")
        yield f"notes {kept.seen}", self.settle(after, run)

    def ask(self, world: World, run: Run) -> World:
        assert run.entity is not None
        for stage, interest in ((A, {"x"}), (B, {"x", "low"})):
            own = dict(run.visit.by).get(stage)
            mine = own is not None and (own == run.entity.version or not self.rules.own_by_version)
            concerned = bool(run.visit.fields & {"new", *interest}) and not mine
            if not concerned and stage not in run.visit.ask:
                continue
            if stage in run.due:
                if self.rules.due_gets_token:
                    world = _visit(world, stage, Visit(_fresh(world)))
                continue
            a_wants = run.entity.low != run.entity.x
            if a_wants if stage == A else _b_wants(run.entity, run.kept):
                world = _visit(world, stage, Visit(_fresh(world)))
        return world

    def settle(self, world: World, run: Run) -> World:
        now = world.visits[QUEUES.index(run.queue)]
        if now is None or (now.token != run.visit.token and self.rules.settle_compares_token):
            return world
        return _visit(world, run.queue, None)


# -- what must hold


def rest_means_seen(world: World) -> str | None:
    """The strongest oracle: with nothing to do, no stage wants more."""
    e = world.entity
    if any(world.visits) or any(world.runs) or e is None or dict(world.spent).get("drop_visit"):
        return None
    if e.low != e.x:
        return f"at rest with x = {e.x} and low = {e.low}"
    if _b_wants(e, world.kept):
        return f"at rest, and B has not noted {e.x}, {e.low} in {world.kept}"
    return None


def no_lost_update(world: World) -> str | None:
    if world.entity is not None and world.entity.n != world.n:
        return f"n is {world.entity.n}, outsiders made it {world.n}"
    if world.kept is not None and world.kept.marks != world.marks:
        return f"B's state has {world.kept.marks} marks, outsiders made {world.marks}"
    return None


# -- small things


def _b_wants(entity: Entity, kept: Kept | None) -> bool:
    return kept is None or kept.seen != (entity.x, entity.low, kept.marks)


def _same(now: Entity, loaded: Entity | None, rules: Rules) -> bool:
    assert loaded is not None
    version = now.version == loaded.version or not rules.save_compares_version
    return version and (now.xmin == loaded.xmin or not rules.save_compares_xmin)


def _fits(world: World, run: Run, rules: Rules) -> bool:
    """What a statement's snapshot shows of the entity."""
    return (
        world.entity is not None
        and run.entity is not None
        and _same(world.entity, run.entity, rules)
    )


def _write(world: World, entity: Entity, **fields: int) -> Entity:
    return entity._replace(version=entity.version + 1, xmin=_fresh(world), **fields)


def _fresh(world: World) -> int:
    """A number that nobody holds: tokens, xmin and state versions are compared for equality only."""
    held = {v.token for v in world.visits if v} | {r.visit.token for r in world.runs if r}
    for entity in (world.entity, *(r.entity for r in world.runs if r)):
        held |= {entity.xmin} if entity else set()
    for kept in (world.kept, *(r.kept for r in world.runs if r)):
        held |= {kept.version} if kept else set()
    return next(n for n in range(1, len(held) + 2) if n not in held)


def _canonical(world: World) -> World:
    """Numbers by the order in which they are met: worlds that differ in names only are one."""
    names: dict[int, int] = {}

    def number(n: int) -> int:
        return names.setdefault(n, len(names) + 1)

    def entity(e: Entity | None) -> Entity | None:
        return None if e is None else e._replace(xmin=number(e.xmin))

    def kept(k: Kept | None) -> Kept | None:
        return None if k is None else k._replace(version=number(k.version))

    def visit(v: Visit | None) -> Visit | None:
        return None if v is None else v._replace(token=number(v.token))

    def run(r: Run | None) -> Run | None:
        if r is None:
            return None
        read = visit(r.visit)
        assert read is not None
        return r._replace(visit=read, entity=entity(r.entity), kept=kept(r.kept))

    return world._replace(
        entity=entity(world.entity),
        kept=kept(world.kept),
        visits=tuple(map(visit, world.visits)),
        runs=(run(world.runs[0]), run(world.runs[1])),
    )


def _visit(world: World, queue: str, visit: Visit | None) -> World:
    visits = list(world.visits)
    visits[QUEUES.index(queue)] = visit
    return world._replace(visits=tuple(visits))


def _run(world: World, slot: int, run: Run | None) -> World:
    runs = (run, world.runs[1]) if slot == 0 else (world.runs[0], run)
    return world._replace(runs=runs)


def _told(entity: Entity | None) -> str:
    return "nothing" if entity is None else f"version {entity.version}, x = {entity.x}"
