"""The runner: slots that execute visits.

A slot is one asyncio task that runs one visit after another. A handler is called up to where it
first suspends; one that never does costs neither a task nor a turn of the event loop. Each run has a
context of its own all the same, and a run that is stopped from outside (timeout, fence, stop) ends
alone: its slot goes on.
Past 400 lines, for the slots, the start and the end of a run decide together what runs next.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mainspring.kernel import clock, crash_points
from mainspring.kernel.outcome import Cancelled, Done, Expired, Outcome
from mainspring.kernel.owned import Owned
from mainspring.kernel.retry import judge
from mainspring.kernel.run import run_log
from mainspring.kernel.run.buffer import Buffer
from mainspring.kernel.run.current import running
from mainspring.kernel.run.hanging import GONE_SECONDS, ROOM_SECONDS, STOP_SECONDS, Hanging
from mainspring.kernel.run.suspects import Suspects
from mainspring.kernel.run.suspended import Suspended
from mainspring.kernel.visit import DEFAULT_PRIORITY, Run, Tokens, Visit

log = logging.getLogger("mainspring")
_EMPTY = contextvars.Context()
# A visit that could not be held (somebody has it locked, or offered it) is left alone so long (seconds).
HOLD_AGAIN = 0.05
# So many visits of the engine's own bookkeeping run beside the slots while all of these are taken.
BESIDE = 32
# At a stop it is looked so often whether those that have not ended hang (seconds).
LOOK_EVERY = 0.1
# Slots whose handlers never suspend let the other loops run this often (seconds).
YIELD_EVERY = 0.005
# And those of low priorities more often: somebody else's visit may be on its way.
YIELD_BELOW_EVERY = 0.001


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
    ) -> None:
        self.owned = owned
        self.buffer = buffer
        self.concurrency = concurrency
        self._yielded_at = 0.0
        self._ended_at = 0.0  # when a run last ended
        self._hold = hold
        self._finished = finished
        self._wants_more = wants_more
        self._left = left  # told of each visit that is due and no longer in hand
        self._tokens = Tokens()
        self._idle: list[asyncio.Future[None]] = []  # slots that wait for a visit
        self._slots: set[asyncio.Task[None]] = set()
        self._beside: set[asyncio.Task[None]] = set()  # more of them, for queues that need none
        self._alarm: asyncio.TimerHandle | None = None
        self.suspects = Suspects(buffer)
        self.hanging = Hanging()
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
        if self._closing or not (self.buffer.can_start(now) or self.suspects.stranded):
            self._set_alarm(now)
            return
        while self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
                return
        if len(self._slots) < self.concurrency:
            self._open(self._slots)
        elif self.buffer.has_beside and len(self._beside) < BESIDE:
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
            run = self._next(beside)
            if run is None:
                if beside:
                    return
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._idle.append(waiter)
                self._wants_more()
                await waiter
                continue
            suspended = None
            try:
                alone = run.suspect or self.buffer.queues[run.visit.queue].holds_first
                if alone:
                    run.slot = slot
                    self.fill()
                    if not await self._hold_first(run):
                        continue
                    if run.suspect:
                        self._tried_soon(run)
                run, suspended = self._run_on(run, slot, alone=alone)
                if suspended is not None:
                    self.fill()
                    await self._go_on(run, suspended)
                elif slot.cancelling():
                    await asyncio.sleep(0)  # a handler has cancelled its own task: here it ends
            except asyncio.CancelledError:
                pass  # a stop that came when the run had just ended
            finally:
                run.slot = None
                while slot.cancelling():
                    slot.uncancel()  # a stop is meant for one run, never for the next
            if run.hangs:
                return  # the slot has gone on without it
            if suspended is None and self._ended_at - self._yielded_at > _yield_every(run.visit):
                await asyncio.sleep(0)
                self._yielded_at = clock.local()

    def _next(self, beside: bool) -> Run | None:
        now = clock.local()
        while (visit := self._pop(now, beside)) is not None:
            suspect = bool(visit.crashes or self.owned.suspects) and self.owned.is_suspect(visit)
            if suspect and not self.suspects.may_begin(visit):
                self.buffer.ended(visit)
                self.buffer.turn_over(visit)
                self.suspects.keep(visit)
                continue
            if (run := self._enter(visit, now)) is not None:
                if suspect:
                    self.suspects.began(run)
                return run
        for visit in self.buffer.take_stale():
            self._left(visit)
        self._set_alarm(now)
        return None

    def _enter(self, visit: Visit, now: float) -> Run | None:
        """A run of a visit that may start; none if its shard is no longer mine."""
        owned, settings = self.owned, self.buffer.queues[visit.queue].settings
        run = Run(visit, self._tokens.draw(), owned.time.at(now), now, settings=settings)
        if owned.start(run):
            return run
        self._unstart(visit)
        return None

    def _pop(self, now: float, beside: bool) -> Visit | None:
        while self.suspects.stranded:
            self.suspects.put_back()
            if (visit := self.buffer.pop(now, beside=beside)) is not None:
                return visit
        return self.buffer.pop(now, beside=beside)

    def _unstart(self, visit: Visit) -> None:
        """A visit that was not started: whoever owns its shard will read it."""
        self.buffer.ended(visit)
        self.buffer.turn_over(visit)
        self._requeue(visit)

    def _requeue(self, visit: Visit, after: float = 0.0) -> None:
        """A visit that is still due is forgotten here, and read again by whoever owns its shard. The reader
        is told at once or soon: a sweep may be far away."""
        self.buffer.forget(visit)
        if after:
            asyncio.get_running_loop().call_later(after, self._left, visit)
        else:
            self._left(visit)

    def _set_alarm(self, now: float) -> None:
        """Look again when a rate allows the next start."""
        if self.buffer.next_at == float("inf"):
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + max(0.001, self.buffer.next_at - now)
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
        stop_at = 0.0 if alone else self._yielded_at + _yield_every(run.visit)
        try:
            while True:
                run.slot = slot
                try:
                    if (suspended := self._begin(run)) is not None:
                        return run, suspended
                except BaseException as error:
                    if (failure := self._outcome_of_error(run, error)) is None:
                        self._drop_run(run)
                        return run, None
                    run.outcome = failure
                now = self._note_end(run)
                ended.append(run)
                following = None
                if now < stop_at and not (self.owned.suspects or slot.cancelling()):
                    following = self.buffer.another(now)
                if following is None:
                    self._free_place(run)
                    return run, None
                run.slot = None
                if (entered := self._enter(following, now)) is None:
                    return run, None
                run = entered
        finally:
            if ended:
                self._finish(ended)

    def _begin(self, run: Run) -> Suspended | None:
        """Call a handler up to where it first suspends; answers what is left of it, or notes how it
        ended."""
        if crash_points.listener is not None:
            crash_points.passed("run.started")
        if self._says_starts:
            run_log.began(run, str(self.owned.worker_id))
        if run.visit.expires_at is not None and _is_expired(run):
            run.outcome = Expired()
            return None
        in_context = _EMPTY.copy().run
        coroutine = run.settings.handler(run)
        try:
            first = in_context(_send_first, run, coroutine)
        except StopIteration as end:
            run.outcome = end.value
            return None
        return Suspended(coroutine, in_context, first)

    async def _go_on(self, run: Run, suspended: Suspended) -> None:
        """Wait for the rest of a run, not longer than its timeout."""
        alarm = None
        if (timeout := run.settings.timeout) is not None:
            loop = asyncio.get_running_loop()
            left = max(0.0, timeout - (clock.local() - run.began))
            alarm = loop.call_later(left, self.stop_run, run, "timeout")
        try:
            outcome, error = await suspended, None
        except BaseException as raised:
            outcome, error = None, raised
        finally:
            if alarm is not None:
                alarm.cancel()
        if run.hangs:
            self._end_hanging(run, outcome, error)
            return
        if error is not None:
            outcome = self._outcome_of_error(run, error)
        if outcome is None:
            self._drop_run(run)
            return
        run.outcome = outcome
        self._note_end(run)
        self._free_place(run)
        self._finish([run])

    def _note_end(self, run: Run) -> float:
        """A run has its outcome; answers the moment."""
        self._ended_at = now = clock.local()
        run.seconds = now - run.began
        if crash_points.listener is not None:
            crash_points.passed("run.ended")
        return now

    def _finish(self, runs: Sequence[Run]) -> None:
        """Runs have their outcomes: said, and handed in to be written."""
        if self._says_ends:
            run_log.ended(runs, str(self.owned.worker_id))
        else:
            run_log.failed(runs, str(self.owned.worker_id))
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
            self._drop_run(run, HOLD_AGAIN)
        return held

    def _outcome_of_error(self, run: Run, error: BaseException) -> Outcome | None:
        """What an exception means: the handler's own failure, or a stop from outside. None: the run counts
        for nothing."""
        if run.settled:
            return Done()  # by a transaction of its own: what came after changes nothing
        settings = run.settings
        stopped = run.stopped
        if stopped is None and self._closing and isinstance(error, asyncio.CancelledError):
            stopped = "stopping"
        if stopped in ("fenced", "stopping", "gone"):
            return None
        if stopped == "cancelled":
            return Cancelled(error="cancelled while it ran")
        if stopped == "timeout":
            error = TimeoutError(f"ran longer than its timeout of {settings.timeout:g} s")
        return judge(settings.retry, failures=run.visit.attempt + 1, error=error)

    def _tried(self, run: Run) -> None:
        """This run, at its end or when it has lasted long, lets others try that waited for it."""
        if run.suspect:
            self.suspects.ended(run)
        self.fill()

    def _tried_soon(self, run: Run) -> None:
        """Others try when this one has lasted long enough, though it has not ended."""

        def tried() -> None:
            if run.suspect:
                self._tried(run)

        asyncio.get_running_loop().call_later(self.suspects.seconds(run), tried)

    def _drop_run(self, run: Run, after: float = 0.0) -> None:
        """The run counts for nothing: it is not settled, whoever owns the shard will run it again."""
        if self.buffer.ended(run.visit) or run.suspect:
            self._tried(run)
        self.owned.end([run])  # a hold it has is given back by the heart, which knows it no longer
        self.buffer.turn_over(run.visit)
        self._requeue(run.visit, after)

    def stop_run(self, run: Run, why: str) -> None:
        """End a run from outside; its handler sees a cancellation."""
        if run.slot is not None and run.stopped is None and run.outcome is None:
            run.stopped = why
            run.slot.cancel()
            if why not in ("fenced", "stopping"):  # a fence has an end of its own
                after = GONE_SECONDS if why == "gone" else STOP_SECONDS
                asyncio.get_running_loop().call_later(after, self.let_hang, run)

    def call_off(self, run: Run) -> None:
        """Nothing will come of it any more."""
        if run.hangs:
            self._stop_hanging(run)
        else:
            self.stop_run(run, "gone")

    # -- runs that hang

    def let_hang(self, run: Run) -> None:
        """A run was overtaken, or told to end, and is still under way: its slot goes on without it, and so
        do its queue, its group and its key. What an overtaken one brings may still count. A worker that
        stops waits no longer for it, and has room for any number."""
        if run.slot is None or run.hangs or run.outcome is not None:
            return
        if self.hanging.is_full and not self._closing:
            if run not in self.hanging.kept:
                self.hanging.kept.append(run)
                self._make_room(run)
            return
        self._slots.discard(run.slot)
        self._beside.discard(run.slot)
        self.hanging.add(run)
        outcome = (
            None if run.stopped is None else self._outcome_of_error(run, asyncio.CancelledError())
        )
        if outcome is None:
            self._drop_run(run)
        else:
            run.outcome = outcome
            self._note_end(run)
            self._free_place(run)
            self._finish([run])
        self.fill()

    def _make_room(self, run: Run) -> None:
        """Stop the oldest that may still have a result, so that one more may hang; it keeps its slot until
        there is room."""
        if run not in self.hanging.kept:
            return
        if run.slot is None:
            self.hanging.kept.remove(run)  # it has ended
            return
        if not (hopeful := self.hanging.hopeful()):
            self.hanging.wear_out()
        else:
            self._stop_hanging(hopeful[0])
            asyncio.get_running_loop().call_later(ROOM_SECONDS, self._make_room, run)

    def _stop_hanging(self, run: Run) -> None:
        if run.stopped is None:
            run.stopped = "gone"
            run.slot.cancel()

    def _end_hanging(self, run: Run, outcome: Outcome | None, error: BaseException | None) -> None:
        """It has ended after all. Its result counts as any other's, unless it was stopped."""
        self.hanging.ended(run)
        if run.stopped is None:
            outcome = outcome if error is None else self._outcome_of_error(run, error)
            if outcome is not None:
                run.outcome = outcome
                self._note_end(run)
                self._finish([run])
        for other in self.hanging.take_kept():
            self.let_hang(other)

    def stop_all(self, why: str) -> None:
        for run in self.owned.snapshot():
            self.stop_run(run, why)
        for run in list(self.hanging.runs.values()):
            self._stop_hanging(run)

    def close(self) -> None:
        """No further visit is started; idle slots end."""
        self._closing = True
        for waiter in self._idle:
            if not waiter.done():
                waiter.set_result(None)
        self._idle.clear()
        if self._alarm is not None:
            self._alarm.cancel()

    async def ended(self, timeout: float) -> bool:
        """Wait until all slots have ended, but those whose runs hang, or have come to hang meanwhile."""
        deadline = clock.local() + timeout
        while slots := (self._slots | self._beside) - self.hanging.slots:
            left = deadline - clock.local()
            if left <= 0:
                return False
            await asyncio.wait(slots, timeout=min(left, LOOK_EVERY))
        return True


def _send_first(run: Run, coroutine: Any) -> Any:
    """Begin in the run's context, which knows the run."""
    running.set(run)
    return coroutine.send(None)


def _yield_every(visit: Visit) -> float:
    return YIELD_BELOW_EVERY if visit.priority < DEFAULT_PRIORITY else YIELD_EVERY


def _is_expired(run: Run) -> bool:
    expires_at = run.visit.expires_at
    return expires_at is not None and expires_at.timestamp() <= run.started
