"""What a task hides: `redact=` as it is declared, and what its notes of progress go through."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial

import msgspec

from mainspring.errors import InvalidTask
from mainspring.redact import NOTHING, Redactor
from mainspring.tasks.declare.signature import Signature


def note_of(signature: Signature, payload: str) -> Callable[[str], str] | None:
    """What the notes of one run go through, which was given this payload; None: they stay as they are."""
    redactor, sealing = signature.redactor, signature.sealing
    if redactor is None:
        return None if sealing is None else sealing.note
    scrub = cache(partial(redactor.scrubber_of, signature.opened(payload)))  # few say anything
    if sealing is None:
        return lambda text: scrub()(text)
    return lambda text: sealing.note(scrub()(text))


def check_names(signature: Signature, redactor: Redactor) -> None:
    """Refuse names that nothing has: what is meant would be shown."""
    noun, name = signature.noun, signature.name
    known = _names_in([*signature.types.values(), signature.result_type])
    for field in redactor.fields:
        for part in field.split("."):
            if known is not None and part not in {*known, *signature.fields}:
                there = ", ".join(sorted({*known, *signature.fields}))
                raise InvalidTask(
                    f"redact of {noun} {name!r} names {field!r}, and no argument, and no field of its "
                    f"arguments or result, is called {part!r} (there are {there})"
                )


def check_searchable(signature: Signature, searchable: Collection[str]) -> None:
    """Refuse a field that is hidden and searched by."""
    redactor = NOTHING if signature.redactor is None else signature.redactor
    for field in redactor.fields:
        if found := sorted({*field.split(".")} & {*searchable}):
            raise InvalidTask(
                f"task {signature.name!r}: {found[0]!r} is searchable, and redact hides {field!r}: a "
                "search would tell what is hidden; take it out of one of them"
            )


class _Schema(
    msgspec.Struct, rename={"ref": "$ref", "any_of": "anyOf", "prefix_items": "prefixItems"}
):
    """As much of a JSON schema as says which fields there are."""

    ref: str | None = None
    type: str | None = None
    enum: list[object] | None = None
    const: object = None
    any_of: list[_Schema] = []
    properties: dict[str, _Schema] | None = None
    items: _Schema | bool | None = None
    prefix_items: list[_Schema] = []

    def names(self) -> Iterator[set[str] | None]:
        """The names of its fields, and those within them; None: it may have any."""
        is_said = self.ref or self.type or self.any_of or self.enum or self.const is not None
        if not is_said or (self.type == "array" and self.items is None and not self.prefix_items):
            yield None
        if self.type == "object":
            yield None if self.properties is None else set(self.properties)
        within = [*(self.properties or {}).values(), *self.any_of, *self.prefix_items]
        if isinstance(self.items, _Schema):
            within.append(self.items)
        for each in within:
            yield from each.names()


def _names_in(kinds: Sequence[object]) -> set[str] | None:
    """All names of fields in these types; None: there may be others."""
    found: set[str] = set()
    try:
        schemas, parts = msgspec.json.schema_components(kinds)
        for schema in msgspec.convert([*schemas, *parts.values()], list[_Schema]):
            for names in schema.names():
                if names is None:
                    return None
                found |= names
    except (TypeError, NotImplementedError, msgspec.ValidationError):
        return None
    return found
