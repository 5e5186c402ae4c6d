"""The gRPC server: its address, its limits, its beginning and its end in order."""

from __future__ import annotations

import os
from typing import Any

import grpc

from mainspring.errors import InvalidSetting
from mainspring.server.certificate import Certificate
from mainspring.server.counts import CallCounts
from mainspring.server.grpc.calls import CallServer
from mainspring.server.grpc.health import Health
from mainspring.server.handlers.methods import Services
from mainspring.server.listening import try_listening
from mainspring.server.readiness import Readiness
from mainspring.server.reception import RECEIVED_BYTES, SENT_BYTES, Reception
from mainspring.server.settings import ListenAddress, ServeSettings, read_file

_MINUTE = 60_000
_OPTIONS = (
    ("grpc.max_receive_message_length", RECEIVED_BYTES),
    ("grpc.max_send_message_length", SENT_BYTES),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.absolute_max_metadata_size", 8 * 1024),
    ("grpc.max_connection_age_ms", 30 * _MINUTE),
    ("grpc.max_connection_age_grace_ms", 5 * _MINUTE),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class GrpcServer:
    """Serves at one address. `start` returns when it listens, `stop` when all calls have ended."""

    def __init__(
        self,
        services: Services,
        reception: Reception,
        readiness: Readiness,
        counts: CallCounts,
        settings: ServeSettings,
        address: ListenAddress,
    ) -> None:
        self._settings = settings
        self._address = address
        self._services = services
        self._health = Health(readiness, services.names)
        shared = ("grpc.so_reuseport", int(settings.shares_port))
        self._server: Any = grpc.aio.server(options=[*_OPTIONS, shared])
        self._add(CallServer(reception, counts))
        self._health.add_to(self._server)

    def _add(self, calls: CallServer) -> None:
        found: dict[str, dict[str, Any]] = {}
        for method in self._services.methods():
            found.setdefault(method.service, {})[method.name] = calls.handler(method)
        self._server.add_generic_rpc_handlers(
            tuple(grpc.method_handlers_generic_handler(name, them) for name, them in found.items())
        )

    async def start(self) -> str:
        """Listen; returns the address, with the port that was chosen where it was 0."""
        await self._health.start()
        port = self._bind()
        await self._server.start()
        if (socket := self._address.socket) is not None:
            socket.chmod(0o600)
            return self._address.text
        return self._address.with_port(port)

    def _bind(self) -> int:
        address = self._address.text
        try_listening(self._address, self._settings.shares_port)
        mask = os.umask(0o177) if self._address.socket is not None else None
        try:
            if self._settings.has_tls:
                port = self._server.add_secure_port(address, _credentials(self._settings))
            else:
                port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise InvalidSetting(f"{address} cannot be listened on: {error}") from None
        finally:
            if mask is not None:
                os.umask(mask)
        return int(port)

    async def leave(self) -> None:
        """Say that nothing new is wanted here."""
        await self._health.leave()

    async def stop(self, grace: float) -> None:
        """Take no new calls, and let the others end."""
        await self._server.stop(grace)


def _credentials(settings: ServeSettings) -> Any:
    """gRPC asks at each handshake whether there is another certificate."""
    assert settings.tls_cert is not None
    certificate = Certificate(settings.tls_cert, settings.tls_key)

    def renewed() -> object:
        return _configuration(settings) if certificate.is_renewed() else None

    return grpc.dynamic_ssl_server_credentials(
        _configuration(settings), renewed, settings.client_ca is not None
    )


def _configuration(settings: ServeSettings) -> object:
    assert settings.tls_cert is not None
    assert settings.tls_key is not None
    roots = None if settings.client_ca is None else read_file(settings.client_ca)
    return grpc.ssl_server_certificate_configuration(
        [(read_file(settings.tls_key), read_file(settings.tls_cert))], root_certificates=roots
    )
