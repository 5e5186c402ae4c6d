"""One connection: uvicorn's protocol with what it leaves out.

A request must be here whole within a time, so that slow senders hold no connection for ever. The names
in a client's certificate are handed to the application. What is no HTTP is answered as a problem.
"""

from __future__ import annotations

import asyncio

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from mainspring.server.http import problems

READ_SECONDS = 30.0


class TimedProtocol(H11Protocol):
    """Drops who does not send a whole request in time."""

    _read_by: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.app_state = {**self.app_state, "client_names": _names(tls.getpeercert())}
        self._expect()

    def data_received(self, data: bytes) -> None:
        if self._read_by is None:
            self._expect()
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP: the body is ours, the connection ends."""
        refused = problems.HttpRefused(400, "no_http", "this is no request of HTTP/1.1")
        body = msgspec.json.encode(problems.details(refused))
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [
                ("content-type", problems.MEDIA_TYPE),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _expect(self) -> None:
        self._read_by = self.loop.call_later(READ_SECONDS, self._too_slow)

    def _look(self) -> None:
        """A request that is whole is no longer waited for; of the next one, the keep-alive is."""
        if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED) or (
            self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        ):
            self._forget()

    def _forget(self) -> None:
        if self._read_by is not None:
            self._read_by.cancel()
            self._read_by = None

    def _too_slow(self) -> None:
        self._read_by = None
        self.transport.abort()


def _names(certificate: dict[str, tuple[tuple[str, str], ...]] | None) -> tuple[str, ...]:
    """The names in a certificate that was checked."""
    return tuple(name for _, name in (certificate or {}).get("subjectAltName", ()))
