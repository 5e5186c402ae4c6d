"""Where a stage is that another service implements, and how that service is called. Pure."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from mainspring.declaring import POSITIVE, SECONDS, check_number, check_whole
from mainspring.errors import InvalidSetting, MissingExtra

PROCESS_SECONDS = 10.0
SAVED_SECONDS = 30.0
# The remote stages of a visit are asked side by side, and are given so long together.
ASK_SECONDS = 0.5
BATCH = 20
# Runs of a stage that wait for its service, in one worker, for five calls: four are under way, and the next
# is full when one of them ends.
SLOTS, MOST_SLOTS, SLOTS_OF_CALLS = 64, 500, 5
_ADDRESS = re.compile(r"(grpcs?)://(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+):([0-9]{1,5})")

PemFile = str | Path


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """A service, and by which proof it is called: those of one address and proof share a channel.

    Certificates and keys are paths of PEM files, read again whenever a channel is made.
    """

    host: str
    port: int
    tls: bool
    token: str | None = None
    ca: PemFile | None = None
    cert: PemFile | None = None
    key: PemFile | None = None

    def __repr__(self) -> str:
        return self.url

    @property
    def url(self) -> str:
        """Where it is, as people are told: without what is secret."""
        return f"{'grpcs' if self.tls else 'grpc'}://{self.host}:{self.port}"

    @property
    def target(self) -> str:
        return f"dns:///{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """How a stage's service is called. Times are seconds."""

    address: ServiceAddress
    batch: int = BATCH
    timeout: float = PROCESS_SECONDS
    saved_timeout: float = SAVED_SECONDS
    asks: bool = (
        True  # whether the service is asked; else the stage is always offered, or asked here
    )
    hears: bool = False  # whether it is told of what was saved
    entity: type[object] | None = None  # a protobuf class that entities are sent as; None: JSON

    @property
    def slots(self) -> int:
        """How many of its runs one worker has in hand, unless its stage's `parallel` says so."""
        return max(SLOTS, min(MOST_SLOTS, SLOTS_OF_CALLS * self.batch))


def remote_place(
    stage: str,
    address: str,
    *,
    batch: int,
    timeout: float,
    asks: bool,
    hears: bool,
    entity: type[object] | None,
    proof: Mapping[str, str | Path | None],
    insecure: bool,
) -> RemotePlace:
    """The place that a declaration names, checked."""
    check_whole(f"batch of stage {stage!r}", batch, 1, 1000)
    check_number(f"timeout of stage {stage!r}", timeout, *POSITIVE, SECONDS)
    if entity is not None and not hasattr(entity, "DESCRIPTOR"):
        raise InvalidSetting(
            f"entity of stage {stage!r} must be a class that protobuf generated, got {entity!r}"
        )
    if importlib.util.find_spec("grpc") is None:
        raise MissingExtra(f"calling stage {stage!r} elsewhere", "grpc", "grpc")
    found = _address(stage, address, proof, insecure)
    return RemotePlace(
        found, batch, timeout, max(timeout, SAVED_SECONDS), asks, hears, entity=entity
    )


def _address(
    stage: str, text: str, proof: Mapping[str, str | Path | None], insecure: bool
) -> ServiceAddress:
    match = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
    if match is None or not 0 < int(match[3]) < 65536:
        raise InvalidSetting(
            f"the address of stage {stage!r} must be such as grpcs://host:443 or grpc://127.0.0.1:7500, "
            f"got {text!r}"
        )
    host, tls = match[2], match[1] == "grpcs"
    is_near = _is_loopback(host.strip("[]"))
    if not tls and not is_near and not insecure:
        raise InvalidSetting(
            f"stage {stage!r} on {host!r} must be called over TLS (grpcs://): entities would travel "
            "unencrypted; insecure=True allows it"
        )
    if proof.get("token") and not tls and not is_near:
        raise InvalidSetting(f"the token of stage {stage!r} is not sent to {host!r} without TLS")
    if (proof.get("cert") is None) != (proof.get("key") is None):
        raise InvalidSetting(f"cert and key of stage {stage!r} go together: give both, or none")
    files = {name: proof.get(name) for name in ("ca", "cert", "key")}
    if not tls and any(files.values()):
        raise InvalidSetting(f"ca, cert and key of stage {stage!r} are for TLS: use grpcs://")
    token = proof.get("token")
    return ServiceAddress(host, int(match[3]), tls, str(token) if token else None, **files)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
