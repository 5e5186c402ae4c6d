"""The kernel's visit protocol as steps between states, each rule with a switch.

A worker's statement is a step that sends it, a step in which the server carries it out, and the
answer with that or lost; a lost answer leaves the worker to send again. What runs between a
statement's snapshot and its write is kept only where it can matter (take, recover): everything
else compares columns of the one row that it locks, which PostgreSQL checks again after a wait.

Time is in two assumptions: a worker whose beat stood still for a lease time has fenced itself,
and a beat may still arrive between that finding and the takeover. Beats of one worker are answered
in the order in which they are sent. The file is long because a protocol is read as one story.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from explorer import Invariant
from visit_rules import Bounds, Rules
from visit_server import Server
from visit_state import (
    CRASHED,
    DONE,
    FENCED,
    HOLDING,
    INVARIANTS,
    NOTHING,
    RUNNING,
    UP,
    Lease,
    Row,
    Run,
    State,
    Statement,
    Visit,
    Worker,
    listed,
)

Step = tuple[str, State]


@dataclass(frozen=True, slots=True)
class VisitProtocol:
    """Every step that the rules allow within the bounds."""

    rules: Rules
    bounds: Bounds

    def invariants(self) -> dict[str, Invariant[State]]:
        """All; but where forgotten holds are cleared, that every hold ends is a step itself."""
        chosen = dict(INVARIANTS)
        if self.rules.clear_forgotten_holds:
            del chosen["every hold ends"]
        return chosen

    def steps(self, state: State) -> Iterator[Step]:
        yield from self.offer(state)
        for slot, worker in enumerate(state.workers):
            if worker.mode == FENCED:
                yield from self.come_back(state, slot, worker)
            if worker.mode != UP:
                continue
            yield from self.load(state, slot, worker)
            yield from self.read(state, slot, worker)
            yield from self.start(state, slot, worker)
            yield from self.finish(state, slot, worker)
            yield from self.hold(state, slot, worker)
            yield from self.send_again(state, slot, worker)
            yield from self.recover(state, slot, worker)
            yield from self.clear_forgotten(state, slot, worker)
            yield from self.give(state, slot, worker)
            yield from self.take(state, slot, worker)
            yield from self.adopt(state, slot, worker)
            yield from self.take_over(state, slot, worker)
            yield from self.fail(state, slot, worker)
        for statement in state.in_flight():
            yield from self.carry_out(state, statement)

    # The user's transaction.

    def offer(self, state: State) -> Iterator[Step]:
        if state.used.offers >= self.bounds.offers:
            return
        for queue in self.bounds.queues:
            spent = state.spend("offers")
            number = spent.used.offers
            old = state.visits[queue]
            version = number if self.rules.token_versions else (old.version + 1 if old else 1)
            if old is None:
                new = Visit(version, frozenset({number}))
            elif self.rules.offer_always_writes:
                new = old._replace(version=version, offers=old.offers | {number})
            else:
                new = old._replace(offers=old.offers | {number})
            yield (
                f"offer {number} to queue {queue}: version {new.version}",
                spent.put(queue, new),
            )

    # A worker at its ordinary work.

    def load(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        """Load the rows that others hold; later again, to learn that they are free."""
        if not worker.epoch or (worker.loaded and not worker.foreign):
            return
        mine = {run.token for run in worker.hand}
        held = frozenset(
            queue
            for queue, visit in enumerate(state.visits)
            if visit and visit.run and visit.run not in mine
        )
        if not worker.loaded or held != worker.foreign:
            yield (
                f"{worker.id} loads held rows: {listed(held)}",
                state.change(slot, loaded=True, foreign=held),
            )
            if state.used.losses < self.bounds.losses:
                late = Statement("loaded", slot, worker.id, worker.epoch, seen=held)
                yield (
                    f"{worker.id} loads held rows: {listed(held)}, answer late",
                    state.spend("losses").send(late),
                )

    def read(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        """Fill the buffer. It is not emptied with the shard: that stands for late answers."""
        if not worker.epoch or not worker.loaded:
            return
        if self.rules.read_checks == "lease" and state.lease != (worker.id, worker.epoch):
            return
        if self.rules.read_checks == "worker row" and worker.id not in state.living():
            return
        in_hand = {run.queue for run in worker.hand}
        first, second = (
            visit if visit and not visit.run and queue not in in_hand else None
            for queue, visit in enumerate(state.visits)
        )
        found = (first, second)
        if found not in ((None, None), worker.buffer):
            versions = [visit.version if visit else "nothing" for visit in found]
            yield (
                f"{worker.id} reads {versions[0]} and {versions[1]}",
                state.change(slot, buffer=found),
            )

    def start(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        if not worker.epoch or not worker.loaded or worker.foreign:
            return
        if state.used.runs >= self.bounds.runs:
            return
        if any(run.phase != DONE for run in worker.hand):
            return
        for queue, visit in enumerate(worker.buffer):
            if visit is None or any(run.queue == queue for run in worker.hand):
                continue
            spent = state.spend("runs")
            hold_first = queue in self.bounds.hold_at_start
            run = Run(
                spent.used.runs,
                queue,
                visit.version,
                visit.offers,
                HOLDING if hold_first else RUNNING,
                hold_sent=hold_first,
            )
            rest = tuple(None if at == queue else other for at, other in enumerate(worker.buffer))
            started = spent.change(slot, buffer=rest, hand=worker.hand | {run})
            name = f"{worker.id} starts queue {queue} version {visit.version} as run {run.token}"
            if hold_first:
                statement = Statement("hold", slot, worker.id, run=run)
                yield f"{name}, hold first", started.send(statement)
            else:
                yield name, started

    def finish(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        for run in worker.in_hand():
            if run.phase != RUNNING:
                continue
            done = run._replace(phase=DONE)
            yield (
                f"{worker.id} finishes run {run.token}, sends its settle",
                state.swap(slot, run, done).send(Statement("settle", slot, worker.id, run=done)),
            )
            if state.used.agains < self.bounds.agains:
                again = done._replace(again=True)
                spent = state.spend("agains").swap(slot, run, again)
                yield (
                    f"{worker.id} ends run {run.token} with again, sends its settle",
                    spent.send(Statement("settle", slot, worker.id, run=again)),
                )

    def hold(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        if state.used.holds >= self.bounds.holds:
            return
        for run in worker.in_hand():
            if run.phase == RUNNING and not run.hold_sent:
                held = run._replace(hold_sent=True)
                statement = Statement("hold", slot, worker.id, run=held)
                yield (
                    f"{worker.id} sends a hold for run {run.token}",
                    state.spend("holds").swap(slot, run, held).send(statement),
                )

    def send_again(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        """Repeat what has no answer. It costs a loss while the first copy is still on its way."""
        for run in worker.in_hand():
            verb = {DONE: "settle", HOLDING: "hold"}.get(run.phase)
            if verb is None:
                continue
            statement = Statement(verb, slot, worker.id, run=run)
            name = f"{worker.id} sends the {verb} of run {run.token} again"
            if not any(
                other.verb == verb and other.run and other.run.token == run.token
                for other in state.statements
            ):
                yield name, state.send(statement)
            elif state.used.losses < self.bounds.losses:
                doubted = state.spend("losses").send(statement._replace(number=1))
                yield f"{name}, the first still on its way", doubted

    def recover(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        if not worker.epoch or state.used.recovers >= self.bounds.recovers:
            return
        for visit in state.visits:
            if visit and visit.run and visit.holder not in state.living():
                queue = state.visits.index(visit)
                run = Run(visit.run, queue, visit.version, NOTHING, DONE)
                statement = Statement("recover", slot, worker.id, run=run, living=state.living())
                yield (
                    f"{worker.id} recovers queue {queue}, held by {visit.holder} that is gone",
                    state.spend("recovers").send(statement),
                )

    def clear_forgotten(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        """At a beat: end my own holds of runs that are no longer in my hand.

        Safe at any time: a run is in the hand before its hold is sent and never comes back.
        """
        if not self.rules.clear_forgotten_holds:
            return
        mine = {run.token for run in worker.hand}
        for queue, visit in enumerate(state.visits):
            if visit and visit.holder == worker.id and visit.run not in mine:
                yield (
                    f"{worker.id} clears its forgotten hold of queue {queue}",
                    state.put(queue, visit._replace(run=0, holder="")),
                )

    # A shard changes hands.

    def give(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        if not worker.epoch or state.used.gives >= self.bounds.gives:
            return
        runs = NOTHING
        if self.rules.hold_before_give:
            counts_waiting = self.rules.give_counts_waiting_holds
            runs = frozenset(r for r in worker.hand if counts_waiting or r.phase != HOLDING)
        statement = Statement("give", slot, worker.id, worker.epoch, runs=runs)
        spent = state.spend("gives")
        if self.rules.drop_shard_before_give:
            spent = spent.change(slot, epoch=0, loaded=False, foreign=NOTHING)
        yield f"{worker.id} sends a give of epoch {worker.epoch}", spent.send(statement)

    def take(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        if worker.epoch or state.lease.owner or state.used.takes >= self.bounds.takes:
            return
        held = frozenset(q for q, visit in enumerate(state.visits) if visit and visit.run)
        spent = state.spend("takes")
        number = spent.used.takes
        statement = Statement("take", slot, worker.id, seen=held, number=number)
        if not any(other.verb == "take" and other.slot == slot for other in state.statements):
            yield (
                f"{worker.id} sends a take, its snapshot shows held: {listed(held)}",
                spent.change(slot, asked=number).send(statement),
            )

    def adopt(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        """A beat finds a lease of mine that memory does not have: a take or give unanswered."""
        if worker.epoch or state.lease.owner != worker.id:
            return
        name = f"{worker.id} finds the shard its own at a beat"
        for statement in state.statements:
            if statement.verb == "give" and statement.id == worker.id:
                if state.used.losses >= self.bounds.losses:
                    return
                state = state.spend("losses")
                name += ", its give still on its way"
                break
        if self.rules.adopt_draws_epoch:
            state = state._replace(lease=Lease(worker.id, state.lease.epoch + 1))
        loaded = not self.rules.load_held_after_adopt
        epoch = state.lease.epoch
        yield (
            f"{name}, adopts it under epoch {epoch}",
            state.change(slot, epoch=epoch, loaded=loaded, foreign=NOTHING, asked=0),
        )

    def take_over(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        other = state.rows[1 - slot]
        if not other.id or state.workers[1 - slot].id != other.id:
            return
        mode = state.workers[1 - slot].mode
        if worker.suspects < 0:
            if mode != UP or state.used.late_beats < self.bounds.late_beats:
                yield (
                    f"{worker.id} finds the beat of {other.id} standing still",
                    state.change(slot, suspects=other.beat),
                )
            elif not self.rules.fence_before_takeover:
                yield (
                    f"{worker.id} finds the beat of {other.id} standing still, unfenced",
                    state.change(slot, suspects=other.beat),
                )
            return
        moved = other.beat != worker.suspects
        if moved and self.rules.compare_and_delete_takeover:
            yield (
                f"{worker.id} deletes no row: {other.id} has beaten",
                state.change(slot, suspects=-1),
            )
        elif moved or mode != UP or not self.rules.fence_before_takeover:
            gone = state.without_row(1 - slot).change(slot, suspects=-1)
            yield f"{worker.id} takes over from {other.id}", gone

    # What goes wrong.

    def fail(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        if state.used.crashes < self.bounds.crashes:
            dead = Worker(worker.id, mode=CRASHED)
            crashed = state.spend("crashes")
            yield f"{worker.id} crashes", crashed.change(slot, **dead._asdict())
        if state.used.fences < self.bounds.fences:
            kept = frozenset(run for run in worker.hand if run.phase == DONE)
            yield (
                f"{worker.id} fences itself, stops its runs",
                state.spend("fences").change(
                    slot,
                    mode=FENCED,
                    epoch=0,
                    loaded=False,
                    foreign=NOTHING,
                    hand=kept,
                    asked=0,
                    suspects=-1,
                ),
            )
        row = state.rows[slot]
        suspected = state.workers[1 - slot].suspects == row.beat and row.id == worker.id
        if suspected and state.used.late_beats < self.bounds.late_beats:
            beaten = state.spend("late_beats").put_row(slot, row._replace(beat=row.beat + 1))
            yield f"{worker.id} beats just in time", beaten

    def come_back(self, state: State, slot: int, worker: Worker) -> Iterator[Step]:
        row = state.rows[slot]
        if row.id == worker.id and not self.rules.new_id_after_fence:
            beaten = state.put_row(slot, row._replace(beat=row.beat + 1))
            yield f"{worker.id} beats again under its old id", beaten.change(slot, mode=UP)
            return
        name = f"{worker.id[0]}{int(worker.id[1:]) + 1}"
        fresh = state.without_row(slot).put_row(slot, Row(name))
        yield f"{worker.id} comes back as {name}", fresh.change(slot, id=name, mode=UP)

    # The server.

    def carry_out(self, state: State, statement: Statement) -> Iterator[Step]:
        """The statement's effect, with its answer delivered, lost or, for a take, late."""
        if statement.verb in ("taken", "loaded"):
            yield from self._hear(state, statement)
            return
        server = Server(self.rules)
        verb = {
            "settle": server.settle,
            "hold": server.hold,
            "recover": server.recover,
            "give": server.give,
            "take": server.take,
        }[statement.verb]
        after, answer, known = verb(
            state._replace(statements=state.statements - {statement}), statement
        )
        name = f"  server: {statement.verb} of {statement.id}"
        if statement.run:
            name += f" for run {statement.run.token}"
        worker = state.workers[statement.slot]
        if worker.mode == CRASHED:
            yield f"{name}: {answer}, nobody hears it", after
            return
        yield f"{name}: {answer}", known
        if state.used.losses < self.bounds.losses:
            spent = after.spend("losses")
            yield f"{name}: {answer}, answer lost", spent
            if statement.verb == "take" and known is not after:
                late = statement._replace(verb="taken", epoch=after.lease.epoch)
                yield f"{name}: {answer}, answer late", spent.send(late)

    def _hear(self, state: State, late: Statement) -> Iterator[Step]:
        state = state._replace(statements=state.statements - {late})
        worker = state.workers[late.slot]
        name = f"{late.id} hears that it has {late.verb}"
        checks = self.rules.answers_match_requests
        if worker.mode != UP or worker.id != late.id:
            yield f"{name}, too late", state
        elif late.verb == "taken" and (worker.asked == late.number or not checks):
            yield (
                f"{name} epoch {late.epoch}",
                state.change(late.slot, epoch=late.epoch, loaded=False, asked=0),
            )
        elif late.verb == "loaded" and worker.epoch and (worker.epoch == late.epoch or not checks):
            yield (
                f"{name} held rows: {listed(late.seen)}",
                state.change(late.slot, loaded=True, foreign=late.seen),
            )
        else:
            yield f"{name}, which is an old answer", state
