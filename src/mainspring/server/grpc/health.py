"""grpc.health.v1: "" is alive, a service's name says whether the database has answered of late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from mainspring.server.readiness import Readiness


class Health:
    """The health of one server process, as gRPC asks for it."""

    def __init__(self, readiness: Readiness, services: Sequence[str]) -> None:
        self._readiness = readiness
        self._services = services
        self._servicer: Any = health.aio.HealthServicer()
        self._loop: asyncio.Task[None] | None = None

    def add_to(self, server: Any) -> None:
        """Serve it; nobody is asked for a token."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def start(self) -> None:
        """Say that it is alive, and follow the readiness from now on."""
        await self._servicer.set("", health_pb2.HealthCheckResponse.SERVING)
        await self._tell(self._readiness.is_ready)  # before anybody can ask
        self._loop = asyncio.create_task(self._following(), name="mainspring.health")

    async def leave(self) -> None:
        """Say that nothing new is wanted here."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
        await self._servicer.enter_graceful_shutdown()

    async def _following(self) -> None:
        told = None
        while True:
            if told == self._readiness.is_ready:
                await self._readiness.changed()
            told = self._readiness.is_ready
            await self._tell(told)

    async def _tell(self, ready: bool) -> None:
        known = health_pb2.HealthCheckResponse
        for name in self._services:
            await self._servicer.set(name, known.SERVING if ready else known.NOT_SERVING)
