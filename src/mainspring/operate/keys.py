"""Keys as users know them and as visits have them.

A user's key is unique within its group, so the group is part of the visit's key (`grouped_key`). An
operator names group and key apart, and is shown them apart.
"""

from __future__ import annotations

from mainspring.ids import grouped_key


def stored_keys(key: str, group: str | None) -> list[str]:
    """The keys that the visit may have which is meant: an id as it is, or a key within its group."""
    return list(dict.fromkeys((key, grouped_key(group, key))))


def user_key(stored: str) -> str:
    """The user's part of a visit's key."""
    length, colon, rest = stored.partition(":")
    if not colon or not (length.isascii() and length.isdigit()):
        return stored
    after_group = rest.encode()[int(length) :].decode(errors="replace")
    return after_group[1:] if after_group.startswith(":") else stored
