"""Calls of stages elsewhere over gRPC (`mainspring[grpc]`); gRPC is imported when one is called.

calls.py     the calls of one service
channel.py   its channel: TLS, names, and how a broken one is tried again
faults.py    a failed call as what it says about the service and the entities in it
messages.py  entities as messages, and answers back, each checked by itself
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.errors import MissingExtra

if TYPE_CHECKING:
    from mainspring.entities.declare.remote import ServiceAddress
    from mainspring.stage_client.calls import GrpcCalls

__all__ = ["stage_calls"]


def stage_calls(address: ServiceAddress) -> GrpcCalls:
    """Who calls the stages at an address."""
    try:
        from mainspring.stage_client.calls import GrpcCalls
    except ModuleNotFoundError as error:  # pragma: no cover - depends on what is installed
        if (error.name or "").partition(".")[0] not in ("grpc", "google"):
            raise
        raise MissingExtra("calling stages elsewhere", error.name, "grpc") from error
    return GrpcCalls(address)
