"""What the server refused, or why it could not be asked."""

from __future__ import annotations

from typing import Any

from mainspring.errors import MainspringError


class RemoteError(MainspringError, code="remote"):
    """The server refused a call. `code` is the error's own, as in Python; `status` is gRPC's."""

    def __init__(self, message: str, *, code: str, status: str) -> None:
        self.code = code
        self.status = status
        super().__init__(message)


class ServerAway(RemoteError):
    """No answer in time, however often it was sent: it may have been done, or not."""


def remote_error(error: Any) -> RemoteError:
    """The error of a call that gRPC reports."""
    status = error.code().name
    trailers = {key: value for key, value in error.trailing_metadata() or ()}
    code = trailers.get("mainspring-code", status.lower())
    kind = ServerAway if status in ("UNAVAILABLE", "DEADLINE_EXCEEDED") else RemoteError
    return kind(f"{error.details() or status} ({status})", code=str(code), status=status)
