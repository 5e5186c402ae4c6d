"""The token of this machine: made at the first start, in a file that only its owner reads.

It is in no table: whoever reads the file may do everything, as he could with the server's own address.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from mainspring.errors import InvalidSetting
from mainspring.server.access.tokens import new_token, split


def local_token(path: Path) -> str:
    """The token in the file; made if there is none. A file that others can read is refused."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.is_symlink() and not path.exists():
        # Whole or not at all: another server that starts at the same moment reads what it finds.
        fd, made = tempfile.mkstemp(dir=path.parent, prefix=".token-")
        with os.fdopen(fd, "w") as file:
            file.write(new_token()[2] + "\n")
        try:
            with suppress(FileExistsError):
                os.link(made, path)
        finally:
            os.unlink(made)
    return _read(path)


def _read(path: Path) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise InvalidSetting(f"the token of this machine cannot be read: {error}") from error
    with os.fdopen(fd) as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise InvalidSetting(
                f"{path} must belong to this user and be readable by nobody else (chmod 600)"
            )
        text = file.read(200).strip()
    if split(text) is None:
        raise InvalidSetting(f"{path} has no token in it; delete it, and a new one is made")
    return text
