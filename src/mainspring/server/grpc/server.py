"""The server: its address, its limits, its beginning and its end in order."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from mainspring.errors import InvalidSetting
from mainspring.server.access.callers import Callers
from mainspring.server.access.local import local_token
from mainspring.server.grpc.calls import SENT_BYTES, CallServer
from mainspring.server.grpc.health import Health
from mainspring.server.handlers.methods import Services
from mainspring.server.handlers.store import Store
from mainspring.server.settings import ServeSettings

if TYPE_CHECKING:
    from mainspring.app import Mainspring

GRACE_SECONDS = 10.0
_MINUTE = 60_000
_OPTIONS = (
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    ("grpc.max_send_message_length", SENT_BYTES),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.absolute_max_metadata_size", 8 * 1024),
    ("grpc.max_connection_age_ms", 30 * _MINUTE),
    ("grpc.max_connection_age_grace_ms", 5 * _MINUTE),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class GrpcServer:
    """One server process. `start` returns when it listens, `stop` when all calls have ended."""

    def __init__(self, app: Mainspring, settings: ServeSettings) -> None:
        self._settings = settings
        token = None if settings.token_file is None else local_token(Path(settings.token_file))
        store = Store(app)
        self._services = Services(store)
        self._health = Health(store, self._services.names)
        calls = CallServer(Callers(store, local_token=token, open_to_all=settings.no_auth))
        shared = ("grpc.so_reuseport", int(settings.shares_port))
        self._server: Any = grpc.aio.server(options=[*_OPTIONS, shared])
        self._add(calls)
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
        if (socket := self._settings.socket) is not None:
            socket.chmod(0o600)
            return self._settings.address
        return f"{self._settings.address.rpartition(':')[0]}:{port}"

    def _bind(self) -> int:
        settings = self._settings
        mask = os.umask(0o177) if settings.socket is not None else None
        try:
            if settings.has_tls:
                port = self._server.add_secure_port(settings.address, _credentials(settings))
            else:
                port = self._server.add_insecure_port(settings.address)
        except RuntimeError as error:
            raise InvalidSetting(f"{settings.address} cannot be listened on: {error}") from None
        finally:
            if mask is not None:
                os.umask(mask)
        return int(port)

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Take no new calls, answer those who wait, let the others end."""
        await self._health.leave()
        ending = asyncio.create_task(self._server.stop(grace))
        await self._services.close()
        await ending


def _credentials(settings: ServeSettings) -> Any:
    assert settings.tls_cert is not None
    assert settings.tls_key is not None
    roots = None if settings.client_ca is None else _read(settings.client_ca)
    return grpc.ssl_server_credentials(
        [(_read(settings.tls_key), _read(settings.tls_cert))],
        root_certificates=roots,
        require_client_auth=roots is not None,
    )


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read: {error}") from error
