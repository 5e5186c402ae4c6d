"""The channel to a service. Made anew, it has connections of its own and reads its certificates again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc

from mainspring.entities.declare.remote import ServiceAddress
from mainspring.entities.remote.items import CallFailed
from mainspring.entities.remote.standing import Fault

MESSAGE_BYTES = 16 * 1024 * 1024
# A connection has so long to be made (seconds); then its calls are put off.
CONNECT_SECONDS = 5.0
# Calls under way on a channel that was replaced have so long to end (seconds).
OLD_SECONDS = 60.0
OPTIONS = (
    ("grpc.enable_retries", 0),  # a call that is repeated unseen cannot be judged
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    # Each channel has its own: one that is made anew must not share what hangs.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.service_config", '{"loadBalancingConfig":[{"round_robin":{}}]}'),
    # The gate says when it is tried again, and gRPC must not wait longer.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", int(CONNECT_SECONDS * 1000)),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.dns_min_time_between_resolutions_ms", 1000),
    ("grpc.keepalive_time_ms", 300_000),  # more often, and a default server hangs up
    ("grpc.keepalive_timeout_ms", 20_000),
)


def open_channel(address: ServiceAddress) -> grpc.aio.Channel:
    """A channel that is not connected yet."""
    if not address.tls:
        return grpc.aio.insecure_channel(address.target, options=OPTIONS)
    try:
        credentials = grpc.ssl_channel_credentials(
            *(_read(path) for path in (address.ca, address.key, address.cert))
        )
    except OSError as error:
        raise CallFailed(Fault.AWAY, f"its certificates cannot be read: {error}") from None
    return grpc.aio.secure_channel(address.target, credentials, options=OPTIONS)


async def until_ready(channel: grpc.aio.Channel) -> None:
    """Wait until the channel is connected: what is sent then and is lost was in the service's hands."""
    ready = grpc.ChannelConnectivity.READY
    failing = grpc.ChannelConnectivity.TRANSIENT_FAILURE
    state, was_failing = channel.get_state(try_to_connect=True), False
    if state == ready:
        return
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            while state != ready:
                # As it stood it may be an old failure: one that is new counts.
                if state == failing and was_failing:
                    break
                was_failing = True
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
    except TimeoutError:
        raise CallFailed(Fault.AWAY, f"no connection in {CONNECT_SECONDS:g} s") from None


def _read(path: str | Path | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()
