"""How a server is to be. What would be open by accident is refused before anything listens."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import msgspec

from mainspring.errors import InvalidSetting

DEFAULT_GRPC = "127.0.0.1:7411"
DEFAULT_HTTP = "127.0.0.1:7410"
MOST_PROCESSES = 64


class ListenAddress:
    """Where a server listens: host:port, or unix:/path."""

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def socket(self) -> Path | None:
        """The path of a unix socket."""
        return Path(self.text[5:]) if self.text.startswith("unix:") else None

    @property
    def is_local(self) -> bool:
        """Whether nobody from another machine can come."""
        return self.socket is not None or is_loopback(self.host)

    @property
    def host(self) -> str:
        return self.text.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.text.rpartition(":")[2])

    def with_port(self, port: int) -> str:
        """The same host with the port that was chosen."""
        return f"{self.text.rpartition(':')[0]}:{port}"


class ServeSettings(msgspec.Struct, frozen=True):
    """Where a server listens, by which proof, in how many processes."""

    grpc: str | None = DEFAULT_GRPC
    tls_cert: str | None = None
    tls_key: str | None = None
    client_ca: str | None = None
    no_auth: bool = False
    processes: int = 1
    token_file: str | None = None  # of this machine's token; None: there is none
    shares_port: bool = False  # with other processes of the same server
    http: str | None = None
    console_code: str | None = None  # what logs in at the console once; None: one is made
    hosts: tuple[
        str, ...
    ] = ()  # by which HTTP may be asked for on this machine, besides its own names

    @property
    def grpc_address(self) -> ListenAddress | None:
        return None if self.grpc is None else ListenAddress(self.grpc)

    @property
    def http_address(self) -> ListenAddress | None:
        return None if self.http is None else ListenAddress(self.http)

    @property
    def addresses(self) -> list[ListenAddress]:
        return [ListenAddress(text) for text in (self.grpc, self.http) if text is not None]

    @property
    def is_local(self) -> bool:
        """Whether nobody from another machine can come."""
        return all(address.is_local for address in self.addresses)

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


def read_file(path: str) -> bytes:
    """A certificate or a key."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read: {error}") from error


def checked(settings: ServeSettings) -> ServeSettings:
    """The settings, if they can be; an error says which choice is missing."""
    if not settings.addresses:
        raise InvalidSetting("there is no address to listen on: give --grpc, --http or both")
    if settings.grpc is not None and settings.grpc == settings.http and ":0" not in settings.grpc:
        raise InvalidSetting(f"gRPC and HTTP cannot both listen on {settings.grpc}")
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise InvalidSetting("--tls-cert and --tls-key go together: give both, or none")
    if settings.client_ca is not None and not settings.has_tls:
        raise InvalidSetting("--client-ca checks client certificates, which needs --tls-cert")
    if not 1 <= settings.processes <= MOST_PROCESSES:
        raise InvalidSetting(f"--processes must be 1 to {MOST_PROCESSES}, got {settings.processes}")
    for address in settings.addresses:
        _check(settings, address)
    return settings


def _check(settings: ServeSettings, address: ListenAddress) -> None:
    if address.socket is None:
        host, colon, port = address.text.rpartition(":")
        if not colon or not host or not port.isdigit() or int(port) > 65535:
            raise InvalidSetting(
                f"write the address as host:port or unix:/path, got {address.text!r}"
            )
    elif not address.socket.is_absolute():
        raise InvalidSetting(f"a unix socket needs its whole path, got {address.text!r}")
    if not address.is_local and not settings.has_tls:
        raise InvalidSetting(
            f"{address.text} can be reached from other machines: give --tls-cert and --tls-key, or "
            f"listen on 127.0.0.1:{address.port} behind something that has them"
        )
    if settings.no_auth and not address.is_local:
        raise InvalidSetting(f"--no-auth would open {address.text} to everybody who reaches it")
    if settings.processes > 1 and address.socket is not None:
        raise InvalidSetting("several processes cannot share a unix socket: use a port")
