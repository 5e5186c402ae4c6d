"""Deliveries: events of one entity on their way to consumer A, beside a consumer B of the same events.

Saves draw numbers and commit. A run of A's relay reads what is owed, sends one event after another, and
settles with the delete of what was acknowledged. A send arrives, is refused, or times out and arrives late.
The worker dies or is fenced at any moment; what was on its way may still arrive, or is lost. A resend tells
what the entity is under a new number; a replay brings a kept event again while B is acknowledging it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Told(NamedTuple):
    """An event: its number, and the version of the entity that it says."""

    number: int
    content: int


class RelayRun(NamedTuple):
    """A run of A's relay, of the worker that has the lease."""

    waiting: tuple[Told, ...]
    on_the_way: tuple[Told, ...] = ()
    acknowledged: tuple[Told, ...] = ()
    stopped: bool = False


class State(NamedTuple):
    version: int = 0
    drawn: int = 0  # the last number
    saves: tuple[int, ...] = ()  # numbers of saves under way
    resend: Told | None = None  # under way
    outbox: frozenset[Told] = frozenset()
    owed: frozenset[tuple[str, int]] = frozenset()
    kept: frozenset[Told] = frozenset()  # every event that A should have
    run: RelayRun | None = None
    late: frozenset[Told] = frozenset()  # sent, and nobody waits for it any more
    arrived: tuple[Told, ...] = ()
    b_locks: int = 0  # the event that B is acknowledging
    replay: Told | None = None  # a replay that has written and not committed
    saved: int = 0
    deaths: int = 0
    refusals: int = 0
    resends: int = 0
    replays: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the relay; off, each breaks a promise."""

    numbers_under_lock: bool = True  # off: drawn before the entity's row is locked
    one_unacknowledged: bool = True  # off: the next is sent while one is on its way
    broker_acknowledges: bool = True  # off: what was handed over counts as delivered
    refused_stops: bool = True  # off: the run goes on behind a refused event
    deletes_what_was_sent: bool = True  # off: all that is owed by then
    resend_locks: bool = True  # off: a snapshot is read without the entity's lock
    replay_locks: bool = True  # off: an event that is still there is not locked


@dataclass(frozen=True, slots=True)
class Bounds:
    saves: int = 3
    deaths: int = 1
    refusals: int = 1
    resends: int = 0
    replays: int = 0


class DeliveryProtocol:
    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self.rules, self.bounds = rules, bounds

    def start(self) -> State:
        return State()

    def steps(self, s: State) -> Iterator[tuple[str, State]]:
        yield from self.save(s)
        yield from self.resend(s)
        yield from self.relay(s)
        yield from self.die(s)
        yield from self.broker(s)
        yield from self.other(s)
        yield from self.replay(s)

    def save(self, s: State) -> Iterator[tuple[str, State]]:
        free = not self.rules.numbers_under_lock or not (s.saves or self._resend_has_lock(s))
        if s.saved < self.bounds.saves and free:
            number = s.drawn + 1
            drawn = s._replace(drawn=number, saves=(*s.saves, number), saved=s.saved + 1)
            yield f"a save draws {number}", drawn
        for number in s.saves:
            if self._resend_has_lock(s):
                continue
            told = Told(number, s.version + 1)
            rest = tuple(n for n in s.saves if n != number)
            committed = s._replace(version=s.version + 1, saves=rest)
            yield f"the save of {number} commits", _committed(committed, told, "A", "B")

    def _resend_has_lock(self, s: State) -> bool:
        return self.rules.resend_locks and s.resend is not None

    def resend(self, s: State) -> Iterator[tuple[str, State]]:
        if s.resend is not None:
            done = _committed(s._replace(resend=None), s.resend, "A")
            yield f"the resend of {s.resend.number} commits", done
        elif s.resends < self.bounds.resends and s.version:
            if self.rules.resend_locks and s.saves:
                return
            told = Told(s.drawn + 1, s.version)
            yield (
                f"a resend draws {told.number} and reads version {told.content}",
                s._replace(drawn=told.number, resend=told, resends=s.resends + 1),
            )

    def relay(self, s: State) -> Iterator[tuple[str, State]]:
        run = s.run
        if run is None:
            waiting = tuple(sorted(t for t in s.outbox if ("A", t.number) in s.owed))
            if waiting:
                numbers = ", ".join(str(t.number) for t in waiting)
                yield f"a run reads {numbers}", s._replace(run=RelayRun(waiting))
            return
        may_send = not run.on_the_way or not self.rules.one_unacknowledged
        if run.waiting and may_send and not run.stopped:
            told = run.waiting[0]
            sent = run._replace(waiting=run.waiting[1:], on_the_way=(*run.on_the_way, told))
            if self.rules.broker_acknowledges:
                yield f"{told.number} is sent", s._replace(run=sent)
            else:
                sent = run._replace(waiting=run.waiting[1:], acknowledged=(*run.acknowledged, told))
                handed = s._replace(run=sent, late=s.late | {told})
                yield f"{told.number} is handed over", handed
        if not run.on_the_way and (run.stopped or not run.waiting):
            yield "the run settles", self._settled(s, run)

    def die(self, s: State) -> Iterator[tuple[str, State]]:
        if s.deaths >= self.bounds.deaths or not (s.run or s.late):
            return
        gone = s._replace(run=None, deaths=s.deaths + 1)
        yield "the worker dies, what was on its way with it", gone._replace(late=frozenset())
        if s.run is not None:
            sent = s.late | _unknown(s, s.run.on_the_way)
            yield "the worker is fenced; what was on its way goes on", gone._replace(late=sent)

    def _settled(self, s: State, run: RelayRun) -> State:
        gone = {t.number for t in run.acknowledged}
        if not self.rules.deletes_what_was_sent and gone:
            gone = {number for who, number in s.owed if who == "A"}
        return _forget(s._replace(run=None, owed=s.owed - {("A", n) for n in gone}))

    def broker(self, s: State) -> Iterator[tuple[str, State]]:
        for told in sorted(s.late):
            late = s._replace(late=s.late - {told}, arrived=_arrived(s.arrived, told))
            yield f"{told.number} arrives late", late
        run = s.run
        for told in run.on_the_way if run else ():
            assert run is not None
            left = run._replace(on_the_way=_without(run.on_the_way, told))
            heard = left._replace(acknowledged=(*run.acknowledged, told))
            yield (
                f"{told.number} arrives and is acknowledged",
                s._replace(run=heard, arrived=_arrived(s.arrived, told)),
            )
            stopped = left._replace(stopped=True)
            yield (
                f"{told.number} times out",
                s._replace(run=stopped, late=s.late | _unknown(s, (told,))),
            )
            if s.refusals < self.bounds.refusals:
                refused = stopped if self.rules.refused_stops else left
                counted = s._replace(run=refused, refusals=s.refusals + 1)
                yield f"{told.number} is refused", counted

    def other(self, s: State) -> Iterator[tuple[str, State]]:
        """B acknowledges: it locks the event, and looks in a later statement whether anybody waits."""
        if s.b_locks:
            after = s._replace(b_locks=0, owed=s.owed - {("B", s.b_locks)})
            yield f"B has acknowledged {s.b_locks}", _forget(after)
            return
        for who, number in sorted(s.owed):
            if who == "B":
                yield f"B locks {number}", s._replace(b_locks=number)

    def replay(self, s: State) -> Iterator[tuple[str, State]]:
        if s.replay is not None:
            back = s._replace(replay=None, owed=s.owed | {("A", s.replay.number)})
            yield f"the replay of {s.replay.number} commits", back
            return
        if s.replays >= self.bounds.replays:
            return
        counted = s._replace(replays=s.replays + 1)
        for told in sorted(s.kept):
            if self.rules.replay_locks:
                if s.b_locks != told.number:
                    back = counted._replace(
                        outbox=s.outbox | {told}, owed=s.owed | {("A", told.number)}
                    )
                    yield f"a replay brings {told.number} back", back
            else:  # it is put back where it is gone, and left alone where it is there
                written = counted._replace(replay=told, outbox=s.outbox | {told})
                yield f"a replay writes {told.number}", written

    # -- what must hold

    def first_arrivals_are_in_order(self, s: State) -> str | None:
        numbers = [told.number for told in s.arrived]
        if numbers != sorted(numbers):
            return f"first arrivals are {numbers}"
        last = max(numbers, default=0)
        missing = [t.number for t in s.kept if t.number < last and t.number not in numbers]
        return f"{last} came before {missing[0]}" if missing else None

    def nothing_goes_unsent(self, s: State) -> str | None:
        for told in sorted(s.kept):
            if told not in s.arrived and ("A", told.number) not in s.owed:
                on_its_way = told in s.late  # a library may still send what it was handed
                if not on_its_way:
                    return f"nobody sends {told.number} any more"
        return None

    def newer_numbers_tell_newer_versions(self, s: State) -> str | None:
        contents = [told.content for told in s.arrived]
        return f"versions arrived as {contents}" if contents != sorted(contents) else None

    def deliveries_have_their_event(self, s: State) -> str | None:
        numbers = {told.number for told in s.outbox}
        for who, number in sorted(s.owed):
            if number not in numbers:
                return f"{number} is owed to {who} and gone from the outbox"
        return None


def _committed(s: State, told: Told, *who: str) -> State:
    owed = {(name, told.number) for name in who}
    return s._replace(outbox=s.outbox | {told}, owed=s.owed | owed, kept=s.kept | {told})


def _forget(s: State) -> State:
    """Events that nobody waits for any more are deleted, as far as this transaction sees."""
    wanted = {number for _, number in s.owed}
    return s._replace(outbox=frozenset(t for t in s.outbox if t.number in wanted))


def _arrived(log: tuple[Told, ...], told: Told) -> tuple[Told, ...]:
    """First arrivals: consumers drop what they have seen."""
    return log if told in log else (*log, told)


def _unknown(s: State, sent: tuple[Told, ...]) -> set[Told]:
    """What may still arrive; of what has arrived before, nobody sees it."""
    return {told for told in sent if told not in s.arrived}


def _without(values: tuple[Told, ...], told: Told) -> tuple[Told, ...]:
    at = values.index(told)
    return values[:at] + values[at + 1 :]
