"""The line of waiting pulls: one look holds for all who wait in this process, in one event loop.

A look that finds nothing makes it sleep: whoever offers a task then notifies it (Sleeper). It
looks now and then all the same, after 0.05 s, doubling to 1 s. A pull whose caller has gone gives back
what was held for it, at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeVar

from mainspring import crash_points
from mainspring.db.connect.outage import is_transient
from mainspring.db.database import Database
from mainspring.db.reconnecting import Reconnecting
from mainspring.db.sql import Steps
from mainspring.kernel import Run
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.declare.versions import Versions
from mainspring.processes.remote import pulling
from mainspring.processes.remote.places import RowPlaces
from mainspring.processes.remote.pull_rows import RemoteActor
from mainspring.processes.remote.pulling import (
    Dealt,
    DealtTask,
    HeldTask,
    PullAsk,
)
from mainspring.processes.remote.seal import Seals
from mainspring.processes.remote.sleeper import Sleeper
from mainspring.processes.remote.ticket import Pulled
from mainspring.tasks.declare.sealing import Sealing

log = logging.getLogger("mainspring")
T = TypeVar("T")
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
PAUSED_SECONDS = 2.0  # after which a client asks a paused actor again
STOPPING_SECONDS = 0.5  # after which it asks another server


class LineHost(Protocol):
    """What the line needs of the application."""

    versions: Versions

    @property
    def sealing(self) -> Sealing | None: ...

    async def database(self) -> Database: ...
    async def run_steps(self, steps: Steps[T]) -> T: ...


class PullAnswer(NamedTuple):
    """What a pull got, and in how many seconds it should come again, if not at once."""

    tasks: list[Pulled]
    pause: float | None = None


@dataclass(eq=False, slots=True)
class OpenPull:
    """A pull that waits."""

    asking: PullAsk
    until: float
    answer: asyncio.Future[PullAnswer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    held: list[HeldTask] = field(default_factory=list)

    def end(self, tasks: Sequence[Pulled] = (), pause: float | None = None) -> None:
        if not self.answer.done():
            self.answer.set_result(PullAnswer(list(tasks), pause))

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class PullLine:
    """Of one event loop. `ended` commits tasks that end without being handed out. `stays`: it goes on
    listening while nobody waits, until it is closed."""

    def __init__(
        self,
        host: LineHost,
        seals: Seals,
        ended: Callable[[Run, TaskChange], Steps[str]],
        places: RowPlaces,
        *,
        stays: bool,
    ) -> None:
        self._host = host
        self._seals = seals
        self._ended = ended
        self._places = places
        self._stays = stays
        self._open: dict[OpenPull, None] = {}  # in the order of their coming
        self._due: set[str] = set()  # actors to be looked at now
        self._empty: set[str] = (
            set()
        )  # actors that had nothing while it slept: it is told if there is more
        self._wanting: Counter[str] = Counter()  # open pulls by actor
        self._limited: set[str] = set()
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._news = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._sleeper: Sleeper | None = None
        self._pause = FIRST_PAUSE
        self._giving: set[asyncio.Task[None]] = set()
        self._closed = False
        self._url = ""
        self.looks = 0  # for whoever wants to know what waiting costs

    async def pull(self, asking: PullAsk, wait: float, *, again: bool = False) -> PullAnswer:
        """Tasks for one who asks; waits for the first of them. `again`: the answer to this very pull was
        lost."""
        if again and (found := await self._again(asking)):
            return PullAnswer(found)
        if self._closed:
            return PullAnswer([], STOPPING_SECONDS)
        pull = OpenPull(asking, asyncio.get_running_loop().time() + wait)
        self._open[pull] = None
        self._wanting.update(asking.actors)
        fresh = [name for name in asking.actors if wait <= 0 or not self._is_empty(name)]
        self._due.update(fresh)
        self._news.set()  # also for one who is told: from now on it looks sooner
        if self._loop is None or self._loop.done():
            self._loop = asyncio.get_running_loop().create_task(
                self._looking(), name="mainspring.pulls"
            )
        try:
            return await pull.answer
        except asyncio.CancelledError:
            if pull.answer.done() and not pull.answer.cancelled():
                self._give_back(pull.held)  # held, and nobody is there to take it
            raise
        finally:
            del self._open[pull]
            self._wanting.subtract(asking.actors)
            self._news.set()

    def _is_empty(self, name: str) -> bool:
        """Whether nothing waits for this actor, and it would be told."""
        sleeper = self._sleeper
        told = sleeper is not None and sleeper.is_told and not sleeper.tiring([name])
        return told and name in self._empty

    def settled(self, actors: Sequence[str]) -> None:
        """Tasks of these have ended: their limits, if they have any, have room."""
        if limited := self._limited.intersection(actors):
            self._offered_now(sorted(limited))

    async def close(self) -> None:
        """All who wait are answered, with nothing."""
        self._closed = True
        for pull in list(self._open):
            pull.end(pause=STOPPING_SECONDS)
        self._news.set()
        if self._loop is not None:
            await asyncio.wait([self._loop], timeout=5)
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop
        await self._leave()
        if self._giving:
            await asyncio.wait(self._giving, timeout=5)

    # -- what it is told

    def _offered(self, queue: str, due_at: datetime) -> None:
        delay = (due_at - datetime.now(UTC)).total_seconds()
        if delay <= 0:
            self._offered_now([queue])
        elif delay < LONGEST_PAUSE and queue not in self._later:
            loop = asyncio.get_running_loop()
            self._later[queue] = loop.call_later(delay, self._offered_now, [queue])

    def _offered_now(self, queues: Sequence[str]) -> None:
        for queue in queues:
            if (timer := self._later.pop(queue, None)) is not None:
                timer.cancel()
        self._empty.difference_update(queues)
        if wanted := [queue for queue in queues if self._wanting[queue] > 0]:
            self._due.update(wanted)
            self._news.set()

    def _heard(self) -> None:
        """Something may have been missed: all are looked at."""
        self._offered_now(sorted(self._wanted()))

    # -- looking

    async def _looking(self) -> None:
        reconnecting = Reconnecting("pulls.waiting")
        while self._open:
            while self._open or (self._stays and not self._closed):
                self._news.clear()
                self._end_late()
                if not self._due:
                    await self._rest()
                    continue
                try:
                    await self._look()
                    reconnecting.worked()
                except Exception as error:
                    if not is_transient(error):
                        log.error("pulls.failed", exc_info=error)
                        self._fail(error, self._open)
                    else:
                        self._fail(error, self._late())
                        await asyncio.sleep(reconnecting.failed(error))
            await self._leave()

    def _late(self) -> list[OpenPull]:
        now = asyncio.get_running_loop().time()
        return [pull for pull in self._open if pull.until <= now]

    def _end_late(self) -> None:
        """Whose time is over, and who was looked at before, has nothing."""
        for pull in self._late():
            if not self._due.intersection(pull.asking.actors):
                pull.end()

    async def _rest(self) -> None:
        """Until something is said, or somebody's time is over, or it is time to look all the same."""
        now = asyncio.get_running_loop().time()
        ends = [pull.until for pull in self._open if not pull.answer.done()]
        look_at = now + self._pause if self._open else now + 60.0
        try:
            async with asyncio.timeout(max(0.0, min([look_at, *ends]) - now)):
                await self._news.wait()
        except TimeoutError:
            if asyncio.get_running_loop().time() >= look_at:
                self._pause = min(LONGEST_PAUSE, self._pause * 2)
                self._due |= self._wanted()

    def _wanted(self) -> set[str]:
        return {name for name, count in self._wanting.items() if count > 0}

    async def _look(self) -> None:
        looked, self._due = self._due, set()
        try:
            await self._look_at(looked)
        except BaseException:
            self._due |= looked
            raise

    async def _look_at(self, looked: set[str]) -> None:
        self.looks += 1
        asking = [p for p in self._open if looked.intersection(p.asking.actors)]
        if not asking:
            return
        known = await self._host.run_steps(pulling.look_steps(self._wanted()))
        self._limited = {name for name, actor in known.items() if actor.limited}
        for pull in asking:
            if (error := pulling.not_pulled(pull.asking.actors, known)) is not None:
                pull.fail(error)
            elif all(known[name].paused for name in pull.asking.actors):
                pull.end(pause=PAUSED_SECONDS)
        asking = [pull for pull in asking if not pull.answer.done()]
        if asking and any(known[name].has_due for p in asking for name in p.asking.actors):
            await self._hold(asking, known)
        now = asyncio.get_running_loop().time()
        waiting = [pull for pull in asking if not pull.answer.done() and pull.until > now]
        if left := {name for pull in waiting for name in pull.asking.actors} & looked:
            await self._sleep(left)

    async def _hold(self, asking: Sequence[OpenPull], known: dict[str, RemoteActor]) -> None:
        asking = [pull for pull in asking if not pull.answer.done()]
        asked = [pull.asking for pull in asking]
        self._url = (await self._host.database()).url
        held: list[HeldTask] = []
        try:
            dealt = await self._host.run_steps(self._hold_and_load(asked, known, held))
        except BaseException:
            if held:  # its commit may have come about
                self._give_back(held)
            raise
        if held:
            crash_points.passed("pull.held")
        shares: list[list[DealtTask]] = [[] for _ in asking]
        for task in dealt.tasks:
            shares[task.held.asked].append(task)
        for pull, tasks in zip(asking, shares, strict=True):
            pull.held = [task.held for task in tasks]
            if tasks and pull.answer.done():  # its caller went meanwhile
                self._give_back(pull.held)
            elif tasks:
                pull.end(self._fitting(tasks))
        for ended, change in dealt.ended:
            await self._host.run_steps(self._ended(ended, change))
        if dealt.tasks:
            self._pause = FIRST_PAUSE

    def _hold_and_load(
        self, asked: Sequence[PullAsk], known: dict[str, RemoteActor], held: list[HeldTask]
    ) -> Steps[Dealt]:
        held += yield from pulling.hold_steps(asked, known)
        if not held:
            return Dealt([], [])
        return (yield from self._load(held, known))

    def _load(self, held: Sequence[HeldTask], known: dict[str, RemoteActor]) -> Steps[Dealt]:
        host = self._host
        return pulling.load_steps(held, known, host.versions, self._seals, self._url, host.sealing)

    async def _again(self, asking: PullAsk) -> list[Pulled]:
        """What is held for this very pull. If its caller has gone it is left to its time: a later call of
        the same pull may have told of it."""
        self._url = (await self._host.database()).url

        def steps() -> Steps[Dealt]:
            known = yield from pulling.look_steps(asking.actors)
            if (error := pulling.not_pulled(asking.actors, known)) is not None:
                raise error
            held = yield from pulling.again_steps(asking, known)
            return (yield from self._load(held, known))

        dealt = await self._host.run_steps(steps())
        return self._fitting(dealt.tasks)

    def _fitting(self, tasks: Sequence[DealtTask]) -> list[Pulled]:
        """What fits into an answer; the rest is due again at once, for it would be lost with it."""
        most = pulling.fitting(tasks)
        for task in tasks[:most]:
            if task.is_simple:
                self._places.note(task.held.hold.run, task.held.hold.address)
        self._give_back([task.held for task in tasks[most:]])
        return [task.pulled for task in tasks[:most]]

    # -- sleeping

    async def _sleep(self, actors: set[str]) -> None:
        """Have offers tell it; what came before they do is looked for once more."""
        if self._sleeper is None:
            self._sleeper = Sleeper(await self._host.database(), self._offered, self._heard)
            self._sleeper.start()
        self._empty |= actors
        if self._sleeper.is_told and (tiring := self._sleeper.tiring(actors)):
            fresh = await self._host.run_steps(self._sleeper.sleep(tiring))
            if fresh:
                self._offered_now(fresh)

    async def _leave(self) -> None:
        sleeper, self._sleeper = self._sleeper, None
        self._empty.clear()
        for timer in self._later.values():
            timer.cancel()
        self._later.clear()
        if sleeper is not None:
            await sleeper.close()
            with suppress(Exception):  # its rows are past soon
                await self._host.run_steps(sleeper.leave())

    # -- giving back

    def _give_back(self, held: Sequence[HeldTask]) -> None:
        if held:
            task = asyncio.get_running_loop().create_task(self._giving_back(list(held)))
            self._giving.add(task)
            task.add_done_callback(self._giving.discard)

    async def _giving_back(self, held: Sequence[HeldTask]) -> None:
        try:
            await self._host.run_steps(pulling.give_back_steps(held))
        except Exception as error:  # they come back when their time is over
            log.warning("pull.not_given_back", extra={"tasks": len(held), "error": str(error)})
        self._offered_now(sorted({one.visit.queue for one in held}))

    def _fail(self, error: Exception, pulls: Iterable[OpenPull]) -> None:
        for pull in pulls:
            pull.fail(error)
