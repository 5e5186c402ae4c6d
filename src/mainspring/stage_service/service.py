"""The calls of a service of stages. Each entity is processed by itself: the failure of one is its own."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC
from typing import NoReturn, Protocol, TypeVar

import grpc

from mainspring.stage_service.items import (
    outcome_of,
    problem_of,
    read_event,
    read_item,
    verdict_of,
)
from mainspring.stage_service.served import ServedStage, StageFunction
from mainspring.v1 import stage_service_pb2 as v1

log = logging.getLogger("mainspring.stage_service")
Answer = TypeVar("Answer")


class CallContext(Protocol):
    """What gRPC gives with a call."""

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn: ...


class ServedCalls:
    """StageService, of these stages."""

    def __init__(self, stages: Iterable[ServedStage]) -> None:
        self._stages = {(stage.kind, stage.stage): stage for stage in stages}

    async def _stage(self, kind: str, name: str, context: CallContext) -> ServedStage:
        if (found := self._stages.get((kind, name))) is None:
            known = ", ".join(f"{k}/{s}" for k, s in sorted(self._stages))
            await context.abort(
                grpc.StatusCode.UNIMPLEMENTED, f"no stage {kind}/{name} here; there is {known}"
            )
        return found

    async def Describe(
        self, request: v1.DescribeRequest, context: CallContext
    ) -> v1.DescribeResponse:
        stage = await self._stage(request.kind, request.stage, context)
        return v1.DescribeResponse(
            reads=stage.reads,
            writes=stage.writes,
            asks=stage.should_process is not None,
            hears=stage.saved is not None,
            schema=stage.schema,
            max_items=stage.max_items,
            max_bytes=stage.max_bytes,
        )

    async def ShouldProcess(
        self, request: v1.ShouldProcessRequest, context: CallContext
    ) -> v1.ShouldProcessResponse:
        stage = await self._stage(request.kind, request.stage, context)
        now = request.now.ToDatetime(tzinfo=UTC)

        async def ask(item: v1.Item) -> v1.Verdict:
            try:
                if stage.should_process is None:
                    return v1.Verdict(id=item.id, wanted=True)
                return verdict_of(item.id, await called(stage.should_process, read_item(item, now)))
            except Exception as error:
                return v1.Verdict(id=item.id, problem=problem_of(error))

        return v1.ShouldProcessResponse(verdicts=await side_by_side(request.items, ask))

    async def Process(self, request: v1.ProcessRequest, context: CallContext) -> v1.ProcessResponse:
        stage = await self._stage(request.kind, request.stage, context)
        now = request.now.ToDatetime(tzinfo=UTC)

        async def process(item: v1.Item) -> v1.Outcome:
            try:
                answer = await called(stage.process, read_item(item, now))
                return outcome_of(item.id, answer, stage.schema)
            except Exception as error:
                log.info("stage %s/%s failed", stage.kind, stage.stage, exc_info=True)
                return v1.Outcome(id=item.id, problem=problem_of(error))

        return v1.ProcessResponse(outcomes=await side_by_side(request.items, process))

    async def Saved(self, request: v1.SavedRequest, context: CallContext) -> v1.SavedResponse:
        stage = await self._stage(request.kind, request.consumer, context)

        async def hear(entity: v1.EntityEvents) -> v1.Heard:
            """One event after the other: what came before one that failed was heard."""
            number = 0
            for event in entity.events:
                try:
                    if stage.saved is not None:
                        await called(stage.saved, read_event(entity.id, event))
                except Exception as error:
                    return v1.Heard(id=entity.id, number=number, problem=problem_of(error))
                number = event.number
            return v1.Heard(id=entity.id, number=number)

        return v1.SavedResponse(heard=await side_by_side(request.entities, hear))


Item = TypeVar("Item")


async def side_by_side(
    items: Iterable[Item], work: Callable[[Item], Awaitable[Answer]]
) -> list[Answer]:
    """All of a call at once."""
    listed = list(items)
    if len(listed) == 1:
        return [await work(listed[0])]
    return list(await asyncio.gather(*(work(item) for item in listed)))


async def called(function: StageFunction, value: object) -> object:
    """Call a stage's function: a plain one in a thread, where it may block."""
    if inspect.iscoroutinefunction(function):
        return await function(value)
    answer = await asyncio.to_thread(function, value)
    return await answer if inspect.isawaitable(answer) else answer
