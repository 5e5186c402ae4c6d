"""AsyncClient: the server's calls to be awaited. `client.py` has the same for plain code."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

import grpc

from mainspring.client import params, processes, states, tasks
from mainspring.client.actor_client import AsyncActorClient
from mainspring.client.channel import ServerPlace
from mainspring.client.messages import Seconds, seconds_of
from mainspring.client.params import ParamValue, TaskAffected, Value, param_of
from mainspring.client.processes import ProcessRef, ProcessStatus
from mainspring.client.remote_call import Attempts, RemoteCall
from mainspring.client.remote_error import remote_error
from mainspring.client.states import StateRead
from mainspring.client.tasks import EnqueueOptions, TaskRef, TaskStatus
from mainspring.errors import InvalidArguments, ResultTimeout
from mainspring.v1 import param_service_pb2

T = TypeVar("T")
ONE_WAIT = 20.0  # for which one call of a long wait lasts
STREAM_SECONDS = 31 * 60.0  # the server ends a stream before


class AsyncClient:
    """A server, called from one event loop.

    `timeout`: seconds within which a call is answered, repetitions included. Without `tls` it is used
    unless the server is on this machine. The token is `MAINSPRING_TOKEN` unless given.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        tls: bool | None = None,
        ca: str | Path | None = None,
        cert: str | Path | None = None,
        key: str | Path | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._place = ServerPlace(address, token, tls, ca, cert, key)
        self._timeout = timeout
        self._channel: Any = self._place.open(grpc.aio)
        self.tasks = AsyncTaskClient(self)
        self.params = AsyncParamClient(self)
        self.processes = AsyncProcessClient(self)
        self.states = AsyncStateClient(self)
        self.actors = AsyncActorClient(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def send(self, call: RemoteCall[T]) -> T:
        """Send a call, again under the same ids if nobody was reached."""
        attempts = Attempts(call, self._timeout)
        method = self._channel.unary_unary(
            call.path,
            request_serializer=type(call.request).SerializeToString,
            response_deserializer=call.answer.FromString,
        )
        while True:
            try:
                answer = await method(
                    call.request, timeout=attempts.left, metadata=self._place.metadata
                )
                return call.read(answer)
            except grpc.RpcError as error:
                pause = attempts.pause_after(error.code().name)
                if pause is None:
                    raise remote_error(error) from None
            await asyncio.sleep(pause)

    async def wait_for(
        self,
        look: Callable[[float], Awaitable[T]],
        ended: Callable[[T], tuple[Any] | None],
        timeout: Seconds | None,
        what: str,
    ) -> Any:
        """Look by long calls until it has ended."""
        until = None if timeout is None else time.monotonic() + seconds_of(timeout)
        while True:
            left = ONE_WAIT if until is None else max(0.0, until - time.monotonic())
            found = await look(min(ONE_WAIT, left))
            if (result := ended(found)) is not None:
                return result[0]
            if until is not None and time.monotonic() >= until:
                raise ResultTimeout(f"{what} has not ended in time: {found}")

    async def watch(self, names: Sequence[str]) -> AsyncIterator[list[ParamValue]]:
        """One stream of params, until the server ends it."""
        method = self._channel.unary_stream(
            "/mainspring.v1.ParamService/WatchParams",
            request_serializer=param_service_pb2.WatchParamsRequest.SerializeToString,
            response_deserializer=param_service_pb2.WatchParamsResponse.FromString,
        )
        request = param_service_pb2.WatchParamsRequest(names=names)
        stream = method(request, timeout=STREAM_SECONDS, metadata=self._place.metadata)
        try:
            async for answer in stream:
                if answer.params:
                    yield [param_of(p) for p in answer.params]
        except grpc.RpcError as error:
            raise remote_error(error) from None
        finally:
            stream.cancel()


class AsyncTaskClient:
    """`client.tasks`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def enqueue(
        self, task: str, args: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> TaskRef:
        """Enqueue a call of a task by its name; when this returns it is committed."""
        return (await self._client.send(tasks.enqueue([tasks.call_of(task, args, options)])))[0]

    async def enqueue_many(
        self,
        task: str,
        calls: Iterable[Mapping[str, object]],
        **options: Unpack[EnqueueOptions],
    ) -> list[TaskRef]:
        """Enqueue up to 1,000 calls, all or none, each under an id of its own."""
        if "id" in options:
            raise InvalidArguments("an id is one call's; enqueue_many makes one for each")
        made = [tasks.call_of(task, args, options) for args in calls]
        return await self._client.send(tasks.enqueue(made))

    async def get(self, call: TaskRef, *, wait: Seconds = 0.0) -> TaskStatus:
        """How a call stands; waits for its end for so many seconds, at most 60."""
        return await self._client.send(tasks.get(call, seconds_of(wait)))

    async def result(self, call: TaskRef, timeout: Seconds | None = None) -> Any:
        """Wait for the result; raises TaskFailed or ResultTimeout."""
        return await self._client.wait_for(
            lambda wait: self.get(call, wait=wait),
            lambda status: tasks.result_of(call, status),
            timeout,
            f"task {call.task!r} {call.id}",
        )

    async def cancel(self, call: TaskRef) -> str:
        """Call a call off that no run holds; the state that it has then."""
        return await self._client.send(tasks.cancel(call))


class AsyncParamClient:
    """`client.params`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def advance(
        self, values: Mapping[str, Value], *, if_greater: bool = False, why: str = ""
    ) -> dict[str, bool]:
        """Set params forward, all or none; which of them moved."""
        return await self._client.send(params.advance(values, if_greater, why))

    async def rewind(
        self,
        name: str,
        to: Value,
        *,
        chunks: Iterable[Value] = (),
        why: str = "",
        revision: int = 0,
    ) -> list[TaskAffected]:
        """Move a param back: its data was restated. `revision`: what you saw; refused if it moved."""
        return await self._client.send(params.rewind(name, to, chunks, why, revision))

    async def get(
        self, names: Sequence[str], *, wait: Seconds = 0.0, newer_than: int = 0
    ) -> tuple[list[ParamValue], int]:
        """Params as they stand and their common revision; waits until that is above `newer_than`."""
        return await self._client.send(params.get(names, seconds_of(wait), newer_than))

    def watch(self, names: Sequence[str]) -> AsyncIterator[list[ParamValue]]:
        """All of them, then those that moved; ends when the server ends the stream."""
        return self._client.watch(names)


class AsyncProcessClient:
    """`client.processes`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def start(
        self,
        type: str,
        args: Mapping[str, object] | None = None,
        *,
        key: str | None = None,
        attrs: Mapping[str, object] | None = None,
        at: datetime | None = None,
        priority: int | None = None,
    ) -> ProcessRef:
        """Start a process, once for its key (yours), or once for this call."""
        return await self._client.send(
            processes.start(type, args, key=key, attrs=attrs, at=at, priority=priority)
        )

    async def get(self, process: ProcessRef, *, wait: Seconds = 0.0) -> ProcessStatus:
        """How a process stands; waits for its result for so many seconds, at most 60."""
        return await self._client.send(processes.get(process, seconds_of(wait)))

    async def result(self, process: ProcessRef, timeout: Seconds | None = None) -> Any:
        """Wait for the result; raises ProcessFailed or ResultTimeout."""
        return await self._client.wait_for(
            lambda wait: self.get(process, wait=wait),
            lambda status: processes.result_of(process, status),
            timeout,
            f"process {process.type!r} {process.id or process.key}",
        )

    async def signal(
        self, process: ProcessRef, name: str, payload: object = None, *, id: str | None = None
    ) -> bool:
        """Send a signal; whether it is new. The same `id` is the same signal."""
        return await self._client.send(processes.signal(process, name, payload, id))

    async def cancel(self, process: ProcessRef) -> bool:
        """Ask for a process to be cancelled and undone; False: it had ended."""
        return await self._client.send(processes.cancel(process))


class AsyncStateClient:
    """`client.states`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def get(self, kind: str, stage: str, ids: Sequence[str]) -> list[StateRead]:
        """States of a stage, in the order of the ids."""
        return await self._client.send(states.get(kind, stage, ids))

    async def set(
        self, kind: str, stage: str, id: str, value: object, *, version: int, schema: int = 1
    ) -> tuple[bool, int]:
        """Replace a state if it has this version (0: none); whether it was done, and its version now."""
        return await self._client.send(states.set_one(kind, stage, id, value, version, schema))
