"""The sockets that a server listens on, and what is said where one cannot be had."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from mainspring.errors import InvalidSetting
from mainspring.server.settings import ListenAddress

WHAT_TO_DO = {
    errno.EADDRINUSE: "another program listens there, maybe another mainspring serve; stop it, or "
    "choose another port with --http and --grpc",
    errno.EACCES: "this user may not: choose a port from 1024 on, or a path where it may write",
    errno.EADDRNOTAVAIL: "this machine has no such address: name one of its own",
    errno.ENOENT: "its directory is not there: make it first",
}
KNOCK_SECONDS = 1.0


def listen(address: ListenAddress, shared: bool) -> socket.socket:
    """A socket at the address; a unix socket is its owner's alone."""
    if (path := address.socket) is not None:
        return _listen_at_path(address, path)
    try:
        [(family, kind, _, _, place), *_] = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(place)
    except OSError as error:
        raise cannot_listen(address.text, error) from error
    return listener


def try_listening(address: ListenAddress, shared: bool) -> None:
    """An error that says what to do, before a library that only says that it failed tries it."""
    listen(address, shared).close()
    if address.socket is not None:
        address.socket.unlink(missing_ok=True)


def cannot_listen(place: str, error: OSError) -> InvalidSetting:
    """Why nothing can listen there, and what to do."""
    said = WHAT_TO_DO.get(error.errno or 0, str(error))
    return InvalidSetting(f"{place} cannot be listened on: {said}")


def _listen_at_path(address: ListenAddress, path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        if path.is_socket():
            _leave_to_its_server(path)
            path.unlink()  # of a server that was killed
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise cannot_listen(address.text, error) from error
    finally:
        os.umask(mask)
    return listener


def _leave_to_its_server(path: Path) -> None:
    """Take no socket away from a server that is there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
        knock.settimeout(KNOCK_SECONDS)
        try:
            knock.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except TimeoutError:
            pass  # nobody answers, but somebody has it
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
