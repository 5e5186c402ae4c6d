"""Ids, tokens and routes: what names a visit, which version of it is meant, and in which shard it lies."""

from __future__ import annotations

import hashlib
import os
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

_LOOKS_GROUPED = re.compile("[0-9]+:")
_TOKEN = struct.Struct(">q").unpack_from
_FIRST_FOUR = struct.Struct(">I").unpack_from


def shard_of(route: str, shard_count: int) -> int:
    """The shard of a route: the twin of mainspring.shard() in SQL (S12)."""
    first: int = _FIRST_FOUR(hashlib.sha256(route.encode()).digest())[0]
    return first % shard_count


def shards_of(routes: Sequence[str], shard_count: int) -> list[int]:
    """The shards of many routes."""
    digests = b"".join([hashlib.sha256(route.encode()).digest() for route in routes])
    return [first % shard_count for first in struct.unpack(">" + "I28x" * len(routes), digests)]


def shard_mask(shards: Iterable[int], shard_count: int) -> bytes:
    """Shards as a mask, a bit each, in the order of get_bit in SQL."""
    mask = bytearray((shard_count + 7) // 8)
    for shard in shards:
        mask[shard >> 3] |= 1 << (shard & 7)
    return bytes(mask)


def grouped_key(group: str | None, key: str) -> str:
    """The visit key of a user's key: unique within its group, the group named by its length first.

    A key without a group that looks as if it had one gets an empty one, which no group can be.
    """
    if group is None and not _LOOKS_GROUPED.match(key):
        return key
    group = group or ""
    return f"{len(group.encode())}:{group}:{key}"


def token() -> int:
    """64 random bits as a signed integer: never reused, compared only for equality."""
    return int.from_bytes(os.urandom(8), "big", signed=True)


def tokens(count: int) -> tuple[int, ...]:
    """So many tokens."""
    return struct.unpack(f">{count}q", os.urandom(8 * count))


class Tokens:
    """Tokens for runs: a random start, then counting.

    As unguessably unique as random ones, but close together, so that history's primary key grows at
    one end instead of everywhere. One a worker: a worker does not survive a fork.
    """

    def __init__(self) -> None:
        self.draw: Callable[[], int] = count(token() >> 1).__next__


def new_id() -> str:
    """One such id as new_ids makes many."""
    return new_visit()[0]


def new_visit() -> tuple[str, int]:
    """An id and a token for one visit, of one draw: asking the system is the dearest part of both."""
    drawn = os.urandom(18)
    text = f"{_milliseconds():012x}7{drawn.hex()}"
    id = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{'89ab'[drawn[1] & 3]}{text[17:20]}-{text[20:32]}"
    return id, _TOKEN(drawn, 10)[0]


def new_ids(count: int) -> list[str]:
    """Time-ordered ids (UUID version 7) that rise within the list, so its order is kept."""
    return list(rising_ids(count))


def rising_ids(count: int) -> Iterator[str]:
    """The same, each made when it is asked for."""
    milliseconds = _milliseconds()
    drawn = (
        int.from_bytes(os.urandom(10), "big") >> 7
    )  # 73 random bits: 26 alike, 47 to count up from
    high, first = drawn >> 47, drawn & 0x7FFF_FFFF_FFFF
    head = (
        f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}"
        f"-7{high >> 14:03x}-{high & 0x3FFF | 0x8000:04x}-"
    )
    return (f"{head}{n:012x}" for n in range(first, first + count))


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
