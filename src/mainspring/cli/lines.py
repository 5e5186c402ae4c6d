"""A file with a JSON object a line, read as it is needed, and a bar that says how far that is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import msgspec

from mainspring.errors import InvalidArguments, InvalidSetting

_decoder: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


@contextmanager
def opened(source: str) -> Iterator[BinaryIO]:
    """The file, or standard input."""
    if source == "-":
        yield sys.stdin.buffer
        return
    try:
        file = open(source, "rb")  # noqa: SIM115
    except OSError as error:
        raise InvalidSetting(f"--from {source!r} cannot be read: {error.strerror}") from None
    with file:
        yield file


def json_lines(
    lines: Iterable[bytes], skip: int, advance: Callable[[int], None]
) -> Iterator[dict[str, object]]:
    """The object of each line; `advance` is told of the bytes read."""
    for number, line in enumerate(lines, 1):
        advance(len(line))
        if number <= skip or not line.strip():
            continue
        try:
            yield _decoder.decode(line)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidArguments(
                f"line {number} is no JSON object of arguments: {error}"
            ) from None


@contextmanager
def bar(source: str, *, on: bool) -> Iterator[Callable[[int], None]]:
    """What is told of the bytes read; a bar where somebody looks at a terminal."""
    if not on or not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import Progress

    total = None if source == "-" else os.path.getsize(source)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("enqueueing", total=total)
        yield lambda size: progress.advance(task, size)
