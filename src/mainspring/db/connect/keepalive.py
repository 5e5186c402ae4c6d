"""How long a connection outlives its other end: a dead client leaves no backend, a dead server no waiter.

An idle line is asked for a sign of life after IDLE seconds, then COUNT times, EVERY seconds apart. What
was sent and is not acknowledged is given up after UNANSWERED seconds, by the server later: to it a client
that does not read for a while (its event loop is blocked) looks the same. Both ends do this: the server
by settings of the session, we by options of the socket. On Linux the second also bounds the first: an
idle line is not given up before UNANSWERED has passed. A Unix socket needs none of it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

IDLE, EVERY, COUNT, UNANSWERED = 20, 5, 3, 30

SERVER: Mapping[str, str] = {
    "tcp_keepalives_idle": f"{IDLE}s",
    "tcp_keepalives_interval": f"{EVERY}s",
    "tcp_keepalives_count": str(COUNT),
    "tcp_user_timeout": f"{2 * UNANSWERED}s",
}
# While a statement runs nobody reads the line: the server looks now and then whether it still stands.
# A server on Windows refuses the setting.
SERVER_LOOKS: Mapping[str, str] = {"client_connection_check_interval": "10s"}

LIBPQ: Mapping[str, int] = {
    "keepalives": 1,
    "keepalives_idle": IDLE,
    "keepalives_interval": EVERY,
    "keepalives_count": COUNT,
    "tcp_user_timeout": UNANSWERED * 1000,
}

# By name: not every platform has each.
_SOCKET = {
    "TCP_KEEPIDLE": IDLE,
    "TCP_KEEPINTVL": EVERY,
    "TCP_KEEPCNT": COUNT,
    "TCP_USER_TIMEOUT": UNANSWERED * 1000,
}


def keep_alive(line: socket.socket | None) -> None:
    """The same for a socket that is not libpq's."""
    if line is None or line.family == socket.AF_UNIX:
        return
    with socket.socket(
        fileno=os.dup(line.fileno())
    ) as same:  # uvloop's own lets nobody set options
        same.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SOCKET.items():
            if (option := getattr(socket, name, None)) is not None:
                same.setsockopt(socket.IPPROTO_TCP, option, value)
