"""Setting params forward: what an application can do with them, and the statements of it.

On connections of the application's own, or on the caller's, in its transaction. What is asked of the
database is a generator of statements (db/sql.py). The SQL is one function; this goes round it.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple, TypeVar
from uuid import UUID

import asyncpg
import psycopg

from mainspring.db.caller import Caller, Verb, tx_on, tx_on_sync
from mainspring.db.pool import AsyncPool, SyncPool
from mainspring.db.sql import Steps, rows
from mainspring.errors import InvalidValue, MissingRights, UnknownParam, WentBack
from mainspring.reactive.declare.params import Affected, make, other_kind, rewind, stored, unknown
from mainspring.reactive.model.values import AnyParam, Param, V, Value, check_value, dump_value
from mainspring.reactive.statements import SQL

log = logging.getLogger("mainspring")
R = TypeVar("R")


class SetParam(NamedTuple):
    """What came of setting a param: 'set', 'same', 'lower', or why it cannot be."""

    name: str
    answer: str
    kind: str
    old: str | None
    value: str | None
    ahead: bool


class Advancing:
    """What an application can do with params; the connections are the application's."""

    params: dict[str, AnyParam]

    async def pool(self) -> AsyncPool:
        raise NotImplementedError

    def sync_pool(self) -> SyncPool:
        raise NotImplementedError

    async def advance(
        self,
        param: Param[V] | str,
        value: V | UUID,
        *,
        if_greater: bool = False,
        on: Caller | None = None,
        by: str | None = None,
        why: str | None = None,
    ) -> bool:
        """Set a param forward; returns whether it moved (an equal value: no).

        A lower value is refused (`rewind` says that data was restated); with `if_greater` it is left
        alone. `on`: your own connection or session (psycopg, asyncpg, SQLAlchemy, Django); the change
        is part of its transaction, best last.
        """
        changed = await self.advance_many(
            [(param, value)], if_greater=if_greater, on=on, by=by, why=why
        )
        return any(changed.values())

    async def advance_many(
        self,
        changes: Iterable[tuple[AnyParam | str, object]],
        *,
        if_greater: bool = False,
        on: Caller | None = None,
        by: str | None = None,
        why: str | None = None,
    ) -> dict[AnyParam, bool]:
        """Set params together, all or none; of several values of a param the last counts."""
        listed = [(find_param(self.params, param), value) for param, value in changes]
        steps = advance(listed, declared=self.params, if_greater=if_greater, by=by, why=why)
        return await self._follow(steps, on, "advance_many" if len(listed) > 1 else "advance")

    async def rewind(
        self,
        param: Param[V] | str,
        to: V | UUID,
        *,
        chunks: Iterable[object] = (),
        on: Caller | None = None,
        by: str | None = None,
        why: str | None = None,
    ) -> list[Affected]:
        """Move a param back: its data was restated. Returns the tasks that have seen more of it."""
        found = find_param(self.params, param)
        steps = rewind(found, to, chunks=tuple(chunks), by=by, why=why)
        return await self._follow(steps, on, "rewind")

    async def _follow(self, steps: Steps[R], on: Caller | None, verb: str) -> R:
        pool = await self.pool()
        try:
            async with tx_on(on, pool, Verb(verb, f"{verb}_sync")) as tx:
                return await tx.follow(steps)
        except (asyncpg.InsufficientPrivilegeError, psycopg.errors.InsufficientPrivilege) as error:
            raise _denied(error) from error

    def advance_sync(
        self,
        param: Param[V] | str,
        value: V | UUID,
        *,
        if_greater: bool = False,
        on: Caller | None = None,
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
        changes: Iterable[tuple[AnyParam | str, object]],
        *,
        if_greater: bool = False,
        on: Caller | None = None,
        by: str | None = None,
        why: str | None = None,
    ) -> dict[AnyParam, bool]:
        """The same as `advance_many` for code that is not async."""
        listed = [(find_param(self.params, param), value) for param, value in changes]
        steps = advance(listed, declared=self.params, if_greater=if_greater, by=by, why=why)
        return self._follow_sync(steps, on, "advance_many" if len(listed) > 1 else "advance")

    def rewind_sync(
        self,
        param: Param[V] | str,
        to: V | UUID,
        *,
        chunks: Iterable[object] = (),
        on: Caller | None = None,
        by: str | None = None,
        why: str | None = None,
    ) -> list[Affected]:
        """The same as `rewind` for code that is not async."""
        found = find_param(self.params, param)
        steps = rewind(found, to, chunks=tuple(chunks), by=by, why=why)
        return self._follow_sync(steps, on, "rewind")

    def _follow_sync(self, steps: Steps[R], on: Caller | None, verb: str) -> R:
        try:
            with tx_on_sync(on, self.sync_pool(), Verb(f"{verb}_sync", verb)) as tx:
                return tx.follow(steps)
        except psycopg.errors.InsufficientPrivilege as error:
            raise _denied(error) from error


def _denied(error: Exception) -> MissingRights:
    return MissingRights(
        f"the role may not set params: {str(error).splitlines()[0]}; mainspring rights params ROLE prints "
        "the grants (with --rewinds to move them back; a worker or migrate module:app registers params)"
    )


# -- statements


def find_param(known: Mapping[str, AnyParam], given: AnyParam | str) -> AnyParam:
    """A param, or the one of that name; an error that names the nearest otherwise."""
    if isinstance(given, Param):
        return given
    try:
        return known[given]
    except (KeyError, TypeError):
        raise UnknownParam(str(given), known) from None


def advance(
    changes: Iterable[tuple[AnyParam, object]],
    *,
    declared: Container[str],
    if_greater: bool,
    by: str | None,
    why: str | None,
) -> Steps[dict[AnyParam, bool]]:
    """Set params, all or none; returns which were moved. The last value of a param counts.

    One that the database does not know is made if the application declares it, else refused.
    """
    last: dict[str, tuple[AnyParam, Value]] = {}
    for param, given in changes:
        last[param.key] = (param, check_value(param, given))
    if not last:
        return {}
    values = advance_values(last, only_greater=if_greater, by=by, why=why)
    found = yield from rows(SQL["advance"], SetParam, **values)
    if missing := [last[param.name][0] for param in found if param.answer == "unknown"]:
        for param in missing:
            if param.key not in declared:
                raise (yield from unknown(param))
        yield from make(missing)
        log.info("param.created", extra={"params": [param.key for param in missing]})
        found = yield from rows(SQL["advance"], SetParam, **values)
    for answered in found:
        param, value = last[answered.name]
        _check(param, value, answered, if_greater=if_greater)
        if answered.ahead and answered.answer == "set":
            log.warning("param.far_ahead", extra={"param": param.key, "value": str(value)})
    return {last[answered.name][0]: answered.answer == "set" for answered in found}


def advance_values(
    last: Mapping[str, tuple[AnyParam, Value]],
    *,
    only_greater: bool,
    by: str | None,
    why: str | None = None,
) -> dict[str, object]:
    """What `advance.sql` takes."""
    names = sorted(last)  # everybody locks params in this order
    return {
        "names": names,
        "kinds": [last[name][0].kind for name in names],
        "given": [str(dump_value(last[name][1])) for name in names],
        "only_greater": only_greater,
        "changed_by": by,
        "why": why,
    }


def _check(param: AnyParam, value: Value, found: SetParam, *, if_greater: bool) -> None:
    if found.answer == "kind":
        raise other_kind(param, found.kind)
    if found.answer == "range":
        raise InvalidValue(f"param {param.key!r} takes instants from 1970 to 9000, got {value}")
    if found.answer == "lower" and not if_greater:
        raise WentBack(param.key, stored(param, found.old), value)
