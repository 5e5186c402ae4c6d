"""All calls by name, with their messages: what a transport serves.

A call's handler has its name in lower case with underscores. It takes the caller and the request; the one
stream gives responses one by one. Services that nobody has written yet are not here.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from mainspring.errors import InvalidRequest
from mainspring.server.access.caller import Caller
from mainspring.server.handlers.actors import ActorCalls
from mainspring.server.handlers.params import ParamCalls
from mainspring.server.handlers.processes import ProcessCalls
from mainspring.server.handlers.states import StateCalls
from mainspring.server.handlers.store import Store
from mainspring.server.handlers.tasks import TaskCalls
from mainspring.v1 import (
    actor_service_pb2,
    param_service_pb2,
    process_service_pb2,
    state_service_pb2,
    task_service_pb2,
)


class ServiceCalls(Protocol):
    """What has the handlers of a service."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Method:
    """One call of a service."""

    service: str
    name: str
    request: type[Message]
    is_stream: bool
    handler: Callable[[Caller, Any], Any]
    waits: bool  # its request may ask for an answer that waits

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"

    def read(self, body: bytes) -> Message:
        """The request of these bytes; what is no such message is refused."""
        request = self.request()
        try:
            request.ParseFromString(body)
        except Exception:  # the parser has errors of its own, and UnicodeDecodeError
            raise InvalidRequest("the request", f"is no {request.DESCRIPTOR.full_name}") from None
        return request

    def answer(self, caller: Caller, request: Message) -> Awaitable[Message]:
        """Call the handler."""
        return self.handler(caller, request)  # type: ignore[no-any-return]

    def stream(self, caller: Caller, request: Message) -> AsyncIterator[Message]:
        """Call the handler of a stream."""
        return self.handler(caller, request)  # type: ignore[no-any-return]

    def wait_seconds(self, request: Message) -> float:
        """For how long the caller lets the answer wait."""
        if not self.waits:
            return 0.0
        wait = request.wait  # type: ignore[attr-defined]
        return float(wait.seconds + wait.nanos / 1e9)


class Services:
    """The services of one server process, over one database."""

    def __init__(self, store: Store) -> None:
        self._calls: dict[str, tuple[ServiceDescriptor, ServiceCalls]] = {}
        self._add(task_service_pb2.DESCRIPTOR, TaskCalls(store))
        self._add(param_service_pb2.DESCRIPTOR, ParamCalls(store))
        self._add(process_service_pb2.DESCRIPTOR, ProcessCalls(store))
        self._add(state_service_pb2.DESCRIPTOR, StateCalls(store))
        self._add(actor_service_pb2.DESCRIPTOR, ActorCalls(store))

    def _add(self, file: FileDescriptor, calls: ServiceCalls) -> None:
        [descriptor] = file.services_by_name.values()
        self._calls[descriptor.full_name] = (descriptor, calls)

    @property
    def names(self) -> list[str]:
        return list(self._calls)

    def methods(self) -> Iterator[Method]:
        """All calls."""
        for descriptor, calls in self._calls.values():
            for method in descriptor.methods:
                yield Method(
                    descriptor.full_name,
                    method.name,
                    GetMessageClass(method.input_type),
                    method.server_streaming,
                    getattr(calls, _snake(method.name)),
                    "wait" in method.input_type.fields_by_name,
                )

    def by_path(self) -> dict[str, Method]:
        """All calls by their paths."""
        return {method.path: method for method in self.methods()}

    async def close(self) -> None:
        """Let those go who wait."""
        for _, calls in self._calls.values():
            await calls.close()


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
