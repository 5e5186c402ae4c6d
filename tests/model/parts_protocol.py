"""A queue-wide limit kept by parts: a row per worker, whose sizes add up to the limit at most.

A worker starts runs up to the size that it remembers. To change it, it locks the queue's row, reads all
parts, lets the engine's own `next_part` choose, lowers its memory to that, writes and commits. It grows
with the answer. The answer may be lost, the commit may come late or not at all, and workers crash, fence
themselves and are taken over, as in the visit protocol.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from explorer import Invariant

from mainspring.limits import Part, QueueLimits, next_part

UP, FENCED, CRASHED = "up", "fenced", "crashed"
NONE = Part(0, 0.0, False)
Steps = Iterator[tuple[str, "State"]]


class Worker(NamedTuple):
    id: str
    mode: str = UP
    size: int = 0  # as many runs as it may start
    running: int = 0
    waits: bool = False  # for the answer to its commit


class Change(NamedTuple):
    """A transaction that has the lock of the queue's row, with what it will write."""

    id: str
    slot: int
    part: Part


class State(NamedTuple):
    parts: tuple[tuple[str, Part], ...] = ()  # by worker id, sorted
    rows: tuple[str, str] = ("A1", "B1")
    workers: tuple[Worker, Worker] = (Worker("A1"), Worker("B1"))
    changes: frozenset[Change] = frozenset()  # one at most, as the lock is one
    begun: int = 0
    losses: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the parts; off, each breaks the limit or wastes it for ever."""

    read_under_queue_lock: bool = True  # off: parts are read before the lock is had
    shrink_memory_first: bool = True  # off: memory shrinks with the answer
    grow_with_the_answer: bool = True  # off: memory grows before the commit
    what_runs_is_kept: bool = True  # off: a part shrinks below what still runs
    counted_again_at_the_shrink: bool = True  # off: what starts amid the choice is not counted
    part_needs_worker_row: bool = True  # off: a late commit makes a part for a gone worker
    parts_go_with_worker_row: bool = True
    fence_before_takeover: bool = True  # off: the timing assumption itself is broken


@dataclass(frozen=True, slots=True)
class Bounds:
    limit: int = 2
    changes: int = 5
    losses: int = 1  # answers that nobody hears, and commits that never come
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

    def steps(self, state: State) -> Steps:
        for slot, worker in enumerate(state.workers):
            if worker.mode == FENCED:
                yield from self.come_back(state, slot, worker)
            if worker.mode == UP:
                yield from self.run(state, slot, worker)
                yield from self.keep(state, slot, worker)
                yield from self.take_over(state, slot, worker)
                yield from self.fail(state, slot, worker)
        for change in sorted(state.changes):
            yield from self.commit(state, change)

    def run(self, state: State, slot: int, worker: Worker) -> Steps:
        if worker.running < worker.size:
            more = worker.running + 1
            yield f"{worker.id} starts, {more} running", _change(state, slot, running=more)
        if worker.running:
            fewer = worker.running - 1
            yield f"{worker.id} ends a run, {fewer} running", _change(state, slot, running=fewer)

    def keep(self, state: State, slot: int, worker: Worker) -> Steps:
        """Lock, read, choose and shrink. After a lost answer too: the lock waits for its own commit."""
        is_locked = state.changes and self.rules.read_under_queue_lock
        is_mine = any(change.id == worker.id for change in state.changes)
        if is_locked or is_mine or worker.waits or state.begun >= self.bounds.changes:
            return
        limits = QueueLimits(self.bounds.limit, None)
        mine = dict(state.parts).get(worker.id, NONE)
        others = [part for owner, part in state.parts if owner != worker.id]
        # A run may start between the choice and the shrink.
        counts = {worker.running, max(0, worker.running - 1)}
        for wants, running in product((True, False), sorted(counts)):
            seen = running if self.rules.what_runs_is_kept else 0
            part = next_part(limits, mine, others, wants=wants, running=seen)
            if self.rules.what_runs_is_kept and self.rules.counted_again_at_the_shrink:
                part = part._replace(size=max(part.size, min(mine.size, worker.running)))
            if part == mine and worker.size == part.size:
                continue
            size = worker.size
            if self.rules.shrink_memory_first:
                size = min(mine.size, part.size)
            if not self.rules.grow_with_the_answer:
                size = part.size
            asked = _change(state, slot, size=size, waits=True)
            asked = asked._replace(begun=state.begun + 1)
            change = Change(worker.id, slot, part)
            name = f"{worker.id}, which wants {'more' if wants else 'none'}, asks for {part.size}"
            yield name, asked._replace(changes=state.changes | {change})

    def commit(self, state: State, change: Change) -> Steps:
        name, part = f"  server: {change.id} asked for {change.part.size}", change.part
        state = state._replace(changes=state.changes - {change})
        worker = state.workers[change.slot]
        hears = worker.mode == UP and worker.id == change.id and worker.waits
        is_gone = change.id not in state.rows and self.rules.part_needs_worker_row
        done = state if is_gone else _put(state, change.id, part)
        answer = "its worker row is gone" if is_gone else "it has it"
        unheard = done._replace(losses=done.losses + 1) if hears else done
        if hears:
            yield f"{name}: {answer}", _change(done, change.slot, size=part.size, waits=False)
            unheard = _change(unheard, change.slot, waits=False)
        if not hears or state.losses < self.bounds.losses:
            yield f"{name}: {answer}, nobody hears it", unheard
        if state.losses < self.bounds.losses:
            lost = state._replace(losses=state.losses + 1)
            lost = _change(lost, change.slot, waits=False) if hears else lost
            yield f"{name}: it is rolled back", lost

    def take_over(self, state: State, slot: int, worker: Worker) -> Steps:
        other = state.workers[1 - slot]
        if state.rows[1 - slot] == other.id and (
            other.mode != UP or not self.rules.fence_before_takeover
        ):
            yield f"{worker.id} takes over from {other.id}", self._without_row(state, 1 - slot)

    def fail(self, state: State, slot: int, worker: Worker) -> Steps:
        if state.failures < self.bounds.failures:
            failed = state._replace(failures=state.failures + 1)
            for mode in (CRASHED, FENCED):
                stopped = Worker(worker.id, mode)
                yield f"{worker.id} is {mode}", _change(failed, slot, **stopped._asdict())

    def come_back(self, state: State, slot: int, worker: Worker) -> Steps:
        name = f"{worker.id[0]}{int(worker.id[1:]) + 1}"
        fresh = self._without_row(state, slot)
        rows = (name, fresh.rows[1]) if slot == 0 else (fresh.rows[0], name)
        back = _change(fresh._replace(rows=rows), slot, id=name, mode=UP)
        yield f"{worker.id} comes back as {name}", back

    def _without_row(self, state: State, slot: int) -> State:
        gone = state.rows[slot]
        rows = ("", state.rows[1]) if slot == 0 else (state.rows[0], "")
        state = state._replace(rows=rows)
        return _put(state, gone, None) if self.rules.parts_go_with_worker_row else state


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
