"""What an iterable brings, some at a time: nothing is asked of it before it is needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from itertools import islice
from typing import TypeVar

from mainspring.errors import InvalidArguments, InvalidSetting

T = TypeVar("T")
MOST = 100_000


async def chunks_of(items: Iterable[T] | AsyncIterable[T], size: int) -> AsyncIterator[list[T]]:
    """Lists of so many; a plain iterable is asked in a thread, for it may read a file."""
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MOST:
        raise InvalidSetting(f"chunk must be 1 to {MOST}, got {size!r}")
    if isinstance(items, AsyncIterable):
        part: list[T] = []
        async for item in items:
            part.append(item)
            if len(part) == size:
                yield part
                part = []
        if part:
            yield part
        return
    if not isinstance(items, Iterable):
        raise InvalidArguments(f"calls must be an iterable of dicts, got {type(items).__name__}")
    each = iter(items)
    while part := await asyncio.to_thread(lambda: list(islice(each, size))):
        yield part
