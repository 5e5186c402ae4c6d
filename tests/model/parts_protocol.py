"""A queue-wide limit kept by parts: a row per worker, whose sizes add up to the limit at most.

A worker starts runs up to the size that it remembers. It asks for more when it needs more, and
lowers its memory before it asks to shrink. Answers get lost, statements land late, and workers
crash, fence themselves and are taken over, as in the visit protocol.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from explorer import Invariant

UP, FENCED, CRASHED = "up", "fenced", "crashed"


class Part(NamedTuple):
    """A row of the part table; `token` is written anew by every statement that changes it."""

    size: int
    token: int


class Worker(NamedTuple):
    id: str
    mode: str = UP
    size: int = 0  # as many runs as it may start
    token: int = 0  # of its part row, as it knows it
    running: int = 0
    asked: bool = False  # a statement of its own has no answer yet


class Statement(NamedTuple):
    """Sets the sender's part to `size`; `others` is the rest of the limit that its snapshot saw."""

    slot: int
    id: str
    size: int
    token: int
    others: int | None = None


class State(NamedTuple):
    parts: tuple[tuple[str, Part], ...] = ()  # by worker id, sorted
    rows: tuple[str, str] = ("A1", "B1")
    workers: tuple[Worker, Worker] = (Worker("A1"), Worker("B1"))
    statements: frozenset[Statement] = frozenset()
    changes: int = 0
    losses: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the parts; off, each breaks the limit or wastes it for ever."""

    check_under_queue_lock: bool = True  # off: the sum is taken from the statement's snapshot
    shrink_memory_first: bool = True  # off: memory shrinks with the answer
    shrink_after_running: bool = True  # off: a part shrinks below what still runs
    change_compares_token: bool = True  # off: a late statement sets an old size
    reread_draws_token: bool = True  # off: a part re-read at a beat keeps its token
    grow_locks_worker_row: bool = True  # off: a late statement makes a part for a gone worker
    parts_go_with_worker_row: bool = True
    fence_before_takeover: bool = True  # off: the timing assumption itself is broken


@dataclass(frozen=True, slots=True)
class Bounds:
    limit: int = 2
    changes: int = 4
    losses: int = 1
    failures: int = 0  # crashes and fences


@dataclass(frozen=True, slots=True)
class PartsProtocol:
    rules: Rules
    bounds: Bounds

    def invariants(self) -> dict[str, Invariant[State]]:
        limit = self.bounds.limit
        return {
            "runs keep the limit": lambda state: runs_keep_the_limit(state, limit),
            "parts add up": lambda state: parts_add_up(state, limit),
            "no part outlives its worker": no_part_outlives_its_worker,
        }

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for slot, worker in enumerate(state.workers):
            if worker.mode == FENCED:
                yield from self.come_back(state, slot, worker)
            if worker.mode == UP:
                yield from self.run(state, slot, worker)
                yield from self.ask(state, slot, worker)
                yield from self.reread(state, slot, worker)
                yield from self.take_over(state, slot, worker)
                yield from self.fail(state, slot, worker)
        for statement in sorted(state.statements):
            yield from self.carry_out(state, statement)

    def run(self, state: State, slot: int, worker: Worker) -> Iterator[tuple[str, State]]:
        if worker.running < worker.size:
            more = worker.running + 1
            yield f"{worker.id} starts, {more} running", _change(state, slot, running=more)
        if worker.running:
            fewer = worker.running - 1
            yield f"{worker.id} ends a run, {fewer} running", _change(state, slot, running=fewer)

    def ask(self, state: State, slot: int, worker: Worker) -> Iterator[tuple[str, State]]:
        if worker.asked or state.changes >= self.bounds.changes:
            return
        for size in (worker.size - 1, worker.size + 1):
            if not 0 <= size <= self.bounds.limit:
                continue
            shrinks = size < worker.size
            if shrinks and self.rules.shrink_after_running and worker.running > size:
                continue
            asked = state._replace(changes=state.changes + 1)
            asked = _change(asked, slot, asked=True)
            if shrinks and self.rules.shrink_memory_first:
                asked = _change(asked, slot, size=size)
            others = None if self.rules.check_under_queue_lock else _others(state, worker.id)
            sent = Statement(slot, worker.id, size, worker.token, others)
            yield (
                f"{worker.id} asks for a part of {size}",
                asked._replace(statements=asked.statements | {sent}),
            )

    def reread(self, state: State, slot: int, worker: Worker) -> Iterator[tuple[str, State]]:
        """At a beat, after an answer did not come: take the part as it is in the table."""
        if not worker.asked or worker.id not in state.rows:
            return
        late = any(sent.slot == slot and sent.id == worker.id for sent in state.statements)
        if late:
            if state.losses >= self.bounds.losses:
                return
            state = state._replace(losses=state.losses + 1)
        part = dict(state.parts).get(worker.id, Part(0, 0))
        if self.rules.reread_draws_token:
            part = part._replace(token=_fresh_token(state))
            state = _put(state, worker.id, part)
        yield (
            f"{worker.id} re-reads its part, {part.size}" + (", its ask still on its way" * late),
            _change(state, slot, size=part.size, token=part.token, asked=False),
        )

    def take_over(self, state: State, slot: int, worker: Worker) -> Iterator[tuple[str, State]]:
        other = state.workers[1 - slot]
        if state.rows[1 - slot] == other.id and (
            other.mode != UP or not self.rules.fence_before_takeover
        ):
            yield f"{worker.id} takes over from {other.id}", self._without_row(state, 1 - slot)

    def fail(self, state: State, slot: int, worker: Worker) -> Iterator[tuple[str, State]]:
        if state.failures < self.bounds.failures:
            failed = state._replace(failures=state.failures + 1)
            for mode in (CRASHED, FENCED):
                stopped = Worker(worker.id, mode)
                yield f"{worker.id} is {mode}", _change(failed, slot, **stopped._asdict())

    def come_back(self, state: State, slot: int, worker: Worker) -> Iterator[tuple[str, State]]:
        name = f"{worker.id[0]}{int(worker.id[1:]) + 1}"
        fresh = self._without_row(state, slot)
        rows = (name, fresh.rows[1]) if slot == 0 else (fresh.rows[0], name)
        yield (
            f"{worker.id} comes back as {name}",
            _change(fresh._replace(rows=rows), slot, id=name, mode=UP),
        )

    def _without_row(self, state: State, slot: int) -> State:
        gone = state.rows[slot]
        rows = ("", state.rows[1]) if slot == 0 else (state.rows[0], "")
        state = state._replace(rows=rows)
        return _put(state, gone, None) if self.rules.parts_go_with_worker_row else state

    def carry_out(self, state: State, sent: Statement) -> Iterator[tuple[str, State]]:
        state = state._replace(statements=state.statements - {sent})
        name = f"  server: {sent.id} wants {sent.size}"
        old = dict(state.parts).get(sent.id, Part(0, 0))
        others = _others(state, sent.id) if sent.others is None else sent.others
        worker = state.workers[sent.slot]
        hears = worker.mode == UP and worker.id == sent.id and worker.asked
        known = state
        if sent.id not in state.rows and self.rules.grow_locks_worker_row:
            answer = "its worker row is gone"
        elif old.token != sent.token and self.rules.change_compares_token:
            answer = "its token is old"
        elif sent.size > old.size and others + sent.size > self.bounds.limit:
            answer = "no more is free"
            if hears:
                known = _change(state, sent.slot, asked=False)
        else:
            answer = "it has it"
            token = _fresh_token(state)
            known = state = _put(state, sent.id, Part(sent.size, token))
            if hears:
                known = _change(state, sent.slot, size=sent.size, token=token, asked=False)
        if hears:
            yield f"{name}: {answer}", known
        if not hears or state.losses < self.bounds.losses:
            spent = state._replace(losses=state.losses + 1) if hears else state
            yield f"{name}: {answer}, nobody hears it", spent


def parts_add_up(state: State, limit: int) -> str | None:
    total = sum(part.size for _, part in state.parts)
    return f"parts add up to {total} of {limit}" if total > limit else None


def runs_keep_the_limit(state: State, limit: int) -> str | None:
    total = sum(worker.running for worker in state.workers if worker.mode == UP)
    return f"{total} runs at once under a limit of {limit}" if total > limit else None


def no_part_outlives_its_worker(state: State) -> str | None:
    for owner, part in state.parts:
        if part.size and owner not in state.rows:
            return f"{part.size} of the limit is left to {owner}"
    return None


def _others(state: State, me: str) -> int:
    return sum(part.size for owner, part in state.parts if owner != me)


def _fresh_token(state: State) -> int:
    """One that nobody holds: tokens are only compared for equality, so small ones come back."""
    held = {part.token for _, part in state.parts} | {worker.token for worker in state.workers}
    held |= {sent.token for sent in state.statements}
    return next(token for token in range(1, len(held) + 2) if token not in held)


def _put(state: State, owner: str, part: Part | None) -> State:
    parts = dict(state.parts)
    parts.pop(owner, None)
    if part is not None:
        parts[owner] = part
    return state._replace(parts=tuple(sorted(parts.items())))


def _change(state: State, slot: int, **fields: Any) -> State:
    first, second = state.workers
    if slot == 0:
        return state._replace(workers=(first._replace(**fields), second))
    return state._replace(workers=(first, second._replace(**fields)))
