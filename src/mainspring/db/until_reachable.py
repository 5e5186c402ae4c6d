"""What a worker does at its start is tried again until the database is reachable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from mainspring.db.database import backoff, is_transient
from mainspring.errors import DatabaseUnavailable, MissingRights

log = logging.getLogger("mainspring")
T = TypeVar("T")


async def until_reachable(step: Callable[[], Awaitable[T]]) -> T:
    """Do a step that may be repeated. What is no matter of the connection or the server is raised at
    once: missing rights, a schema that does not fit."""
    tries = 0
    while True:
        try:
            return await step()
        except asyncpg.InsufficientPrivilegeError as error:
            raise MissingRights(
                f"this role may not run a worker: {error}; mainspring doctor names the rights that "
                "it lacks (docs/operate/rights.md)"
            ) from None
        except Exception as error:
            if not is_transient(error):
                raise
            if tries % 20 == 0:
                log.warning("worker.waiting", extra={"error": str(error)})
        await asyncio.sleep(backoff(tries))
        tries += 1


async def until_let_in(look: Callable[[], Awaitable[T]]) -> T:
    """A worker's first look at its database, again while a server is there and takes nobody just now: it
    is full, starts, stops, or is a standby yet. An address where nobody answers is raised at once."""
    tries = 0
    while True:
        try:
            return await look()
        except DatabaseUnavailable as error:
            if not error.passes:
                raise
            if tries % 20 == 0:
                log.warning("worker.waiting", extra={"error": str(error)})
        await asyncio.sleep(backoff(tries))
        tries += 1
