"""One transaction of edits: entities locked, changed by their callers' functions, written and offered.

What only the database can tell (a generated column, a veto, how a value is stored) is not guessed: edits
that need it follow in a write of their own, on the row as it is by then.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import asyncpg
import msgspec

from mainspring.db.database import Connection
from mainspring.entities.declare.declared_kind import DeclaredKind
from mainspring.entities.declare.ids import refused
from mainspring.entities.declare.outcome import KEEP, Untouched, Update
from mainspring.entities.offers import StageOffer, offer
from mainspring.entities.save.change import Patcher, changes_of, own_save
from mainspring.entities.source.rows import Loaded, Patch, Source, Written, stand
from mainspring.errors import InvalidOutcome, NotFound, SaveRefused, UnreadableEntity
from mainspring.ids import shard_of
from mainspring.shape import shape

_encode = msgspec.json.Encoder().encode
Changing = Callable[[Any], Update | Untouched]
# The first and the longest pause before the edits of a locked row come again (seconds).
FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.1


class Edit(msgspec.Struct, eq=False, gc=False):
    """One call, until it is answered."""

    key: str
    change: Changing
    pause: float = FIRST_PAUSE
    conflicts: int = 0
    # The caller's: his function must not see the request of him whose edit began the batch.
    context: contextvars.Context = msgspec.field(default_factory=contextvars.copy_context)

    def met_conflict(self) -> None:
        """Somebody's transaction was in its way."""
        self.conflicts += 1

    def next_pause(self) -> float:
        """Seconds until it comes again: twice as long each time, up to a bound."""
        pause, self.pause = self.pause, min(2 * self.pause, LONGEST_PAUSE)
        return pause


Result = (
    Loaded | BaseException | None
)  # the entity as the edit made it, why it did not, or: come again


class Turn(msgspec.Struct, gc=False):
    """An entity, locked, and the edits that are still to be made of it."""

    loaded: Loaded
    edits: Sequence[Edit]
    alone: bool  # each is a write of its own


class EditBatch:
    """Edits on their way through one transaction."""

    def __init__(
        self,
        kind: DeclaredKind,
        source: Source,
        patcher: Patcher,
        edits: Sequence[Edit],
        alone: bool,
    ) -> None:
        self._kind = kind
        self._source = source
        self._patcher = patcher
        self._edits = edits
        self._alone = alone
        self._results: dict[Edit, Result] = {}
        self._payloads: dict[str, dict[str, object]] = {}  # of the system visits, by key

    async def save(self, connection: Connection, shard_count: int) -> list[Result]:
        """Lock the entities, make the edits, write what came out and offer what changed. Returns what came
        of each edit."""
        await connection.execute(own_save(self._kind.name))
        turns = await self._lock(connection)
        while left := await self._write(connection, turns):
            turns = await self._again(connection, left)
        offers = [
            StageOffer(self._kind.name, shard_of(key, shard_count), key, payload=payload)
            for key, payload in self._payloads.items()
        ]
        await offer(connection, offers)
        return [self._results[edit] for edit in self._edits]

    async def _write(self, connection: Connection, turns: Iterable[Turn]) -> list[Turn]:
        """One write of each entity; answers what is left to do."""
        sets: dict[tuple[str, ...], list[tuple[Turn, list[Edit], Patch]]] = {}
        for turn in turns:
            made, values = self._made(turn)
            if values:
                patch = Patch(turn.loaded, values)
                sets.setdefault(tuple(sorted(values)), []).append((turn, made, patch))
            else:
                self._results |= dict.fromkeys(made, turn.loaded)
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
        self, connection: Connection, group: Sequence[tuple[Turn, list[Edit], Patch]]
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
            self._results |= {edit: self._result(edit, patch, row) for edit in made}
            if row is not None:
                self._tell(turn.loaded, row)
            if turn.edits:
                left.append(turn)
        return left

    async def _again(self, connection: Connection, turns: Sequence[Turn]) -> list[Turn]:
        """The turns with their entities as they are by now, with all that triggers did."""
        now = await self._source.lock(connection, [turn.loaded.key for turn in turns])
        found = []
        for turn in turns:
            if (loaded := now.get(turn.loaded.key)) is not None:
                found.append(Turn(loaded, turn.edits, turn.alone))
            else:  # a trigger deleted it
                self._results |= {edit: _missing(self._kind, edit) for edit in turn.edits}
        return found

    async def _lock(self, connection: Connection) -> list[Turn]:
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
                self._results[edit] = _refused(self._kind, edit, why)
            elif edit.key in stood.there:
                self._results[edit] = None
            else:
                self._results[edit] = _missing(self._kind, edit)
        return [Turn(found, edits, self._alone) for found, edits in found_edits.values()]

    def _made(self, turn: Turn) -> tuple[list[Edit], dict[str, object]]:
        """The edits that could be made, one after the other, and all that they change; the turn keeps
        those that have to see it written first."""
        made: list[Edit] = []
        values: dict[str, object] = {}
        body, edits = turn.loaded.body, turn.edits
        turn.edits = ()
        for n, edit in enumerate(edits):
            if values and turn.alone:
                turn.edits = edits[n:]
                break
            try:
                patch = self._changed(edit, turn.loaded.key, body)
            except asyncio.CancelledError as error:
                self._results[edit] = error  # the function's own: no other edit is meant
                continue
            except Exception as error:
                if values:  # perhaps for how the one before left it: the row may have it otherwise
                    turn.edits = edits[n:]
                    break
                self._results[edit] = error
                continue
            made.append(edit)
            if patch:
                values |= patch
                changed = {name: msgspec.Raw(_encode(value)) for name, value in values.items()}
                body = _encode(turn.loaded.fields() | changed).decode()
        return made, values

    def _changed(self, edit: Edit, key: str, body: str) -> dict[str, object]:
        """What the caller's function makes of the entity."""
        try:
            entity = self._kind.model.decode_json(body)
        except ValueError as error:
            raise unreadable(self._kind, key, error) from None
        answer: object = edit.context.run(edit.change, entity)
        if inspect.iscoroutine(answer):
            answer.close()
        if not isinstance(answer, Update | Untouched):
            raise InvalidOutcome(
                f"the change of an edit must be a plain function that returns Update(...) or "
                f"Untouched(), got {shape(answer)}"
            )
        if answer.state is not KEEP or answer.visit_at is not None or answer.visit_in is not None:
            raise InvalidOutcome(
                "an edit changes the entity alone, got one with a state or a visit; offer and set_state "
                "are for visits and states, patch={...} for fields of these names"
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


def _put_back(turn: Turn, made: Sequence[Edit], *, alone: bool = False) -> Turn:
    """The turn with all its edits again, of which some were made and not written."""
    return Turn(turn.loaded, [*made, *turn.edits], alone or turn.alone)


def _missing(kind: DeclaredKind, edit: Edit) -> NotFound:
    return NotFound(f"kind {kind.name!r} has no entity {edit.key!r}")


def _refused(kind: DeclaredKind, edit: Edit, why: str) -> SaveRefused:
    return SaveRefused(f"the edit of {kind.name} {edit.key!r} changed no row: {why}")


def unreadable(kind: DeclaredKind, key: str, error: ValueError) -> UnreadableEntity:
    return UnreadableEntity(
        f"{kind.name} {key!r} does not fit model {kind.model.type.__name__}: {error}; correct "
        "the entity, or let the model take it as it is"
    )
