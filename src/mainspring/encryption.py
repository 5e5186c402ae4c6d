"""AES-GCM for payloads: `Mainspring(cipher=AesGcm({"2026-01": key}, use="2026-01"))`.

Needs the extra `mainspring[encryption]`. Any object with the methods of `Cipher` does as well, such as one
that asks a key service for its data keys.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from mainspring.errors import InvalidSetting, MissingExtra
from mainspring.tasks.declare.sealing import Cipher

try:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError as error:
    raise MissingExtra("encryption", error.name, "encryption") from None

__all__ = ["AesGcm", "Cipher"]
NONCE_BYTES = 12
KEY_ID_BYTES = 100


class AesGcm:
    """Encrypts with one key and reads with all. A key is 16, 24 or 32 random bytes.

    To rotate: give all processes the new key beside the old one, then `use` it, and take the old one out
    when `mainspring check` names no call that needs it.
    """

    def __init__(self, keys: Mapping[str, bytes], *, use: str) -> None:
        for id, key in keys.items():
            if not isinstance(key, bytes) or len(key) not in (16, 24, 32):
                got = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
                raise InvalidSetting(f"key {id!r} must be 16, 24 or 32 random bytes, got {got}")
            if not id or not id.isprintable() or ":" in id or len(id.encode()) > KEY_ID_BYTES:
                raise InvalidSetting(
                    f"a key's id must be 1 to {KEY_ID_BYTES} printable bytes without a colon, got {id!r}"
                )
        if use not in keys:
            raise InvalidSetting(f"use={use!r} is none of the keys ({', '.join(sorted(keys))})")
        self.key_id = use
        self._ciphers = {id: AESGCM(key) for id, key in keys.items()}

    def __repr__(self) -> str:
        return f"<AesGcm with {', '.join(sorted(self._ciphers))}, uses {self.key_id}>"

    @property
    def key_ids(self) -> Collection[str]:
        """The keys that can be read."""
        return self._ciphers.keys()

    def encrypt(self, value: bytes) -> bytes:
        """A random nonce, then what AES-GCM makes with it."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._ciphers[self.key_id].encrypt(nonce, value, None)

    def decrypt(self, key_id: str, sealed: bytes) -> bytes:
        """What `encrypt` was given."""
        return self._ciphers[key_id].decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)
