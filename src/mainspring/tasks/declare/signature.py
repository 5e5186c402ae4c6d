"""Arguments: typed by the function's own signature, checked at enqueue and again at run.

They travel as a JSON object by parameter name. Nothing is ever pickled. A function with positional-
only or variadic parameters, or without annotations that msgspec knows, is refused when declared.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import msgspec.inspect

from mainspring.errors import InvalidArguments, InvalidTask, PayloadTooLarge
from mainspring.foreign import pydantic_types
from mainspring.foreign.pydantic_types import adapted
from mainspring.hooks.depend import needs_of
from mainspring.redact import Redactor
from mainspring.shape import fault, shape, shape_of_json
from mainspring.tasks.declare.promise import Promise
from mainspring.tasks.declare.sealing import SEALED, Sealing, opened
from mainspring.tasks.declare.storable import check_storable, check_travels

PAYLOAD_BYTES = 2 * 1024 * 1024
PAYLOAD_WARNING_BYTES = 256 * 1024


UPCASTS = (
    "; @app.upcast brings up steps of processes, and a plain call has no version: give what is new a "
    "default, and the call that waits gets it"
)


def _write(value: object) -> object:
    if isinstance(value, Promise):
        raise TypeError(
            f"{value!r} is inside a value, and has none of its own yet; return a promise alone, "
            "several as gather(...), and pass promises as arguments of calls"
        )
    return pydantic_types.write(value)


def _revive(kind: type, value: object) -> object:
    """A promise that a task is handed unopened travels as its id; of other classes pydantic's are known."""
    if (typing.get_origin(kind) or kind) is Promise and isinstance(value, str):
        return Promise(value)
    return pydantic_types.read(kind, value)


_encoder = msgspec.json.Encoder(decimal_format="string", enc_hook=_write)


class Signature:
    """How a function's arguments are written and read."""

    noun = "task"
    _upcast = False  # there are upcasts of its arguments

    def __init__(
        self,
        name: str,
        function: Callable[..., object],
        context_type: type,
        sealing: Sealing | None = None,
    ) -> None:
        self.name = name
        self.sealing = sealing  # None: what is stored is in the clear
        self.redactor: Redactor | None = None  # what is not shown; None: nothing is hidden
        self.context_parameter: str | None = None
        _check_function(name, function)
        self.needs = needs_of(function)  # what is provided, and is no argument
        hints = _hints(name, function)
        declared: list[Any] = []
        self._parameters: list[str] = []
        # Whether a call by position has all arguments, and no context among them. A decorator's function
        # shows the signature of the one that it wraps, and may look for arguments by name.
        self.in_order = isinstance(function, types.FunctionType) and not (
            hasattr(function, "__wrapped__") or hasattr(function, "__signature__")
        )
        for parameter in inspect.signature(function).parameters.values():
            kind = adapted(hints.get(parameter.name, Any))
            if kind is context_type:
                self.context_parameter = parameter.name
                self.in_order = False
                continue
            if parameter.name in self.needs:
                self.in_order = False
                continue
            self.in_order = self.in_order and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            _check_kind(name, parameter)
            self._parameters.append(parameter.name)
            if parameter.default is parameter.empty:
                declared.append((parameter.name, kind))
            else:
                declared.append((parameter.name, kind, _default(name, parameter)))
        self._required = {f[0] for f in declared if len(f) == 2}
        try:
            self._struct = msgspec.defstruct(
                "Arguments", declared, kw_only=True, forbid_unknown_fields=True, gc=False
            )
            self._decoder = msgspec.json.Decoder(self._struct, dec_hook=_revive)
            self._given_decoder = self._strict_decoder(declared)
            result = adapted(self._result_type(hints.get("return", Any)))
            self._result_decoder = msgspec.json.Decoder(
                type(None) if result is None else result, dec_hook=_revive
            )
            check_travels([*(f[1] for f in declared), result])
            self.result_type = result
        except (TypeError, NotImplementedError) as error:
            raise InvalidTask(
                f"task {name!r} has a parameter or result that cannot travel as JSON: {error}; "
                "use builtin types, dataclasses, msgspec Structs, pydantic models or TypedDicts"
            ) from None
        self._fields = tuple(self._parameters)
        self._decoders: dict[
            str, msgspec.json.Decoder[object]
        ] = {}  # of single arguments, as needed
        self.types = {name: adapted(hints.get(name, Any)) for name in self._fields}

    def _strict_decoder(self, declared: list[Any]) -> msgspec.json.Decoder[msgspec.Struct]:
        """What checks a new call. What is stored already is read without the zones."""
        zoned = [(name, with_zone(kind), *default) for name, kind, *default in declared]
        if zoned == declared:
            return self._decoder
        struct = msgspec.defstruct("Arguments", zoned, kw_only=True, forbid_unknown_fields=True)
        return msgspec.json.Decoder(struct, dec_hook=_revive)

    def _result_type(self, declared: object) -> object:
        """What the result is read as; a process may say that it returns a promise of it."""
        return declared

    def seal_with(self, sealing: Sealing | None) -> None:
        """From now on payloads are stored so."""
        self.sealing = sealing

    def redact_by(self, redactor: Redactor) -> None:
        """From now on this is hidden too, wherever values are shown."""
        self.redactor = (redactor if self.redactor is None else self.redactor | redactor) or None

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return self._fields

    @property
    def required(self) -> set[str]:
        """The names of the arguments without a default."""
        return self._required

    def note_upcast(self) -> None:
        """There are upcasts: what does not fit says whom they are for."""
        self._upcast = True

    def defaults(self, names: Iterable[str]) -> dict[str, object]:
        """Those of these arguments that have a default, with it as it travels."""
        found = {}
        for field in msgspec.structs.fields(self._struct):
            if field.name in names and not field.required:
                made = field.default_factory
                value = field.default if made is msgspec.NODEFAULT else made()
                found[field.name] = msgspec.json.decode(_encoder.encode(value))
        return found

    def check_fields(self, setting: str, fields: Sequence[str]) -> None:
        """Refuse a setting that names arguments the function does not have."""
        for field in fields:
            if field not in self._fields:
                raise InvalidTask(
                    f"{setting} of {self.noun} {self.name!r} names {field!r}, which is not one of its "
                    f"arguments ({', '.join(self._fields)})"
                )

    def encode(self, positional: Sequence[object], named: Mapping[str, object]) -> bytes:
        """The arguments of a call as JSON, checked against the signature."""
        arguments = self.bind(positional, named) if positional else named
        try:
            payload = _encoder.encode(arguments)
        except (TypeError, ValueError, RecursionError, OverflowError, UnicodeEncodeError) as error:
            raise InvalidArguments(
                f"arguments of {self.noun} {self.name!r} cannot be written as JSON: {fault(error)}; "
                f"got {shape(arguments)}"
            ) from None
        if len(payload) > PAYLOAD_BYTES:
            raise PayloadTooLarge(
                f"arguments of {self.noun} {self.name!r} are {len(payload)} bytes, the limit is "
                f"{PAYLOAD_BYTES}; store the data elsewhere and pass a reference"
            )
        try:
            self._given_decoder.decode(payload)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidArguments(
                f"arguments of {self.noun} {self.name!r} do not fit its signature: {fault(error)}; "
                f"got {shape(arguments)}{_hint(error)}"
            ) from None
        text = payload.decode()  # a text is searched three times as fast as bytes are
        if "null" in text or "\\u0000" in text:
            self.check_values(payload, arguments)
        return payload

    def check_argument(self, name: str, text: bytes) -> None:
        """Check one argument, written as JSON, against its type."""
        if (decoder := self._decoders.get(name)) is None:
            decoder = msgspec.json.Decoder(with_zone(self.types[name]), dec_hook=_revive)
            self._decoders[name] = decoder
        try:
            decoder.decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidArguments(
                f"argument {name!r} of {self.name!r} does not fit its type: {fault(error)}; "
                f"got {shape_of_json(text)}{_hint(error)}"
            ) from None

    def check_values(self, payload: bytes, arguments: object) -> None:
        """Refuse what JSON or PostgreSQL cannot hold, though it fits the types."""
        check_storable(f"arguments of {self.noun} {self.name!r} contain", payload, arguments)

    def bind(self, positional: Sequence[object], named: Mapping[str, object]) -> dict[str, object]:
        """The arguments of a call by name."""
        if len(positional) > len(self._fields):
            raise InvalidArguments(
                f"{self.noun} {self.name!r} takes {len(self._fields)} arguments "
                f"({', '.join(self._fields)}), got {len(positional)}"
            )
        bound = dict(zip(self._fields, positional, strict=False))
        if twice := bound.keys() & named.keys():
            raise InvalidArguments(f"{self.noun} {self.name!r} got {sorted(twice)[0]!r} twice")
        return {**bound, **named}

    def decode(self, payload: str) -> dict[str, object]:
        """The arguments for the function by name; raises InvalidArguments for a payload that does not
        fit."""
        return msgspec.structs.asdict(self._read(payload))

    def decode_in_order(self, payload: str) -> tuple[object, ...]:
        """The same in the order of the function's parameters, where all can be given so (`in_order`)."""
        return msgspec.structs.astuple(self._read(payload))

    def opened(self, payload: str) -> str:
        """A stored payload as the JSON that it was before it was encrypted, if it was."""
        if not payload.startswith(SEALED):
            return payload
        return opened(self.sealing, payload, f"the payload of {self.noun} {self.name!r}")

    def _read(self, payload: str) -> msgspec.Struct:
        if payload.startswith(SEALED):
            payload = self.opened(payload)
        try:
            return self._decoder.decode(payload)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidArguments(
                f"the stored arguments of {self.noun} {self.name!r} do not fit its signature: "
                f"{fault(error)}; got {shape_of_json(payload)}{UPCASTS if self._upcast else ''}"
            ) from None

    def encode_result(self, result: object) -> str | None:
        """A result as it is stored; None is no result."""
        return self.stored(self.write_result(result))

    def write_result(self, result: object) -> str | None:
        """A result as JSON; None is no result."""
        return encode_result(self.noun, self.name, result)

    def stored(self, result: str | None) -> str | None:
        """A result that is JSON, as it is stored."""
        return result if result is None or self.sealing is None else self.sealing.result(result)

    def decode_result(self, result: str | None) -> object:
        """A stored result as the function's return type."""
        if result is not None and result.startswith(SEALED):
            result = opened(self.sealing, result, f"the result of {self.noun} {self.name!r}")
        try:
            return None if result is None else self._result_decoder.decode(result)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidArguments(
                f"the result of {self.noun} {self.name!r} does not fit its return type: "
                f"{fault(error)}; got {shape_of_json(result or '')}"
            ) from None


def encode_result(noun: str, name: str, result: object) -> str | None:
    """The result of a task or a process as JSON; None is no result."""
    if result is None:
        return None
    try:
        encoded = _encoder.encode(result)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidArguments(
            f"the result of {noun} {name!r} cannot be written as JSON: {fault(error)}; "
            f"got {type(result).__name__}{'; is an await missing?' * inspect.iscoroutine(result)}"
        ) from None
    if len(encoded) > PAYLOAD_BYTES:
        raise PayloadTooLarge(
            f"the result of {noun} {name!r} is {len(encoded)} bytes, the limit is "
            f"{PAYLOAD_BYTES}; store it elsewhere and return a reference"
        )
    if b"null" in encoded or b"\\u0000" in encoded:
        check_storable(f"the result of {noun} {name!r} contains", encoded, result)
    return encoded.decode()


def with_zone(kind: Any) -> Any:
    """The same type, but each plain `datetime` in it must say its zone.

    A naive one means another moment on every machine; who wants that says so by `Annotated`.
    """
    if kind is datetime:
        return typing.Annotated[datetime, msgspec.Meta(tz=True)]
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated or (zoned := tuple(map(with_zone, parts))) == parts:
        return kind
    return typing.Union[zoned] if origin is types.UnionType else origin[zoned]  # noqa: UP007


def _hint(error: Exception) -> str:
    if "timezone" not in str(error):
        return ""
    return (
        "; use datetime.now(UTC) or .replace(tzinfo=...), or declare a time without a zone: "
        "Annotated[datetime, msgspec.Meta(tz=False)]"
    )


def _hints(name: str, function: Callable[..., object]) -> dict[str, object]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InvalidTask(
            f"an annotation of task {name!r} cannot be resolved: {error}; "
            "import the type where the function is defined"
        ) from None
    except TypeError:
        raise InvalidTask(
            f"task {name!r} is a {type(function).__name__}, not a function: "
            "wrap it in one, with annotated parameters"
        ) from None


def _check_function(name: str, function: Callable[..., object]) -> None:
    if inspect.isclass(function):
        raise InvalidTask(
            f"task {name!r} is a class, and what a call of it makes would be thrown away: write a "
            "function that does the work, with annotated parameters"
        )
    if getattr(function, "__name__", "") == "<lambda>":
        raise InvalidTask(
            f"task {name!r} is a lambda, which has no name to be found by and no types to check "
            "arguments against: write it as a function, with def"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTask(
            f"task {name!r} is a generator, whose values nobody would take: "
            "return a list, or enqueue a task for each"
        )


def _check_kind(name: str, parameter: inspect.Parameter) -> None:
    if parameter.name in ("self", "cls") and parameter.annotation is parameter.empty:
        raise InvalidTask(
            f"task {name!r} has the parameter {parameter}: a worker has no object to call a method on; "
            "declare a function, or a @staticmethod"
        )
    if parameter.kind in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
        parameter.POSITIONAL_ONLY,
    ):
        raise InvalidTask(
            f"task {name!r} has the parameter {parameter}: arguments travel by name, "
            "so *args, **kwargs and positional-only parameters cannot be used"
        )


def _default(name: str, parameter: inspect.Parameter) -> object:
    default = parameter.default
    if isinstance(default, list | dict | set | bytearray):
        if default:
            raise InvalidTask(
                f"task {name!r} has the mutable default {parameter}: use None and make it inside"
            )
        return msgspec.field(default_factory=type(default))
    return default
