"""Edits: an entity is read, changed and written by code outside the stages, and no update is lost.

    await listing.edit(42, lambda found: Update(views=found.views + 1))

The change is made under the entity's row lock, so there is nothing to try again for, however many do it.
Edits that come while others are being written are written together, in one transaction: none has round
trips and a flush for itself. Those of one entity follow each other in memory, each on what the one before
made of it, and are one write of its row.

A row that somebody else has locked is not waited for: its edits come again, the others go on. To the stages
an edit is a write from outside like any other, whether there are triggers or not.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import asyncpg
import msgspec

from mainspring.db.pool import AsyncPool
from mainspring.entities.keys import refused
from mainspring.entities.offers import StageOffer, offer
from mainspring.entities.outcome import KEEP, Untouched, Update
from mainspring.entities.patch import Patcher
from mainspring.entities.saving import changes_of, own_save
from mainspring.entities.source import Loaded, Patch, Source, Written, stand
from mainspring.entities.sources import checked, fields_of, source_of, writable
from mainspring.entities.store import SQL
from mainspring.errors import InvalidOutcome, NotFound, SaveRefused, UnreadableEntity
from mainspring.kernel.visit import shard_of

if TYPE_CHECKING:
    from mainspring.entities.kind import Kind

_encode = msgspec.json.Encoder().encode
Changing = Callable[[Any], Update | Untouched]

# Pauses before the edits of a locked row come again (seconds): the first, and the longest.
FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.1
# What the server says when it is not the transaction that failed: nobody knows whether it was committed.
_IN_DOUBT = ("08", "53", "57", "58", "XX")


class Edit(msgspec.Struct, gc=False):
    """One call, until it is answered."""

    key: str
    change: Changing
    answer: asyncio.Future[Any]
    pause: float = FIRST_PAUSE


Result = Loaded | Exception | None  # the entity as the edit made it, why it did not, or: come again


class Editor:
    """The edits of one kind in one event loop."""

    def __init__(self, kind: Kind, source: Source, patcher: Patcher) -> None:
        self._kind = kind
        self._source = source
        self._patcher = patcher
        self._waiting: list[Edit] = []
        self._writing: asyncio.Task[None] | None = None

    async def edit(self, key: str, change: Changing) -> Any:
        """Make the change, and answer the entity as it is then."""
        edit = Edit(key, change, asyncio.get_running_loop().create_future())
        self._add(edit)
        return await edit.answer

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
                await asyncio.sleep(
                    0
                )  # who was answered may have the next edit: one batch, not two
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
            async with pool.connection(transaction=True) as connection:
                edits = Batch(self._kind, self._source, self._patcher, batch)
                results = await edits.save(connection, pool.database.shard_count)
        except asyncpg.PostgresError as error:
            if str(error.sqlstate)[:2] in _IN_DOUBT:
                _fail(batch, error)
            elif len(batch) == 1:
                _fail(batch, _explained(self._kind, batch[0], error))
            else:
                middle = len(batch) // 2
                await self._write(batch[:middle])
                await self._write(batch[middle:])
        except Exception as error:
            _fail(batch, error)
        except BaseException:
            for edit in batch:
                edit.answer.cancel()
            raise
        else:
            for edit, result in results:
                self._answer(edit, result)

    def _answer(self, edit: Edit, result: Result) -> None:
        if edit.answer.done():
            return
        if result is None:
            asyncio.get_running_loop().call_later(edit.pause, self._add, edit)
            edit.pause = min(2 * edit.pause, LONGEST_PAUSE)
        elif isinstance(result, Exception):
            edit.answer.set_exception(result)
        else:
            try:
                edit.answer.set_result(self._kind.model.decode_json(result.body))
            except ValueError as error:
                edit.answer.set_exception(_unreadable(self._kind, result.key, error))


class Batch:
    """Edits on their way through one transaction."""

    def __init__(self, kind: Kind, source: Source, patcher: Patcher, edits: Sequence[Edit]) -> None:
        self._kind = kind
        self._source = source
        self._patcher = patcher
        self._edits = edits
        self._results: list[tuple[Edit, Result]] = []

    async def save(self, connection: Any, shard_count: int) -> list[tuple[Edit, Result]]:
        """Lock the entities, make the edits, write what came out and offer what changed."""
        await connection.execute(own_save(self._kind.name))
        sets: dict[tuple[str, ...], list[tuple[list[Edit], Patch]]] = {}
        for loaded, edits in await self._lock(connection):
            made, values = self._made(loaded, edits)
            if values:
                sets.setdefault(tuple(sorted(values)), []).append((made, Patch(loaded, values)))
            else:
                self._results += ((edit, loaded) for edit in made)
        offers: list[StageOffer] = []
        for group in sets.values():
            written = await self._source.update(connection, [patch for _, patch in group])
            for made, patch in group:
                row = written.get(patch.loaded.key)
                self._results += ((edit, self._result(edit, patch, row)) for edit in made)
                if row is not None and (payload := self._news(patch.loaded, row)):
                    shard = shard_of(patch.loaded.key, shard_count)
                    offers.append(
                        StageOffer(self._kind.name, shard, patch.loaded.key, payload=payload)
                    )
        await offer(connection, offers)
        return self._results

    async def _lock(self, connection: Any) -> Iterable[tuple[Loaded, list[Edit]]]:
        """The entities that could be locked, each with its edits: two texts of an id are one entity."""
        keys = list({edit.key: None for edit in self._edits})
        try:
            stood = await stand(self._source, connection, keys)
        except asyncpg.DataError as error:
            if len(keys) > 1:
                raise  # tried again by halves: one of them is no id
            raise refused(self._kind.name, keys, error) from error
        turns: dict[str, tuple[Loaded, list[Edit]]] = {}
        for edit in self._edits:
            if (found := stood.locked.get(edit.key)) is not None:
                turns.setdefault(found.key, (found, []))[1].append(edit)
            elif (why := stood.barred.get(edit.key)) is not None:
                self._results.append((edit, _refused(self._kind, edit, why)))
            elif edit.key in stood.there:
                self._results.append((edit, None))
            else:
                missing = NotFound(f"kind {self._kind.name!r} has no entity {edit.key!r}")
                self._results.append((edit, missing))
        return turns.values()

    def _made(self, loaded: Loaded, edits: Sequence[Edit]) -> tuple[list[Edit], dict[str, Any]]:
        """The edits that could be made, one after the other, and all that they change."""
        made: list[Edit] = []
        values: dict[str, Any] = {}
        body = loaded.body
        for edit in edits:
            try:
                patch = self._changed(edit, loaded.key, body)
            except Exception as error:
                self._results.append((edit, error))
                continue
            made.append(edit)
            if patch:
                values |= patch
                changed = {name: msgspec.Raw(_encode(value)) for name, value in values.items()}
                body = _encode(loaded.fields() | changed).decode()
        return made, values

    def _changed(self, edit: Edit, key: str, body: str) -> dict[str, Any]:
        """What the caller's function makes of the entity."""
        try:
            entity = self._kind.model.decode_json(body)
        except ValueError as error:
            raise _unreadable(self._kind, key, error) from None
        answer: object = edit.change(entity)
        if inspect.iscoroutine(answer):
            answer.close()
        if not isinstance(answer, Update | Untouched):
            raise InvalidOutcome(
                f"the change of an edit must be a plain function that returns Update(...) or "
                f"Untouched(), got {answer!r:.200}"
            )
        if answer.state is not KEEP or answer.visit_at is not None or answer.visit_in is not None:
            raise InvalidOutcome(
                f"an edit changes the entity alone, got {answer!r:.200}; offer and set_state are for "
                "visits and states, patch={...} for fields of these names"
            )
        return self._patcher.patch(body, answer) if isinstance(answer, Update) else {}

    def _result(self, edit: Edit, patch: Patch, row: Written | None) -> Result:
        if row is None:
            kept = ", ".join(sorted(patch.values))
            return _refused(
                self._kind, edit, f"a trigger on the table kept {kept} as it was; nothing was saved"
            )
        return Loaded(patch.loaded.key, row.version, None, row.body)

    def _news(self, before: Loaded, row: Written) -> dict[str, Any] | None:
        """What the capture trigger would have told the stages; it keeps quiet about our own save."""
        changes = changes_of(before, row.body, self._kind.version)
        fields = [name for name in changes if name not in self._kind.ignore]
        if not fields:
            return None
        payload = {f"f:{name}": 1 for name in fields} | {"out": 1}
        return payload if row.version is None else payload | {"v": row.version}


async def editor_of(kind: Kind, pool: AsyncPool) -> Editor:
    """An editor of a kind on these connections: its table is looked at first."""
    shape = None
    if (table := kind.settings.table) is not None:
        shape = checked(kind, await pool.fetch(SQL["inspect_table"], {"name": table}))
    patcher = Patcher(
        who=f"an edit of kind {kind.name!r}",
        model=kind.model,
        whole=kind.model,
        writable=writable(kind, shape),
        fields=fields_of(kind, shape),
    )
    return Editor(kind, source_of(kind, shape, None), patcher)


def _fail(batch: Sequence[Edit], error: Exception) -> None:
    for edit in batch:
        if not edit.answer.done():
            edit.answer.set_exception(error)


def _refused(kind: Kind, edit: Edit, why: str) -> SaveRefused:
    return SaveRefused(f"the edit of {kind.name} {edit.key!r} changed no row: {why}")


def _unreadable(kind: Kind, key: str, error: ValueError) -> UnreadableEntity:
    return UnreadableEntity(
        f"{kind.name} {key!r} does not fit model {kind.model.type.__name__}: {error}; correct "
        "the entity, or let the model take it as it is"
    )


def _explained(kind: Kind, edit: Edit, error: asyncpg.PostgresError) -> Exception:
    """What a caller can do about it; the server's own error is its cause."""
    found = SaveRefused(
        f"the database refused the edit of {kind.name} {edit.key!r}: {error}; nothing was saved"
    )
    found.__cause__ = error
    return found
