"""What is ours in a place that others reach: directories, files in them, who serves a socket.

A private server is found by names that anybody can compute, in project folders that others may write
to and, where a path is too long for a socket, in /tmp. So nothing is taken for ours by its name.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from pathlib import Path

from mainspring.errors import EmbeddedServerError

# Where sockets of private servers are whose own path is too long: a name that anybody computes follows.
BELOW_TMP = "/tmp/mainspring-"
# Whom root lets a server run as.
ACCOUNTS = ("postgres", "nobody", "daemon")


def name_of(uid: int) -> str:
    """A user's name, or the number of one that has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def others_write(seen: os.stat_result) -> bool:
    """Whether the mode lets others write. A group of one's own, as many systems make them, is no other."""
    own_group = seen.st_gid == os.getegid()
    return bool(seen.st_mode & (stat.S_IWOTH | (0 if own_group else stat.S_IWGRP)))


def refuse_foreign_directory(given: Path) -> None:
    """Raise unless the directory, and the link that may lead to it, is this user's own."""
    link, seen = given.lstat(), given.stat()
    foreign = next((s for s in (link, seen) if s.st_uid != os.geteuid()), None)
    if foreign is None and not others_write(seen):
        return
    why = f"belongs to {name_of(foreign.st_uid)}" if foreign else "may be written to by others"
    raise EmbeddedServerError(
        f"{given} {why}, who could put files of his own in the place of the server's; "
        "give another directory, or make it this user's alone"
    )


def refuse_foreign_socket(directory: Path, owner: int) -> None:
    """Raise unless a directory below a shared one is private to the user that the server runs as."""
    above, seen = directory.parent.stat(), directory.lstat()
    kept = above.st_uid in (0, os.geteuid()) and (
        above.st_mode & stat.S_ISVTX or not others_write(above)
    )
    private = stat.S_ISDIR(seen.st_mode) and seen.st_uid == owner and not seen.st_mode & 0o077
    if not (kept and private):
        raise EmbeddedServerError(
            f"{directory} is not a private directory of {name_of(owner)}, so whoever serves a socket "
            "there may be an impostor; see whose it is and remove it, or use a shorter path for the data"
        )


def refuse_impostor(directory: Path, owner: int | None) -> None:
    """Raise unless the directory of a private server's socket is still private to its user.

    Before every connection: a server may be away for long, and what was in its place be cleaned away.
    `owner`: that user, where this process has found the server itself; None: known by the place alone.
    """
    if owner is None and not str(directory).startswith(BELOW_TMP):
        return  # a server of somebody's own, in a place that is the administrator's affair
    try:
        seen = directory.lstat().st_uid
        owners = {owner} if owner is not None else _our_uids()
        refuse_foreign_socket(directory, seen if seen in owners else min(owners))
    except FileNotFoundError:
        return  # nobody serves there


def _our_uids() -> set[int]:
    """Who a private server of ours may run as."""
    found = {os.geteuid()}
    if os.geteuid() == 0:
        for name in ACCOUNTS:
            with contextlib.suppress(KeyError):
                found.add(pwd.getpwnam(name).pw_uid)
    return found


def open_file(path: str | Path, flags: int) -> int:
    """Open a file in such a place: never what a link leads to, nor anything but a file."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise EmbeddedServerError(f"cannot open {path}: {error.strerror}{_hint(path)}") from error
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise EmbeddedServerError(f"cannot open {path}: it is no file{_hint(path)}")


def _hint(path: str | Path) -> str:
    return f"; it is a link to {os.readlink(path)}, remove it" if os.path.islink(path) else ""


def write_text(path: Path, text: str) -> None:
    """Write a small file whole."""
    with open(path, "w", opener=open_file) as file:
        file.write(text)
