"""Mixed pools: workers of different code share the leases of a pool. One shard, for no rule crosses shards.

The shard is whole (one lease, for every queue) or cut into bands: disjoint sets of queues with a lease
each, named by their content. A recut is one transaction that locks the leases, then reads who lives, and
writes the same ownership down in other bands. Take and give are statements that may be carried out late,
and whose answers may be lost. Memory is as old as the last look; it alone decides what is run.

Runs are those of one key, as far as their turns go over a give (visit_protocol has the rest: a band's lease
is a lease). Suspects are those of one death: of two, a merge of free pieces keeps one.
Which bands there should be and how a recut writes them, the engine's own functions say (mixed_state).
Not in here: the size of gifts, the cap on bands.

Longer than most files: the steps of one protocol, each short.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from mixed_state import (
    CRASHED,
    FENCED,
    GIVEN,
    GIVING,
    GONE,
    NAMES,
    OUT,
    STAYS,
    UP,
    WHOLE,
    Bounds,
    Code,
    Engine,
    Lease,
    Rules,
    Sent,
    State,
    Worker,
    families_of,
    listed,
    meet,
    newest,
    numbered,
)

Steps = Iterator[tuple[str, State]]
# Steps that a goal must not count on.
FAULTS = (
    "joins",
    "leaves",
    "begins to leave",
    "is fenced",
    "crashes",
    "gives up waiting",
    "during a recut",
    "is rolled back",
)


def is_fault(step: str) -> bool:
    return any(fault in step for fault in FAULTS)


@dataclass(frozen=True)
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

    @cached_property
    def engine(self) -> Engine:
        codes = dict(zip(NAMES, self.bounds.codes, strict=False))
        return Engine(self.rules, codes, with_suspects=bool(self.bounds.read))

    # -- steps

    def steps(self, state: State) -> Steps:
        for step, after in self._steps(state):
            yield step, numbered(after)

    def _steps(self, state: State) -> Steps:
        for slot, worker in enumerate(state.workers):
            yield from self.come_and_go(state, slot, worker)
            if worker.mode != UP:
                continue
            yield from self.bury(state, slot, worker)
            yield from self.start_and_end(state, slot, worker)
            if f"{NAMES[slot]}{worker.life}" not in state.rows:
                continue
            yield from self.look(state, slot, worker)
            if self.bounds.codes[slot].knows_bands and worker.going == STAYS:
                yield from self.recut(state, slot, worker)
            if not worker.waits and not worker.in_doubt:
                if worker.going == STAYS:
                    yield from self.take(state, slot)
                yield from self.give(state, slot, worker)
                yield from self.clear_suspects(state, slot, worker)
        for sent in sorted(state.sent):
            yield from self.carry_out(state, sent)
        if state.burying:
            buried = self._buried(state, state.burying, knows=True)
            yield f"the burial of {state.burying} is carried out", buried
            undone = state._replace(burying="")
            yield f"the burial of {state.burying} is rolled back", undone

    def come_and_go(self, state: State, slot: int, worker: Worker) -> Steps:
        me, bounds = f"{NAMES[slot]}{worker.life}", self.bounds
        if worker.mode == OUT and state.changes < bounds.changes:
            joined = state.put(slot, mode=UP)
            changed = joined._replace(rows=state.rows | {me}, changes=state.changes + 1)
            yield f"{me} joins", changed
        other = f"{NAMES[slot]}{worker.life + 1}"
        if worker.mode == FENCED and me in state.rows:
            if state.burying != me:  # its beat waits for the row
                held = frozenset(run for run in state.held if run[1] != me)
                yield f"{me} beats again", state.put(slot, mode=UP)._replace(held=held)
        elif (worker.mode == FENCED or worker.mode == UP) and me not in state.rows:
            fresh = Worker(UP, worker.life + 1, going=worker.going)
            back = state.put(slot, **fresh._asdict())._replace(rows=state.rows | {other})
            yield f"{me} comes back as {other}", back
        elif (
            worker.mode == CRASHED
            and me not in state.rows
            and bounds.read
            and state.changes < bounds.changes
        ):
            heir = state.put(slot, **Worker(UP, worker.life + 1)._asdict())
            changed = heir._replace(rows=state.rows | {other}, changes=state.changes + 1)
            yield f"{other} joins, of the code of {me}", changed
        if worker.mode != UP:
            return
        if state.failures < bounds.failures:
            runs = frozenset(run for run in state.runs if run[1] != me)
            failed = _unheard(state, me)._replace(failures=state.failures + 1, runs=runs)
            yield f"{me} is fenced", failed.put(slot, mode=FENCED, waits=False, in_doubt=True)
            read = "".join(q for q, owner in self.run_by(state) if owner == me and q in bounds.read)
            dead = failed._replace(unlooked=_united(state.unlooked, read))
            yield f"{me} crashes", dead.put(slot, **Worker(CRASHED, worker.life)._asdict())
        if worker.waits and state.losses < bounds.losses:
            lossy = _unheard(state, me)._replace(losses=state.losses + 1)
            yield f"{me} gives up waiting", lossy.put(slot, waits=False, in_doubt=True)
        if sum(w.going != STAYS for w in state.workers) < bounds.leaving and me in state.rows:
            yield f"{me} begins to leave", state.put(slot, going=GIVING)
        has_any = worker.mine or worker.waits or any(x.owner == me for x in state.leases)
        has_any = has_any or any(run[1] == me for run in state.runs)
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
            suspects = (
                [x.owner or x.suspect for x in sorted(state.leases)] if self.bounds.read else []
            )
            whole = Lease(WHOLE, suspect=max(suspects, default=""))
            return state._replace(rows=rows, leases=frozenset({whole}))
        return state._replace(rows=rows)

    def start_and_end(self, state: State, slot: int, worker: Worker) -> Steps:
        me = f"{NAMES[slot]}{worker.life}"
        for queue, owner in self.run_by(state):
            is_room = len(state.runs) < self.bounds.runs
            if owner == me and is_room and self._has_turn(state, me, queue):
                yield f"{me} starts {queue}", state._replace(runs=state.runs | {(queue, me)})
        for run in sorted(state.runs):
            if run[1] == me:
                ended = state._replace(runs=state.runs - {run}, held=state.held - {run})
                yield f"{me} ends its run of {run[0]}", ended

    def _has_turn(self, state: State, me: str, queue: str) -> bool:
        """No run of mine, and no hold of another, is in the way."""
        mine = self.code(me)
        for other, owner in state.runs | state.held:
            if owner != me and (other, owner) not in state.held:
                continue  # unknown to me
            codes = [mine]
            if self.rules.held_turns_of_all_codes:
                codes = [self.code(row) for row in state.rows | {me}]
            elif other not in mine.queues:
                continue
            if other == queue or any({queue, other} <= {*turn} for c in codes for turn in c.turns):
                return False
        return True

    def look(self, state: State, slot: int, worker: Worker) -> Steps:
        """A beat: what the table says is adopted under a new epoch where memory differs."""
        me = f"{NAMES[slot]}{worker.life}"
        knows = self.code(me).knows_bands
        found = {x for x in state.leases if x.owner == me and (knows or x.band == WHOLE)}
        if worker.waits:
            return
        if {_bare(x) for x in found} == worker.mine:
            if worker.in_doubt:
                yield f"{me} looks", state.put(slot, in_doubt=False)
            return
        epoch = newest(state) + 1
        draws = self.rules.adoption_draws_epoch
        mine = frozenset(x._replace(epoch=epoch) if draws else x for x in found)
        adopted = state._replace(leases=(state.leases - found) | mine)
        had = {x.band for x in worker.mine}
        suspects = _united(worker.suspects, *(self._read(x) for x in mine if x.band not in had))
        bare = frozenset(map(_bare, mine))
        after = adopted.put(slot, mine=bare, in_doubt=False, suspects=suspects)
        yield f"{me} adopts {listed(mine)}", after

    def _read(self, lease: Lease) -> str:
        """What the dead owner of a lease had read there."""
        read = self.bounds.read if lease.suspect else ""
        return "".join(q for q in meet(read, lease.band) if q in self.code(lease.suspect).queues)

    def clear_suspects(self, state: State, slot: int, worker: Worker) -> Steps:
        """All that it can start was looked at. What it lacks is left to who has it."""
        me, code = f"{NAMES[slot]}{worker.life}", self.bounds.codes[slot]
        if not worker.suspects:
            return
        runs = {queue for queue, owner in self.run_by(state) if owner == me}
        lacks = any(queue not in code.queues for queue in worker.suspects)
        epochs = {x.epoch for x in worker.mine}
        cleared = {x for x in state.leases if x.owner == me and x.epoch in epochs}
        if lacks and self.rules.suspects_left_to_who_has_them:
            cleared = set()
        looked = {queue for queue in worker.suspects if queue in runs}
        after = state._replace(
            leases=(state.leases - cleared) | {x._replace(suspect="") for x in cleared},
            unlooked="".join(queue for queue in state.unlooked if queue not in looked),
        )
        yield f"{me} clears its suspects", after.put(slot, suspects="")

    def take(self, state: State, slot: int) -> Steps:
        me = f"{NAMES[slot]}{state.workers[slot].life}"
        code, target = self.code(me), self.engine.target(state.rows)
        for lease in sorted(state.leases):
            if lease.owner or not code.has(lease.band):
                continue
            if not code.knows_bands and lease.band != WHOLE:
                continue
            if lease.band not in target and self.rules.only_targets_are_taken and code.knows_bands:
                continue
            if code.has_all(lease.band) or self.rules.part_may_take:
                yield self._send(state, slot, "take", _bare(lease))
        is_open = not self.rules.whole_is_closed and not code.knows_bands
        if is_open and all(lease.band != WHOLE for lease in state.leases):
            yield self._send(state, slot, "take", Lease(WHOLE))

    def give(self, state: State, slot: int, worker: Worker) -> Steps:
        """Memory lets go, then the lease is freed. Which, and when, is a policy: any, at any time."""
        target = self.engine.target(state.rows)
        for lease in sorted(worker.mine):
            if not self.rules.pieces_meet and lease.band not in target:
                continue
            if worker.going == GIVEN and not self.rules.leaving_gives_again:
                continue
            first = self.rules.memory_first
            mine = worker.mine - {lease}
            going = GIVEN if worker.going and not mine else worker.going
            before = state.put(slot, mine=mine, going=going) if first else state
            yield self._send(before, slot, "give", lease)

    def _send(self, state: State, slot: int, verb: str, lease: Lease) -> tuple[str, State]:
        me = f"{NAMES[slot]}{state.workers[slot].life}"
        after = state.put(slot, waits=True)
        after = after._replace(sent=state.sent | {Sent(verb, me, lease)})
        return f"{me} sends a {verb} of {lease.band}", after

    def carry_out(self, state: State, sent: Sent) -> Steps:
        verb, by, asked, heard = sent
        if verb == "take" and state.burying == by:
            return  # it waits for its own row
        done = state._replace(sent=state.sent - {sent})
        row = self._named(state, asked.band)
        slot = NAMES.index(by[0])
        worker = state.workers[slot]
        mine, suspects = worker.mine, worker.suspects
        if (
            verb == "take"
            and row is None
            and asked.band == WHOLE
            and not self.rules.whole_is_closed
        ):
            row = Lease(WHOLE)  # beside the bands
        if verb == "take" and row is not None and not row.owner and by in state.rows:
            taken = row._replace(owner=by, epoch=newest(state) + 1)
            done = done._replace(leases=(state.leases - {row}) | {taken})
            mine = mine | {_bare(taken)._replace(band=asked.band)}
            suspects = _united(suspects, self._read(taken))
        if verb == "give":
            compares = self.rules.give_compares_epoch
            if row and row.owner == by and (row.epoch == asked.epoch or not compares):
                free = Lease(row.band, suspect=row.suspect)
                done = done._replace(leases=(state.leases - {row}) | {free})
            going = {run for run in state.runs if run[1] == by and meet(run[0], asked.band)}
            done = done._replace(held=state.held | going)
            mine = mine - {asked}
        if heard and worker.mode == UP and f"{by[0]}{worker.life}" == by:
            done = done.put(slot, waits=False, mine=mine, suspects=suspects)
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
            if self.bounds.undone_burials:
                if not state.burying:
                    yield f"{me} begins to bury {dead_id}", state._replace(burying=dead_id)
                continue
            yield f"{me} buries {dead_id}", self._buried(state, dead_id, knows=knows)
            if (
                not self.rules.burial_waits_for_recut
                and knows
                and state.losses < self.bounds.losses
            ):
                for _, after in self.recut(state, slot, worker):
                    late = after._replace(losses=state.losses + 1)
                    yield f"{me} buries {dead_id} during a recut", self._without(late, dead_id)

    def _buried(self, state: State, dead_id: str, *, knows: bool) -> State:
        freed = {x for x in state.leases if x.owner == dead_id and (knows or x.band == WHOLE)}
        suspect = dead_id if self.bounds.read else ""
        free = (state.leases - freed) | {Lease(x.band, suspect=suspect) for x in freed}
        held = frozenset(run for run in state.held if run[1] != dead_id)
        return self._without(state._replace(leases=free, held=held, burying=""), dead_id)

    def recut(self, state: State, slot: int, worker: Worker) -> Steps:
        me = f"{NAMES[slot]}{worker.life}"
        if state.burying and self.rules.rests_beside_burial:
            return
        living = state.rows - {state.burying}
        is_cut = any(lease.band != WHOLE for lease in state.leases)
        if not is_cut and len({self.code(row) for row in living}) == 1:
            return  # a whole pool of one code is not looked at: that costs nothing
        if not self.rules.workers_read_last:
            if worker.saw is None:
                yield f"{me} reads who lives", state.put(slot, saw=living)
                return
            living, state = worker.saw, state.put(slot, saw=None)
        target = self.engine.target(living)
        has_old = not all(self.code(row).knows_bands for row in living)
        if has_old and is_cut and target == [WHOLE] and not self.rules.whole_when_old_comes:
            return
        pieces = self.engine.recut(state.leases, living)
        before = {(x.band, x.owner, x.suspect) for x in state.leases}
        if pieces == before:
            if not self.rules.workers_read_last:
                yield f"{me} has nothing to recut", state
            return
        epoch = newest(state) + 1
        kept = {x for x in state.leases if (x.band, x.owner, x.suspect) in pieces}
        made = {
            Lease(band, owner, epoch if owner else 0, suspect)
            for band, owner, suspect in pieces - before
        }
        after = state._replace(leases=frozenset(kept | made))
        yield f"{me} recuts into {listed(after.leases)}", after

    # -- what must hold

    def run_by(self, state: State) -> list[tuple[str, str]]:
        """(queue, worker) of all that memory would start."""
        found = set()
        for slot, worker in enumerate(state.workers):
            if worker.mode == UP:
                for lease in worker.mine:
                    queues = meet(self.bounds.codes[slot].queues, lease.band)
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

    def one_run_a_turn(self, state: State) -> str | None:
        for queue, owner in sorted(state.runs):
            for other_queue, other in sorted(state.runs):
                turns = (*self.code(owner).turns, *self.code(other).turns)
                if owner < other and any({queue, other_queue} <= {*turn} for turn in turns):
                    return f"{owner} runs {queue} while {other} runs {other_queue} of its class"
        return None

    def suspects_known(self, state: State) -> str | None:
        for queue, owner in self.run_by(state):
            known = state.workers[NAMES.index(owner[0])].suspects
            if queue in state.unlooked and queue not in known:
                return f"{owner} would start what killed a worker of {queue} like any other visit"
        return None

    def whole_or_cut(self, state: State) -> str | None:
        bands = [lease.band for lease in state.leases]
        if WHOLE in bands and len(bands) > 1:
            return f"there is a whole lease beside {listed(state.leases)}"
        queues = "".join(bands)
        return None if len(queues) == len(set(queues)) else f"a queue is in two bands: {bands}"

    def goals(self) -> dict[str, Callable[[State], bool]]:
        return {"every band is served": self._is_served, "one code is whole": self._is_whole}

    def _living(self, state: State, *, staying: bool = False) -> list[Code]:
        return [
            code
            for code, worker in zip(self.bounds.codes, state.workers, strict=True)
            if worker.mode in (UP, FENCED) and not (staying and worker.going)
        ]

    def _is_served(self, state: State) -> bool:
        """Whatever some living worker has all of, with what takes turns, is run; of the rest some is."""
        codes = self._living(state, staying=True)
        if not codes:
            return True
        run = {
            queue
            for queue, owner in self.run_by(state)
            if state.workers[NAMES.index(owner[0])].going == STAYS
        }
        if not all(code.knows_bands for code in codes):
            return bool(run)  # a queue may wait, as before; the shard does not
        for family in families_of(tuple(codes)):
            if any(code.has_all(family) for code in codes):
                if not run >= set(family):
                    return False
            elif run.isdisjoint(family):
                return False
        return True

    def _is_whole(self, state: State) -> bool:
        codes = self._living(state)
        if len(set(codes)) > 1 and all(code.knows_bands for code in codes):
            return True
        if not self._living(state, staying=True):
            return True
        return all(lease.band == WHOLE for lease in state.leases) and bool(self.run_by(state))


def _bare(lease: Lease) -> Lease:
    """As memory has it: suspects are kept beside."""
    return lease._replace(suspect="")


def _unheard(state: State, worker_id: str) -> State:
    sent = (s._replace(heard=s.heard and s.by != worker_id) for s in state.sent)
    return state._replace(sent=frozenset(sent))


def _united(*queues: str) -> str:
    return "".join(sorted(set("".join(queues))))
