"""Search attributes of processes: names with a text, a number or a truth each."""

from __future__ import annotations

import msgspec

from mainspring.errors import InvalidArguments
from mainspring.shape import shape
from mainspring.tasks.declare.storable import check_storable


def check_attrs(attrs: object) -> None:
    """Refuse what cannot be an attribute, or cannot be stored as one."""
    if not isinstance(attrs, dict | None):
        raise InvalidArguments(
            f'attrs must be a dict of names and values, got {shape(attrs)}; such as {{"shop": 3}}'
        )
    for name, value in (attrs or {}).items():
        if not isinstance(name, str) or not isinstance(value, str | int | float | bool):
            raise InvalidArguments(
                f"attribute {name!r} must be a text, a number or a truth, got {shape(value)}"
            )
        one = {name: value}
        try:
            text = msgspec.json.encode(one)
        except ValueError as error:
            raise InvalidArguments(f"attribute {name!r} cannot be written: {error}") from None
        check_storable(f"attribute {name!r} contains", text, one)
