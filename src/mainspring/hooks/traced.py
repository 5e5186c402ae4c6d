"""The W3C trace context of whoever enqueued a call, carried with it: `{"$": {"trace": "00-..."}, ...}`."""

from __future__ import annotations

import msgspec

_START = b'{"$":{'


class _Carried(msgspec.Struct):
    trace: str | None = None


class _Payload(msgspec.Struct):
    envelope: _Carried = msgspec.field(name="$")


_decode = msgspec.json.Decoder(_Payload).decode


def with_trace(payload: bytes, traceparent: str) -> bytes:
    """The same payload, in the clear or encrypted, with the trace beside it."""
    entry = b'"trace":' + msgspec.json.encode(traceparent)
    if payload.startswith(_START):
        return _START + entry + b"," + payload[len(_START) :]
    rest = payload[1:]
    return _START + entry + b"}" + (rest if rest == b"}" else b"," + rest)


def trace_of(payload: str) -> str | None:
    """The trace of a stored payload, if it has one."""
    if not payload.startswith('{"$"'):
        return None
    try:
        return _decode(payload).envelope.trace
    except msgspec.MsgspecError:
        return None  # a user's own
