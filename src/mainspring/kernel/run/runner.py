"""The runner: slots that execute visits.

A slot is one asyncio task that runs one visit after another. A handler is called up to where it
first suspends; one that never does costs neither a task nor a turn of the event loop. Each run has a
context of its own all the same, and a run that is stopped from outside (timeout, fence, stop) ends
alone: its slot goes on.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Sequence

from mainspring import clock, crash_points
from mainspring.ids import Tokens
from mainspring.kernel.layer import Judge
from mainspring.kernel.outcome import Expired, Outcome
from mainspring.kernel.owned import Owned
from mainspring.kernel.retry import outcome_of_error, told_to_end
from mainspring.kernel.run import run_log
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.doubted import Doubted
from mainspring.kernel.run.hanging import Hanging
from mainspring.kernel.run.own_slots import OwnSlots
from mainspring.kernel.run.suspects import Suspects
from mainspring.kernel.run.suspended import Suspended, running
from mainspring.kernel.visit import Run, Visit

log = logging.getLogger("mainspring")


class Runner:
    """All slots of a worker."""

    def __init__(
        self,
        owned: Owned,
        buffer: Buffer,
        *,
        concurrency: int,
        hold: Callable[[Run, float | None], Awaitable[bool]],
        finished: Callable[[Sequence[Run]], None],
        wants_more: Callable[[], None],
        left: Callable[[Visit], None],
        judge: Judge | None = None,
        told: Callable[[Sequence[Run]], None] | None = None,
    ) -> None:
        self.owned = owned
        self.buffer = buffer
        self.concurrency = concurrency
        self._tuning = buffer.tuning
        self._yielded_at = 0.0
        self._hold = hold
        self._finished = finished
        self._wants_more = wants_more
        # Of runs that have ended one is told who may keep others back for it, and one who counts them.
        self._judge, self._told = judge, told
        self._left = left  # told of each visit that is due and no longer in hand
        self._tokens = Tokens()
        self._idle: list[asyncio.Future[None]] = []  # slots that wait for a visit
        self._slots: set[asyncio.Task[None]] = set()
        self._beside: set[asyncio.Task[None]] = set()  # more of them, for queues that need none
        self._own = OwnSlots(self._execute, self.fill, self._go_on_without)
        self._alarm: asyncio.TimerHandle | None = None
        self.suspects = Suspects(buffer)
        self.hanging = Hanging(buffer.tuning, self._go_on_without)
        self.doubted = Doubted(buffer.tuning)
        self._closing = False
        self._says_ends = self._says_starts = False

    @property
    def free(self) -> int:
        return self.concurrency - len(self._slots) + len(self._idle)

    def fill(self) -> None:
        """There may be something to start: wake a slot, or make one.

        One is enough: a run that suspends passes the word on, and one that does not leaves its slot
        free for the next. So there are only as many slots at work as runs are under way.
        """
        self._says_ends = log.isEnabledFor(logging.INFO)
        self._says_starts = self._says_ends and log.isEnabledFor(logging.DEBUG)
        now = clock.local()
        if self._closing or not (self.buffer.choice.can_start(now) or self._is_stranded()):
            self._set_alarm(now)
            return
        while self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
                return
        if len(self._slots) < self.concurrency:
            self._open(self._slots)
        elif self.buffer.choice.has_beside and len(self._beside) < self._tuning.beside:
            self._open(self._beside)

    def _open(self, slots: set[asyncio.Task[None]]) -> None:
        beside = slots is self._beside
        slot = asyncio.get_running_loop().create_task(self._slot(beside), name="mainspring.slot")
        slots.add(slot)
        slot.add_done_callback(slots.discard)

    async def _slot(self, beside: bool) -> None:
        slot = asyncio.current_task()
        assert slot is not None
        while not self._closing:
            run = self._next(beside, slot)
            if run is None:
                if beside:
                    return
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._idle.append(waiter)
                self._wants_more()
                await waiter
                continue
            if run.settings.slots is not None:
                self._own.start(run)
                continue
            run, suspended = await self._execute(run, slot)
            if run.hangs:
                return  # the slot has gone on without it
            if suspended is None and clock.local() - self._yielded_at > self._tuning.yield_every:
                await asyncio.sleep(0)
                self._yielded_at = clock.local()

    async def _execute(self, run: Run, slot: asyncio.Task[None]) -> tuple[Run, Suspended | None]:
        """Run a visit, and those that follow it at once. Returns the last, and its rest if it suspended."""
        suspended = None
        try:
            holds_first = run.suspect or self.buffer.queues[run.visit.queue].holds_first(run.visit)
            if holds_first:
                self.fill()
                if not await self._hold_first(run):
                    return run, None
                if run.suspect:
                    after = self.suspects.seconds(run)  # others try, though it has not ended
                    asyncio.get_running_loop().call_later(after, self._tried, run)
            own = run.settings.slots is not None
            run, suspended = self._run_on(run, slot, alone=holds_first or own)
            if suspended is not None:
                if not own:  # else the slot that started it goes on
                    self.fill()
                await self._go_on(run, suspended)
            elif slot.cancelling():
                await asyncio.sleep(0)  # a handler has cancelled its own task: here it ends
        except asyncio.CancelledError:
            pass  # a stop that came when the run had just ended
        finally:
            run.leave()
            while slot.cancelling():
                slot.uncancel()  # a stop is meant for one run, never for the next
        return run, suspended

    def _next(self, beside: bool, slot: asyncio.Task[None]) -> Run | None:
        now = clock.local()
        while (visit := self._pop(now, beside)) is not None:
            suspect = bool(visit.crashes or self.owned.suspects) and self.owned.is_suspect(visit)
            if suspect and not self.suspects.may_begin(visit):
                self.buffer.ended(visit)
                self.buffer.turn_over(visit)
                continue
            if (run := self._enter(visit, now, slot)) is not None:
                if suspect:
                    self.suspects.began(run)
                return run
        for visit in self.buffer.take_stale():
            self._left(visit)
        self._set_alarm(now)
        return None

    def _enter(self, visit: Visit, now: float, slot: asyncio.Task[None]) -> Run | None:
        """A run of a visit that may start; none if its shard is another's, or it is to be read again."""
        owned, settings = self.owned, self.buffer.queues[visit.queue].settings
        started = owned.time.at(now)
        run = Run(visit, self._tokens.draw(), started, now, settings=settings, slot=slot)
        doubted = self.doubted.until and self.doubted.take(visit.version)
        if not doubted and owned.start(run):
            return run
        self.buffer.ended(visit)
        self.buffer.turn_over(visit)
        self._requeue(visit)
        return None

    def _pop(self, now: float, beside: bool) -> Visit | None:
        while self._is_stranded():
            self.suspects.put_back()
            if (visit := self.buffer.pop(now, beside=beside)) is not None:
                return visit
        return self.buffer.pop(now, beside=beside)

    def _is_stranded(self) -> bool:
        """Suspects wait, and no try's end will put them back: those before them wait for a limit."""
        return bool(self.suspects.waiting) and not self.suspects.running

    def _requeue(self, visit: Visit, after: float = 0.0) -> None:
        """A visit that is still due is read again by whoever owns its shard, told at once or soon."""
        self.buffer.forget(visit)
        if after:
            asyncio.get_running_loop().call_later(after, self._left, visit)
        else:
            self._left(visit)

    def _set_alarm(self, now: float) -> None:
        """Look again when a rate, or what background work gives way to, allows the next start."""
        next_at = self.buffer.next_at()
        if next_at == float("inf"):
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + max(self._tuning.least_alarm, next_at - now)
        if self._alarm is not None:
            if self._alarm.when() <= at:
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self.buffer.release_rated(clock.local())  # what groups keep back is no part of the size
        self.fill()

    def _run_on(
        self, run: Run, slot: asyncio.Task[None], *, alone: bool
    ) -> tuple[Run, Suspended | None]:
        """Start a run and, unless it is to be alone, while each ends at once, the visits that follow it in
        its place. Answers the last one, with what is left of it if it has suspended."""
        ended: list[Run] = []
        stop_at = 0.0 if alone else self._yielded_at + self._tuning.yield_every
        try:
            while True:
                if self._says_starts:
                    run_log.began(run, str(self.owned.worker_id))
                outcome: Suspended | Outcome | None
                try:
                    outcome = begin(run)
                except BaseException as error:
                    outcome = outcome_of_error(run, error, is_closing=self._closing)
                if isinstance(outcome, Suspended):
                    return run, outcome
                if outcome is None:
                    self._drop_run(run)
                    return run, None
                run.end(outcome, now := clock.local())
                ended.append(run)
                following = None
                if now < stop_at and not (self.owned.suspects or slot.cancelling()):
                    following = self.buffer.another(now)
                if following is None:
                    self._free_place(run)
                    return run, None
                if (entered := self._enter(following, now, slot)) is None:
                    return run, None
                run = entered
        finally:
            if ended:
                self._finish(ended)

    async def _go_on(self, run: Run, suspended: Suspended) -> None:
        """Wait for the rest of a run, not longer than its timeout."""
        alarm = None
        if (timeout := run.settings.timeout) is not None:
            loop = asyncio.get_running_loop()
            left = max(0.0, timeout - (clock.local() - run.began))
            alarm = loop.call_later(left, self.hanging.stop, run, "timeout")
        outcome: Outcome | None
        try:
            outcome = await suspended
        except BaseException as error:
            outcome = outcome_of_error(run, error, is_closing=self._closing)
        else:
            if run.stopped is not None:
                outcome = told_to_end(run, outcome)
        finally:
            if alarm is not None:
                alarm.cancel()
        if not run.hangs:
            self._conclude(run, outcome)
            return
        # It has ended after all. Its result counts as any other's, unless it was stopped.
        if run.stopped is None and outcome is not None:
            run.end(outcome, clock.local())
            self._finish([run])
        self.hanging.ended(run)

    def _go_on_without(self, run: Run) -> None:
        """It hangs from now on, or was stopped before it began: its slot is others'."""
        for slots in (self._slots, self._beside, self._own.tasks):
            slots.discard(run.slot)
        error = asyncio.CancelledError()
        outcome = outcome_of_error(run, error) if run.stopped is not None else None
        self._conclude(run, outcome)
        self.fill()

    def _conclude(self, run: Run, outcome: Outcome | None) -> None:
        """A run that had suspended has come to this; None: it counts for nothing."""
        if outcome is None:
            self._drop_run(run)
            return
        run.end(outcome, clock.local())
        self._free_place(run)
        self._finish([run])

    def _finish(self, runs: Sequence[Run]) -> None:
        """Runs have their outcomes: said, and handed in to be written."""
        if crash_points.listener is not None:
            for _ in runs:
                crash_points.passed("run.ended")
        told, judge, is_judged = [], self._judge, False
        for run in runs:
            if self._says_ends or type(run.outcome) in run_log.FAILED:
                told.append(run)
            is_judged = is_judged or run.rest is not None
        if told:
            run_log.ended(told, str(self.owned.worker_id))
        if judge is not None and (is_judged or judge.on):
            judge.ended(runs)
        if self._told is not None:
            self._told(runs)
        self._finished(runs)

    def _free_place(self, run: Run) -> None:
        """Its place in queue and group is free; others may start that waited for it."""
        if self.buffer.ended(run.visit) or run.suspect:
            self._tried(run)
        if run.ends_turn:
            self.buffer.turn_over(run.visit)  # its slot goes on with whoever waited

    async def _hold_first(self, run: Run) -> bool:
        """Hold before the start; a visit that cannot be held is not started."""
        try:
            queue = self.buffer.queues[run.visit.queue]
            held = await self._hold(run, queue.work_timeout_of(run.visit))
        except asyncio.CancelledError:
            held = False
        except Exception:
            log.exception("hold.failed", extra=run_log.facts(run, str(self.owned.worker_id)))
            held = False
        if held:
            run_log.held([run], str(self.owned.worker_id))
        else:
            self._drop_run(run, self._tuning.hold_again)
        return held

    def _tried(self, run: Run) -> None:
        """This run, at its end or when it has lasted long, lets others try that waited for it."""
        if run.suspect:
            self.suspects.ended(run)
        self.fill()

    def _drop_run(self, run: Run, after: float = 0.0) -> None:
        """The run counts for nothing: it is not settled, whoever owns the shard will run it again."""
        if self.buffer.ended(run.visit) or run.suspect:
            self._tried(run)
        self.owned.end([run])  # a hold it has is given back by the heart, which knows it no longer
        self.buffer.turn_over(run.visit)
        self._requeue(run.visit, after)

    def stop_all(self, why: str) -> None:
        for run in self.owned.snapshot():
            self.hanging.stop(run, why)
        self.hanging.stop_all()

    def close(self) -> None:
        """No further visit is started; idle slots end."""
        self._closing = True
        self.hanging.close()
        for waiter in self._idle:
            if not waiter.done():
                waiter.set_result(None)
        self._idle.clear()
        if self._alarm is not None:
            self._alarm.cancel()

    async def ended(self, timeout: float) -> bool:
        """Wait until all slots have ended, but those whose runs hang, or have come to hang meanwhile."""
        deadline = clock.local() + timeout
        while slots := (self._slots | self._beside | self._own.tasks) - self.hanging.slots:
            left = deadline - clock.local()
            if left <= 0:
                return False
            await asyncio.wait(slots, timeout=min(left, self._tuning.stop_look))
        return True


def begin(run: Run) -> Suspended | Outcome:
    """Call its handler up to where it first suspends. Returns what is left of it, or what it came to."""
    if crash_points.listener is not None:
        crash_points.passed("run.started")
    expires_at = run.visit.expires_at
    if expires_at is not None and expires_at.timestamp() <= run.started:
        return Expired()
    in_context = contextvars.Context().run
    in_context(running.set, run)
    coroutine = run.settings.handler(run)
    try:
        first = in_context(coroutine.send, None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return Suspended(coroutine, in_context, first)
