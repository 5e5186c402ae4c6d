"""Actors that are not functions of a worker: pull a task, beat, complete or fail it with its ticket.

`app.remote` for Python; ActorService has the same for other languages, made of the same desk. A task is
held, with its recovery time, before it is handed out; what comes back is judged by the same rules as a
worker's own decisions, its visit's token the referee. Sent again, an answer is the same answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

from mainspring.db.sql import Steps
from mainspring.errors import MainspringError, Refused
from mainspring.ids import new_id
from mainspring.processes.commit.batch import NotSettled
from mainspring.processes.record.decision import Decision
from mainspring.processes.remote import pulling, settling
from mainspring.processes.remote.answer_line import PAUSE, TRIES, is_held_up
from mainspring.processes.remote.answers import Answer, GivenBack, failed
from mainspring.processes.remote.beating import Beaten, beat_steps, held_steps
from mainspring.processes.remote.desk import (
    BEAT_PAUSE,
    BEAT_TRIES,
    Desk,
    RemoteHost,
    completed,
    ended_steps,
    retries_of,
)
from mainspring.processes.remote.pulling import HeldTask, PullAsk, check_pull, id_of
from mainspring.processes.remote.seal import Seals
from mainspring.processes.remote.settling import SettledAs, Settling
from mainspring.processes.remote.ticket import Pulled, Ticket, no_ticket, open_steps

# A long poll of plain code looks so often (seconds): soon at first, then ever more rarely.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


class Remote:
    """Tasks for actors elsewhere: those that are declared with `remote=True`.

    for task in await app.remote.pull("charge", wait=20):
        await app.remote.complete(task.ticket, charge_card(**task.args))
    """

    def __init__(self, host: RemoteHost) -> None:
        self.host = host
        self._seals = Seals()
        self._desks: WeakKeyDictionary[asyncio.AbstractEventLoop, Desk] = WeakKeyDictionary()

    def desk(self, *, stays: bool = False) -> Desk:
        """A desk of one's own, for a server in this event loop."""
        return Desk(self.host, self._seals, stays=stays)

    def _here(self) -> Desk:
        loop = asyncio.get_running_loop()
        if loop not in self._desks:
            self._desks[loop] = self.desk()
        return self._desks[loop]

    # -- async

    async def pull(
        self,
        actor: str | Sequence[str],
        *,
        limit: int = 1,
        wait: float = 0.0,
        pull_id: str | None = None,
        again: bool = False,
    ) -> list[Pulled]:
        """Take due tasks of an actor, or of several, at most `limit`; wait up to so many seconds for the
        first.

        Each is yours until its `held_until`; `beat` moves that. `again=True` with the `pull_id` of a pull
        whose answer was lost gives the same tasks.
        """
        check_pull(limit, wait)
        asking, until = _asking(actor, limit, pull_id), time.monotonic() + wait
        while True:
            left = max(0.0, until - time.monotonic())
            found = await self._here().pull(asking, left, again=again)
            if found.tasks or found.pause is None or time.monotonic() >= until:
                return found.tasks
            await asyncio.sleep(min(found.pause, max(0.0, until - time.monotonic())))

    async def beat(self, ticket: str) -> bool:
        """Say that you are still at it. False: the task has ended or another attempt has it; stop."""
        return (await self.beat_many([ticket]))[0].stop is None

    async def beat_many(self, tickets: Sequence[str]) -> list[Beaten]:
        """The same for many, in one update: until when each is yours, or why you should stop."""
        desk = self._here()
        return await desk.beat(_all_opened(tickets, await desk.open(tickets)))

    async def complete(self, ticket: str, value: object = None, *, worker: str = "remote") -> str:
        """Bring a task's result: "accepted", or "already" if this very attempt's was taken before.

        Raises `Refused` if the attempt no longer counts, also where its time ran out. `worker` is the name
        under which the history of runs knows you.
        """
        [opened] = _all_opened([ticket], await self._here().open([ticket]))
        return await self._answer(opened, completed(self.host, opened.queue, value), worker)

    async def complete_many(
        self, results: Iterable[tuple[str, object]], *, worker: str = "remote"
    ) -> list[str]:
        """Results of many by their tickets, in one commit: "accepted", "already", or "refused"."""
        listed, desk = list(results), self._here()
        opened = _all_opened([t for t, _ in listed], await desk.open([t for t, _ in listed]))
        items = [
            Settling(ticket, completed(self.host, ticket.queue, value), id_of(worker))
            for ticket, (_, value) in zip(opened, listed, strict=True)
        ]
        settled = await desk.settle(items)
        return [_told(one, ticket) for one, ticket in zip(settled, opened, strict=True)]

    async def decide(self, ticket: str, decision: Decision, *, worker: str = "remote") -> str:
        """The same for a decider: new tasks, and a value or a promise. Judged like any decision."""
        [opened] = _all_opened([ticket], await self._here().open([ticket]))
        return await self._answer(opened, decision, worker)

    async def fail(
        self,
        ticket: str,
        message: str,
        *,
        type: str = "RemoteError",
        retry: bool = True,
        worker: str = "remote",
    ) -> str:
        """Say that an attempt failed: retried as the actor's policy says (unless `retry=False`), then
        delivered to whoever catches it, or parked."""
        [opened] = _all_opened([ticket], await self._here().open([ticket]))
        return await self._answer(opened, failed(type, message, retry), worker)

    async def release(self, ticket: str, *, after: float = 0.0, worker: str = "remote") -> str:
        """Give a task back untried: it is due again at once, or after so many seconds; no attempt is
        counted."""
        [opened] = _all_opened([ticket], await self._here().open([ticket]))
        return await self._answer(opened, GivenBack(after), worker)

    async def _answer(self, ticket: Ticket, answer: Answer, worker: str) -> str:
        [settled] = await self._here().settle([Settling(ticket, answer, id_of(worker))])
        return _accepted(settled, ticket)

    # -- the same for code that is not async

    def pull_sync(
        self,
        actor: str | Sequence[str],
        *,
        limit: int = 1,
        wait: float = 0.0,
        pull_id: str | None = None,
        again: bool = False,
    ) -> list[Pulled]:
        """See pull."""
        check_pull(limit, wait)
        asking, until, pause = _asking(actor, limit, pull_id), time.monotonic() + wait, FIRST_PAUSE
        if again and (tasks := self._again_sync(asking)):
            return tasks
        while True:
            if tasks := self._pull_once(asking):
                return tasks
            if (left := until - time.monotonic()) <= 0:
                return []
            time.sleep(min(left, pause))
            pause = min(LONGEST_PAUSE, pause * 2)

    def _pull_once(self, asking: PullAsk) -> list[Pulled]:
        host, url = self.host, self.host.database_sync().url
        known = host.run_steps_sync(pulling.look_steps(asking.actors))
        if (error := pulling.not_pulled(asking.actors, known)) is not None:
            raise error

        def steps() -> Steps[pulling.Dealt]:
            held = yield from pulling.hold_steps([asking], known)
            return (
                yield from pulling.load_steps(
                    held, known, host.versions, self._seals, url, host.sealing
                )
            )

        dealt = host.run_steps_sync(steps())
        for ended, change in dealt.ended:
            host.run_steps_sync(ended_steps(host, ended, change))
        return [task.pulled for task in dealt.tasks]

    def _again_sync(self, asking: PullAsk) -> list[Pulled]:
        host, url = self.host, self.host.database_sync().url

        def steps() -> Steps[pulling.Dealt]:
            known = yield from pulling.look_steps(asking.actors)
            if (error := pulling.not_pulled(asking.actors, known)) is not None:
                raise error
            held: list[HeldTask] = yield from pulling.again_steps(asking, known)
            return (
                yield from pulling.load_steps(
                    held, known, host.versions, self._seals, url, host.sealing
                )
            )

        return [task.pulled for task in host.run_steps_sync(steps()).tasks]

    def beat_sync(self, ticket: str) -> bool:
        """See beat."""
        [opened] = self._opened_sync([ticket])
        for n in range(BEAT_TRIES):
            if n:
                time.sleep(BEAT_PAUSE)
            if self.host.run_steps_sync(beat_steps([opened])):
                return True
            [held] = self.host.run_steps_sync(held_steps([opened]))
            if held.stop is not None:
                return False
        return True

    def complete_sync(self, ticket: str, value: object = None, *, worker: str = "remote") -> str:
        """See complete."""
        [opened] = self._opened_sync([ticket])
        return self._answer_sync(opened, completed(self.host, opened.queue, value), worker)

    def decide_sync(self, ticket: str, decision: Decision, *, worker: str = "remote") -> str:
        """See decide."""
        return self._answer_sync(self._opened_sync([ticket])[0], decision, worker)

    def fail_sync(
        self,
        ticket: str,
        message: str,
        *,
        type: str = "RemoteError",
        retry: bool = True,
        worker: str = "remote",
    ) -> str:
        """See fail."""
        answer = failed(type, message, retry)
        return self._answer_sync(self._opened_sync([ticket])[0], answer, worker)

    def release_sync(self, ticket: str, *, after: float = 0.0, worker: str = "remote") -> str:
        """See release."""
        return self._answer_sync(self._opened_sync([ticket])[0], GivenBack(after), worker)

    def _opened_sync(self, texts: Sequence[str]) -> list[Ticket]:
        url = self.host.database_sync().url
        return _all_opened(texts, self.host.run_steps_sync(open_steps(texts, self._seals, url)))

    def _answer_sync(self, ticket: Ticket, answer: Answer, worker: str) -> str:
        item = Settling(ticket, answer, id_of(worker))
        for _ in range(TRIES):
            if (settled := self._settle_once(item)) is not None:
                break
            time.sleep(PAUSE)
        return _accepted(settled, ticket)

    def _settle_once(self, item: Settling) -> SettledAs:
        host, shard_count = self.host, self.host.database_sync().shard_count
        batch = host.run_steps_sync(settling.prepare_steps([item], retries_of(host), host.sealing))
        settled = batch.settled
        for fast in (True, False) if batch.changes else ():
            try:
                steps = settling.change_batch_steps(batch.changes, shard_count, fast=fast)
                settled |= host.run_steps_sync(steps)
                break
            except Exception as error:
                if not is_held_up(error):
                    raise
                if not fast:
                    return None
        if batch.others:
            try:
                settled |= host.run_steps_sync(settling.settle_free_steps(batch.others))
            except NotSettled:
                return None
        if not settled:
            settled |= host.run_steps_sync(settling.judge_steps([item], [0]))
        return settled[0]


def _asking(actor: str | Sequence[str], limit: int, pull_id: str | None) -> PullAsk:
    actors = (actor,) if isinstance(actor, str) else tuple(dict.fromkeys(actor))
    return PullAsk(actors, limit, pull_id or new_id())


def _all_opened(texts: Sequence[str], opened: Sequence[Ticket | None]) -> list[Ticket]:
    found = [ticket for ticket in opened if ticket is not None]
    if len(found) < len(opened):
        raise no_ticket(texts[list(opened).index(None)])
    return found


def _told(settled: SettledAs, ticket: Ticket) -> str:
    """What became of one of many."""
    if isinstance(settled, MainspringError):
        raise settled
    return "busy" if settled is None else settled


def _accepted(settled: SettledAs, ticket: Ticket) -> str:
    """Outside the transaction, so that the count of what is refused is kept."""
    if isinstance(settled, MainspringError):
        raise settled
    if settled is None:
        raise Refused(f"task {ticket.task} is being changed and does not come free; send it again")
    if settled == "refused":
        raise Refused(
            f"this attempt at task {ticket.task} of {ticket.queue!r} no longer counts: the task has "
            "ended, was cancelled or restarted, or a newer attempt has it; drop the result"
        )
    return settled
