"""Setting params: the part of an application that moves them forward and back.

On connections of the application's own, or on the caller's, in its transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar

import asyncpg
import psycopg

from mainspring.db.pool import AsyncPool, SyncPool
from mainspring.db.steps import Steps
from mainspring.db.tx import PsycopgTx, SyncTx
from mainspring.errors import InvalidSetting, MissingRights
from mainspring.reactive.declare import params as reactive_params
from mainspring.reactive.declare.params import Affected, find_param
from mainspring.reactive.model.values import Param

R = TypeVar("R")
Connection: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]  # of any rows


class Advancing:
    """What an application can do with params; the connections are the application's."""

    params: dict[str, Param]

    async def pool(self) -> AsyncPool:
        raise NotImplementedError

    def sync_pool(self) -> SyncPool:
        raise NotImplementedError

    async def advance(
        self,
        param: Param | str,
        value: object,
        *,
        if_greater: bool = False,
        on: Connection | None = None,
        by: str | None = None,
        why: str | None = None,
    ) -> bool:
        """Set a param forward; returns whether it moved (an equal value: no).

        A lower value is refused (`rewind` says that data was restated); with `if_greater` it is left
        alone. `on`: your own psycopg connection; the change is part of its transaction, best last.
        """
        changed = await self.advance_many(
            [(param, value)], if_greater=if_greater, on=on, by=by, why=why
        )
        return any(changed.values())

    async def advance_many(
        self,
        changes: Iterable[tuple[Param | str, object]],
        *,
        if_greater: bool = False,
        on: Connection | None = None,
        by: str | None = None,
        why: str | None = None,
    ) -> dict[Param, bool]:
        """Set params together, all or none; of several values of a param the last counts."""
        listed = [(find_param(self.params, param), value) for param, value in changes]
        steps = reactive_params.advance(
            listed, declared=self.params, if_greater=if_greater, by=by, why=why
        )
        return await self._follow(steps, on)

    async def rewind(
        self,
        param: Param | str,
        to: object,
        *,
        chunks: Iterable[object] = (),
        on: Connection | None = None,
        by: str | None = None,
        why: str | None = None,
    ) -> list[Affected]:
        """Move a param back: its data was restated. Returns the tasks that have seen more of it."""
        found = find_param(self.params, param)
        steps = reactive_params.rewind(found, to, chunks=tuple(chunks), by=by, why=why)
        return await self._follow(steps, on)

    async def _follow(self, steps: Steps[R], on: Connection | None) -> R:
        if isinstance(on, psycopg.Connection):
            raise InvalidSetting(
                "a sync psycopg connection was given to an async method; use advance_sync or "
                "rewind_sync, or an AsyncConnection"
            )
        try:
            if on is not None:
                return await PsycopgTx(on).follow(steps)
            pool = await self.pool()
            async with pool.connection(transaction=True) as connection:
                return await connection.follow(steps)
        except (asyncpg.InsufficientPrivilegeError, psycopg.errors.InsufficientPrivilege) as error:
            raise _denied(error) from error

    def advance_sync(
        self,
        param: Param | str,
        value: object,
        *,
        if_greater: bool = False,
        on: Connection | None = None,
        by: str | None = None,
        why: str | None = None,
    ) -> bool:
        """The same as `advance` for code that is not async."""
        changes = [(param, value)]
        return any(
            self.advance_many_sync(changes, if_greater=if_greater, on=on, by=by, why=why).values()
        )

    def advance_many_sync(
        self,
        changes: Iterable[tuple[Param | str, object]],
        *,
        if_greater: bool = False,
        on: Connection | None = None,
        by: str | None = None,
        why: str | None = None,
    ) -> dict[Param, bool]:
        """The same as `advance_many` for code that is not async."""
        listed = [(find_param(self.params, param), value) for param, value in changes]
        steps = reactive_params.advance(
            listed, declared=self.params, if_greater=if_greater, by=by, why=why
        )
        return self._follow_sync(steps, on)

    def rewind_sync(
        self,
        param: Param | str,
        to: object,
        *,
        chunks: Iterable[object] = (),
        on: Connection | None = None,
        by: str | None = None,
        why: str | None = None,
    ) -> list[Affected]:
        """The same as `rewind` for code that is not async."""
        found = find_param(self.params, param)
        steps = reactive_params.rewind(found, to, chunks=tuple(chunks), by=by, why=why)
        return self._follow_sync(steps, on)

    def _follow_sync(self, steps: Steps[R], on: Connection | None) -> R:
        if isinstance(on, psycopg.AsyncConnection):
            raise InvalidSetting(
                "an async psycopg connection was given to a sync method; await advance or rewind"
            )
        try:
            if on is not None:
                return SyncTx(on).follow(steps)
            with self.sync_pool().connection() as connection:
                return SyncTx(connection).follow(steps)
        except psycopg.errors.InsufficientPrivilege as error:
            raise _denied(error) from error


def _denied(error: Exception) -> MissingRights:
    return MissingRights(
        f"the role may not set params: {str(error).splitlines()[0]}; mainspring rights params ROLE prints "
        "the grants (with --rewinds to move them back; a worker or migrate module:app registers params)"
    )
