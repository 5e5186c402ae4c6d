"""`should_process` of stages elsewhere: those of a visit are asked side by side, under one budget.

A question is worth a call, never a wait: whatever goes wrong, the entity is offered unasked, and the cause
stands in the visit's result. A stage whose answers are bad too often is left alone for a while.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec

from mainspring import clock
from mainspring.entities.declare.outcome import check_visit_time
from mainspring.entities.declare.stage import Stage
from mainspring.entities.remote.items import (
    Asked,
    Bad,
    CallFailed,
    Refusal,
    StageItem,
    StageRef,
    matched,
)
from mainspring.entities.remote.peer import CALL_BYTES, StagePeer
from mainspring.entities.remote.remote_run import item_of
from mainspring.entities.remote.standing import AT_ONCE, AskRecord, Fault
from mainspring.entities.source.loader import Picture
from mainspring.errors import EndpointAway, InvalidTime
from mainspring.failure_text import clean_text

QUESTIONS = 100  # in a call
# So many entities that broke their service by a question are remembered, and asked about no more.
MOST_BREAKERS = 1000

SaidOfEntity: TypeAlias = bool | datetime | str  # or why it is offered unasked


class AskedItem(msgspec.Struct, eq=False):
    """An entity that a stage is asked about."""

    item: StageItem
    now: float
    answer: asyncio.Future[Asked | Bad]


class QuestionLine:
    """The questions of one stage on their way."""

    def __init__(self, peer: StagePeer, stage: Stage) -> None:
        self._peer = peer
        self._stage = stage
        self._ref = StageRef(stage.kind, stage.name)
        self._budget = stage.settings.budget
        self._record = AskRecord()
        self._waiting: deque[AskedItem] = deque()
        self._under_way = 0
        self._sending = False
        self._breakers: dict[str, None] = {}

    async def ask(self, key: str, picture: Picture, now: datetime, crawl: bool) -> SaidOfEntity:
        """What the stage says of an entity, or why nobody waited for it."""
        if self._peer.endpoint.is_away:
            return "away"
        if not self._peer.is_trusted:
            return "coming back"
        if key in self._breakers:
            return "broke it before"
        if not self._record.may_ask(clock.local()):
            return "resting"
        try:
            async with asyncio.timeout(self._budget):
                said = await self._asked(key, picture, now, crawl)
        except TimeoutError:
            said = "overrun"
        except EndpointAway:
            return "away"
        except CallFailed as error:
            said = "overrun" if error.fault is Fault.DEADLINE else f"failed: {error}"
        self._record.told(not isinstance(said, str), clock.local())
        return said

    async def _asked(self, key: str, picture: Picture, now: datetime, crawl: bool) -> SaidOfEntity:
        assert picture.entity is not None
        await self._peer.meet(self._ref)
        described = self._peer.description(self._ref)
        if not described.asks:
            return True
        reads = described.reads or self._stage.settings.reads
        item = item_of(key, picture, picture.entity, self._stage.name, reads, crawl)
        if item.size > CALL_BYTES:
            return "failed: too large"
        answer: asyncio.Future[Asked | Bad] = asyncio.get_running_loop().create_future()
        self._waiting.append(AskedItem(item, now.timestamp(), answer))
        if not self._sending:
            self._sending = True
            asyncio.get_running_loop().call_soon(self._send)
        return said_of(await answer, self._stage.name, now)

    def _send(self) -> None:
        self._sending = False
        while self._under_way < AT_ONCE and (batch := self._take()):
            self._under_way += 1
            self._peer.keep(self._call(batch))

    def _take(self) -> list[AskedItem]:
        batch, ids, weight = list[AskedItem](), set[str](), 0
        while self._waiting and len(batch) < QUESTIONS:
            question = self._waiting[0]
            if question.answer.done():
                self._waiting.popleft()
                continue
            if question.item.id in ids or (batch and weight + question.item.size > CALL_BYTES):
                break
            ids.add(question.item.id)
            weight += question.item.size
            batch.append(self._waiting.popleft())
        return batch

    async def _call(self, batch: list[AskedItem]) -> None:
        items = [question.item for question in batch]
        now = datetime.fromtimestamp(max(question.now for question in batch), UTC)
        try:
            with self._peer.asking():
                found = await self._peer.calls.ask(self._ref, now, items, self._budget)
        except CallFailed as error:
            self._peer.left(error)
            if error.fault is Fault.BROKE:
                self._broke(items)
            for question in batch:
                if not question.answer.done():
                    question.answer.set_exception(error)
                    question.answer.exception()
        else:
            answers = matched([item.id for item in items], found)
            for question, answer in zip(batch, answers, strict=True):
                if not question.answer.done():
                    question.answer.set_result(answer)
        finally:
            self._under_way -= 1
            for question in batch:
                question.answer.cancel()
            self._send()

    def _broke(self, items: Sequence[StageItem]) -> None:
        """The service broke with these questions in hand: they are offered unasked from now on."""
        self._breakers.update(dict.fromkeys(item.id for item in items))
        while len(self._breakers) > MOST_BREAKERS:
            del self._breakers[next(iter(self._breakers))]


def said_of(answer: Asked | Bad, stage: str, now: datetime) -> SaidOfEntity:
    """An answer as the system visit takes it."""
    if isinstance(answer, Refusal):
        return clean_text(f"failed: {answer}", 200)
    if isinstance(answer, Bad):
        return clean_text(f"failed: {answer.why}", 200)
    if isinstance(answer, datetime):
        try:
            check_visit_time(answer, stage, now)
        except InvalidTime as error:
            return clean_text(f"failed: {error}", 200)
    return answer
