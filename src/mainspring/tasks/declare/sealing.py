"""Payloads that are encrypted before they leave the process: arguments, results and the texts of failures.

What is stored is JSON with the id of its key: `{"$": {"key": "2026", "sealed": "<base64>"}}`. Fields beside
"$" are in the clear, for the database must see them: those of `searchable` and `unique`. (No argument is
named "$", and jsonb shows the shortest name first: a payload is sealed if it begins so.)

A sealed payload and one in the clear are both read, so a cipher can be brought in while calls wait.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import NoReturn, Protocol

import msgspec

from mainspring.declaring import as_names
from mainspring.errors import InvalidSetting, NotFound, UnknownCipherKey
from mainspring.failure_text import clean_text
from mainspring.kernel import Handler, Outcome, Parked, Postponed, Retry, Run, outcome_of_error

SEALED = '{"$"'  # with which a sealed value begins
DROPPED = '{"$": {"dropped": true}}'  # in place of a result that was kept for its time
_ERROR = "(encrypted with key "
_MARK = "$sealed:"


class Cipher(Protocol):
    """What encrypts: by a key of its own, or by a service that keeps keys. Called in the event loop and in
    threads, once for each value: it must not wait for a network; keep data keys in memory."""

    @property
    def key_id(self) -> str:
        """The key that is used from now on. Its id is stored in the clear."""
        ...

    @property
    def key_ids(self) -> Collection[str]:
        """The keys that can be read."""
        ...

    def encrypt(self, value: bytes) -> bytes:
        """With the key that is used now."""
        ...

    def decrypt(self, key_id: str, sealed: bytes) -> bytes:
        """With that key; raises if somebody has changed what was sealed."""
        ...


_KEPT_IN_CLEAR = {
    "kinds": "events, states and documents of kinds",
    "reactive": "params of reactive tasks, and what these return and fail with",
    "sources": "records that are kept aside",
}


def as_layers(names: Iterable[str]) -> frozenset[str]:
    """The layers that may keep values in the clear."""
    layers = as_names("in_clear", names)
    for name in layers:
        if name not in _KEPT_IN_CLEAR:
            known = ", ".join(map(repr, _KEPT_IN_CLEAR))
            raise InvalidSetting(f"in_clear names {name!r}; it takes {known}")
    return frozenset(layers)


def check_in_clear(layer: str, allowed: Collection[str], sealing: Sealing | None) -> None:
    """Where there is a cipher, what it does not cover is declared only where that was said to be known."""
    if sealing is not None and layer not in allowed:
        raise InvalidSetting(
            f"this application has a cipher, and the {_KEPT_IN_CLEAR[layer]} are stored in the clear: "
            f"if that may be, write Mainspring(cipher=..., in_clear=[{layer!r}])"
        )


class _Envelope(msgspec.Struct, omit_defaults=True):
    key: str = ""
    sealed: str = ""
    trace: str = ""  # of whoever enqueued it: hooks/traced.py
    dropped: bool = False  # it was kept for its time, and is there no more


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_envelope = msgspec.json.Decoder(_Envelope)
_encode = msgspec.json.Encoder().encode


class Sealing:
    """The cipher of an application, at work on what its tasks store."""

    def __init__(self, cipher: Cipher) -> None:
        lacking = [n for n in ("key_id", "key_ids", "encrypt", "decrypt") if not hasattr(cipher, n)]
        if lacking:
            raise InvalidSetting(
                f"cipher must have key_id, key_ids, encrypt and decrypt, but {cipher!r} has no "
                f"{lacking[0]}; mainspring.encryption.AesGcm is one"
            )
        self.cipher = cipher

    def payload(self, payload: bytes, plain: Collection[str]) -> bytes:
        """The arguments of a call as they are stored; `plain`: those that stay in the clear too."""
        envelope = {"$": self._sealed(payload)}
        if not plain:
            return _encode(envelope)
        fields = _fields.decode(payload)
        return _encode(envelope | {name: fields[name] for name in plain if name in fields})

    def without(self, payload: str, argument: str) -> str:
        """The same arguments without one, which is put beside what is sealed when it is known."""
        beside = _fields.decode(payload)
        if "$" not in beside:
            return payload
        inside = _fields.decode(opened(self, payload, "a payload"))
        inside.pop(argument, None)
        return self.payload(_encode(inside), beside.keys() - {"$", argument}).decode()

    def are_same(self, stored: str, made: str) -> bool:
        """Whether two payloads are sealed and say the same; no two look alike. One in the clear, or whose
        key is gone, is not the same: it has to be replaced."""
        if not (stored.startswith(SEALED) and made.startswith(SEALED)):
            return False
        try:
            first, second = (opened(self, text, "a payload") for text in (stored, made))
        except UnknownCipherKey:
            return False
        return _sorted(first) == _sorted(second)

    def result(self, result: str) -> str:
        """A result as it is stored."""
        return _encode({"$": self._sealed(result.encode())}).decode()

    def sealed(self, handle: Callable[[Run], Awaitable[Outcome]]) -> Handler:
        """The same handler; the texts of its failures are sealed."""

        async def handle_sealed(run: Run) -> Outcome:
            try:
                return await handle(run)
            except UnknownCipherKey:
                raise  # has nothing of the payload
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError) and run.stopped is None:
                    raise
                outcome = outcome_of_error(run, error)
                if (rest := run.rest) is not None:  # its reason is shown with the breaker
                    run.respite(rest._replace(reason=self._kind(rest.reason)))
                if isinstance(outcome, Retry | Parked | Postponed):
                    return msgspec.structs.replace(outcome, error=self.error(outcome.error))
                raise

        return handle_sealed

    def error(self, text: str) -> str:
        """The text of a failure: its type stays in the clear."""
        made = self._sealed(clean_text(text, MOST_SEALED).encode())
        return f"{self._kind(text)}: {_ERROR}{made.key!r})\n{_MARK}{made.key}:{made.sealed}"

    @staticmethod
    def is_error(message: str, trace: str) -> bool:
        """Whether these are of a text that `error` has made."""
        return message.startswith(_ERROR) and trace.startswith(_MARK)

    @staticmethod
    def _kind(text: str) -> str:
        return text.partition(":")[0].splitlines()[0]

    def note(self, text: str) -> str:
        """A note of progress as it is stored."""
        made = self._sealed(clean_text(text, MOST_OF_NOTE).encode())
        return f"{_MARK}{made.key}:{made.sealed}"

    def _sealed(self, value: bytes) -> _Envelope:
        while True:
            key = self.cipher.key_id
            sealed = self.cipher.encrypt(value)
            if (
                key == self.cipher.key_id
            ):  # else it was rotated meanwhile, and either may be its key
                return _Envelope(key, base64.b64encode(sealed).decode())


def _sorted(text: str) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(text), order="sorted")


MOST_OF_NOTE = 250  # bytes of a note: sealed it is longer, and has a bound as well
MOST_SEALED = 10_000  # bytes of an error's text: sealed it is a third longer, and has a bound


def opened(sealing: Sealing | None, text: str, what: str) -> str:
    """A value that was sealed, as the JSON that it was; fields that were put beside it are added."""
    fields = _fields.decode(text)
    try:
        envelope = _envelope.decode(fields.pop("$"))
    except msgspec.ValidationError:
        return text  # a user's own
    if envelope.dropped:
        raise NotFound(
            f"{what} was dropped: it was kept for as long as keep_result= of the task says"
        )
    if not envelope.sealed:
        return _encode(fields).decode() if envelope.trace else text
    value = _decrypted(sealing, envelope, what)
    if not fields:
        return value.decode()
    inside = _fields.decode(value)
    if fields.keys() <= inside.keys():
        return value.decode()
    return _encode(fields | inside).decode()


def opened_error(sealing: Sealing | None, text: str | None) -> str | None:
    """The text of a failure; as it is stored where its key is not here."""
    if text is None or sealing is None:
        return text
    lines = text.split("\n", 1)
    if _ERROR not in lines[0] or len(lines) == 1 or not lines[1].startswith(_MARK):
        return text
    read = opened_note(sealing, lines[1])
    return text if read == lines[1] else read


def opened_note(sealing: Sealing | None, text: str | None) -> str | None:
    """A note of progress; as it is stored where its key is not here."""
    if text is None or sealing is None or not text.startswith(_MARK):
        return text
    key, _, sealed = text.removeprefix(_MARK).partition(":")
    try:
        return _decrypted(sealing, _Envelope(key, sealed), "it").decode()
    except UnknownCipherKey:
        return text


def _decrypted(sealing: Sealing | None, envelope: _Envelope, what: str) -> bytes:
    if sealing is None:
        raise UnknownCipherKey(
            f"{what} is encrypted with key {envelope.key!r}, and this application has no cipher: give it "
            "one, Mainspring(cipher=...), then restart what is parked",
            key=envelope.key,
        )
    known = sealing.cipher.key_ids
    if envelope.key not in known:
        raise UnknownCipherKey(
            f"{what} is encrypted with key {envelope.key!r}, and the cipher has "
            f"{', '.join(sorted(known))}: give it that key too, then restart what is parked",
            key=envelope.key,
        )
    try:
        return sealing.cipher.decrypt(
            envelope.key, base64.b64decode(envelope.sealed, validate=True)
        )
    except binascii.Error:
        _refuse(what, envelope)
    except Exception as error:
        _refuse(what, envelope, error)


def _refuse(what: str, envelope: _Envelope, error: Exception | None = None) -> NoReturn:
    raise UnknownCipherKey(
        f"{what} cannot be decrypted with key {envelope.key!r}: it was changed, or the key of that id is "
        "another one; give the cipher the right key, then restart what is parked",
        key=envelope.key,
    ) from error
