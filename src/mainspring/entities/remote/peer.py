"""A service with one worker: its calls are made up here, and what a failed call means is carried out.

Runs that wait for the service form a line for each method of each stage. A call takes what waits, a few
calls at a time. `standing.py` decides, this file does; who speaks gRPC is given by `calls`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime

from mainspring import clock
from mainspring.endpoint import Endpoint
from mainspring.entities.declare.stage import Stage
from mainspring.entities.remote.call_line import (
    CallLine,
    Found,
    Item,
    Size,
    SomeLine,
    SomeWish,
    TooLarge,
    tell,
)
from mainspring.entities.remote.items import (
    CallFailed,
    Description,
    StageCalls,
    StageRef,
    matched,
)
from mainspring.entities.remote.standing import Fate, Fault, Standing
from mainspring.errors import EndpointAway, PutOff, StageFailed

CALL_BYTES = 1_000_000
# A channel is made anew so often: certificates, tokens and addresses are read again (seconds).
REMADE_EVERY = 600.0
# What could not be tried is due again after so long (seconds), and waits for its service then.
PUT_OFF = 1.0
SPREAD = 2.0
DESCRIBE_SECONDS = 5.0
CHECK_SECONDS = 5.0


class StagePeer:
    """One service, called by one worker under one proof."""

    def __init__(self, name: str, calls: StageCalls) -> None:
        self.name = name
        self.calls = calls
        self.standing = Standing()
        self.endpoint = Endpoint(name, self._try)
        self.endpoint.when_back(self.pump_soon)
        self._stages: dict[StageRef, Stage] = {}
        self._met: dict[StageRef, Description] = {}
        self._meeting: dict[StageRef, asyncio.Task[None]] = {}
        self._lines: list[SomeLine] = []  # of whatever items
        self._under_way = 0
        self._alone = False  # a suspect's call is under way
        self._waits_alone = False  # one waits to be, as of the last look
        self._pumping = False
        self._closed = False
        self._made_at = clock.local()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, stage: Stage) -> StageRef:
        """One of its stages."""
        ref = StageRef(stage.kind, stage.name)
        self._stages[ref] = stage
        self.calls.sends(ref, stage.remote.entity if stage.remote else None)
        return ref

    def line(
        self,
        ref: StageRef,
        size: Callable[[], Size],
        call: Callable[[datetime, Sequence[Item]], Awaitable[list[tuple[str, Found]]]],
        word: str = "process",
    ) -> CallLine[Item, Found]:
        """A line for one method of a stage."""
        found: CallLine[Item, Found] = CallLine(self, ref, size, call, word)
        self._lines.append(found)
        return found

    # -- what the service says of itself

    def description(self, ref: StageRef) -> Description:
        """What it said last of a stage."""
        return self._met.get(ref) or Description()

    def has_met(self, ref: StageRef) -> bool:
        """Whether it is here, and has described a stage since it came back."""
        return ref in self._met and not self.endpoint.is_away

    async def meet(self, ref: StageRef) -> None:
        """Have it describe a stage, unless it has since it came back."""
        if self.endpoint.is_away:
            raise EndpointAway(f"{self.name}: {self.endpoint.reason}")
        if ref in self._met:
            return
        task = self._meeting.get(ref)
        if task is None:
            task = self._meeting[ref] = self.keep(self._describe_first(ref))
            task.add_done_callback(lambda _: self._meeting.pop(ref, None))
        await asyncio.wait([task])
        if ref not in self._met:
            raise EndpointAway(f"{self.name}: {self.endpoint.reason or 'it was not described'}")

    async def _describe_first(self, ref: StageRef) -> None:
        try:
            await self._describe(ref)
        except CallFailed as error:
            self._away(error)

    async def _describe(self, ref: StageRef) -> None:
        found = await self.calls.describe(ref, DESCRIBE_SECONDS)
        if (why := unfit(self._stages[ref], found)) is not None:
            raise CallFailed(Fault.AWAY, f"contract: {why}")
        self._met[ref] = found

    async def _try(self) -> None:
        """Whether it is back: it serves, and describes its stages as they are declared."""
        self._met.clear()
        try:
            await self.calls.check(CHECK_SECONDS)
            for ref in self._stages:
                await self._describe(ref)
        except CallFailed as error:
            raise EndpointAway(str(error), retry_after=error.retry_after) from None

    # -- calls

    @property
    def is_trusted(self) -> bool:
        """Whether questions that nobody needs answered may be asked beside its work."""
        return (
            not self.endpoint.is_away
            and self.endpoint.most is None
            and not (self._alone or self._waits_alone)
            and not self.standing.hangs
        )

    def pump_soon(self) -> None:
        """Something may be sent: once for all who ask in the same turn of the event loop."""
        if not (self._pumping or self._closed):
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        if self.endpoint.is_away:
            for line in self._lines:
                line.put_off(EndpointAway(f"{self.name}: {self.endpoint.reason}"))
            return
        suspected = [line for line in self._lines if line.has_suspect]
        self._waits_alone = bool(suspected)
        if suspected and self._may_send(suspected[0], is_alone=True):
            self._alone = True
            self._send(suspected[0], suspected[0].take_suspect(), alone=True)
        for line in self._lines:
            while self._may_send(line, is_alone=False) and (batch := line.take()):
                self._send(line, batch, alone=False)

    def _may_send(self, line: SomeLine, *, is_alone: bool) -> bool:
        return self.standing.may_send(
            of_method=line.under_way,
            of_all=self._under_way,
            is_alone=is_alone,
            alone_out=self._alone or self._waits_alone,
        )

    def _send(self, line: SomeLine, batch: list[SomeWish], *, alone: bool) -> None:
        line.began()
        self._under_way += 1
        self.keep(self._call(line, batch, alone))

    async def _call(self, line: SomeLine, batch: list[SomeWish], alone: bool) -> None:
        try:
            self._refresh()
            now = datetime.fromtimestamp(max(wish.now for wish in batch), UTC)
            found = await line.call(now, [wish.item for wish in batch])
            answers = matched([wish.item.id for wish in batch], found)
        except CallFailed as error:
            self._failed(line, batch, error, alone)
        except asyncio.CancelledError:
            for wish in batch:
                wish.answer.cancel()
            raise
        except Exception as error:  # our own fault: told to each, and no call hangs for it
            tell(batch, error)
        else:
            self.standing.answered(wish.key for wish in batch)
            self.endpoint.succeeded()
            for wish, answer in zip(batch, answers, strict=True):
                if not wish.answer.done():
                    wish.answer.set_result(answer)
        finally:
            line.ended()
            self._under_way -= 1
            if alone:
                self._alone = False
            self.pump_soon()

    def _failed(
        self, line: SomeLine, batch: list[SomeWish], error: CallFailed, alone: bool
    ) -> None:
        hung = self.standing.hangs
        fate = self.standing.failed({wish.key for wish in batch}, error.fault, alone=alone)
        if fate in (Fate.PUT_OFF, Fate.CRASHED):
            if self.standing.hangs and not hung:
                self.calls.remake()
            self._away(error)
        match fate:
            case Fate.PUT_OFF:
                tell(batch, EndpointAway(str(error), retry_after=error.retry_after))
            case Fate.CRASHED:
                # At a moment of its own, that no other entity is with it at another worker.
                after = PUT_OFF + random.uniform(0, SPREAD)
                tell(batch, PutOff(f"{error}; it had this entity alone", after, crash=True))
            case Fate.HALVED:
                line.halve(batch)
            case Fate.FAILED:
                tell(batch, StageFailed(f"{self.name}: {error}"))
            case Fate.PARKED:
                tell(batch, TooLarge(str(error)))

    def _away(self, error: CallFailed) -> None:
        """The gate closes."""
        after, text = error.retry_after, str(error)
        if error.fault is Fault.OVERLOADED:
            after, text = self.standing.rest(after), f"overloaded: {error}"
        elif error.fault is Fault.DEADLINE:
            text = f"it hangs: {self.standing.deadlines} calls in a row had no answer in time ({error})"
        self.endpoint.left(EndpointAway(text, retry_after=after))
        self.pump_soon()

    def asking(self) -> Asking:
        """A question under way: a suspect that is to go alone waits for its end."""
        return Asking(self)

    def began(self) -> None:
        self._under_way += 1

    def ended(self) -> None:
        self._under_way -= 1
        self.pump_soon()

    def left(self, error: CallFailed) -> None:
        """A question found that nobody is there."""
        if error.fault in (Fault.AWAY, Fault.BROKE):
            self._away(error)

    # -- its channel, and the end

    def _refresh(self) -> None:
        if clock.local() - self._made_at > REMADE_EVERY:
            self._made_at = clock.local()
            self.calls.remake()

    def keep(self, work: Coroutine[object, None, None]) -> asyncio.Task[None]:
        """Do this, and end it when the worker stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End what is under way."""
        self._closed = True
        await self.endpoint.close()
        for line in self._lines:
            line.put_off(EndpointAway(f"{self.name}: this worker stops"))
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.calls.close()


class Asking:
    """For as long as the block lasts a question is under way."""

    def __init__(self, peer: StagePeer) -> None:
        self._peer = peer

    def __enter__(self) -> None:
        self._peer.began()

    def __exit__(self, *_: object) -> None:
        self._peer.ended()


def unfit(stage: Stage, said: Description) -> str | None:
    """Why a service does not fit what is declared of its stage: it may need less, never more."""
    for name, wanted in (("reads", said.reads), ("writes", said.writes)):
        declared = getattr(stage.settings, name)
        if declared is not None and (more := sorted(set(wanted) - set(declared))):
            return (
                f"the service {name} {', '.join(more)}, which stage {stage.name!r} does not declare; "
                f"add it to {name}=, or deploy the service that fits"
            )
    if stage.remote is not None and stage.remote.hears and not said.hears:
        return (
            f"stage {stage.name!r} is declared with saved=True, and the service says that it hears no "
            "events; leave out saved=, or deploy the service that does"
        )
    return None
