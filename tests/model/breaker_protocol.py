"""A breaker of a queue in one worker: what it counts, when it halts, and how an answer frees it.

The rules, each of which a test switches off:

1.  *Halts.* A worker that has seen the last failure that the breaker waits for, or the failure of a trial,
    starts nothing more until the database has said how things stand.
2.  *In a row.* A success between two failures begins the count anew, wherever those are: to be told, on
    their way, or in the database.
3.  *Not lost.* What could not be told is told later.
4.  *Late.* A breaker that is open does not hear of failures of runs that began before.
5.  *Two reads.* A read of the settings may have been under way when the answer came: the one after it
    counts.
6.  *Fresh.* Such a read does not take back what the answer said.
7.  *Freed.* An answer that opens nothing lets the queue run on.

What is explored is the engine's own `Judgement`, its tally and its queue; a rule of theirs is switched off
by a subclass. The statements are modelled, and their rules with them (breakers/sql). Time is in ticks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mainspring.breakers.breaker import Breaker
from mainspring.breakers.counts import Count, Key
from mainspring.breakers.judgement import BreakerTuning, Counted, Judgement
from mainspring.kernel.outcome import DONE, Retry
from mainspring.kernel.run.queue import QueueState
from mainspring.kernel.visit import Run
from visits import queue, visit

KEY: Key = ("ring", "")
ENOUGH = 2  # failures in a row
PAUSE = 1  # ticks
TRUSTED = 4
TUNING = BreakerTuning(trusted=TRUSTED, known=math.inf)
VISIT = visit("a")
Steps = Iterator[tuple[str, "State"]]


class Row(NamedTuple):
    """The breaker in the database."""

    failures: int = 0
    until: int | None = None  # None: it is not open
    at_once: int = 1


class Told(NamedTuple):
    """Counts of the worker: failures, when the last began, successes, when the last of those began."""

    failures: int
    failed_at: float
    successes: int
    succeeded_at: float


class Memory(NamedTuple):
    tally: Told | None = None
    telling: Told | None = None
    known: int | None = None
    open: bool = False
    halted: float = 0
    paused: bool = False
    at_once: int | None = None
    fresh: bool = False


class State(NamedTuple):
    memory: Memory = Memory()
    row: Row | None = None
    clock: int = 1
    started: int = 0
    running: tuple[int, ...] = ()  # when each began
    answer: str = ""  # of what is on its way: '', 'none', or failures and whether it is open
    looks: bool = False  # the settings are to be read
    read: tuple[Row | None, int] | None = None  # a read under way: what it has seen, and when
    losses: int = 0
    # Ghosts: failures in a row as they ended, the most of them since it last opened, a trial that failed.
    in_row: int = 0
    most: int = 0
    trial_failed: bool = False
    heard: bool = False  # the worker was answered that it is open
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """Off, each starts too much, opens too early, or halts for ever."""

    halts: bool = True
    counts_what_is_on_its_way: bool = True
    a_success_begins_anew: bool = True
    puts_back: bool = True
    late_is_not_heard: bool = True
    waits_for_two_reads: bool = True
    an_answer_is_fresh: bool = True
    an_answer_frees: bool = True


@dataclass(frozen=True, slots=True)
class Bounds:
    starts: int = 4
    clock: int = 3
    losses: int = 1


def judgement_by(rules: Rules) -> type[Judgement]:
    """The engine's, without the rules that are off."""

    class Ruled(Judgement):
        def _halt(self, key: Key, reads: int | None = None) -> None:
            if reads is None and not rules.halts:
                return
            if reads == 2 and not rules.waits_for_two_reads:
                reads = 1
            if reads == 2 and key not in self._open and not rules.an_answer_frees:
                return
            super()._halt(key, reads)

        def _is_counted(self, key: Key) -> bool:
            if rules.counts_what_is_on_its_way:
                return super()._is_counted(key)
            return key in self._known or key in self._tally

        def answered(self, taken: object, answers: object) -> None:
            super().answered(taken, answers)  # type: ignore[arg-type]
            if not rules.an_answer_is_fresh:
                self._fresh.clear()

        def not_told(self, taken: object) -> None:
            super().not_told(taken if rules.puts_back else ())  # type: ignore[arg-type]

    return Ruled


class BreakerProtocol:
    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self.rules = rules
        self.bounds = bounds
        settings = queue("ring", breaker=Breaker(failures=ENOUGH, pause=PAUSE))
        self.queue = QueueState(settings)
        self.looks = False
        kind = judgement_by(rules)
        self.judgement = kind({"ring": self.queue}, look=self._look, tuning=TUNING)

    def _look(self) -> None:
        self.looks = True

    # -- the worker's memory

    def recall(self, state: State) -> Judgement:
        memory, found, here = state.memory, self.judgement, self.queue
        self.looks = state.looks
        found._tally._counts = {} if memory.tally is None else {KEY: _count(memory.tally)}
        found._telling = {} if memory.telling is None else {KEY: _count(memory.telling)}
        found._known = {} if memory.known is None else {KEY: (memory.known, 0.0)}
        found._open = {KEY} if memory.open else set()
        found._fresh = {KEY} if memory.fresh else set()
        here.halted, here.running = memory.halted, len(state.running)
        here.limit(paused=memory.paused, concurrency=memory.at_once, rate=None, judged=True)
        here.part = memory.at_once or 0
        return found

    def remembered(self, state: State) -> State:
        found, here = self.judgement, self.queue
        tally, telling = found._tally._counts.get(KEY), found._telling.get(KEY)
        memory = Memory(
            None if tally is None else _told(tally),
            None if telling is None else _told(telling),
            found._known[KEY][0] if KEY in found._known else None,
            KEY in found._open,
            here.halted,
            here.paused,
            here.concurrency,
            KEY in found._fresh,
        )
        return state._replace(memory=memory, looks=self.looks)

    # -- what happens

    def steps(self, state: State) -> Steps:
        if state.wrong:
            return
        yield from self.start(state)
        yield from self.end(state)
        yield from self.tell(state)
        yield from self.read(state)
        if state.clock < self.bounds.clock:
            # Whoever is paused for a time reads the settings at its end.
            yield "a tick", state._replace(clock=state.clock + 1, looks=True)

    def start(self, state: State) -> Steps:
        if state.started >= self.bounds.starts:
            return
        self.recall(state)
        now = float(state.clock)
        if self.queue.ready_at(now) <= now:
            wrong = "a run starts after the last failure" if state.in_row >= ENOUGH else ""
            row = state.row
            if state.heard and row is not None and (row.until or 0) > state.clock:
                wrong = "a run starts though it is open"
            if state.trial_failed:
                wrong = "a run starts after a trial has failed"
            started = state._replace(
                started=state.started + 1, running=(*state.running, state.clock), wrong=wrong
            )
            yield "a run starts", started

    def end(self, state: State) -> Steps:
        for began in dict.fromkeys(state.running):
            left = list(state.running)
            left.remove(began)
            rest = state._replace(running=tuple(left))
            for failed in (False, True):
                run = Run(VISIT, 1, float(began), float(began))
                run.end(Retry(1.0, "E", "refused") if failed else DONE, 0.0)
                self.recall(rest).ended([run])
                after = self.remembered(rest)
                row = state.row
                if not failed:
                    after = after._replace(in_row=0)
                elif row is None or row.until is None:
                    count = state.in_row + 1
                    after = after._replace(in_row=count, most=max(state.most, count))
                elif row.until <= state.clock and began >= row.until:
                    after = after._replace(trial_failed=True)
                yield f"a run of {began} {'fails' if failed else 'succeeds'}", after

    def tell(self, state: State) -> Steps:
        if state.memory.telling is None:
            if state.memory.tally is not None:
                self.recall(state).take()
                yield "the worker tells", self.remembered(state)
            return
        if not state.answer:
            yield "it is counted", self.counted(state, state.memory.telling)
            if state.losses < self.bounds.losses:
                self.recall(state).not_told([(KEY, _count(state.memory.telling))])
                lost = self.remembered(state)
                yield "it cannot be told", lost._replace(losses=state.losses + 1)
            return
        answers, is_open = [], state.heard
        if state.answer != "none":
            failures, is_open = json.loads(state.answer)
            answers = [Counted(*KEY, failures, is_open, None)]
        self.recall(state).answered([(KEY, _count(state.memory.telling))], answers)
        yield "the worker is answered", self.remembered(state)._replace(answer="", heard=is_open)

    def counted(self, state: State, told: Told) -> State:
        """count_failures.sql and count_successes.sql."""
        row, now = state.row, state.clock
        if told.failures:
            row = row or Row()
            is_open = row.until is not None
            anew = told.successes > 0 and self.rules.a_success_begins_anew
            failures = told.failures + (0 if anew else row.failures)
            heard = told.failed_at >= (row.until or 0) or not self.rules.late_is_not_heard
            tried = row.until is not None and row.until <= now and heard
            opens = tried or (not is_open and failures >= ENOUGH)
            wrong = ""
            if opens and not is_open and state.most < ENOUGH:
                wrong = f"{failures} failures, but only {state.most} in a row"
            if tried and not state.trial_failed:
                wrong = "no trial has failed"
            after = Row(failures, now + PAUSE, 1) if opens else row._replace(failures=failures)
            answer = json.dumps([failures, after.until is not None])
            state = state._replace(row=after, answer=answer, wrong=wrong)
            if opens:
                return state._replace(in_row=0, most=0, trial_failed=False, looks=True)
            return state
        state = state._replace(answer="none")
        if row is None:
            return state
        if row.until is None:
            return state._replace(row=None, most=state.in_row)
        if row.until > now or told.succeeded_at < row.until:
            return state
        at_once = row.at_once * 2**told.successes
        closed = at_once >= TRUSTED
        return state._replace(row=None if closed else row._replace(at_once=at_once), looks=True)

    def read(self, state: State) -> Steps:
        if state.read is None:
            if state.looks:
                seen = state._replace(read=(state.row, state.clock), looks=False)
                yield "the settings are read", seen
            return
        row, now = state.read
        shown, is_open = None, row is not None and row.until is not None
        left = 0 if row is None or row.until is None else row.until - now
        if row is not None:
            shown = json.dumps([["", row.failures, is_open, left, row.at_once]])
        found = self.recall(state)
        found.read(self.queue, ENOUGH, shown)
        at_once = row.at_once if row is not None and is_open else None
        self.queue.limit(paused=is_open and left > 0, concurrency=at_once, rate=None, judged=True)
        yield "they are applied", self.remembered(state)._replace(read=None)


def wrong(state: State) -> str | None:
    return state.wrong or None


def heard(state: State) -> str | None:
    """What is told is not lost."""
    memory, row = state.memory, state.row
    quiet = memory.tally is None and memory.telling is None
    is_open = row is not None and row.until is not None
    if quiet and state.in_row >= ENOUGH and not is_open:
        return f"{state.in_row} failures in a row, and nobody tells of them"
    return None


def goes_on(state: State) -> str | None:
    """Who halts waits for something."""
    memory = state.memory
    waits = memory.tally or memory.telling or state.looks or state.read is not None
    return "the queue is halted for ever" if memory.halted and not waits else None


INVARIANTS = {"breakers judge right": wrong, "failures are told": heard, "halts end": goes_on}


def _count(told: Told) -> Count:
    failures, failed_at, successes, succeeded_at = told
    return Count(failures, failed_at, "", successes, succeeded_at)


def _told(count: Count) -> Told:
    return Told(count.failures, count.failed_at, count.successes, count.succeeded_at)
