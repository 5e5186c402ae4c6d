"""What the server does with a statement of the visit protocol, when it comes to it.

Each function gives the state after it, the answer in words, and the state once the answer is
heard. Each is one step: it compares columns of rows that it locks, which PostgreSQL checks again
after a wait; what a statement knows from its snapshot alone is in the statement (`seen`, `living`).
"""

from dataclasses import dataclass

from visit_rules import Rules
from visit_state import HOLDING, NOTHING, RUNNING, UP, Lease, Run, State, Statement, Visit, listed

Result = tuple[State, str, State]
AGAIN_VERSION = 100  # versions written by "again" are the run's token plus this


@dataclass(frozen=True, slots=True)
class Server:
    rules: Rules

    def settle(self, state: State, sent: Statement) -> Result:
        run = sent.run
        assert run is not None
        knows_pass = self.rules.client_drawn_pass or run.hold_known
        own_pass = run.token if knows_pass else -1
        visit = state.visits[run.queue]
        answer = "gone"
        if visit and visit.version == run.version:
            answer = "held by another"
            if visit.run in (0, own_pass) or not self.rules.settle_respects_foreign_hold:
                answer = "settled"
                state = self._consume(state, run, visit)
        elif visit:
            answer = "superseded"
            if visit.run == own_pass and self.rules.clear_own_pass_when_superseded:
                state = state.put(run.queue, visit._replace(run=0, holder=""))
        return state, answer, state.forget(sent.slot, run)

    def _consume(self, state: State, run: Run, visit: Visit) -> State:
        fault = None
        lost = visit.offers - run.offers
        if visit.version in state.consumed:
            fault = ("version", f"version {visit.version} consumed again by run {run.token}")
        if lost and not run.again:
            fault = ("offer", f"run {run.token} deleted offer {listed(lost)} unseen")
        new = None
        if run.again:
            tokens = self.rules.token_versions
            version = AGAIN_VERSION + run.token if tokens else visit.version + 1
            new = Visit(version, visit.offers)
        consumed = state.consumed | {visit.version}
        return state.put(run.queue, new)._replace(consumed=consumed, fault=fault)

    def hold(self, state: State, sent: Statement) -> Result:
        run = sent.run
        assert run is not None
        visit = state.visits[run.queue]
        held = self._held(visit, run, sent.id) if visit else None
        if held is None:
            known = state
            for mine in state.workers[sent.slot].hand:
                if mine.token == run.token and mine.phase == HOLDING:
                    known = state.forget(sent.slot, mine)
            return state, "no row", known
        state = known = state.put(run.queue, held)
        for mine in state.workers[sent.slot].hand:
            if mine.token == run.token:
                phase = RUNNING if mine.phase == HOLDING else mine.phase
                known = state.swap(sent.slot, mine, mine._replace(phase=phase, hold_known=True))
        return state, "held", known

    def _held(self, visit: Visit, run: Run, holder: str) -> Visit | None:
        """The row with the run's hold on it, or None where the hold's condition fails."""
        if visit.version == run.version and not visit.run:
            return visit._replace(run=run.token, holder=holder)
        if visit.run == run.token and self.rules.hold_matches_own_pass:
            return visit
        return None

    def recover(self, state: State, sent: Statement) -> Result:
        run = sent.run
        assert run is not None
        visit = state.visits[run.queue]
        free = visit and visit.run and visit.holder not in sent.living
        if visit and free and (visit.run == run.token or not self.rules.recover_compares_pass):
            state = state.put(run.queue, visit._replace(run=0, holder=""))
            return state, f"hold of {visit.holder} cleared", state
        return state, "no row", state

    def give(self, state: State, sent: Statement) -> Result:
        refused = state
        lease = state.lease
        if lease.owner != sent.id or (self.rules.give_compares_epoch and lease.epoch != sent.epoch):
            return refused, "no such lease", refused
        for run in sent.runs:
            visit = state.visits[run.queue]
            held = self._held(visit, run, sent.id) if visit else None
            if held is None:
                return refused, f"run {run.token} cannot be held, refused", refused
            state = state.put(run.queue, held)
        state = state._replace(lease=Lease("", lease.epoch))
        known = state
        if state.workers[sent.slot].id == sent.id and not self.rules.drop_shard_before_give:
            known = state.change(sent.slot, epoch=0, loaded=False, foreign=NOTHING)
        return state, f"the shard is free, {len(sent.runs)} held", known

    def take(self, state: State, sent: Statement) -> Result:
        worker = state.workers[sent.slot]
        if state.lease.owner:
            return state, "no free lease", state
        if self.rules.take_locks_worker_row and sent.id not in state.living():
            return state, "its worker row is gone", state
        epoch = state.lease.epoch + 1
        state = known = state._replace(lease=Lease(sent.id, epoch))
        if worker.id == sent.id and worker.mode == UP:
            loaded, foreign = False, NOTHING
            if not self.rules.load_held_after_take:
                loaded = True
            elif not self.rules.load_in_later_statement:
                loaded, foreign = True, sent.seen
            known = state.change(sent.slot, epoch=epoch, loaded=loaded, foreign=foreign, asked=0)
        return state, f"the shard is its own under epoch {epoch}", known
