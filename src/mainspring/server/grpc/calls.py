"""One call over gRPC: bytes in, bytes out, errors as statuses.

Requests arrive as bytes: what is no such message is the caller's fault, which gRPC itself would call ours.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from mainspring.server.access.caller import Caller
from mainspring.server.counts import CallCounts
from mainspring.server.handlers.methods import Method
from mainspring.server.handlers.statuses import Answered, answered
from mainspring.server.reception import Reception

DOMAIN = "mainspring"
TOLD_CHARACTERS = 1000


class CallServer:
    """Serves the calls of all methods."""

    def __init__(self, reception: Reception, counts: CallCounts) -> None:
        self._reception = reception
        self._counts = counts

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
        began = time.monotonic()
        try:
            caller = await self._caller(context)
            request = method.read(body)
            given = context.time_remaining()
            seconds = None if given is None else float(given)
            response = await self._reception.answer(method, caller, request, seconds)
            answer = response.SerializeToString()
        except Exception as error:
            found = answered(error, method.path)
            self._counts.add("grpc", method.path, found.status, time.monotonic() - began)
            await _abort(context, found)
            raise  # abort has raised already
        self._counts.add("grpc", method.path, "OK", time.monotonic() - began)
        return answer

    async def _stream(self, method: Method, body: bytes, context: Any) -> AsyncIterator[bytes]:
        began = time.monotonic()
        try:
            caller = await self._caller(context)
            request = method.read(body)
            async for response in self._reception.stream(method, caller, request):
                yield response.SerializeToString()
        except Exception as error:
            found = answered(error, method.path)
            self._counts.add("grpc", method.path, found.status, time.monotonic() - began)
            await _abort(context, found)

    async def _caller(self, context: Any) -> Caller:
        given = [
            value for key, value in context.invocation_metadata() or () if key == "authorization"
        ]
        names = (context.auth_context() or {}).get("x509_subject_alternative_name", ())
        return await self._reception.caller(
            given, [name.decode("utf-8", "replace") for name in names]
        )


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
