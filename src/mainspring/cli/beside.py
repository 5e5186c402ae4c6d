"""Whether another `mainspring dev` runs in this directory: both would run the same tasks."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from mainspring.errors import EmbeddedServerError


def other_dev(stack: ExitStack, directory: Path) -> int | None:
    """The process that runs there already; None: this one does, until the stack is left."""
    if sys.platform == "win32":
        return None
    import fcntl

    from mainspring.embedded.private import open_file

    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:20]
    place = Path(tempfile.gettempdir()) / f"mainspring-dev-{os.geteuid()}-{name}"
    try:
        fd = open_file(place, os.O_RDWR | os.O_CREAT)
    except EmbeddedServerError:
        return None  # somebody else's file: only the warning is lost
    stack.callback(os.close, fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        found = os.pread(fd, 20, 0).decode(errors="replace").strip()
        return int(found) if found.isdecimal() else 0
    os.ftruncate(fd, 0)
    os.pwrite(fd, str(os.getpid()).encode(), 0)
    return None
