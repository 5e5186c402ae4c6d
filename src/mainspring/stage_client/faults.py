"""A failed call as what it says about the service and about the entities in the call. Pure."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from grpc import StatusCode
from grpc.aio import AioRpcError

from mainspring.entities.remote.standing import Fault
from mainspring.failure_text import clean_text

# What gRPC itself says when a connection ends with a call on it; a service cannot say these first.
_BROKEN = ("Stream removed", "Socket closed", "GOAWAY", "recvmsg:", "sendmsg:", "Connection reset")
_TOO_LARGE = (
    "larger than max"  # gRPC says so, in each language, of what either side would not take or send
)
TEXT_BYTES = 500
STATUS = "grpc-status-details-bin"

_OF_STATUS = {
    StatusCode.UNAUTHENTICATED: Fault.AWAY,
    StatusCode.PERMISSION_DENIED: Fault.AWAY,
    StatusCode.UNIMPLEMENTED: Fault.AWAY,
    StatusCode.NOT_FOUND: Fault.AWAY,  # of the method, by what stands before the service
    StatusCode.CANCELLED: Fault.BROKE,
    StatusCode.DEADLINE_EXCEEDED: Fault.DEADLINE,
    StatusCode.ABORTED: Fault.OVERLOADED,
}


def fault_of(status: StatusCode, details: str, *, was_ready: bool, is_ready: bool) -> Fault:
    """What a status says. `was_ready`, `is_ready`: whether the channel was connected when the call was
    sent, and is now."""
    if status is StatusCode.UNAVAILABLE:
        if not was_ready:
            return Fault.AWAY
        if not is_ready or details.startswith(_BROKEN):
            return Fault.BROKE
        return Fault.SAID_AWAY
    if status is StatusCode.RESOURCE_EXHAUSTED:
        return Fault.TOO_LARGE if _TOO_LARGE in details else Fault.OVERLOADED
    return _OF_STATUS.get(status, Fault.PERHAPS)


def shown(status: StatusCode, details: str) -> str:
    """The status as people are told."""
    return clean_text(f"{status.name}: {details}", TEXT_BYTES)


def retry_after(error: AioRpcError) -> float | None:
    """How long an overloaded service wants to be left alone: google.rpc.RetryInfo among the details of its
    status, found without its package."""
    for name, value in error.trailing_metadata() or ():
        if name == STATUS and isinstance(value, bytes):
            return retry_info(value)
    return None


def retry_info(packed: bytes) -> float | None:
    """The seconds of a google.rpc.RetryInfo in a google.rpc.Status."""
    at = packed.find(b"google.rpc.RetryInfo")
    if at < 0:
        return None
    # Any: the type's url, then its value (field 2): RetryInfo, whose field 1 is a Duration.
    rest = packed[at + len(b"google.rpc.RetryInfo") :]
    try:
        if rest[0] != 0x12 or rest[2] != 0x0A:
            return None
        span = Duration.FromString(rest[4 : 4 + rest[3]])
    except (IndexError, DecodeError):
        return None
    return min(3600.0, max(0.0, span.seconds + span.nanos / 1e9))
