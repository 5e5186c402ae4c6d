"""Several processes, one embedded server: who comes first starts it, who goes last stops it.

Each user is a file named by its pid, which tells the process's birth; one that a signal killed is
counted out when another leaves.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mainspring.embedded import private
from mainspring.embedded.process import look
from mainspring.embedded.server import EmbeddedServer


@dataclass(slots=True)
class _Use:
    """How this process uses a shared server."""

    server: EmbeddedServer
    holds: int  # calls of shared() not yet released: while above 0 the process is registered


_uses: dict[Path, _Use] = {}
_uses_lock = threading.Lock()


def shared(
    directory: Path, *, bin_dir: Path | None = None, settings: Mapping[str, str] = {}
) -> EmbeddedServer:
    """Start the server of a directory, or join the processes that use it.

    The last of them stops it, at its release() or exit.
    """
    server = EmbeddedServer(directory, bin_dir=bin_dir, settings=settings)
    with _uses_lock:
        use = _uses.get(server.directory) or _Use(server, 0)
        with server.locked():
            server.bring_up()
            users = server.directory / "users"
            users.mkdir(exist_ok=True)
            me = look(os.getpid())
            private.write_text(users / str(os.getpid()), me.born if me else "")
        use.holds += 1
        _uses[server.directory] = use
        return use.server


def release(server: EmbeddedServer) -> None:
    """Undo one shared() of this process."""
    with _uses_lock:
        if use := _uses.get(server.directory):
            use.holds -= 1
            if use.holds == 0:
                _leave(_uses.pop(server.directory).server)


def _leave(server: EmbeddedServer) -> None:
    if not server.directory.is_dir():
        return
    with server.locked():
        users = server.directory / "users"
        (users / str(os.getpid())).unlink(missing_ok=True)
        for file in users.iterdir():
            user = look(int(file.name))
            if user is None or user.born != file.read_text():
                file.unlink()
        if not any(users.iterdir()):
            server.take_down()


@atexit.register
def _leave_all() -> None:
    while _uses:
        _leave(_uses.popitem()[1].server)


def leave_on_sigterm() -> None:
    """SIGTERM, where nobody else answers to it, ends the program as before; its servers are let go first.

    Asked for in the main thread, as signals are; elsewhere it does nothing.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(Exception):  # whoever comes next counts this process out
        _leave_all()
    os.kill(os.getpid(), number)


def _forget_uses() -> None:
    """A forked child has its parent's records but not its uses."""
    global _uses_lock
    _uses.clear()
    _uses_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_uses)
