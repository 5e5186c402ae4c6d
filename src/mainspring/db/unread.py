"""Whether a socket has something to read: an idle connection that has was closed by the other side."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Protocol


class HasSocket(Protocol):
    """What can be waited for."""

    def fileno(self) -> int: ...


def unread(socket: HasSocket | int) -> Callable[[], bool]:
    """A question that can be asked again and again. It costs no round trip."""
    if not hasattr(select, "poll"):  # on Windows
        return lambda: bool(select.select([socket], [], [], 0)[0])
    waiting = select.poll()
    waiting.register(socket, select.POLLIN)
    return lambda: bool(waiting.poll(0))
