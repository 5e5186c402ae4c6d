"""Whether a socket has something to read: an idle connection that has was closed by the other side."""

from __future__ import annotations

import select
from collections.abc import Callable
from functools import partial
from typing import Protocol


class HasSocket(Protocol):
    """What can be waited for."""

    def fileno(self) -> int: ...


def unread(socket: HasSocket | int) -> Callable[[], object]:
    """A question that can be asked again and again; the answer is true if there is. It costs no round trip,
    and no call of ours: whoever takes a connection asks."""
    if not hasattr(select, "poll"):  # on Windows
        return lambda: select.select([socket], [], [], 0)[0]
    waiting = select.poll()
    waiting.register(socket, select.POLLIN)
    return partial(waiting.poll, 0)
