"""What a worker and its helper tell each other: JSON with its length before it, over two pipes."""

from __future__ import annotations

import struct
from typing import Literal, TypeAlias
from uuid import UUID

import msgspec

_LENGTH = struct.Struct(">I")
HEAD = _LENGTH.size


class Setup(msgspec.Struct, frozen=True):
    """What a helper is told when it is started, as its only argument."""

    parent: int  # the worker's process
    path: list[str]  # where modules are looked for
    main: str | None  # the file of the worker's main module, if a task is declared there
    modules: list[str]  # to be imported ahead
    log_level: int


class RunOrder(msgspec.Struct, frozen=True, tag="order"):
    """Run this."""

    number: int  # of the orders of this helper
    task: str
    place: str  # of the function
    payload: str  # the arguments, as they are stored
    id: str
    key: str
    group: str | None
    attempt: int
    started: float
    timeout: float | None
    memory_max: int | None
    worker: UUID | None
    hidden: list[str] = []  # fields of the arguments that no text of a failure tells


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Tell the run of this order to end."""

    number: int
    why: str


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """What was to be imported ahead is imported."""


class Began(msgspec.Struct, frozen=True, tag="began"):
    """From here on the user's code runs: what happens now is an attempt."""

    number: int


class Beat(msgspec.Struct, frozen=True, tag="beat"):
    """The run of this order says that it goes on."""

    number: int


class Progressed(msgspec.Struct, frozen=True, tag="progressed"):
    """The run of this order says how far it is."""

    number: int
    done: float
    note: str | None


class Logged(msgspec.Struct, frozen=True, tag="logged"):
    """A line that the user's code has logged."""

    logger: str
    level: int
    text: str
    path: str
    line: int
    function: str
    created: float
    exception: str | None = None
    facts: dict[str, str | int | float | bool | None] = {}


class Raised(msgspec.Struct, frozen=True):
    """An exception that the user's code has raised."""

    kinds: list[str]  # the places of its class and of the classes above
    name: str
    text: str  # with its traceback
    after: float | None = None  # of RetryAfter
    counts: bool = False
    pauses: Literal["queue", "group"] | None = None


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """What the run came to. `spent`: the helper is not what it was, and ends."""

    number: int
    result: str | None = None  # as JSON
    raised: Raised | None = None
    spent: bool = False


Told: TypeAlias = RunOrder | Stop  # to a helper
Heard: TypeAlias = Ready | Began | Beat | Progressed | Logged | Ended  # from a helper

_told: msgspec.json.Decoder[Told] = msgspec.json.Decoder(Told)
_heard: msgspec.json.Decoder[Heard] = msgspec.json.Decoder(Heard)
_encoder = msgspec.json.Encoder()


def frame(message: Told | Heard) -> bytes:
    """A message as it is sent."""
    text = _encoder.encode(message)
    return _LENGTH.pack(len(text)) + text


def length(head: bytes) -> int:
    """Of the message that follows."""
    size: int = _LENGTH.unpack(head)[0]
    return size


def read_told(text: bytes) -> Told:
    return _told.decode(text)


def read_heard(text: bytes) -> Heard:
    return _heard.decode(text)
