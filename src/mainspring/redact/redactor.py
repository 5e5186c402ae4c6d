"""The rule of what is hidden: fields by name, in values as they travel (JSON) and in texts that quote them.

"password" hides every field of that name, however deep. "card.number" hides a field `number` of a field
`card`, however deep; lists between them do not count. A hidden field is hidden with all that is in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from mainspring.errors import InvalidSetting

HIDDEN = "[redacted]"
_SHORT = 4  # a text of fewer characters is hidden only where it stands alone
_SEARCHED = 1_000  # values that are looked for in a text
_Place = tuple[str, ...]
T = TypeVar("T")


class Redactor:
    """What is hidden of one queue: fields of arguments and results, and (`result`) results whole."""

    def __init__(self, fields: Iterable[str] = (), *, result: bool = False) -> None:
        self.fields = tuple(sorted(set(fields)))
        self.hides_result = result
        self._ends = [tuple(field.split(".")) for field in self.fields]

    def __repr__(self) -> str:
        return f"<Redactor of {', '.join(self.fields) or 'no field'}>"

    def __bool__(self) -> bool:
        return bool(self.fields) or self.hides_result

    def __or__(self, other: Redactor) -> Redactor:
        if not other:
            return self
        return Redactor(
            (*self.fields, *other.fields), result=self.hides_result or other.hides_result
        )

    # -- values

    def value(self, value: T) -> T:
        """A value of JSON with what is hidden in it replaced; the same one if nothing is."""
        return self._shown(value, ()) if self._ends else value

    def result(self, value: object) -> object:
        """A result; where results are hidden, whole."""
        if value is None or not self.hides_result:
            return self.value(value)
        return HIDDEN

    def _shown(self, value: T, place: _Place) -> T:
        if isinstance(value, dict):
            return {  # type: ignore[return-value]
                name: HIDDEN
                if self._is_hidden(inside := (*place, name))
                else self._shown(each, inside)
                for name, each in value.items()
            }
        if isinstance(value, list):
            return [self._shown(each, place) for each in value]  # type: ignore[return-value]
        return value

    def _is_hidden(self, place: _Place) -> bool:
        return any(place[-len(end) :] == end for end in self._ends)

    # -- texts

    def text(self, text: str, *values: object) -> str:
        """A text without what is hidden in these values, wherever it quotes that."""
        return self.scrubber(*values)(text)

    def scrubber(self, *values: object) -> Callable[[str], str]:
        """What takes the hidden parts of these values out of a text."""
        said = {word for value in values for word in self._words(value, (), hidden=False)}
        if not said:
            return _unchanged
        # The longest first: one may be a part of another.
        words = sorted(said, key=lambda word: (-len(word), word))[:_SEARCHED]
        pattern = re.compile(
            "|".join(
                re.escape(w) if len(w) >= _SHORT else rf"(?<!\w){re.escape(w)}(?!\w)" for w in words
            )
        )
        return lambda text: pattern.sub(HIDDEN, text)

    def scrubber_of(self, *payloads: str, result: str | None = None) -> Callable[[str], str]:
        """The same of values that are JSON as yet."""
        return self.scrubber(*(_decoded(text) for text in payloads), _decoded(result))

    def _words(self, value: object, place: _Place, *, hidden: bool) -> Iterator[str]:
        if isinstance(value, Mapping):
            for name, each in value.items():
                inside = (*place, str(name))
                if hidden and not str(name).isidentifier():  # else it may be the name of a field
                    yield from _spellings(name)
                yield from self._words(each, inside, hidden=hidden or self._is_hidden(inside))
        elif isinstance(value, list | tuple):
            for each in value:
                yield from self._words(each, place, hidden=hidden)
        elif hidden:
            yield from _spellings(value)

    # -- searches

    def reveals(self, field: str, text: str) -> bool:
        """Whether a search for an argument that has this text would tell what is hidden."""
        if any(field in end for end in self._ends):
            return True
        return bool(self._ends) and text[:1] in "{["  # what is in it may be hidden


NOTHING = Redactor()


def as_redactor(fields: object, *, result: object = False) -> Redactor:
    """What `redact=` was given as; refuses what cannot be meant."""
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        raise InvalidSetting(
            f"redact must be a list of names of fields, got {fields!r}; write [{fields!r}]"
        )
    listed = list(fields)
    for field in listed:
        if not isinstance(field, str) or not all(field.split(".")):
            raise InvalidSetting(
                f"redact must be names of fields, such as 'password' or 'card.number', got {field!r}"
            )
    if not isinstance(result, bool):
        raise InvalidSetting(f"redact_result must be True or False, got {result!r}")
    return Redactor(listed, result=result)


def _unchanged(text: str) -> str:
    return text


def _decoded(text: str | None) -> object:
    try:
        return None if text is None else msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _spellings(value: object) -> Iterator[str]:
    """How a text may quote a value: as it is, as Python and as JSON show it."""
    if isinstance(value, str):
        if value:
            yield value
            yield repr(value)[1:-1]
            yield json.dumps(value)[1:-1]
            yield json.dumps(value, ensure_ascii=False)[1:-1]
            if (
                len(value) > 10 and value[10] == "T" and value[:4].isdigit()
            ):  # a time, as str() shows it
                yield value.replace("T", " ").replace("Z", "+00:00")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
