"""The server's certificate and its key: a renewed one is served without a restart.

Whoever renews writes two files. What does not fit together yet is passed over until it does.
"""

from __future__ import annotations

import logging
import os
import ssl

log = logging.getLogger("mainspring")


class Certificate:
    """The two files, as one transport has read them."""

    def __init__(self, cert: str, key: str | None) -> None:
        self._cert, self._key = cert, key
        self._read = self._unfit = self._stamp()

    def is_renewed(self) -> bool:
        """Whether there is another pair than was read, and it can be used. True once for each."""
        stamp = self._stamp()
        if stamp is None or stamp in (self._read, self._unfit):
            return False
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._cert, self._key)
        except OSError as error:  # an ssl.SSLError is one
            self._unfit = stamp
            log.warning("serve.certificate_unfit", extra={"path": self._cert, "error": str(error)})
            return False
        self._read = stamp
        log.info("serve.certificate_renewed", extra={"path": self._cert})
        return True

    def _stamp(self) -> tuple[tuple[int, int, int], ...] | None:
        try:
            found = [os.stat(path) for path in (self._cert, self._key) if path is not None]
        except OSError:  # just being replaced
            return None
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)
