"""The calls of one service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar, cast

import grpc
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from mainspring.entities.declare.remote import ServiceAddress
from mainspring.entities.remote.items import (
    Asked,
    Bad,
    CallFailed,
    Description,
    HeardUpTo,
    Processed,
    SavedEvents,
    StageItem,
    StageRef,
)
from mainspring.entities.remote.standing import Fault
from mainspring.failure_text import clean_text
from mainspring.stage_client import messages
from mainspring.stage_client.channel import OLD_SECONDS, open_channel, until_ready
from mainspring.stage_client.faults import fault_of, retry_after, shown
from mainspring.v1 import stage_service_pb2 as v1

SERVICE = "/mainspring.v1.StageService/"
HEALTH = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"  # HealthCheckResponse(status=SERVING): a field, and nothing else
FEATURES: tuple[str, ...] = ()
Reply = TypeVar("Reply", bound=Message)


class GrpcCalls:
    """A service at its address, called from one event loop."""

    def __init__(self, address: ServiceAddress) -> None:
        self._address = address
        self._channel: grpc.aio.Channel | None = None
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        self._metadata = (
            () if address.token is None else (("authorization", f"Bearer {address.token}"),)
        )
        self._ending: set[asyncio.Task[None]] = set()
        self._types: dict[StageRef, type[Message] | None] = {}

    def sends(self, ref: StageRef, type_: type[object] | None) -> None:
        """What a stage's entities are sent as: messages of this class, or JSON."""
        self._types[ref] = cast("type[Message] | None", type_)

    def _items(self, ref: StageRef, items: Sequence[StageItem]) -> list[v1.Item]:
        type_ = self._types.get(ref)
        try:
            return [messages.to_item(item, type_) for item in items]
        except json_format.ParseError as error:
            text = f"an entity does not fit the message that it is sent as: {error}"
            raise CallFailed(Fault.PERHAPS, clean_text(text, 500)) from None

    async def describe(self, ref: StageRef, timeout: float) -> Description:
        """What the service says that a stage needs."""
        request = v1.DescribeRequest(kind=ref.kind, stage=ref.stage, features=FEATURES)
        said = await self._call("Describe", request, v1.DescribeResponse, timeout)
        return Description(
            reads=tuple(said.reads),
            writes=tuple(said.writes),
            asks=said.asks,
            hears=said.hears,
            schema=max(0, said.schema),
            most_items=max(0, said.max_items),
            most_bytes=max(0, said.max_bytes),
        )

    async def check(self, timeout: float) -> None:
        """Ask its health, if it has one to tell."""
        try:
            said = await self._send(HEALTH, b"", timeout)
        except CallFailed as error:
            if error.fault is Fault.AWAY and "UNIMPLEMENTED" in str(error):
                return  # then Describe is the trial
            raise
        if not said.startswith(_SERVING):
            raise CallFailed(Fault.AWAY, "its health says that it does not serve")

    async def ask(
        self, ref: StageRef, now: datetime, items: Sequence[StageItem], timeout: float
    ) -> list[tuple[str, Asked | Bad]]:
        """Which entities a stage wants."""
        request = v1.ShouldProcessRequest(
            kind=ref.kind, stage=ref.stage, items=self._items(ref, items)
        )
        request.now.FromDatetime(now)
        said = await self._call("ShouldProcess", request, v1.ShouldProcessResponse, timeout)
        return messages.read_each(said.verdicts, messages.read_verdict)

    async def process(
        self, ref: StageRef, now: datetime, items: Sequence[StageItem], timeout: float
    ) -> list[tuple[str, Processed | Bad]]:
        """What a stage makes of entities."""
        type_ = self._types.get(ref)
        request = v1.ProcessRequest(kind=ref.kind, stage=ref.stage, items=self._items(ref, items))
        request.now.FromDatetime(now)
        said = await self._call("Process", request, v1.ProcessResponse, timeout)
        return messages.read_each(said.outcomes, lambda o: messages.read_outcome(o, type_))

    async def hear(
        self, ref: StageRef, entities: Sequence[SavedEvents], timeout: float
    ) -> list[tuple[str, HeardUpTo | Bad]]:
        """Tell a stage what was saved."""
        request = v1.SavedRequest(
            kind=ref.kind, consumer=ref.stage, entities=map(messages.to_events, entities)
        )
        said = await self._call("Saved", request, v1.SavedResponse, timeout)
        return messages.read_each(said.heard, messages.read_heard)

    # -- one call

    async def _call(
        self, method: str, request: Message, response: type[Reply], timeout: float
    ) -> Reply:
        answer = await self._send(SERVICE + method, request.SerializeToString(), timeout)
        try:
            return response.FromString(answer)
        except DecodeError as error:
            raise CallFailed(
                Fault.PERHAPS, clean_text(f"the answer to {method} cannot be read: {error}", 500)
            ) from None

    async def _send(self, path: str, request: bytes, timeout: float) -> bytes:
        """Bytes for bytes: a message that is broken is our own finding, not gRPC's."""
        channel = await self._connected()
        was_ready = channel.get_state() == grpc.ChannelConnectivity.READY
        try:
            if (method := self._methods.get(path)) is None:
                method = self._methods[path] = channel.unary_unary(path)
            answer: bytes = await method(request, timeout=timeout, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            details = error.details() or ""
            is_ready = channel.get_state() == grpc.ChannelConnectivity.READY
            fault = fault_of(error.code(), details, was_ready=was_ready, is_ready=is_ready)
            after = retry_after(error) if fault is Fault.OVERLOADED else None
            raise CallFailed(fault, shown(error.code(), details), retry_after=after) from None
        return answer

    async def _connected(self) -> grpc.aio.Channel:
        """The channel, connected; a new one, if it was made anew meanwhile."""
        while True:
            channel = self._opened()
            try:
                await until_ready(channel)
            except grpc.aio.UsageError:
                if channel is self._channel:
                    raise
            if channel is self._channel:
                return channel

    def _opened(self) -> grpc.aio.Channel:
        if self._channel is None:
            self._channel = open_channel(self._address)
            self._methods = {}
        return self._channel

    def remake(self) -> None:
        """Make a channel anew at the next call; those under way end on the old one."""
        if (old := self._channel) is not None:
            self._channel = None
            ending = asyncio.get_running_loop().create_task(old.close(OLD_SECONDS))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Hang up."""
        for task in (ending := list(self._ending)):
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close()
