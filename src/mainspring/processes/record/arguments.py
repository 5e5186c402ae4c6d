"""Arguments with holes: how a call that was given promises is written down, and later filled.

The arguments are a JSON object by parameter name. If promises are among them the object has a key
"@" with a random word, and each promise is a text made with it: `"<word>:value:0"` is the value of
input 0. No value of a user's can be taken for one, however deep it lies, and filling is one pass
over the text. The parameter's type says how a promise arrives:

    T            its value; an error on the way fails the call
    Outcome[T]   value or failure, which is thereby caught
    Promise[T]   the promise itself, at once
"""

from __future__ import annotations

import os
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Protocol, TypeGuard

import msgspec

from mainspring.errors import InvalidArguments, PayloadTooLarge, PromiseMisused
from mainspring.foreign import pydantic_types
from mainspring.shape import shape
from mainspring.tasks.declare.options import CallOptions
from mainspring.tasks.declare.promise import Failure, Outcome, Promise
from mainspring.tasks.declare.sealing import SEALED
from mainspring.tasks.declare.signature import PAYLOAD_BYTES, Signature
from mainspring.tasks.declare.storable import check_storable

Holes = list[tuple[str, int]]
NONCE = "@"
ERROR_BESIDE = "$failure"
_WORD_BYTES = 9
_SCALARS = frozenset({str, int, bool, type(None)})
_START = re.compile(r'^\{\s*"@":\s*"([0-9a-f]{18})"')
# One pattern for all words, compared after: compiling one for each cost more than the rest of a step.
_HOLE = re.compile(r'"([0-9a-f]{18}):(value|outcome|handle|error):(\d+)"')


class PromiseInput(Protocol):
    """What came of a promise that a task waits for or holds."""

    @property
    def promise(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def outcome(self) -> str | None: ...
    @property
    def result(self) -> str | None: ...
    @property
    def error(self) -> Failure | None: ...


class CalledSignature(Protocol):
    """What the writer of a call's arguments must know of who is called: a signature, or a part of one."""

    @property
    def name(self) -> str: ...
    @property
    def types(self) -> Mapping[str, object]: ...
    @property
    def fields(self) -> Sequence[str]: ...
    @property
    def required(self) -> Set[str]: ...
    def encode(self, positional: Sequence[object], named: Mapping[str, object], /) -> bytes: ...
    def check_argument(self, name: str, text: bytes, /) -> None: ...
    def check_values(self, payload: bytes, arguments: object, /) -> None: ...


class Callee(Protocol):
    """What can be called in a decider: a task or a process."""

    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> Signature: ...
    @property
    def call_options(self) -> CallOptions: ...


def is_callee(value: object) -> TypeGuard[Callee]:
    """Whether it can be called so."""
    return hasattr(value, "signature")


def kind_of(parameter_type: object) -> str:
    """How a parameter of this type takes a promise: value, outcome or handle."""
    found = {typing.get_origin(part) or part for part in _parts(parameter_type)}
    if Promise in found:
        return "handle"
    return "outcome" if Outcome in found else "value"


def _parts(kind: object) -> Iterable[object]:
    yield kind
    for part in typing.get_args(kind):
        yield from _parts(part)


class _Form:
    """What the writer must know of a signature, looked up once: it is asked for every call."""

    def __init__(self, signature: CalledSignature) -> None:
        self.signature = signature  # kept alive, for it is known by its identity
        self.kinds = {name: kind_of(kind) for name, kind in signature.types.items()}
        self.is_plain = all(kind == "value" for kind in self.kinds.values())


_forms: dict[int, _Form] = {}


def _form_of(signature: CalledSignature) -> _Form:
    found = _forms.get(id(signature))
    if found is None or found.signature is not signature:
        found = _forms[id(signature)] = _Form(signature)
    return found


def _is_outcome(kind: object) -> bool:
    return (typing.get_origin(kind) or kind) is Outcome


def _takes_outcome(kind: object) -> bool:
    """Whether an Outcome may be given for it itself, and not only in it."""
    return _is_outcome(kind) or any(map(_is_outcome, _choices(kind)))


def _choices(kind: object) -> tuple[object, ...]:
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return typing.get_args(kind) if is_union else ()


Place = Callable[[Promise[object], str], int]


class ArgumentWriter:
    """Writes the arguments of calls; `place` answers the number of a promise among a call's inputs.

    The calls of one decision share a writer and its word: nothing that a user passes can contain it.
    """

    def __init__(self, place: Place) -> None:
        self.word = os.urandom(_WORD_BYTES).hex()
        self.has_holes = False
        self._place = place
        self._kind = "value"

    def _hole(self, value: object) -> object:
        if not isinstance(value, Promise):
            return pydantic_types.write(value)
        return self._put(value)

    def _put(self, value: Promise[object]) -> str:
        self.has_holes = True
        return f"{self.word}:{self._kind}:{self._place(value, self._kind)}"

    def write(
        self, signature: CalledSignature, bound: Mapping[str, object], place: Place | None = None
    ) -> str:
        """The arguments of a call as JSON, checked as far as they are there."""
        self.has_holes = False
        self._place = place or self._place
        form = _form_of(signature)
        if form.is_plain and all(type(value) in _SCALARS for value in bound.values()):
            return signature.encode((), bound).decode()
        pieces: list[bytes] = []
        for name, value in bound.items():
            if name not in signature.types:
                raise InvalidArguments(
                    f"{signature.name!r} has no parameter {name!r}; "
                    f"it takes {', '.join(signature.fields) or 'none'}"
                )
            self._kind = form.kinds[name]
            if type(value) is Promise:
                if self._kind == "outcome" and not _takes_outcome(signature.types[name]):
                    self._kind = "value"  # of a list of outcomes, say
                piece = b'"%s"' % self._put(value).encode()
            else:
                piece = self._argument(signature, name, value)
            pieces.append(b'"%s":%s' % (name.encode(), piece))
        if missing := signature.required - bound.keys():
            raise InvalidArguments(
                f"the call of {signature.name!r} lacks {', '.join(sorted(missing))}"
            )
        if self.has_holes:
            pieces.insert(0, b'"%s":"%s"' % (NONCE.encode(), self.word.encode()))
        payload = b"{" + b",".join(pieces) + b"}"
        if len(payload) > PAYLOAD_BYTES:
            raise PayloadTooLarge(
                f"arguments of {signature.name!r} are {len(payload)} bytes, the limit is "
                f"{PAYLOAD_BYTES}; store the data elsewhere and pass a reference"
            )
        return payload.decode()

    def _argument(self, signature: CalledSignature, name: str, value: object) -> bytes:
        kind = signature.types[name]
        if (
            self._kind == "outcome"
            and _is_outcome(kind)
            and not isinstance(value, Promise | Outcome)
        ):
            value = {"ok": value}
        had, self.has_holes = self.has_holes, False
        # Not kept: with its hook it would be a circle, left to the collector by every decision.
        encoder = msgspec.json.Encoder(decimal_format="string", enc_hook=self._hole)
        try:
            piece = encoder.encode(value)
        except PromiseMisused:
            raise
        except (TypeError, ValueError, RecursionError, OverflowError, UnicodeEncodeError) as error:
            raise InvalidArguments(
                f"argument {name!r} of {signature.name!r} cannot be written as JSON: {error}"
            ) from None
        if not self.has_holes:
            if self._kind == "handle" and value:
                raise InvalidArguments(
                    f"parameter {name!r} of {signature.name!r} is a Promise: it takes the promise of "
                    f"a call, got {type(value).__name__}; annotate it with the value's own type"
                )
            signature.check_argument(name, piece)
            signature.check_values(piece, value)
        self.has_holes = self.has_holes or had
        return piece


def nested(args: str, name: str, about: Mapping[str, object]) -> str:
    """CalledSignature arguments as one of several values; what marks their holes stays in front."""
    rest = msgspec.json.encode(about).decode().removeprefix("{")
    found = _START.match(args)
    if found is None:
        return f'{{"{name}":{args},{rest}'
    inner = "{" + args[found.end() :].lstrip().removeprefix(",")
    return f'{{"{NONCE}":"{found[1]}","{name}":{inner},{rest}'


def read_holes(args: str) -> Holes:
    """The holes of written arguments: kind and number of the input."""
    found = _START.match(args)
    if found is None:
        return []
    word = found[1]
    return [(kind, int(n)) for other, kind, n in _HOLE.findall(args) if other == word]


def fill(args: str, inputs: Sequence[PromiseInput]) -> str:
    """The arguments with every hole filled: what the function is called with, as JSON."""
    found = _START.match(args)
    if found is None:
        return args

    word = found[1]
    rest = args[found.end() :].lstrip().removeprefix(",")
    if len(inputs) == 1:  # a step after a step: a few searches cost less than the pattern
        holes = [(f'"{word}:{kind}:0"', kind) for kind in ("value", "outcome", "handle")]
        found_holes = [(hole, kind) for hole, kind in holes if hole in rest]
        if len(found_holes) == 1:
            [(hole, kind)] = found_holes
            return "{" + rest.replace(hole, _filling(kind, inputs[0]))

    def put(at: re.Match[str]) -> str:
        other, kind, n = at.groups()
        return _filling(kind, inputs[int(n)]) if other == word else at[0]

    return "{" + _HOLE.sub(put, rest)


def _filling(kind: str, given: PromiseInput) -> str:
    if kind == "handle":
        return f'"{given.promise}"'
    if kind == "outcome":
        return outcome_json(given)
    return given.result if given.result is not None else "null"


def outcome_json(given: PromiseInput) -> str:
    """What an `Outcome[T]` parameter gets."""
    if given.outcome == "err":
        error = given.error if given.error is not None else Failure("unknown", "no error was kept")
        return '{"failure":' + msgspec.json.encode(error).decode() + "}"
    return '{"ok":' + (given.result if given.result is not None else "null") + "}"


def with_error(args: str, failure: Failure) -> str:
    """The arguments of a scope's handler, with the failure where it wants it: beside those that are
    encrypted, for whoever opens them."""
    text = msgspec.json.encode(failure).decode()
    if args.startswith(SEALED):
        return f'{args[:-1]},"{ERROR_BESIDE}":{text}}}'
    found = _START.match(args)
    if found is None:
        return args
    word = found[1]

    def put(hole: re.Match[str]) -> str:
        return text if hole[1] == word and hole[2] == "error" else hole[0]

    return _HOLE.sub(put, args)


class _Without:
    """A signature without one of its parameters."""

    def __init__(self, signature: Signature, name: str) -> None:
        self._signature = signature
        self.name = signature.name
        self.types = {n: kind for n, kind in signature.types.items() if n != name}
        self.fields = tuple(self.types)
        self.required = signature.required - {name}
        self.check_argument = signature.check_argument
        self.check_values = signature.check_values

    def encode(self, positional: Sequence[object], named: Mapping[str, object]) -> bytes:
        for name in named:
            if name not in self.types:
                raise InvalidArguments(f"{self.name!r} has no parameter {name!r}")
        if missing := self.required - named.keys():
            raise InvalidArguments(f"the call of {self.name!r} lacks {', '.join(sorted(missing))}")
        text = msgspec.json.encode(named)
        for name, value in named.items():
            self.check_argument(name, msgspec.json.encode(value))
        return text


def without(signature: Signature, name: str) -> CalledSignature:
    """A signature without one of its parameters, which is filled in later."""
    return _Without(signature, name)


# -- what is refused at once


def promises_after(after: object) -> list[Promise[object]]:
    """What `after=` was given: a promise, or several."""
    if isinstance(after, Promise) or not isinstance(after, Iterable):
        return promises_of("after", [after])
    return promises_of("after", after)


def promises_of(what: str, given: Iterable[object]) -> list[Promise[object]]:
    """These, if they are all promises."""
    several = []
    for promise in given:
        if not isinstance(promise, Promise):
            raise InvalidArguments(
                f"{what} takes promises of calls, got {type(promise).__name__}: {promise!r}"
            )
        several.append(promise)
    return several


def check_options(name: str, options: CallOptions) -> None:
    """Refuse what is for calls from outside."""
    refused = {"key": options.key, "expires_at": options.expires_at, "on": options.on}
    for option, value in refused.items():
        if value is not None:
            raise InvalidArguments(
                f"{name}.options({option}=...) does not apply in a decider: a step belongs to its "
                "process and is committed with it; use at, delay, priority or group"
            )


def check_step(name: str, options: CallOptions) -> None:
    """Refuse what is for processes of their own."""
    for option in ("id", "attrs"):
        if getattr(options, option, None) is not None:
            raise InvalidArguments(
                f"{name}.options({option}=...) does not apply to a step, which is a part of its "
                f"process; use {name}.options({option}=...).child(...), or set_attrs(...)"
            )


def check_attrs(attrs: object) -> None:
    """Refuse what is no search attribute (a name with a text, a number or a truth) or cannot be stored."""
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
