"""A server of stages: its address, TLS, tokens and health."""

from __future__ import annotations

import asyncio
import hmac
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc

from mainspring.errors import InvalidSetting
from mainspring.stage_service.served import ServedStage
from mainspring.stage_service.service import CallContext, ServedCalls
from mainspring.v1 import stage_service_pb2_grpc

OPTIONS = (
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.max_send_message_length", -1),  # who calls says what is too large
    ("grpc.so_reuseport", 0),  # two servers on one port would each have half of the calls
)
HEALTH = "/grpc.health.v1.Health/Check"
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"  # HealthCheckResponse
GRACE_SECONDS = 10.0


class StageServer:
    """Serves stages from one event loop.

    async with StageServer("127.0.0.1:7500", Rank()) as server: ...

    On another address than the loopback it wants `cert` and `key` (PEM files) or `insecure=True`. `ca`: who
    calls must show a certificate of it. `token`: who calls must know it.
    """

    def __init__(
        self,
        address: str,
        *stages: ServedStage,
        token: str | None = None,
        cert: str | Path | None = None,
        key: str | Path | None = None,
        ca: str | Path | None = None,
        insecure: bool = False,
    ) -> None:
        host = address.rpartition(":")[0].strip("[]")
        near = host in ("localhost", "::1") or host.startswith("127.")
        if (cert is None) != (key is None):
            raise InvalidSetting("cert and key go together: give both, or none")
        if cert is None and not near and not insecure:
            raise InvalidSetting(
                f"stages on {address} must be served over TLS: give cert= and key=; insecure=True "
                "serves whoever reaches it"
            )
        self._address = address
        self._stages = stages
        self._token = token
        self._files = (cert, key, ca)
        self._server: Any = None
        self._health = _Health()
        self.port = 0

    async def start(self) -> None:
        """Serve from now on."""
        gates = () if self._token is None else (_TokenGate(self._token),)
        self._server = grpc.aio.server(options=OPTIONS, interceptors=gates)
        stage_service_pb2_grpc.add_StageServiceServicer_to_server(  # type: ignore[no-untyped-call]
            ServedCalls(self._stages), self._server
        )
        self._server.add_generic_rpc_handlers((self._health,))
        cert, key, ca = (_read(path) for path in self._files)
        if cert is None or key is None:
            self.port = self._server.add_insecure_port(self._address)
        else:
            credentials = grpc.ssl_server_credentials([(key, cert)], ca, ca is not None)
            self.port = self._server.add_secure_port(self._address, credentials)
        await self._server.start()

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Take no new calls, and end those under way."""
        self._health.serving = False
        await self._server.stop(grace)

    async def __aenter__(self) -> StageServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _read(path: str | Path | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def serve(address: str, *stages: ServedStage, **settings: Any) -> None:
    """Serve stages until this process is told to end (SIGTERM, SIGINT)."""
    asyncio.run(_serve(StageServer(address, *stages, **settings)))


async def _serve(server: StageServer) -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with server:
        await told.wait()


class _Health(grpc.GenericRpcHandler):  # type: ignore[misc]
    """grpc.health.v1, of which a caller asks one thing."""

    def __init__(self) -> None:
        self.serving = True

    def service(self, details: Any) -> Any:
        return (
            grpc.unary_unary_rpc_method_handler(self._check) if details.method == HEALTH else None
        )

    async def _check(self, request: bytes, context: object) -> bytes:
        return SERVING if self.serving else NOT_SERVING


class _TokenGate(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Refuses calls without the token; health is anybody's."""

    def __init__(self, token: str) -> None:
        self._bearer = f"Bearer {token}".encode()

    async def intercept_service(
        self, go_on: Callable[[object], Awaitable[object]], details: Any
    ) -> Any:
        shown = dict(details.invocation_metadata).get("authorization", "")
        if details.method == HEALTH or hmac.compare_digest(str(shown).encode(), self._bearer):
            return await go_on(details)
        return grpc.unary_unary_rpc_method_handler(_refuse)


async def _refuse(_: object, context: CallContext) -> None:
    await context.abort(
        grpc.StatusCode.UNAUTHENTICATED, "the token is missing or not the right one"
    )
