"""A loop that serves actors: it pulls as many tasks as it has slots, beats in time, and settles in lists.

Every call has an id or a ticket, so whatever answer is lost is asked for again: nothing is done twice by
that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from mainspring.client import actors
from mainspring.client.messages import new_id
from mainspring.client.remote_call import AsyncSends
from mainspring.client.remote_error import RemoteError, ServerAway
from mainspring.client.served import AtWork, Served, running
from mainspring.client.started import StartedCall
from mainspring.errors import InvalidSetting
from mainspring.v1 import actor_service_pb2 as v1

log = logging.getLogger("mainspring")
WAIT_SECONDS = 20.0
GATHER_SECONDS = 0.002
MOST_AT_ONCE = 100  # of one pull
MOST_SETTLED = 1000
YIELD_SECONDS = 0.005
MOST_BEATEN = 1000
# Of the 4 MB that a call takes; a list of answers stays below it, and one answer alone too.
SETTLED_BYTES = 3_000_000
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
GRACE_SECONDS = 25.0
NO_TICKET = "the server does not know its ticket any more"


class ActorLoop:
    """Serves actors by functions. `run` until `stop`."""

    def __init__(
        self,
        client: AsyncSends,
        functions: Mapping[str, Callable[..., object]],
        *,
        slots: int,
        worker: str = "",
        grace: float = GRACE_SECONDS,
    ) -> None:
        if not functions:
            raise InvalidSetting("serve needs functions by the names of their actors")
        if isinstance(slots, bool) or not isinstance(slots, int) or not 1 <= slots <= 10_000:
            raise InvalidSetting(f"slots must be 1 to 10000, got {slots!r}")
        self._client = client
        self._served = {name: Served(function) for name, function in functions.items()}
        self._slots = slots
        self._worker = worker or f"{socket.gethostname()}:{os.getpid()}"
        self._grace = grace
        self._stopping = asyncio.Event()
        self._free = asyncio.Event()
        self._working: dict[str, AtWork] = {}  # by their tickets, until they are settled
        self._ready: deque[AtWork] = deque()  # not begun
        self._running: set[asyncio.Task[None]] = set()  # slots
        self._sending = False
        self._results: list[v1.Settlement] = []
        self._most_settled = MOST_SETTLED  # fewer, while one of them is looked for
        self._news = asyncio.Event()
        self._beat_soon = asyncio.Event()

    @property
    def working(self) -> int:
        """How many tasks are at work."""
        return len(self._working)

    def stop(self) -> None:
        """Take nothing new; finish what is at work."""
        self._stopping.set()
        self._free.set()

    async def run(self) -> None:
        """Until it is stopped; then what is at work may take the grace period, and the rest is given
        back."""
        settling = asyncio.create_task(self._settling(), name="mainspring.actor.settles")
        beating = asyncio.create_task(self._beating(), name="mainspring.actor.beats")
        pulling = asyncio.create_task(self._pulling(), name="mainspring.actor.pulls")
        stopping = asyncio.create_task(self._stopped())
        try:
            loops = (pulling, stopping, settling, beating)
            await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
            pulling.cancel()  # the server takes back what was held for it
            await asyncio.wait([pulling])
            await self._finish()
            self._news.set()
            await settling
            for task in (pulling, beating):
                if task.done() and not task.cancelled() and (error := task.exception()):
                    raise error
        finally:
            for task in (settling, beating, pulling, stopping):
                task.cancel()
            await asyncio.wait([settling, beating, pulling, stopping])

    async def _stopped(self) -> None:
        await self._stopping.wait()

    async def _finish(self) -> None:
        until = time.monotonic() + self._grace
        while self._running and (left := until - time.monotonic()) > 0:
            await asyncio.wait(self._running, timeout=left)  # those that begin meanwhile are others
        self._ready.clear()
        answered = {result.ticket for result in self._results}
        for ticket, work in self._working.items():
            if ticket in answered:
                continue
            if not work.stop():  # else its end gives it back
                self._answered(actors.released(ticket))
            facts = {"actor": work.task.actor, "task": work.task.task_id}
            log.info("actor.given_back", extra=facts)
        if self._running:
            await asyncio.wait(self._running, timeout=2.0)

    # -- taking

    async def _pulling(self) -> None:
        pause, pull_id, again = FIRST_PAUSE, new_id(), False
        while not self._stopping.is_set():
            room = self._slots - len(self._working)
            # With answers on their way there is more room at once: pulls of a few cost as much as of many.
            if room <= 0 or (self._sending and room < min(self._slots, MOST_AT_ONCE)):
                self._free.clear()
                await self._free.wait()
                continue
            try:
                call = actors.pull_as_it_comes(
                    list(self._served),
                    min(room, MOST_AT_ONCE),
                    WAIT_SECONDS,
                    self._worker,
                    pull_id,
                    again,
                )
                reply = await self._client.send(call)
            except RemoteError as error:
                if not _passes(error):
                    raise
                again = True  # it may have been answered
                await self._rest(pause)
                pause = min(LONGEST_PAUSE, pause * 2)
                continue
            pause, pull_id, again = FIRST_PAUSE, new_id(), False
            for task in reply.tasks:
                if task.ticket not in self._working:
                    work = AtWork(task, actors.span_seconds(task.beat_every))
                    self._working[task.ticket] = work
                    self._ready.append(work)
            self._beat_soon.set()
            self._go_on()
            if pausing := actors.span_seconds(reply.pause):
                await self._rest(pausing)

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    # -- working

    def _go_on(self) -> None:
        """A slot for what has not begun. One is enough: who suspends asks for the next."""
        if self._ready:
            slot = asyncio.create_task(self._slot(), name="mainspring.actor.slot")
            self._running.add(slot)
            slot.add_done_callback(self._running.discard)

    async def _slot(self) -> None:
        """One task after the other, as long as none waits for anything."""
        me, yield_at = asyncio.current_task(), time.monotonic() + YIELD_SECONDS
        assert me is not None
        while self._ready:
            work = self._ready.popleft()
            if self._working.get(work.task.ticket) is not work:
                continue  # a beat said that it counts no longer
            work.begin(me)
            try:
                await self._work(work)
            finally:
                work.end()
            if me.cancelling():
                break  # that was meant for this task alone
            if time.monotonic() > yield_at:
                await asyncio.sleep(0)
                yield_at = time.monotonic() + YIELD_SECONDS
        self._go_on()

    async def _work(self, work: AtWork) -> None:
        ticket = work.task.ticket
        try:
            served = self._served[work.task.actor]
            call = served.call(work.task)
            if not served.is_async:
                self._go_on()
                result = await asyncio.to_thread(call)
            elif (started := StartedCall(running(call()))).has_ended:
                result = started.result
            else:
                self._go_on()
                result = await started
            answer = actors.completed(ticket, result)
            if (size := answer.ByteSize()) > SETTLED_BYTES:
                text = f"the result has {size} bytes, and at most {SETTLED_BYTES} are sent; "
                answer = self._refused(answer, text + "store it elsewhere and return a reference")
        except asyncio.CancelledError:
            answer = actors.released(ticket)
        except Exception as error:
            answer = actors.failed(ticket, error)
        if ticket in self._working:  # else a beat said that it counts no longer
            self._answered(answer)

    def _answered(self, answer: v1.Settlement) -> None:
        self._results.append(answer)
        self._news.set()

    async def _beating(self) -> None:
        """A third of the work timeout is the longest between two beats of a task."""
        pause = LONGEST_PAUSE
        while True:
            await asyncio.sleep(0)
            self._beat_soon.clear()
            with suppress(TimeoutError):
                pause = min([LONGEST_PAUSE, *(w.beat_every for w in self._working.values())])
                async with asyncio.timeout(pause):
                    while True:
                        await self._beat_soon.wait()
                        self._beat_soon.clear()
                        every = [work.beat_every for work in self._working.values()]
                        if min([pause, *every]) < pause:
                            break
            tickets = list(self._working)
            for first in range(0, len(tickets), MOST_BEATEN):
                await self._beat(tickets[first : first + MOST_BEATEN])

    async def _beat(self, tickets: list[str]) -> None:
        try:
            replies = await self._client.send(actors.beat(tickets))
        except RemoteError as error:
            if error.status != "INVALID_ARGUMENT":
                log.warning("actor.not_beaten", extra={"error": str(error)})
            elif len(tickets) == 1:
                self._drop(tickets[0], NO_TICKET)
            else:  # one of them; the others are kept
                middle = len(tickets) // 2
                await self._beat(tickets[:middle])
                await self._beat(tickets[middle:])
            return
        for ticket, reply in zip(tickets, replies, strict=True):
            if reply.stop is not None:
                self._drop(ticket, reply.stop)

    def _drop(self, ticket: str, why: str) -> None:
        """It counts no longer: whatever it comes to, nobody wants it."""
        found = self._working.pop(ticket, None)
        if found is not None and not any(r.ticket == ticket for r in self._results):
            log.info("actor.stopped", extra={"actor": found.task.actor, "reason": why})
            found.stop()
        self._free.set()

    # -- settling

    async def _settling(self) -> None:
        pause = FIRST_PAUSE
        held_up: set[str] = set()  # tickets whose answers met somebody's lock
        while self._results or self._working or not self._stopping.is_set():
            await self._news.wait()
            self._news.clear()
            await asyncio.sleep(GATHER_SECONDS)
            while self._results:
                batch = fitting(self._results[: self._most_settled])
                # What a lock holds up gives no room soon.
                self._sending = any(result.ticket not in held_up for result in batch)
                if not self._sending:
                    self._free.set()
                try:
                    settled = await self._client.send(actors.settle(batch, self._worker))
                except RemoteError as error:
                    if error.status == "INVALID_ARGUMENT":
                        self._look_for_bad(batch)
                        continue
                    if not _passes(error):
                        raise
                    await asyncio.sleep(pause)
                    pause = min(LONGEST_PAUSE, pause * 2)
                    continue
                pause = FIRST_PAUSE
                self._most_settled = min(MOST_SETTLED, 2 * self._most_settled)
                del self._results[: len(batch)]
                busy = [r for r, s in zip(batch, settled, strict=True) if s.settled_as == "busy"]
                self._results += busy
                held_up = {r.ticket for r in busy}
                again = held_up.copy()
                for result, one in zip(batch, settled, strict=True):
                    if one.settled_as == "invalid":
                        self._results.append(self._refused(result, one.problem or "refused"))
                        again.add(result.ticket)
                    elif one.settled_as == "refused":
                        log.info("actor.refused", extra={"worker": self._worker})
                for result in batch:
                    if result.ticket not in again:
                        self._working.pop(result.ticket, None)
                self._free.set()
                if busy:
                    await asyncio.sleep(FIRST_PAUSE)
            self._sending = False
            self._free.set()

    def _look_for_bad(self, batch: list[v1.Settlement]) -> None:
        """The server knows one of these tickets no longer: fewer at once, until it is alone."""
        self._most_settled = max(1, len(batch) // 2)
        if len(batch) == 1:
            del self._results[0]
            self._drop(batch[0].ticket, NO_TICKET)

    def _refused(self, result: v1.Settlement, problem: str) -> v1.Settlement:
        """A result that cannot be taken is a failure; a failure that cannot be, is given back."""
        if result.WhichOneof("result") == "failure":
            return actors.released(result.ticket)
        error = actors.TaskProblem(problem, code="InvalidResult")
        return actors.failed(result.ticket, error)


def fitting(results: list[v1.Settlement]) -> list[v1.Settlement]:
    """The first of these that fit into a call, one at least."""
    size = 0
    for n, result in enumerate(results):
        size += result.ByteSize() + 10
        if n and size > SETTLED_BYTES:
            return results[:n]
    return results


@contextmanager
def stop_on_signals(loop: ActorLoop) -> Iterator[None]:
    """SIGTERM and SIGINT stop it in order."""
    running, numbers = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        running.add_signal_handler(number, loop.stop)
    try:
        yield
    finally:
        for number in numbers:
            running.remove_signal_handler(number)


def _passes(error: RemoteError) -> bool:
    """Whether the same call may succeed later."""
    return isinstance(error, ServerAway) or error.status in ("RESOURCE_EXHAUSTED", "ABORTED")
