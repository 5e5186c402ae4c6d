"""What an `Update` changes of an entity: a patch of plain JSON values, checked before anybody writes it.

A whole entity becomes a patch against what was loaded; what equals the loaded value is no change.
Pure, no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from mainspring.entities.declare.model import Model, is_equal
from mainspring.entities.declare.outcome import Update
from mainspring.errors import InvalidOutcome, UndeclaredField
from mainspring.phrases import nearest

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
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, msgspec.MsgspecError) as error:
        raise InvalidOutcome(f"field {name!r} cannot be written: {error}") from error
