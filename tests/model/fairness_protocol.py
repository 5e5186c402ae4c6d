"""Fairness: which of the visits that wait in one worker starts next, and that none waits in vain.

The rules, each of which a test switches off (docs/design/kernel.md has them in the same order):

1.  *Slots.* Never are more runs in slots than there are. Who needs none starts beside them when all are
    taken: the engine's own work, a few at once, and queues that have slots of their own.
2.  *Own slots.* A queue with slots of its own has at most so many runs, and takes none of the worker's.
3.  *Order.* Of those that may start the greatest priority goes first, within it the oldest. A visit that
    follows one that has just ended in its place is the one that a choice would find.
4.  *Shares.* Queues with a share have together at most that share of the slots: a queue counts those of no
    greater share than its own, and the greatest share counts all.
5.  *Starts.* They have at least the greatest share of the starts, whatever waits with greater priority:
    each start earns them that part of one, up to one, and a whole one is owed.
6.  *Reserved slots.* Of the last slots (a quarter) each is left to a queue that leaves slots and has none.
    Only a queue that has a run already is kept back by that. What the engine runs itself is short and
    not counted.
7.  *Background.* While other work is about, a quarter as many starts of background priorities as there are
    slots are unsettled. A start counts no longer than a moment, and not at all if it was owed to a share.
8.  *Endpoints.* While one is away nothing of its queues starts. When it is back one run goes first, of all
    its queues together; each success lets twice as many go.
9.  *Nobody waits in vain.* What none of these keeps back is started by the next look of a slot. A slot
    looks after each event that may let one start, and when the time comes that was named to it.
10. *Nobody starves.* Who has no run is passed by a younger visit of its priority only if its endpoint is
    away or just back, or it needs a slot and the other does not, or shares are full and the other has
    none, or the start was owed.

The runner's part is modelled: it looks (`turn`) with a free slot, or beside; a run ends at once, and is
followed, or it waits. What answers is the engine's own buffer, choice, fairness, queues and endpoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from driven_buffer import TUNING, Driven, Kinds, Memory, Offered, is_away, leaves, waiting

from mainspring.kernel.run.fairness import BACKGROUND_BELOW
from mainspring.kernel.settings import QueueSettings

SLOT, BESIDE, OWN = "in a slot", "beside", "in a slot of its own"
ALL, ONLY_BESIDE = "all", "beside"  # who looks
Steps = Iterator[tuple[str, "State"]]


class Running(NamedTuple):
    visit: Offered
    place: str


class State(NamedTuple):
    memory: Memory
    clock: int = 0
    offered: tuple[int, ...] = ()  # so many of each queue
    running: tuple[Running, ...] = ()
    begun: Running | None = None  # has just started: it ends at once, or waits
    unsettled: tuple[Offered, ...] = ()
    looks: str = ""  # a slot is about to look for more
    alarm: float = math.inf
    left: int = 0  # times that the endpoint went away
    # Ghosts: what the rules speak of, counted apart from the engine.
    live_until: int = -1
    background: tuple[tuple[int, int], ...] = ()  # starts that count, and until when each does
    credit: float = 0.0  # starts that are owed to shares
    starts: tuple[int, int] = (0, 0)  # of all and of shares, while one of a share could start
    most: int | None = None  # runs at once that the endpoint should have
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The queues, in the order of their greatest priority; each is `priority` and so many `visits`."""

    queues: Mapping[str, Mapping[str, Any]]
    slots: int = 1
    clock: int = 0
    leaves: int = 0  # times that the endpoint goes away
    at_once: bool = False  # all is offered before anything starts


class FairnessProtocol:
    def __init__(self, kinds: Kinds, bounds: Bounds) -> None:
        self.bounds = bounds
        settings = {
            name: {k: v for k, v in of.items() if k not in ("priority", "visits")}
            for name, of in bounds.queues.items()
        }
        self.driven = Driven(settings, bounds.slots, kinds)
        self.settings = {name: q.settings for name, q in self.driven.buffer.queues.items()}
        self.shares = {n: s.share for n, s in self.settings.items() if s.share is not None}
        self.share = max(self.shares.values(), default=0.0)
        self.few = max(1, bounds.slots // TUNING.background_part)
        leaving = any(s.leaves_slots for s in self.settings.values())
        self.spare = bounds.slots // TUNING.spare_part if leaving else 0

    def start(self) -> State:
        state = State(self.driven.memory(), offered=(0,) * len(self.bounds.queues))
        if self.bounds.at_once:
            for at, (name, of) in enumerate(self.bounds.queues.items()):
                for _ in range(of["visits"]):
                    state = self._offered(state, at, name, of["priority"])
        return state

    def steps(self, state: State) -> Steps:
        if state.begun is not None:
            yield from self.begin(state, state.begun)
            return
        if state.looks:
            yield from self.turn(state)
        yield from self.offer(state)
        yield from self.end(state)
        yield from self.settle(state)
        yield from self.tick(state)
        yield from self.meet_endpoint(state)

    # -- what happens

    def offer(self, state: State) -> Steps:
        for at, (name, of) in enumerate(self.bounds.queues.items()):
            if state.offered[at] < of["visits"]:
                yield f"{name} is offered", self._offered(state, at, name, of["priority"])

    def _offered(self, state: State, at: int, name: str, priority: int) -> State:
        made = Offered(sum(state.offered), name, priority)
        is_live = priority >= BACKGROUND_BELOW and not self.settings[name].beside
        return state._replace(
            memory=self.driven.offer(state.memory, made, state.clock),
            offered=tuple(n + (i == at) for i, n in enumerate(state.offered)),
            looks=ALL,
            live_until=state.clock + int(TUNING.live) if is_live else state.live_until,
        )

    def turn(self, state: State) -> Steps:
        """Runner.fill, and then a slot's look."""
        can_start, next_at = self.driven.can_start(state.memory, state.clock)
        rests = state._replace(looks="")
        free = self.bounds.slots - in_place(state, SLOT)
        if state.looks == ONLY_BESIDE:
            beside = True
        elif not can_start:
            yield "nothing can start", rests._replace(alarm=min(state.alarm, next_at))
            return
        elif free:
            beside = False
        elif in_place(state, BESIDE) < TUNING.beside:
            beside = True
        else:
            yield "all slots are taken", rests
            return
        found, memory, next_at = self.driven.pop(state.memory, state.clock, beside=beside)
        if found is None:
            yield "nothing is found", rests._replace(memory=memory, alarm=min(state.alarm, next_at))
            return
        place = BESIDE if beside else SLOT
        if self.settings[found.queue].slots is not None:
            place = OWN
        yield (
            f"{told(found)} starts {place}",
            self._started(state, state, Running(found, place), beside)._replace(memory=memory),
        )

    def begin(self, state: State, run: Running) -> Steps:
        rests = state._replace(
            begun=None, memory=self.driven.forgets_the_choice(state.memory), looks=ALL
        )
        waits = rests._replace(running=tuple(sorted((*state.running, run))))
        yield f"{told(run.visit)} waits", waits
        ended = state._replace(begun=None, unsettled=_with(state.unsettled, run.visit))
        name = f"{told(run.visit)} ends at once"
        if run.place != OWN:
            found, memory = self.driven.another(state.memory, state.clock)
            if found is not None:
                # As a choice would have it: the place of the one that ended is free.
                before = rests._replace(memory=self.driven.ended(state.memory, run.visit), looks="")
                begun = Running(found, run.place)
                followed = self._started(ended, before, begun, run.place == BESIDE)
                yield f"{name}, and {told(found)} follows", followed._replace(memory=memory)
                return
        yield name, self._over(ended, run)

    def end(self, state: State) -> Steps:
        for run in dict.fromkeys(state.running):
            left = list(state.running)
            left.remove(run)
            rest = state._replace(running=tuple(left))
            ended = rest._replace(unsettled=_with(rest.unsettled, run.visit))
            yield f"{told(run.visit)} ends", self._over(ended, run)
            if self._has_endpoint(run.visit) and state.left < self.bounds.leaves:
                _, memory = self.driven.endpoint_is(ended.memory, leaves)
                away = self._over(ended._replace(memory=memory), run, succeeded=False)
                yield f"{told(run.visit)} finds E away", away._replace(left=state.left + 1)

    def _over(self, state: State, run: Running, *, succeeded: bool = True) -> State:
        memory, most, looks = state.memory, state.most, ONLY_BESIDE if run.place == BESIDE else ALL
        if succeeded and self._has_endpoint(run.visit):
            heard, memory = self.driven.endpoint_is(memory, lambda endpoint: endpoint.succeeded())
            if most is not None and not is_away(memory):
                most = 2 * most
            looks = ALL if heard else looks
        memory = self.driven.ended(self.driven.forgets_the_choice(memory), run.visit)
        looks = ALL if ALL in (looks, state.looks) else looks
        return state._replace(memory=memory, looks=looks, most=most)

    def settle(self, state: State) -> Steps:
        for visit in state.unsettled:
            freed, memory = self.driven.settled(state.memory, visit)
            yield (
                f"{told(visit)} is settled",
                state._replace(
                    memory=memory,
                    looks=ALL if freed else state.looks,
                    unsettled=tuple(other for other in state.unsettled if other != visit),
                    background=tuple(one for one in state.background if one[0] != visit.number),
                ),
            )

    def tick(self, state: State) -> Steps:
        if state.clock >= self.bounds.clock or state.looks:
            return
        now = state.clock + 1
        later = state._replace(
            clock=now, background=tuple(one for one in state.background if one[1] > now)
        )
        if state.alarm <= now:
            later = later._replace(alarm=math.inf, looks=ALL)
        yield f"the clock shows {now}", later

    def meet_endpoint(self, state: State) -> Steps:
        if is_away(state.memory):
            heard, memory = self.driven.endpoint_is(state.memory, lambda endpoint: endpoint.back())
            yield (
                "E is back",
                state._replace(memory=memory, looks=ALL if heard else state.looks, most=1),
            )

    def _has_endpoint(self, visit: Offered) -> bool:
        return self.settings[visit.queue].endpoint is not None

    # -- what a start must be

    def _started(self, state: State, before: State, run: Running, beside: bool) -> State:
        """With the ghosts as this start leaves them; `before`: as a choice found the worker."""
        visit, of_share = run.visit, run.visit.queue in self.shares
        known = [*waiting(before.memory), visit]
        may = {v for v in known if not self._kept_back(before, v, slot=not beside)}
        due = self._due_to_shares(before, known) if not beside else set()
        starts = (before.starts[0] + 1, before.starts[1] + of_share) if due else (0, 0)
        is_owed = of_share and before.credit >= 1
        background = state.background
        if visit.priority < BACKGROUND_BELOW and state.clock < state.live_until and not is_owed:
            until = state.clock + int(TUNING.background_start)
            background = (*background, (visit.number, until))
        return state._replace(
            begun=run,
            looks="",
            credit=max(0.0, min(1.0, before.credit + self.share - of_share)),
            starts=starts,
            background=background,
            wrong=self._wrong(before, run, may, due) or self._too_few(starts),
        )

    def _due_to_shares(self, state: State, known: list[Offered]) -> set[Offered]:
        """Visits of shares that may start if a start is owed to them."""
        ours = [v for v in known if v.queue in self.shares]
        return {v for v in ours if not self._kept_back(state, v, slot=True, owed=True)}

    def _too_few(self, starts: tuple[int, int]) -> str:
        total, of_shares = starts
        is_behind = of_shares + 1 < self.share * total
        return f"shares have {of_shares} of {total} starts" if is_behind else ""

    def _wrong(self, before: State, run: Running, may: set[Offered], due: set[Offered]) -> str:
        visit = run.visit
        is_owed = before.credit >= 1 and visit.queue in self.shares
        if reason := self._kept_back(before, visit, slot=run.place == SLOT, owed=is_owed):
            return f"{told(visit)} starts though {reason}"
        if before.credit >= 1 and due and not is_owed:
            return f"{told(visit)} has a start that is owed to {told(min(due, key=first))}"
        ahead = [v for v in (due if is_owed else may) if first(v) < first(visit)]
        if ahead:
            return f"{told(visit)} starts before {told(min(ahead, key=first))}"
        older = [v for v in waiting(before.memory) if v.priority == visit.priority]
        for other in older:
            if not is_owed and first(other) < first(visit) and self._starves(before, other, run):
                return f"{told(other)} is passed by {told(visit)}"
        return ""

    def _starves(self, before: State, visit: Offered, run: Running) -> bool:
        """Whether it was passed by this start against rule 10."""
        settings = self.settings[visit.queue]
        if self._runs(before, visit.queue) or (needs_slot(settings) and run.place != SLOT):
            return False
        if settings.endpoint is not None and (is_away(before.memory) or before.most is not None):
            return False
        return visit.queue not in self.shares or run.visit.queue in self.shares

    def _kept_back(self, state: State, visit: Offered, *, slot: bool, owed: bool = False) -> str:
        """The rule that keeps a visit back, if any does; `slot`: one is free."""
        settings = self.settings[visit.queue]
        running = self._runs(state, visit.queue)
        if needs_slot(settings) and not slot:
            return "it needs a slot"
        if settings.slots is not None and running >= settings.slots:
            return "its slots are taken"
        if settings.endpoint is not None:
            of_endpoint = sum(self._has_endpoint(run.visit) for run in under_way(state))
            if is_away(state.memory):
                return "E is away"
            if state.most is not None and of_endpoint >= state.most:
                return f"E is to have no more than {state.most} runs"
        if self._is_crowded(state, visit.queue):
            return "its share is reached"
        if running and (settings.leaves_slots or settings.share is not None):
            taken = sum(needs_slot(self.settings[run.visit.queue]) for run in under_way(state))
            none = [
                n for n, s in self.settings.items() if s.leaves_slots and not self._runs(state, n)
            ]
            if self.bounds.slots - taken <= min(self.spare, len(none)):
                return "the last slots are left to those who have none"
        is_background = visit.priority < BACKGROUND_BELOW and state.clock < state.live_until
        if is_background and not owed and len(state.background) >= self.few:
            return "background work gives way"
        return ""

    def _is_crowded(self, state: State, name: str) -> bool:
        if (mine := self.shares.get(name)) is None:
            return False
        of = {other: self._runs(state, other) for other in self.shares}
        no_greater = sum(n for other, n in of.items() if self.shares[other] <= mine)
        return no_greater >= self._cap(mine) or sum(of.values()) >= self._cap(self.share)

    def _cap(self, share: float) -> int:
        return max(1, int(share * self.bounds.slots))

    def _runs(self, state: State, name: str) -> int:
        return sum(run.visit.queue == name for run in under_way(state))

    # -- invariants

    def starts_are_fair(self, state: State) -> str | None:
        return state.wrong or None

    def slots_are_not_exceeded(self, state: State) -> str | None:
        if in_place(state, SLOT) > self.bounds.slots:
            return "more runs than slots"
        if in_place(state, BESIDE) > TUNING.beside:
            return "more runs beside the slots than may be"
        return None

    def nobody_waits_in_vain(self, state: State) -> str | None:
        """At rest each visit is kept back by a rule; where that is a matter of time, an alarm is set."""
        if state.looks or state.begun is not None:
            return None
        free = in_place(state, SLOT) < self.bounds.slots
        for visit in waiting(state.memory):
            if not free and in_place(state, BESIDE) >= TUNING.beside:
                return None  # who needs no slot waits for one of these all the same
            reason = self._kept_back(state, visit, slot=free)
            if not reason:
                return f"{told(visit)}"
            if reason == "background work gives way":
                opens_at = min([state.live_until, *(until for _, until in state.background)])
                if state.alarm > opens_at:
                    return f"{told(visit)}, and nobody looks at {opens_at}"
        return None


def needs_slot(settings: QueueSettings) -> bool:
    return not settings.beside and settings.slots is None


def in_place(state: State, place: str) -> int:
    return sum(run.place == place for run in under_way(state))


def under_way(state: State) -> tuple[Running, ...]:
    return state.running if state.begun is None else (*state.running, state.begun)


def first(visit: Offered) -> tuple[int, int]:
    """Who goes first."""
    return (-visit.priority, visit.number)


def told(visit: Offered) -> str:
    return f"{visit.queue} {visit.number}"


def _with(visits: tuple[Offered, ...], visit: Offered) -> tuple[Offered, ...]:
    return tuple(sorted((*visits, visit)))
