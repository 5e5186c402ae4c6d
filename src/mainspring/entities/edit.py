"""Edits: an entity is read, changed and written by code outside the stages, and no update is lost.

    await listing.edit(42, lambda found: Update(views=found.views + 1))

The change is made under the entity's row lock, so there is nothing to try again for, however many do it.
Edits that come while others are being written are written together, in one transaction: none has round
trips and a flush for itself. Those of one entity follow each other in memory, each on what the one before
made of it, and are one write of its row. What only the database can tell (a generated column, a veto, how
a value is stored) is not guessed: the edits that need it follow in a write of their own.

A row that somebody else has locked is not waited for: its edits come again, the others go on. To the stages
an edit is a write from outside like any other, whether there are triggers or not.
"""

from __future__ import annotations

import asyncio
import contextvars
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
from mainspring.entities.table import Shape
from mainspring.errors import (
    InvalidOutcome,
    NotFound,
    SaveRefused,
    UndeclaredField,
    UnreadableEntity,
)
from mainspring.kernel.visit import shard_of

if TYPE_CHECKING:
    from mainspring.entities.kind import Kind

_encode = msgspec.json.Encoder().encode
Changing = Callable[[Any], Update | Untouched]

# Pauses before the edits of a locked row come again (seconds): the first, and the longest.
FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.1
# What is said when the server or the connection failed, not the transaction: nobody knows whether it was
# committed, or the next would fail as well.
_IN_DOUBT = ("08", "53", "57P", "58")
# What a statement made for another table meets: a column that is not there, a value of another type.
_OTHER_TABLE = (asyncpg.SyntaxOrAccessError, asyncpg.DataError)
# How often an edit comes again that met a deadlock, or what the server takes for a conflict.
MOST_CONFLICTS = 10


class Edit(msgspec.Struct, gc=False):
    """One call, until it is answered."""

    key: str
    change: Changing
    answer: asyncio.Future[Any]
    pause: float = FIRST_PAUSE
    conflicts: int = 0
    # The caller's: his function must not see the request of him whose edit began the batch.
    context: contextvars.Context = msgspec.field(default_factory=contextvars.copy_context)


Result = Loaded | Exception | None  # the entity as the edit made it, why it did not, or: come again


class Editor:
    """The edits of one kind in one event loop."""

    def __init__(self, kind: Kind, shape: Shape | None) -> None:
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
                edits = Batch(self._kind, self._source, self._patcher, batch, self._alone)
                results = await edits.save(connection, pool.database.shard_count)
        except asyncpg.PostgresError as error:
            if str(error.sqlstate).startswith(_IN_DOUBT):
                _fail(batch, error)
            elif len(batch) == 1:
                self._refuse(batch[0], error)
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
                _fail([edit], _unreadable(self._kind, result.key, error))
            except Exception as error:  # of the model's own code
                _fail([edit], error)


class Turn(msgspec.Struct, gc=False):
    """An entity, locked, and the edits that are still to be made of it."""

    loaded: Loaded
    edits: Sequence[Edit]
    alone: bool  # each is a write of its own


class Batch:
    """Edits on their way through one transaction."""

    def __init__(
        self, kind: Kind, source: Source, patcher: Patcher, edits: Sequence[Edit], alone: bool
    ) -> None:
        self._kind = kind
        self._source = source
        self._patcher = patcher
        self._edits = edits
        self._alone = alone
        self._results: list[tuple[Edit, Result]] = []
        self._payloads: dict[str, dict[str, Any]] = {}  # of the system visits, by key

    async def save(self, connection: Any, shard_count: int) -> list[tuple[Edit, Result]]:
        """Lock the entities, make the edits, write what came out and offer what changed."""
        await connection.execute(own_save(self._kind.name))
        turns = await self._lock(connection)
        while left := await self._write(connection, turns):
            turns = await self._again(connection, left)
        offers = [
            StageOffer(self._kind.name, shard_of(key, shard_count), key, payload=payload)
            for key, payload in self._payloads.items()
        ]
        await offer(connection, offers)
        return self._results

    async def _write(self, connection: Any, turns: Iterable[Turn]) -> list[Turn]:
        """One write of each entity; answers what is left to do."""
        sets: dict[tuple[str, ...], list[tuple[Turn, list[Edit], Patch]]] = {}
        for turn in turns:
            made, values = self._made(turn)
            if values:
                patch = Patch(turn.loaded, values)
                sets.setdefault(tuple(sorted(values)), []).append((turn, made, patch))
            else:
                self._results += ((edit, turn.loaded) for edit in made)
        left: list[Turn] = []
        for n, group in enumerate(sets.values()):
            # What was written before may have had triggers that wrote these: nobody else can have.
            before = [patch.loaded for _, _, patch in group] if n else []
            moved = await self._source.moved(connection, before) if before else set()
            still = [one for place, one in enumerate(group) if place not in moved]
            left += (_put_back(turn, made) for turn, made, _ in map(group.__getitem__, moved))
            left += await self._update(connection, still) if still else []
        return left

    async def _update(
        self, connection: Any, group: Sequence[tuple[Turn, list[Edit], Patch]]
    ) -> list[Turn]:
        """Write entities with one set of columns."""
        left = []
        written = await self._source.update(connection, [patch for _, _, patch in group])
        for turn, made, patch in group:
            row = written.get(patch.loaded.key)
            if row is None and len(made) > 1:
                # Which of them the trigger minds is not known.
                left.append(_put_back(turn, made, alone=True))
                continue
            self._results += ((edit, self._result(edit, patch, row)) for edit in made)
            if row is not None:
                self._tell(turn.loaded, row)
            if turn.edits:
                left.append(turn)
        return left

    async def _again(self, connection: Any, turns: Sequence[Turn]) -> list[Turn]:
        """The turns with their entities as they are by now, with all that triggers did."""
        now = await self._source.lock(connection, [turn.loaded.key for turn in turns])
        found = []
        for turn in turns:
            if (loaded := now.get(turn.loaded.key)) is not None:
                found.append(Turn(loaded, turn.edits, turn.alone))
            else:  # a trigger deleted it
                self._results += ((edit, _missing(self._kind, edit)) for edit in turn.edits)
        return found

    async def _lock(self, connection: Any) -> list[Turn]:
        """The entities that could be locked, each with its edits: two texts of an id are one entity."""
        keys = list({edit.key: None for edit in self._edits})
        try:
            stood = await stand(self._source, connection, keys)
        except asyncpg.DataError as error:
            if len(keys) > 1:
                raise  # tried again by halves: one of them is no id
            raise refused(self._kind.name, keys, error) from error
        found_edits: dict[str, tuple[Loaded, list[Edit]]] = {}
        for edit in self._edits:
            if (found := stood.locked.get(edit.key)) is not None:
                found_edits.setdefault(found.key, (found, []))[1].append(edit)
            elif (why := stood.barred.get(edit.key)) is not None:
                self._results.append((edit, _refused(self._kind, edit, why)))
            elif edit.key in stood.there:
                self._results.append((edit, None))
            else:
                self._results.append((edit, _missing(self._kind, edit)))
        return [Turn(found, edits, self._alone) for found, edits in found_edits.values()]

    def _made(self, turn: Turn) -> tuple[list[Edit], dict[str, Any]]:
        """The edits that could be made, one after the other, and all that they change; the turn keeps
        those that have to see it written first."""
        made: list[Edit] = []
        values: dict[str, Any] = {}
        body, edits = turn.loaded.body, turn.edits
        turn.edits = ()
        for n, edit in enumerate(edits):
            if values and turn.alone:
                turn.edits = edits[n:]
                break
            try:
                patch = self._changed(edit, turn.loaded.key, body)
            except asyncio.CancelledError:
                edit.answer.cancel()  # the function's own: no other edit is meant
                continue
            except Exception as error:
                if values:  # perhaps for how the one before left it: the row may have it otherwise
                    turn.edits = edits[n:]
                    break
                self._results.append((edit, error))
                continue
            made.append(edit)
            if patch:
                values |= patch
                changed = {name: msgspec.Raw(_encode(value)) for name, value in values.items()}
                body = _encode(turn.loaded.fields() | changed).decode()
        return made, values

    def _changed(self, edit: Edit, key: str, body: str) -> dict[str, Any]:
        """What the caller's function makes of the entity."""
        try:
            entity = self._kind.model.decode_json(body)
        except ValueError as error:
            raise _unreadable(self._kind, key, error) from None
        answer: object = edit.context.run(edit.change, entity)
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

    def _tell(self, before: Loaded, row: Written) -> None:
        """What the capture trigger would have told the stages; it keeps quiet about our own save."""
        changes = changes_of(before, row.body, self._kind.version)
        fields = [name for name in changes if name not in self._kind.ignore]
        if fields:
            payload = self._payloads.setdefault(before.key, {"out": 1})
            payload |= {f"f:{name}": 1 for name in fields}
            if row.version is not None:
                payload["v"] = row.version


async def look(kind: Kind, pool: AsyncPool) -> Shape | None:
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


def _put_back(turn: Turn, made: Sequence[Edit], *, alone: bool = False) -> Turn:
    """The turn with all its edits again, of which some were made and not written."""
    return Turn(turn.loaded, [*made, *turn.edits], alone or turn.alone)


def _missing(kind: Kind, edit: Edit) -> NotFound:
    return NotFound(f"kind {kind.name!r} has no entity {edit.key!r}")


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
