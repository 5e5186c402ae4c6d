"""How a server is to be. What would be open by accident is refused before anything listens."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import msgspec

from mainspring.errors import InvalidSetting

DEFAULT_ADDRESS = "127.0.0.1:7411"
MOST_PROCESSES = 64


class ServeSettings(msgspec.Struct, frozen=True):
    """Where a server listens, by which proof, in how many processes."""

    address: str = DEFAULT_ADDRESS
    tls_cert: str | None = None
    tls_key: str | None = None
    client_ca: str | None = None
    no_auth: bool = False
    processes: int = 1
    token_file: str | None = None  # of this machine's token; None: there is none
    shares_port: bool = False  # with other processes of the same server

    @property
    def socket(self) -> Path | None:
        """The path of a unix socket."""
        return Path(self.address[5:]) if self.address.startswith("unix:") else None

    @property
    def is_local(self) -> bool:
        """Whether nobody from another machine can come."""
        return self.socket is not None or is_loopback(self.host)

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def has_tls(self) -> bool:
        return self.tls_cert is not None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked(settings: ServeSettings) -> ServeSettings:
    """The settings, if they can be; an error says which choice is missing."""
    if settings.socket is None:
        host, colon, port = settings.address.rpartition(":")
        if not colon or not host or not port.isdigit() or int(port) > 65535:
            raise InvalidSetting(
                f"write the address as host:port or unix:/path, got {settings.address!r}"
            )
    elif not settings.socket.is_absolute():
        raise InvalidSetting(f"a unix socket needs its whole path, got {settings.address!r}")
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise InvalidSetting("--tls-cert and --tls-key go together: give both, or none")
    if settings.client_ca is not None and not settings.has_tls:
        raise InvalidSetting("--client-ca checks client certificates, which needs --tls-cert")
    if not settings.is_local and not settings.has_tls:
        raise InvalidSetting(
            f"{settings.address} can be reached from other machines: give --tls-cert and --tls-key, or "
            f"listen on {DEFAULT_ADDRESS} behind something that has them"
        )
    if settings.no_auth and not settings.is_local:
        raise InvalidSetting(f"--no-auth would open {settings.address} to everybody who reaches it")
    if not 1 <= settings.processes <= MOST_PROCESSES:
        raise InvalidSetting(f"--processes must be 1 to {MOST_PROCESSES}, got {settings.processes}")
    if settings.processes > 1 and settings.socket is not None:
        raise InvalidSetting("several processes cannot share a unix socket: use a port")
    return settings
