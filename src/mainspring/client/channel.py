"""Where the server is, and by which proof it is called."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from mainspring.errors import InvalidSetting

OPTIONS = (
    ("grpc.enable_retries", 0),  # repeated by us, under the same ids
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
)


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """A server's address, and how it is called. Certificates and keys are paths of PEM files."""

    address: str
    token: str | None = None
    tls: bool | None = None  # None: unless it is on this machine
    ca: str | Path | None = None
    cert: str | Path | None = None
    key: str | Path | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise InvalidSetting("cert and key go together: give both, or none")
        if self.bearer is not None and not self.has_tls and not self.is_local:
            raise InvalidSetting(
                f"a token is not sent to {self.address} without TLS: give tls=True"
            )

    @property
    def bearer(self) -> str | None:
        """The token: as given, or MAINSPRING_TOKEN."""
        return self.token if self.token is not None else os.environ.get("MAINSPRING_TOKEN")

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine."""
        if self.address.startswith("unix:"):
            return True
        host = self.address.rpartition(":")[0].strip("[]")
        try:
            return host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def has_tls(self) -> bool:
        if self.tls is None:
            return not self.is_local or self.ca is not None or self.cert is not None
        return self.tls

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return () if self.bearer is None else (("authorization", f"Bearer {self.bearer}"),)

    def open(self, maker: Any) -> Any:
        """A channel, of `grpc` or `grpc.aio`."""
        if not self.has_tls:
            return maker.insecure_channel(self.address, options=OPTIONS)
        credentials = grpc.ssl_channel_credentials(
            _read(self.ca), _read(self.key), _read(self.cert)
        )
        return maker.secure_channel(self.address, credentials, options=OPTIONS)


def _read(path: str | Path | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()
