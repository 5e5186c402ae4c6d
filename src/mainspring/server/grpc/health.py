"""grpc.health.v1: "" is alive, a service's name says whether the database has answered of late.

They are apart: a database that is away must not let every server be restarted at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from mainspring.server.handlers.store import Store
from mainspring.server.statements import SQL

READY_SECONDS = 10.0
LOOK_SECONDS = 2.0


class Health:
    """The health of one server process."""

    def __init__(self, store: Store, services: Sequence[str]) -> None:
        self._store = store
        self._services = services
        self._servicer: Any = health.aio.HealthServicer()
        self._loop: asyncio.Task[None] | None = None

    def add_to(self, server: Any) -> None:
        """Serve it; nobody is asked for a token."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def start(self) -> None:
        """Say that it is alive, and look at the database from now on."""
        await self._servicer.set("", health_pb2.HealthCheckResponse.SERVING)
        await self._tell(await self._answers())
        self._loop = asyncio.create_task(self._looking(), name="mainspring.health")

    async def leave(self) -> None:
        """Say that nothing new is wanted here."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
        await self._servicer.enter_graceful_shutdown()

    async def _looking(self) -> None:
        now = asyncio.get_running_loop().time
        answered_at = now()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if await self._answers():
                answered_at = now()
            await self._tell(now() - answered_at < READY_SECONDS)

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._store.rows(SQL["answer"], int)
        except Exception:  # whatever it is, it has not answered
            return False
        return True

    async def _tell(self, ready: bool) -> None:
        known = health_pb2.HealthCheckResponse
        for name in self._services:
            await self._servicer.set(name, known.SERVING if ready else known.NOT_SERVING)
