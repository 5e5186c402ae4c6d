"""Mixed pools: workers of different code share the leases of a pool. One shard, for no rule crosses shards.

The shard is whole (one lease, for every queue) or cut into bands: disjoint sets of queues with a lease
each, named by their content. A recut is one transaction that locks the leases, then reads who lives, and
writes the same ownership down in other bands. Take and give are statements that may be carried out late,
and whose answers may be lost. Memory is as old as the last look; it alone decides what is run.

Not in here: runs and holds (visit_protocol has them: a band's lease is a lease), suspects, the size of
gifts, the cap on bands.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

WHOLE = "*"  # else a band is its queues, sorted
OUT, UP, FENCED, CRASHED, GONE = "out", "up", "fenced", "crashed", "gone"
NAMES = "ABC"


class Code(NamedTuple):
    queues: str
    turns: tuple[str, ...] = ()  # sets of queues that take turns
    knows_bands: bool = True  # off: of the release before

    def has(self, band: str) -> bool:
        return band == WHOLE or any(queue in self.queues for queue in band)

    def has_all(self, band: str) -> bool:
        return band == WHOLE or all(queue in self.queues for queue in band)


class Lease(NamedTuple):
    band: str
    owner: str = ""
    epoch: int = 0


class Worker(NamedTuple):
    mode: str = OUT
    life: int = 1
    mine: frozenset[Lease] = frozenset()  # as memory has it
    waits: bool = False  # for an answer
    in_doubt: bool = False  # an answer was lost: nothing is sent before a look
    saw: frozenset[str] | None = None  # who lived when a recut began (a rule is off)


class Sent(NamedTuple):
    verb: str
    by: str
    lease: Lease


class State(NamedTuple):
    leases: frozenset[Lease]
    rows: frozenset[str]  # the workers' ids
    workers: tuple[Worker, ...]
    sent: frozenset[Sent] = frozenset()
    losses: int = 0
    failures: int = 0
    changes: int = 0  # joins and leaves

    def put(self, slot: int, **values: object) -> "State":
        changed = self.workers[slot]._replace(**values)  # type: ignore[arg-type]
        return self._replace(workers=(*self.workers[:slot], changed, *self.workers[slot + 1 :]))


@dataclass(frozen=True, slots=True)
class Rules:
    """Each of them, off, breaks an invariant or leaves a queue unserved for ever."""

    owner_of_some_keeps_it: bool = True  # off: a piece goes only to an owner that has all of it
    merged_with_one_owner: bool = True  # off: the first of two owners gets the merged band
    named_by_content: bool = True  # off: bands are numbered, and a number gets another meaning
    whole_is_closed: bool = True  # off: while there are bands the whole lease can be taken too
    turns_of_all_codes: bool = True  # off: bands are made of queues, whatever takes turns
    only_targets_are_taken: bool = True  # off: so are pieces that have not met yet
    pieces_meet: bool = True  # off: pieces of different owners are never given up
    workers_read_last: bool = True  # off: a recut reads who lives before it locks the leases
    burial_waits_for_recut: bool = True  # off: its worker is buried while a recut names it
    ownerless_are_free: bool = True  # off: a recut believes every owner that a lease names
    whole_beside_old: bool = True  # off: the pool is cut while a worker knows no bands
    whole_when_old_comes: bool = True  # off: it stays cut when such a worker comes
    last_one_opens: bool = True  # off: the end of the last that knows bands leaves it cut
    part_may_take: bool = True  # off: only who has all of a band takes it
    memory_first: bool = True  # off: memory lets go with the answer to a give
    give_compares_epoch: bool = True
    adoption_draws_epoch: bool = True
    fenced_before_burial: bool = True  # off: the timing assumption itself is broken


@dataclass(frozen=True, slots=True)
class Bounds:
    codes: tuple[Code, ...]
    up: int = 1  # so many have joined at the start
    losses: int = 1
    failures: int = 1
    changes: int = 1


Steps = Iterator[tuple[str, State]]
# Steps that a goal must not count on.
FAULTS = ("joins", "leaves", "is fenced", "crashes", "gives up waiting", "during a recut")


def is_fault(step: str) -> bool:
    return any(fault in step for fault in FAULTS)


@dataclass(frozen=True, slots=True)
class MixedProtocol:
    rules: Rules
    bounds: Bounds

    def start(self) -> State:
        codes, up = self.bounds.codes, self.bounds.up
        workers = tuple(Worker(UP if n < up else OUT) for n in range(len(codes)))
        return State(
            frozenset({Lease(WHOLE)}), frozenset(f"{NAMES[n]}1" for n in range(up)), workers
        )

    def code(self, worker_id: str) -> Code:
        return self.bounds.codes[NAMES.index(worker_id[0])]

    # -- which bands there should be

    def target(self, rows: Iterable[str]) -> list[str]:
        codes = tuple(sorted({self.code(row) for row in rows}))
        return _target(codes, self.rules.whole_beside_old, self.rules.turns_of_all_codes)

    # -- steps

    def steps(self, state: State) -> Steps:
        for step, after in self._steps(state):
            yield step, _numbered(after)

    def _steps(self, state: State) -> Steps:
        for slot, worker in enumerate(state.workers):
            yield from self.come_and_go(state, slot, worker)
            if worker.mode != UP:
                continue
            yield from self.bury(state, slot, worker)
            if f"{NAMES[slot]}{worker.life}" not in state.rows:
                continue
            yield from self.look(state, slot, worker)
            if self.bounds.codes[slot].knows_bands:
                yield from self.recut(state, slot, worker)
            if not worker.waits and not worker.in_doubt:
                yield from self.take(state, slot)
                yield from self.give(state, slot, worker)
        for sent in sorted(state.sent):
            yield from self.carry_out(state, sent)

    def come_and_go(self, state: State, slot: int, worker: Worker) -> Steps:
        me, bounds = f"{NAMES[slot]}{worker.life}", self.bounds
        if worker.mode == OUT and state.changes < bounds.changes:
            joined = state.put(slot, mode=UP)
            changed = joined._replace(rows=state.rows | {me}, changes=state.changes + 1)
            yield f"{me} joins", changed
        if worker.mode == FENCED and me in state.rows:
            yield f"{me} beats again", state.put(slot, mode=UP)
        elif (worker.mode == FENCED or worker.mode == UP) and me not in state.rows:
            other = f"{NAMES[slot]}{worker.life + 1}"
            fresh = state.put(slot, **Worker(UP, worker.life + 1)._asdict())
            yield f"{me} comes back as {other}", fresh._replace(rows=state.rows | {other})
        if worker.mode != UP:
            return
        if state.failures < bounds.failures:
            failed = state._replace(failures=state.failures + 1)
            yield f"{me} is fenced", failed.put(slot, mode=FENCED, waits=False, in_doubt=True)
            yield f"{me} crashes", failed.put(slot, **Worker(CRASHED, worker.life)._asdict())
        if worker.waits and state.losses < bounds.losses:
            lossy = state._replace(losses=state.losses + 1)
            yield f"{me} gives up waiting", lossy.put(slot, waits=False, in_doubt=True)
        has_any = worker.mine or worker.waits or any(x.owner == me for x in state.leases)
        if not has_any and me in state.rows and state.changes < bounds.changes:
            gone = state.put(slot, **Worker(GONE, worker.life)._asdict())
            left = gone._replace(changes=state.changes + 1)
            yield f"{me} leaves", self._without(left, me)

    def _without(self, state: State, worker_id: str) -> State:
        """Its row goes. Where it was the last that knows bands, the pool is whole and free."""
        rows = state.rows - {worker_id}
        is_last = not any(self.code(row).knows_bands for row in rows)
        is_cut = any(lease.band != WHOLE for lease in state.leases)
        if is_cut and is_last and self.code(worker_id).knows_bands and self.rules.last_one_opens:
            return state._replace(rows=rows, leases=frozenset({Lease(WHOLE)}))
        return state._replace(rows=rows)

    def look(self, state: State, slot: int, worker: Worker) -> Steps:
        """A beat: what the table says is adopted under a new epoch where memory differs."""
        me = f"{NAMES[slot]}{worker.life}"
        knows = self.code(me).knows_bands
        found = {x for x in state.leases if x.owner == me and (knows or x.band == WHOLE)}
        if worker.waits:
            return
        if found == worker.mine:
            if worker.in_doubt:
                yield f"{me} looks", state.put(slot, in_doubt=False)
            return
        epoch = _newest(state) + 1
        draws = self.rules.adoption_draws_epoch
        mine = frozenset(x._replace(epoch=epoch) if draws else x for x in found)
        adopted = state._replace(leases=(state.leases - found) | mine)
        yield f"{me} adopts {_listed(mine)}", adopted.put(slot, mine=mine, in_doubt=False)

    def take(self, state: State, slot: int) -> Steps:
        me = f"{NAMES[slot]}{state.workers[slot].life}"
        code, target = self.code(me), self.target(state.rows)
        for lease in sorted(state.leases):
            if lease.owner or not code.has(lease.band):
                continue
            if not code.knows_bands and lease.band != WHOLE:
                continue
            if lease.band not in target and self.rules.only_targets_are_taken and code.knows_bands:
                continue
            if code.has_all(lease.band) or self.rules.part_may_take:
                yield self._send(state, slot, "take", lease)
        is_open = not self.rules.whole_is_closed and not code.knows_bands
        if is_open and all(lease.band != WHOLE for lease in state.leases):
            yield self._send(state, slot, "take", Lease(WHOLE))

    def give(self, state: State, slot: int, worker: Worker) -> Steps:
        """Memory lets go, then the lease is freed. Which, and when, is a policy: any, at any time."""
        target = self.target(state.rows)
        for lease in sorted(worker.mine):
            if not self.rules.pieces_meet and lease.band not in target:
                continue
            first = self.rules.memory_first
            before = state.put(slot, mine=worker.mine - {lease}) if first else state
            yield self._send(before, slot, "give", lease)

    def _send(self, state: State, slot: int, verb: str, lease: Lease) -> tuple[str, State]:
        me = f"{NAMES[slot]}{state.workers[slot].life}"
        after = state.put(slot, waits=True)
        after = after._replace(sent=state.sent | {Sent(verb, me, lease)})
        return f"{me} sends a {verb} of {lease.band}", after

    def carry_out(self, state: State, sent: Sent) -> Steps:
        verb, by, asked = sent
        done = state._replace(sent=state.sent - {sent})
        row = self._named(state, asked.band)
        slot = NAMES.index(by[0])
        worker = state.workers[slot]
        mine = worker.mine
        if (
            verb == "take"
            and row is None
            and asked.band == WHOLE
            and not self.rules.whole_is_closed
        ):
            row = Lease(WHOLE)  # beside the bands
        if verb == "take" and row is not None and not row.owner and by in state.rows:
            taken = row._replace(owner=by, epoch=_newest(state) + 1)
            done = done._replace(leases=(state.leases - {row}) | {taken})
            mine = mine | {taken._replace(band=asked.band)}
        if verb == "give":
            compares = self.rules.give_compares_epoch
            if row and row.owner == by and (row.epoch == asked.epoch or not compares):
                done = done._replace(leases=(state.leases - {row}) | {Lease(row.band)})
            mine = mine - {asked}
        if worker.mode == UP and worker.waits and f"{by[0]}{worker.life}" == by:
            done = done.put(slot, waits=False, mine=mine)
        yield f"the {verb} of {asked.band} by {by} is carried out", done

    def _named(self, state: State, band: str) -> Lease | None:
        if self.rules.named_by_content or band == WHOLE:
            return next((x for x in state.leases if x.band == band), None)
        # Numbered: the last one is called the last, whatever it contains.
        numbered = sorted(x for x in state.leases if x.band != WHOLE)
        return numbered[-1] if numbered else None

    def bury(self, state: State, slot: int, worker: Worker) -> Steps:
        me = f"{NAMES[slot]}{worker.life}"
        knows = self.code(me).knows_bands
        for other, dead in enumerate(state.workers):
            dead_id = f"{NAMES[other]}{dead.life}"
            is_silent = dead.mode in (FENCED, CRASHED) or not self.rules.fenced_before_burial
            if other == slot or dead_id not in state.rows or not is_silent:
                continue
            freed = {x for x in state.leases if x.owner == dead_id and (knows or x.band == WHOLE)}
            free = (state.leases - freed) | {Lease(x.band) for x in freed}
            yield f"{me} buries {dead_id}", self._without(state._replace(leases=free), dead_id)
            if (
                not self.rules.burial_waits_for_recut
                and knows
                and state.losses < self.bounds.losses
            ):
                for _, after in self.recut(state, slot, worker):
                    late = after._replace(losses=state.losses + 1)
                    yield f"{me} buries {dead_id} during a recut", self._without(late, dead_id)

    def recut(self, state: State, slot: int, worker: Worker) -> Steps:
        me = f"{NAMES[slot]}{worker.life}"
        living = state.rows
        is_cut = any(lease.band != WHOLE for lease in state.leases)
        if not is_cut and len({self.code(row) for row in living}) == 1:
            return  # a whole pool of one code is not looked at: that costs nothing
        if not self.rules.workers_read_last:
            if worker.saw is None:
                yield f"{me} reads who lives", state.put(slot, saw=living)
                return
            living, state = worker.saw, state.put(slot, saw=None)
        target = self.target(living)
        has_old = not all(self.code(row).knows_bands for row in living)
        if has_old and is_cut and target == [WHOLE] and not self.rules.whole_when_old_comes:
            return
        pieces = self._pieces(state.leases, target, living)
        before = {(x.band, x.owner) for x in state.leases}
        if pieces == before:
            if not self.rules.workers_read_last:
                yield f"{me} has nothing to recut", state
            return
        epoch = _newest(state) + 1
        kept = {x for x in state.leases if (x.band, x.owner) in pieces}
        made = {
            Lease(band, owner, epoch if owner else 0)
            for band, owner in pieces - {(x.band, x.owner) for x in kept}
        }
        after = state._replace(leases=frozenset(kept | made))
        yield f"{me} recuts into {_listed(after.leases)}", after

    def _pieces(
        self, leases: Iterable[Lease], target: list[str], living: frozenset[str]
    ) -> set[tuple[str, str]]:
        """The bands of this target with their owners, as far as they have one each."""
        found: set[tuple[str, str]] = set()
        for band in target:
            cut = [
                (common, self._owner(lease, common, living))
                for lease in sorted(leases)
                if (common := _meet(lease.band, band))
            ]
            owners = sorted({owner for _, owner in cut if owner})
            if len(owners) <= 1 or not self.rules.merged_with_one_owner:
                found.add((band, owners[0] if owners else ""))
                continue
            found.update(cut)
            rest = "".join(q for q in band if not any(q in common for common, _ in cut))
            if rest and band != WHOLE:
                found.add((rest, ""))
        return found

    def _owner(self, lease: Lease, common: str, living: frozenset[str]) -> str:
        if lease.owner not in living:
            return "" if self.rules.ownerless_are_free or not lease.owner else lease.owner
        code = self.code(lease.owner)
        keeps = code.has(common) if self.rules.owner_of_some_keeps_it else code.has_all(common)
        return lease.owner if keeps else ""

    # -- what must hold

    def run_by(self, state: State) -> list[tuple[str, str]]:
        """(queue, worker) of all that memory would start."""
        found = set()
        for slot, worker in enumerate(state.workers):
            if worker.mode == UP:
                for lease in worker.mine:
                    queues = _meet(self.bounds.codes[slot].queues, lease.band)
                    found |= {(queue, f"{NAMES[slot]}{worker.life}") for queue in queues}
        return sorted(found)

    def one_owner_a_queue(self, state: State) -> str | None:
        found = self.run_by(state)
        for n, (queue, owner) in enumerate(found):
            for other_queue, other in found[n + 1 :]:
                if queue == other_queue:
                    return f"{queue} is run by {owner} and {other}"
        return None

    def one_owner_a_turn(self, state: State) -> str | None:
        found = self.run_by(state)
        for queue, owner in found:
            for other_queue, other in found:
                if owner < other and any(
                    queue in turn and other_queue in turn
                    for worker_id in (owner, other)
                    for turn in self.code(worker_id).turns
                ):
                    return f"{queue} is run by {owner}, and {other_queue} of its class by {other}"
        return None

    def whole_or_cut(self, state: State) -> str | None:
        bands = [lease.band for lease in state.leases]
        if WHOLE in bands and len(bands) > 1:
            return f"there is a whole lease beside {_listed(state.leases)}"
        queues = "".join(bands)
        return None if len(queues) == len(set(queues)) else f"a queue is in two bands: {bands}"

    def goals(self) -> dict[str, Callable[[State], bool]]:
        return {"every band is served": self._is_served, "one code is whole": self._is_whole}

    def _living(self, state: State) -> list[Code]:
        codes = self.bounds.codes
        return [codes[n] for n, w in enumerate(state.workers) if w.mode in (UP, FENCED)]

    def _is_served(self, state: State) -> bool:
        """Whatever some living worker has all of, with what takes turns, is run; of the rest some is."""
        codes = self._living(state)
        if not codes:
            return True
        if not all(
            code.knows_bands for code in codes
        ):  # a queue may wait, as before; the shard does not
            return bool(self.run_by(state))
        run = {queue for queue, _ in self.run_by(state)}
        for family in _families(tuple(codes)):
            if any(code.has_all(family) for code in codes):
                if not run >= set(family):
                    return False
            elif run.isdisjoint(family):
                return False
        return True

    def _is_whole(self, state: State) -> bool:
        codes = self._living(state)
        if not codes or (len(set(codes)) > 1 and all(code.knows_bands for code in codes)):
            return True
        return all(lease.band == WHOLE for lease in state.leases) and bool(self.run_by(state))


@cache
def _target(codes: tuple[Code, ...], whole_beside_old: bool, turns_of_all: bool) -> list[str]:
    """The bands that a pool of these codes should have."""
    old = not all(code.knows_bands for code in codes)
    if len({code[:2] for code in codes}) <= 1 or (old and whole_beside_old):
        return [WHOLE]
    bands: dict[tuple[int, ...], str] = {}
    for family in _families(codes, turns_of_all):
        key = tuple(code.has(family) + code.has_all(family) for code in codes)
        bands[key] = "".join(sorted(bands.get(key, "") + family))
    return sorted(bands.values())


@cache
def _families(codes: tuple[Code, ...], turns_of_all: bool = True) -> list[str]:
    """Queues that must have one owner, for they take turns by any of these codes."""
    families = [{queue} for queue in sorted({q for code in codes for q in code.queues})]
    for turn in (set(turn) for code in codes for turn in code.turns if turns_of_all):
        met = [family for family in families if family & turn]
        families = [family for family in families if not family & turn]
        families.append(set().union(*met))
    return ["".join(sorted(family)) for family in families]


def _meet(one: str, other: str) -> str:
    if WHOLE in (one, other):
        return one if other == WHOLE else other
    return "".join(queue for queue in one if queue in other)


def _newest(state: State) -> int:
    epochs = [x.epoch for x in state.leases] + [s.lease.epoch for s in state.sent]
    return max([*epochs, *(x.epoch for w in state.workers for x in w.mine)], default=0)


def _listed(leases: Iterable[Lease]) -> str:
    return " ".join(f"{x.band}={x.owner or 'free'}" for x in sorted(leases)) or "nothing"


def _numbered(state: State) -> State:
    """Epochs count only as far as they are equal: numbered anew, states are few."""
    known: dict[int, int] = {0: 0}

    def number(leases: Iterable[Lease]) -> frozenset[Lease]:
        return frozenset(
            x._replace(epoch=known.setdefault(x.epoch, len(known))) for x in sorted(leases)
        )

    leases = number(state.leases)
    workers = tuple(w._replace(mine=number(w.mine)) if w.mine else w for w in state.workers)
    sent = frozenset(s._replace(lease=min(number([s.lease]))) for s in sorted(state.sent))
    return state._replace(leases=leases, workers=workers, sent=sent)
