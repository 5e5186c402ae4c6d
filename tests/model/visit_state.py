"""What the visit protocol's model remembers, and what must be true of it.

One shard with one key: two queues of one turn class, as two stages of one entity. Two processes,
A and B; a process takes a new worker id each time it comes back, so ids read A1, A2, B1. Tokens
are small numbers here: an offer's version is the offer's number, a run's token is the run's.
"""

from typing import Any, NamedTuple

UP, FENCED, CRASHED = "up", "fenced", "crashed"
NOTHING: frozenset[Any] = frozenset()
HOLDING, RUNNING, DONE = "waits for its hold", "running", "done"


class Visit(NamedTuple):
    """A row of the visit table; `run` and `holder` are its hold, 0 and "" without one."""

    version: int
    offers: frozenset[int]  # ghost: every offer merged into the row
    run: int = 0
    holder: str = ""


class Run(NamedTuple):
    """A visit in a worker's hand, from its start until its settle is answered."""

    token: int
    queue: int
    version: int
    offers: frozenset[int]  # ghost: the offers that the run has seen
    phase: str
    hold_sent: bool = False
    hold_known: bool = False  # the answer to the hold has arrived
    again: bool = False  # settled by a new due time instead of a delete


class Worker(NamedTuple):
    """A process's memory. `epoch` 0 means that it does not believe to own the shard."""

    id: str
    mode: str = UP
    epoch: int = 0
    loaded: bool = False  # it has read the shard's held rows since it got the shard
    foreign: frozenset[int] = frozenset()  # queues whose row it knows to be held by others
    buffer: tuple[Visit | None, Visit | None] = (None, None)  # rows as read, maybe long ago
    hand: frozenset[Run] = frozenset()
    asked: int = 0  # the number of the take that it waits for
    suspects: int = -1  # the other's beat when it was found standing still; -1 for none

    def in_hand(self) -> list[Run]:
        return sorted(self.hand, key=lambda run: run.token)


class Statement(NamedTuple):
    """Sent, and not yet carried out by the server; it outlives its sender.

    "taken" and "loaded" are answers that are late: they left the server and have not arrived.
    """

    verb: str
    slot: int
    id: str
    epoch: int = 0
    run: Run | None = None
    runs: frozenset[Run] = frozenset()  # give: what it holds on the way
    seen: frozenset[int] = frozenset()  # queues held in its snapshot
    living: frozenset[str] = frozenset()  # worker rows in its snapshot
    number: int = 0  # take: which one; settle and hold: 1 for a copy sent while the first flies


class Lease(NamedTuple):
    owner: str
    epoch: int


class Row(NamedTuple):
    """A row of the worker table; an empty id means that there is none."""

    id: str
    beat: int = 0


class Used(NamedTuple):
    """How much of each bound is spent; the names are those of `Bounds`."""

    offers: int = 0
    runs: int = 0
    holds: int = 0
    agains: int = 0
    losses: int = 0
    crashes: int = 0
    fences: int = 0
    late_beats: int = 0
    gives: int = 0
    takes: int = 0
    recovers: int = 0


class State(NamedTuple):
    visits: tuple[Visit | None, Visit | None] = (None, None)
    lease: Lease = Lease("A1", 1)
    rows: tuple[Row, Row] = (Row("A1"), Row("B1"))
    workers: tuple[Worker, Worker] = (Worker("A1", epoch=1, loaded=True), Worker("B1"))
    statements: frozenset[Statement] = frozenset()
    used: Used = Used()
    consumed: frozenset[int] = frozenset()  # ghost: versions that a settle has consumed
    fault: tuple[str, str] | None = None  # ghost: (invariant, what a step did against it)

    def living(self) -> frozenset[str]:
        return frozenset(row.id for row in self.rows if row.id)

    def in_flight(self) -> list[Statement]:
        """In an order of its own, so that a search gives the same trace each time."""
        return sorted(self.statements, key=_statement_order)

    def spend(self, what: str) -> "State":
        used = self.used
        return self._replace(used=used._replace(**{what: getattr(used, what) + 1}))

    def send(self, statement: Statement) -> "State":
        return self._replace(statements=self.statements | {statement})

    def put(self, queue: int, visit: Visit | None) -> "State":
        first, second = self.visits
        return self._replace(visits=(visit, second) if queue == 0 else (first, visit))

    def put_row(self, slot: int, row: Row) -> "State":
        first, second = self.rows
        return self._replace(rows=(row, second) if slot == 0 else (first, row))

    def without_row(self, slot: int) -> "State":
        """Delete a worker row and free its lease, in one transaction."""
        gone = self.rows[slot].id
        state = self.put_row(slot, Row(""))
        if gone and state.lease.owner == gone:
            state = state._replace(lease=Lease("", state.lease.epoch))
        return state

    def change(self, slot: int, **fields: Any) -> "State":
        first, second = self.workers
        if slot == 0:
            return self._replace(workers=(first._replace(**fields), second))
        return self._replace(workers=(first, second._replace(**fields)))

    def swap(self, slot: int, old: Run, new: Run) -> "State":
        return self.change(slot, hand=self.workers[slot].hand - {old} | {new})

    def forget(self, slot: int, run: Run) -> "State":
        """Take the run out of the hand, whatever the worker has learnt of it since."""
        hand = self.workers[slot].hand
        return self.change(slot, hand=frozenset(r for r in hand if r.token != run.token))


def _statement_order(statement: Statement) -> tuple[str, str, int, int]:
    token = statement.run.token if statement.run else 0
    return (statement.verb, statement.id, token, statement.number)


def listed(numbers: frozenset[int]) -> str:
    return ", ".join(str(number) for number in sorted(numbers)) or "none"


def no_offer_is_lost(state: State) -> str | None:
    """A deleted visit's run saw every offer merged into the visit."""
    return state.fault[1] if state.fault and state.fault[0] == "offer" else None


def a_version_is_consumed_once(state: State) -> str | None:
    return state.fault[1] if state.fault and state.fault[0] == "version" else None


def a_shard_has_one_owner(state: State) -> str | None:
    """Stricter than "memory and lease row agree": nobody else may even believe it."""
    owners = [worker.id for worker in state.workers if worker.mode == UP and worker.epoch]
    return f"{owners[0]} and {owners[1]} both own the shard" if len(owners) > 1 else None


def memory_agrees_with_the_lease(state: State) -> str | None:
    """Not a promise of the protocol, but what makes a lease check in every read needless."""
    for worker in state.workers:
        if worker.mode == UP and worker.epoch and state.lease != (worker.id, worker.epoch):
            return f"{worker.id} believes in epoch {worker.epoch}, the table has {state.lease}"
    return None


def a_turn_has_one_run(state: State) -> str | None:
    runs = [
        f"queue {run.queue} in {worker.id}"
        for worker in state.workers
        if worker.mode == UP
        for run in worker.hand
        if run.phase == RUNNING
    ]
    return f"{' and '.join(sorted(runs))} run at once" if len(runs) > 1 else None


def every_hold_ends(state: State) -> str | None:
    """A held row has a run that will settle it, or a holder whose row goes away."""
    for queue, visit in enumerate(state.visits):
        if visit is None or not visit.run or _will_end(state, visit):
            continue
        return f"queue {queue} stays held by run {visit.run} that {visit.holder} has forgotten"
    return None


def _will_end(state: State, visit: Visit) -> bool:
    for worker in state.workers:
        if worker.id == visit.holder and worker.mode == UP:
            known = any(run.token == visit.run for run in worker.hand)
            return known or any(
                statement.verb == "settle" and statement.run and statement.run.token == visit.run
                for statement in state.statements
            )
    return True


def every_shard_can_be_taken(state: State) -> str | None:
    """A lease names nobody, or a worker whose row is there to beat or to be taken over."""
    owner = state.lease.owner
    return f"the shard is left to {owner}" if owner and owner not in state.living() else None


INVARIANTS = {
    "no offer is lost": no_offer_is_lost,
    "a version is consumed once": a_version_is_consumed_once,
    "a shard has one owner": a_shard_has_one_owner,
    "a turn has one run": a_turn_has_one_run,
    "every hold ends": every_hold_ends,
    "every shard can be taken": every_shard_can_be_taken,
}
