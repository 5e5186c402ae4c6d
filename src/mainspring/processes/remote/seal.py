"""The seal of tickets: HMAC-SHA-256 under a secret of this installation.

The newest secret seals; it and the one before it open, so that a change voids nothing that is at work.
What the database said is believed for a few seconds, and looked up again for a ticket that does not open.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from typing import NamedTuple

from mainspring.db.sql import Steps, one, rows
from mainspring.processes.statements import SQL

SEAL_BYTES = 16
LONGEST_TEXT = 8_000
BELIEVED_SECONDS = 5.0
AT_LEAST_SECONDS = 1.0  # between two looks, however many forged tickets come


class Secret(NamedTuple):
    """A row of read_secrets.sql."""

    number: int
    secret: bytes


class Seals:
    """The secrets of one installation, as they were lately."""

    def __init__(self) -> None:
        self._secrets: list[bytes] = []
        self._read_at = -1e9
        self._url = ""

    def read(self, url: str, *, believed: float = BELIEVED_SECONDS) -> Steps[bool]:
        """Read the secrets of the database at this address, unless that was done just now."""
        if self._url == url and time.monotonic() - self._read_at < believed:
            return False
        found = yield from rows(SQL["read_secrets"], Secret)
        self._secrets = [bytes(row.secret) for row in found]
        self._read_at, self._url = time.monotonic(), url
        return True

    def seal(self, content: bytes) -> str:
        """As text that only this installation makes."""
        return base64.urlsafe_b64encode(content + _mac(self._secrets[0], content)).decode()

    def open(self, text: str) -> bytes | None:
        """What was sealed; None if it was not sealed here."""
        if len(text) > LONGEST_TEXT:
            return None
        try:
            raw = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        content, seal = raw[:-SEAL_BYTES], raw[-SEAL_BYTES:]
        fits = [hmac.compare_digest(seal, _mac(secret, content)) for secret in self._secrets]
        return content if any(fits) else None


def rotate_secret_steps() -> Steps[int]:
    """Make a new secret; the one before it still opens. Its number."""
    return (yield from one(SQL["rotate_secret"], int))


def _mac(secret: bytes, content: bytes) -> bytes:
    return hmac.digest(secret, content, "sha256")[:SEAL_BYTES]
