"""The change that a stage run wants to be saved, and the rows that its save writes. Pure, no I/O.

What an `Update` changes of an entity is a patch of plain JSON values, checked before anybody writes it. A
whole entity becomes a patch against what was loaded; what equals the loaded value is no change.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg
import msgspec

from mainspring.entities.declare.model import Model, is_equal
from mainspring.entities.declare.outcome import Update
from mainspring.entities.declare.stage import Stage
from mainspring.entities.declare.state import Stored
from mainspring.entities.declare.table import literal
from mainspring.entities.save import loop_guard
from mainspring.entities.source.rows import LOCAL_PRINTING, Loaded, Written
from mainspring.errors import InvalidOutcome, SaveRefused, UndeclaredField
from mainspring.foreign import pydantic_types
from mainspring.kernel import Again, Done, Run, Verdict, judge
from mainspring.phrases import nearest
from mainspring.shape import told

# Longer values are cut in history (characters of JSON).
SHOWN = 200
_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


@dataclass(frozen=True, slots=True)
class Patcher:
    """Makes the patches of one author: a stage, or an edit."""

    who: str  # for errors: "stage 'price'"
    model: Model  # of what the author is given
    whole: Model  # the kind's, with the fields that a stage does not see too
    writable: Collection[str] | None  # None: any field (of a document or a DAO)
    fields: Collection[str] | None  # of the entity; None: whatever it has
    declared: Collection[str] | None = None  # a stage's `writes`; None: all that is writable

    def patch(self, body: str, update: Update) -> dict[str, object]:
        """The fields that change. Decoded anew: the author may have changed what it was given, itself
        or a list in it."""
        before = self.model.encode(self.model.decode_json(body))
        if update.entity is not None:
            after = self.model.encode(update.entity)
        else:
            assert update.patch is not None
            after = {name: _plain_value(name, value) for name, value in update.patch.items()}
        patch = {
            name: value
            for name, value in after.items()
            if name not in before or not is_equal(before[name], value)
        }
        for name in patch:
            if self.writable is not None and name not in self.writable:
                raise UndeclaredField(self._not_writable(name))
        check_values(self.whole, self.who, patch)
        return {name: self._storable(name, value) for name, value in patch.items()}

    def _not_writable(self, name: str) -> str:
        if self.fields is not None and name not in self.fields:
            near = nearest(name, list(self.fields))
            return f"{self.who} changes {name!r}, a field that the entity does not have{near}"
        if self.declared is None:
            return (
                f"{self.who} changes {name!r}, which cannot be written: it is the key, the version, "
                "or computed by the database"
            )
        return (
            f"{self.who} changes {name!r}, which it does not declare; "
            f"add it to writes= (now: {', '.join(sorted(self.declared)) or 'nothing'})"
        )

    def _storable(self, name: str, value: object) -> object:
        """A value as its JSON text keeps it: NaN as a column of floats prints it, for JSON has none."""
        if isinstance(value, float) and not math.isfinite(value) and self.writable is not None:
            return _NOT_FINITE.get(value, "NaN")
        if (reason := _lost_in_json(name) or _lost_in_json(value)) is not None:
            raise InvalidOutcome(f"{self.who} returned {reason} in field {name!r}: {value!r:.100}")
        return value


def check_values(model: Model, who: str, patch: Mapping[str, object]) -> None:
    """Refuse values that the kind's model would not decode again: no stage could see it any more."""
    try:
        model.check(patch)
    except ValueError as error:
        raise InvalidOutcome(
            f"{who} returned a value that the model {model.type.__name__} does not take: {error}"
        ) from None


def _lost_in_json(value: object) -> str | None:
    """What in a plain value JSON cannot hold: it would be something else when it is read again."""
    match value:
        case float() if not math.isfinite(value):
            return "a number that JSON does not have"
        case str() if not value.isascii() and value.encode("utf-8", "ignore").decode() != value:
            return "half a character (a lone surrogate)"
        case dict():
            parts = (*value, *value.values())
            return next((why for v in parts if (why := _lost_in_json(v))), None)
        case list() | tuple():
            return next((why for v in value if (why := _lost_in_json(v))), None)
    return None


def _plain_value(name: str, value: object) -> object:
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=pydantic_types.write)
    except (TypeError, msgspec.MsgspecError) as error:
        raise InvalidOutcome(f"field {name!r} cannot be written: {error}") from error


# -- saves


class Save(msgspec.Struct, gc=False):
    """What a stage run wants to be saved. Waits as its run's change."""

    stage: Stage
    loaded: Loaded
    state_version: int
    stored: Stored | None  # the state as it was loaded
    patch: dict[str, object]  # plain JSON values; empty: the entity stays as it is
    state: Stored | None  # None: the state stays as it is
    chain: loop_guard.Chain  # with this save in it
    after: float | None  # seconds until the next visit, None: none
    at: datetime | None  # its time, if the stage named one
    crawl: bool  # a run of the crawl lane
    payload: str | None = None  # what its visit carries on, if it goes on
    restless: str | None = None  # what is said of a visit that is put off

    @property
    def is_quiet(self) -> bool:
        """Nothing is written but the visit."""
        return not self.patch and self.state is None


class SaveItem(msgspec.Struct):
    """A run on its way through a save."""

    n: int
    run: Run
    save: Save
    now: Loaded  # the entity as it is, locked
    written: Written | None = None
    changed: dict[str, tuple[bytes, bytes]] = {}
    state_version: int = 0

    def wrote(self, written: Written | None, version: str) -> None:
        """What came back of its row; None if it was not written."""
        self.written = written
        if written is not None:
            self.changed = changes_of(self.now, written.body, version)

    def has_state(self, version: int) -> None:
        """The version of its state after this save."""
        self.state_version = version


def own_save(kind: str) -> str:
    """What a transaction begins with that saves entities of a kind and offers for itself.

    The capture triggers of the kind stay quiet (but not for what users' triggers write in turn).
    Deferred constraints speak now, not at the commit.
    """
    return (
        f"set local mainspring.engine = 'on'; set local mainspring.saves = {literal(kind)}; "
        f"set constraints all immediate; {LOCAL_PRINTING}"
    )


def outcome_of(save: Save, result: str) -> Done | Again:
    """What the visit comes to when its save is written."""
    if save.after is None or save.crawl:
        return Done(result=result)
    return Again(
        at=save.at,
        after=save.after,
        payload=save.payload,
        result=result,
        error=save.restless,
    )


def changes_of(before: Loaded, body: str, version: str) -> dict[str, tuple[bytes, bytes]]:
    """The fields that differ between the locked row and what an update made of it."""
    old, new = before.fields(), Loaded("", None, None, body).fields()
    found = {}
    for name, value in new.items():
        was = bytes(old[name]) if name in old else b"null"
        if was != bytes(value) and name != version:
            found[name] = (was, bytes(value))
    return found


def vetoed(run: Run) -> Verdict:
    patch = ", ".join(sorted(run.change.patch))
    return refused(run, f"a trigger on the table kept {patch} of {run.visit.key!r} as it was")


def refused(run: Run, why: str) -> Verdict:
    """The entity cannot be saved as things are: a failure of the run."""
    save: Save = run.change
    error = SaveRefused(
        f"the save of stage {save.stage.name!r} changed no row: {why}; nothing was saved"
    )
    return judge(save.stage.settings.retry, failures=run.visit.attempt + 1, error=error)


def explained(run: Run, error: Exception) -> str | None:
    """What the server says of a save that it refused, with whose save it was and which fields it sets.

    An error that is not the server's came from the user's own code, and says where itself.
    """
    if not isinstance(error, asyncpg.PostgresError):
        return None
    save: Save = run.change
    fields = [f"{name}: {type(value).__name__}" for name, value in sorted(save.patch.items())]
    more = {"HINT": error.hint, "CONTEXT": error.context}  # a DETAIL quotes the row
    return (
        f"the database refused the save of stage {save.stage.name!r} for {save.stage.kind} "
        f"{run.visit.key!r} ({', '.join(fields) or 'its state alone'}): {told(error)}; nothing was "
        "saved: let the stage return what the table takes, or change the table"
        + "".join(f"\n{word}: {text}" for word, text in more.items() if text)
    )


def state_row(item: SaveItem) -> dict[str, object]:
    stored, visit = item.save.state, item.run.visit
    assert stored is not None
    return {
        "n": item.n,
        "shard": visit.shard,
        "key": visit.key,
        "stage": item.save.stage.name,
        "version": item.save.state_version,
        "schema": stored.schema,
        "body": None if stored.body is None else msgspec.Raw(stored.body.encode()),
        "message": stored.message,
        "message_type": stored.message_type,
    }


def event_row(item: SaveItem, consumers: Sequence[str]) -> dict[str, object]:
    save, visit = item.save, item.run.visit
    body = item.written.body if item.written is not None else item.now.body
    return {
        "shard": visit.shard,
        "key": visit.key,
        "stage": save.stage.name,
        "what": "saved" if item.written is not None else "state",
        "entity_version": item.written.version if item.written else item.now.version,
        "state_version": item.state_version or None,
        "run": item.run.token,
        "consumers": list(consumers),
        "body": {
            "entity": msgspec.Raw(body.encode()),
            **_event_state(save.state if save.state is not None else save.stored),
            "changed": {
                name: [msgspec.Raw(old), msgspec.Raw(new)]
                for name, (old, new) in item.changed.items()
            },
        },
    }


def _event_state(stored: Stored | None) -> dict[str, object]:
    """A state as an event carries it: JSON, or a message with its type in base64."""
    if stored is None or (stored.body is None and stored.message is None):
        return {"state": None}
    if stored.body is not None:
        return {"state": msgspec.Raw(stored.body.encode()), "schema": stored.schema}
    message = {"@type": stored.message_type, "value": stored.message}
    return {"state": message, "schema": stored.schema}


def summary(
    changed: Mapping[str, tuple[bytes, bytes]], version: int | None, state_version: int | None
) -> str:
    """The result of a stage run that saved something, as JSON."""
    result: dict[str, object] = {
        "version": version,
        "state": state_version,
        "changed": {name: [_cut(old), _cut(new)] for name, (old, new) in changed.items()},
    }
    return msgspec.json.encode(result).decode()


def _cut(value: bytes) -> msgspec.Raw | str:
    if len(value) <= SHOWN:
        return msgspec.Raw(value)
    return value[:SHOWN].decode("utf-8", "ignore") + "..."
