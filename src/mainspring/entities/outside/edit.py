"""Edits: an entity is read, changed and written by code outside the stages, and no update is lost.

    await listing.edit(42, lambda found: Update(views=found.views + 1))

The change is made under the entity's row lock, so there is nothing to try again for, however many do it.
Edits that come while others are being written are written together, in one transaction: none has round
trips and a flush for itself. Those of one entity follow each other in memory, each on what the one before
made of it, and are one write of its row (`edit_batch.py`).

A row that somebody else has locked is not waited for: its edits come again, the others go on. To the stages
an edit is a write from outside like any other, whether there are triggers or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import asyncpg

from mainspring.db.batcher import AfterFailure, Batcher
from mainspring.db.connect.outage import outage
from mainspring.db.database import Connection
from mainspring.db.pool import AsyncPool
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.table import Shape, TableRow
from mainspring.entities.outside.edit_batch import Changing, Edit, EditBatch, Result, unreadable
from mainspring.entities.save.change import Patcher
from mainspring.entities.source.choose import checked, fields_of, source_of, writable
from mainspring.entities.statements import SQL
from mainspring.errors import SaveRefused, UndeclaredField
from mainspring.shape import told

# What a statement made for another table meets: a column that is not there, a value of another type.
_OTHER_TABLE = (asyncpg.SyntaxOrAccessError, asyncpg.DataError)
# How often an edit comes again that met a deadlock, or what the server takes for a conflict.
MOST_CONFLICTS = 10


class Editors:
    """The edits of one kind: an editor for each event loop, and a new one when the table was altered."""

    def __init__(self, kind: DeclaredKind) -> None:
        self._kind = kind
        self._editors: WeakKeyDictionary[AsyncPool, Editor] = WeakKeyDictionary()

    async def edit(self, key: str, change: Changing) -> Any:
        """Make the change, and answer the entity as it is then."""
        pool = await self._kind.host.pool()
        editor = await self._editor(pool)
        try:
            return await editor.edit(key, change)
        except (UndeclaredField, SaveRefused) as error:
            if not await editor.is_outdated(pool, error):
                raise
        # Nothing was saved, and the table is not what was looked at.
        if self._editors.get(pool) is editor:
            del self._editors[pool]
        return await self.edit(key, change)

    async def edit_within(
        self, connection: Connection, changes: Sequence[tuple[str, Changing]]
    ) -> None:
        """Make edits in a transaction that is open. A row that somebody else has locked fails all of them
        as a lock that did not come: it may be tried again."""
        editor = await self._editor(await self._kind.host.pool())
        edits = [Edit(key, change) for key, change in changes]
        for result in await editor.save_within(connection, edits):
            if result is None:
                raise asyncpg.LockNotAvailableError("an entity to be edited is locked")
            if isinstance(result, BaseException):
                raise result

    async def _editor(self, pool: AsyncPool) -> Editor:
        if (editor := self._editors.get(pool)) is None:
            shape = await look(self._kind, pool)
            editor = self._editors.setdefault(pool, Editor(self._kind, shape))
        return editor


class Editor:
    """The edits of one kind in one event loop."""

    def __init__(self, kind: DeclaredKind, shape: Shape | None) -> None:
        self._kind = kind
        self._shape = shape
        self._source = source_of(kind, shape, None)
        self._patcher = Patcher(
            who=f"an edit of kind {kind.name!r}",
            model=kind.model,
            whole=kind.model,
            writable=writable(kind, shape),
            fields=fields_of(kind, shape),
        )
        seen = kind.model.fields
        # Only the database knows what a generated column is after an edit.
        self._alone = shape is not None and any(
            seen is None or name in seen for name in shape.generated
        )
        self._save = Batcher(self._save_all, most=self._source.most, failed=_after)

    async def edit(self, key: str, change: Changing) -> Any:
        """Make the change; returns the entity as it is then."""
        edit = Edit(key, change)
        while (result := await self._result(edit)) is None:
            await asyncio.sleep(edit.next_pause())
        if isinstance(result, StopIteration):
            raise RuntimeError("the change of an edit raised StopIteration") from result
        if isinstance(result, BaseException):
            raise result
        try:
            return self._kind.model.decode_json(result.body)
        except ValueError as error:
            raise unreadable(self._kind, result.key, error) from None

    async def _result(self, edit: Edit) -> Result:
        try:
            return await self._save(edit)
        except asyncpg.PostgresError as error:
            if is_in_doubt(error):
                raise outage(error, lost=False, undone=False) or error from None
            conflict = isinstance(error, asyncpg.TransactionRollbackError)
            if conflict and edit.conflicts < MOST_CONFLICTS:
                edit.met_conflict()
                return None  # a deadlock, say: the other has what it wanted by then
            raise _explained(self._kind, edit, error) from error
        except Exception as error:
            raise outage(error, lost=False, undone=False) or error from None

    async def _save_all(self, edits: Sequence[Edit]) -> list[Result]:
        """Write edits in one transaction."""
        pool = await self._kind.host.pool()
        async with pool.connection(transaction=True, explained=False) as connection:
            return await self.save_within(connection, edits)

    async def save_within(self, connection: Connection, edits: Sequence[Edit]) -> list[Result]:
        """Write edits in the transaction that is open."""
        batch = EditBatch(self._kind, self._source, self._patcher, edits, self._alone)
        return await batch.save(connection, connection.database.shard_count)

    async def is_outdated(self, pool: AsyncPool, error: Exception) -> bool:
        """Whether an edit was refused because the table is no longer what was looked at."""
        cause = error.__cause__
        if isinstance(error, UndeclaredField) or isinstance(cause, _OTHER_TABLE):
            return self._shape != await look(self._kind, pool)
        return False


async def _after(error: Exception) -> AfterFailure:
    """What the server refuses is tried by halves: one edit that breaks a constraint stops no other."""
    if isinstance(error, asyncpg.PostgresError) and not is_in_doubt(error):
        return AfterFailure.HALVE
    return AfterFailure.TELL


async def look(kind: DeclaredKind, pool: AsyncPool) -> Shape | None:
    """The shape of a kind's table as it is now; None for a DAO."""
    if (table := kind.settings.table) is None:
        return None
    async with pool.connection() as connection:
        return checked(kind, await connection.first(SQL["inspect_table"], TableRow, name=table))


def is_in_doubt(error: asyncpg.PostgresError) -> bool:
    """Whether the server or the connection failed, not the transaction: nobody knows whether it was
    committed, or the next would fail as well."""
    return str(error.sqlstate).startswith(("08", "53", "57P", "58"))


def _explained(kind: DeclaredKind, edit: Edit, error: asyncpg.PostgresError) -> SaveRefused:
    """What a caller can do about it."""
    return SaveRefused(
        f"the database refused the edit of {kind.name} {edit.key!r}: {told(error)}; nothing was saved"
    )
