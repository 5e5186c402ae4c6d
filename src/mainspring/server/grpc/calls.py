"""One call over gRPC: who calls, how long it may take, how many of his are at work; errors as statuses.

Requests arrive as bytes: what is no such message is the caller's fault, which gRPC itself would call ours.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from mainspring.errors import Overloaded, Unauthenticated
from mainspring.server.access.caller import Caller
from mainspring.server.access.callers import Callers
from mainspring.server.handlers.methods import Method
from mainspring.server.handlers.statuses import Answered, answered

DOMAIN = "mainspring"
DEADLINE_SECONDS = 30.0
AFTER_WAIT_SECONDS = 10.0
AT_WORK = 64
WAITING = 256
SENT_BYTES = 16 * 1024 * 1024
TOLD_CHARACTERS = 1000


class CallServer:
    """Serves the calls of all methods; counts those of each caller."""

    def __init__(self, callers: Callers, *, at_work: int = AT_WORK, waiting: int = WAITING) -> None:
        self._callers = callers
        self._most = {"work": at_work, "wait": waiting}
        self._counts: Counter[tuple[str, str]] = Counter()

    def handler(self, method: Method) -> Any:
        """What gRPC calls for a method."""
        if method.is_stream:

            async def stream(body: bytes, context: Any) -> AsyncIterator[bytes]:
                async for message in self._stream(method, body, context):
                    yield message

            return grpc.unary_stream_rpc_method_handler(stream)

        async def unary(body: bytes, context: Any) -> bytes:
            return await self._unary(method, body, context)

        return grpc.unary_unary_rpc_method_handler(unary)

    async def _unary(self, method: Method, body: bytes, context: Any) -> bytes:
        try:
            caller = await self._caller(context)
            request = method.read(body)
            wait = max(0.0, method.wait_seconds(request))
            with self._counted(caller, "wait" if wait else "work"):
                async with asyncio.timeout(_seconds(context, wait)):
                    response = await method.answer(caller, request)
            answer = response.SerializeToString()
            if len(answer) > SENT_BYTES:
                raise Overloaded(f"the answer has {len(answer)} bytes: ask for less at once")
            return answer
        except Exception as error:
            await _abort(context, answered(error, method.path))
            raise  # abort has raised already

    async def _stream(self, method: Method, body: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            caller = await self._caller(context)
            request = method.read(body)
            with self._counted(caller, "wait"):
                async for response in method.stream(caller, request):
                    yield response.SerializeToString()
        except Exception as error:
            await _abort(context, answered(error, method.path))

    async def _caller(self, context: Any) -> Caller:
        given = [
            value for key, value in context.invocation_metadata() or () if key == "authorization"
        ]
        if len(given) > 1:
            raise Unauthenticated("the authorization is given more than once")
        names = (context.auth_context() or {}).get("x509_subject_alternative_name", ())
        return await self._callers.find(
            given[0] if given else None, [name.decode("utf-8", "replace") for name in names]
        )

    @contextmanager
    def _counted(self, caller: Caller, kind: str) -> Iterator[None]:
        place = (caller.name, kind)
        if self._counts[place] >= self._most[kind]:
            raise Overloaded(
                f"{self._counts[place]} calls of {caller.name!r} are here already ({kind})"
            )
        self._counts[place] += 1
        try:
            yield
        finally:
            self._counts[place] -= 1
            if not self._counts[place]:
                del self._counts[place]


def _seconds(context: Any, wait: float) -> float:
    """How long a call may take: as its caller says, or as long as is usual."""
    given = context.time_remaining()
    usual = wait + AFTER_WAIT_SECONDS if wait else DEADLINE_SECONDS
    return usual if given is None else float(given)


async def _abort(context: Any, answer: Answered) -> None:
    """End the call with a status, as google.rpc.Status has it; its code is a plain trailer too."""
    info = error_details_pb2.ErrorInfo(reason=answer.code, domain=DOMAIN)
    details: list[Any] = [info]
    if answer.field is not None:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=answer.field, description=answer.message[:TOLD_CHARACTERS]
        )
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if answer.retry_seconds is not None:
        delay = Duration(nanos=int(answer.retry_seconds * 1e9) % 1_000_000_000)
        delay.seconds = int(answer.retry_seconds)
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    code = getattr(grpc.StatusCode, answer.status)
    message = answer.message[:TOLD_CHARACTERS]
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        packed = Packed()
        packed.Pack(detail)
        status.details.append(packed)
    trailers = (
        ("grpc-status-details-bin", status.SerializeToString()),
        ("mainspring-code", answer.code),
    )
    await context.abort(code, message, trailers)
