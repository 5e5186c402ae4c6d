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

from mainspring.db.connect.outage import outage
from mainspring.db.pool import AsyncPool
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.table import Shape
from mainspring.entities.outside.edit_batch import Changing, Edit, EditBatch, Result, unreadable
from mainspring.entities.save.patch import Patcher
from mainspring.entities.source.choose import checked, fields_of, source_of, writable
from mainspring.entities.statements import SQL
from mainspring.errors import SaveRefused, UndeclaredField
from mainspring.shape import told

# The longest pause before the edits of a locked row come again (seconds).
LONGEST_PAUSE = 0.1
# What is said when the server or the connection failed, not the transaction: nobody knows whether it was
# committed, or the next would fail as well.
_IN_DOUBT = ("08", "53", "57P", "58")
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
        if (editor := self._editors.get(pool)) is None:
            shape = await look(self._kind, pool)
            editor = self._editors.setdefault(pool, Editor(self._kind, shape))
        try:
            return await editor.edit(key, change)
        except (UndeclaredField, SaveRefused) as error:
            if not await editor.is_outdated(pool, error):
                raise
        # Nothing was saved, and the table is not what was looked at.
        if self._editors.get(pool) is editor:
            del self._editors[pool]
        return await self.edit(key, change)


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
        self._waiting: list[Edit] = []
        self._writing: asyncio.Task[None] | None = None

    async def edit(self, key: str, change: Changing) -> Any:
        """Make the change, and answer the entity as it is then."""
        edit = Edit(key, change, asyncio.get_running_loop().create_future())
        self._add(edit)
        return await edit.answer

    async def is_outdated(self, pool: AsyncPool, error: Exception) -> bool:
        """Whether an edit was refused because the table is no longer what was looked at."""
        cause = error.__cause__
        if isinstance(error, UndeclaredField) or isinstance(cause, _OTHER_TABLE):
            return self._shape != await look(self._kind, pool)
        return False

    def _add(self, edit: Edit) -> None:
        self._waiting.append(edit)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._source.most]
                del self._waiting[: self._source.most]
                await self._write([edit for edit in batch if not edit.answer.done()])
                # Who was answered may have the next edit at hand: one batch, not two by turns.
                await asyncio.sleep(0)
        finally:
            self._writing = None
            for edit in self._waiting:  # the event loop ends
                edit.answer.cancel()
            self._waiting.clear()

    async def _write(self, batch: Sequence[Edit]) -> None:
        """Write edits in one transaction; if the server refuses it, by halves: one edit that breaks a
        constraint stops no other."""
        if not batch:
            return
        try:
            pool = await self._kind.host.pool()
            async with pool.connection(transaction=True, explained=False) as connection:
                edits = EditBatch(self._kind, self._source, self._patcher, batch, self._alone)
                results = await edits.save(connection, pool.database.shard_count)
        except asyncpg.PostgresError as error:
            if str(error.sqlstate).startswith(_IN_DOUBT):
                _fail(batch, outage(error, lost=False, undone=False) or error)
            elif len(batch) == 1:
                self._refuse(batch[0], error)
            else:
                middle = len(batch) // 2
                await self._write(batch[:middle])
                await self._write(batch[middle:])
        except Exception as error:
            _fail(batch, outage(error, lost=False, undone=False) or error)
        except BaseException:
            for edit in batch:
                edit.answer.cancel()
            raise
        else:
            for edit, result in results:
                self._answer(edit, result)

    def _refuse(self, edit: Edit, error: asyncpg.PostgresError) -> None:
        if isinstance(error, asyncpg.TransactionRollbackError) and edit.conflicts < MOST_CONFLICTS:
            edit.conflicts += 1
            self._answer(edit, None)  # a deadlock, say: the other has what it wanted by then
        else:
            _fail([edit], _explained(self._kind, edit, error))

    def _answer(self, edit: Edit, result: Result) -> None:
        if edit.answer.done():
            return
        if result is None:
            asyncio.get_running_loop().call_later(edit.pause, self._add, edit)
            edit.pause = min(2 * edit.pause, LONGEST_PAUSE)
        elif isinstance(result, Exception):
            _fail([edit], result)
        else:
            try:
                edit.answer.set_result(self._kind.model.decode_json(result.body))
            except ValueError as error:
                _fail([edit], unreadable(self._kind, result.key, error))
            except Exception as error:  # of the model's own code
                _fail([edit], error)


async def look(kind: DeclaredKind, pool: AsyncPool) -> Shape | None:
    """The shape of a kind's table as it is now; None for a DAO."""
    if (table := kind.settings.table) is None:
        return None
    return checked(kind, await pool.fetch(SQL["inspect_table"], {"name": table}))


def _fail(batch: Sequence[Edit], error: Exception) -> None:
    if isinstance(error, StopIteration):  # no future takes it, as no generator does
        why = RuntimeError("the change of an edit raised StopIteration")
        why.__cause__ = error
        error = why
    for edit in batch:
        if not edit.answer.done():
            edit.answer.set_exception(error)


def _explained(kind: DeclaredKind, edit: Edit, error: asyncpg.PostgresError) -> Exception:
    """What a caller can do about it; the server's own error is its cause."""
    found = SaveRefused(
        f"the database refused the edit of {kind.name} {edit.key!r}: {told(error)}; nothing was saved"
    )
    found.__cause__ = error
    return found
