"""Looking at processes of this machine, waiting for them, keeping them out of each other's way.

A pid alone proves nothing: it may be a zombie's or a later program's. So a process is known by its
pid and its time of birth, and who serves a socket is asked of the kernel.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mainspring.embedded import private
from mainspring.errors import EmbeddedServerError


@dataclass(frozen=True, slots=True)
class LivingProcess:
    """A living process."""

    pid: int
    name: str
    born: str  # tells it from a later process of the same pid


def look(pid: int) -> LivingProcess | None:
    """What runs under a pid; nothing if it is gone, or a zombie that its parent has not reaped."""
    if pid <= 0:
        return None
    if sys.platform == "linux":
        try:
            head, _, tail = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
        except OSError:
            return None
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        state, born = tail.split()[0], f"{boot} {tail.split()[19]}"
        name = head.partition("(")[2]
    else:
        words = _said("ps", "-o", "state=,lstart=,ucomm=", "-p", str(pid)).split()
        if len(words) < 7:
            return None
        state, born, name = words[0], " ".join(words[1:6]), words[6]
    return None if state[0] in "ZX" else LivingProcess(pid, name, born)


def alive(process: LivingProcess) -> bool:
    """Whether the process is still there."""
    seen = look(process.pid)
    return seen is not None and seen.born == process.born


def end(process: LivingProcess, way: signal.Signals, seconds: float) -> bool:
    """Signal a process; whether it is gone within the time."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, way)
    return wait(lambda: not alive(process), seconds)


def kill_family(pid: int, seconds: float) -> bool:
    """Kill a process as a crash would; whether it and its children end within twice the time."""
    os.kill(pid, signal.SIGSTOP)  # so that it forks no child that we would miss
    family = [seen for member in (pid, *_children(pid)) if (seen := look(member))]
    os.kill(pid, signal.SIGKILL)
    if wait(lambda: not any(map(alive, family)), seconds):
        return True
    for process in filter(alive, family):  # a backend that only computes sees no parent die
        os.kill(process.pid, signal.SIGKILL)
    return wait(lambda: not any(map(alive, family)), seconds)


def _children(pid: int) -> list[int]:
    if sys.platform == "linux":
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    else:
        found = _said("pgrep", "-P", str(pid))
    return [int(child) for child in found.split()]


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, env={**os.environ, "LC_ALL": "C"})
    return done.stdout.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class SocketListener:
    """Who listens on a Unix socket, by the kernel's word."""

    pid: int  # 0 if in another container
    uid: int


def listener(path: Path) -> SocketListener | None:
    """Who listens on a Unix socket; None if nobody does."""
    with socket.socket(socket.AF_UNIX) as client:
        # A timeout of Python's would make a full backlog look like a server that is not there.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 5, 0))
        try:
            client.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        if sys.platform == "linux":
            credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid, uid, _ = struct.unpack("3i", credentials)
            return SocketListener(pid, uid)
        else:  # noqa: RET505 - mypy calls the line unreachable otherwise
            # SOL_LOCAL, LOCAL_PEERPID and LOCAL_PEERCRED of <sys/un.h>: a version, then the uid.
            credentials = client.getsockopt(0, 1, 76)
            return SocketListener(client.getsockopt(0, 2), struct.unpack_from("2I", credentials)[1])


@contextlib.contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Have a file's lock, against other processes and other threads."""
    with open(path, "a", opener=private.open_file) as file:
        if not wait(lambda: _try_lock(file.fileno()), seconds):
            raise EmbeddedServerError(
                f"{path} stayed locked for {seconds:.0f} s; "
                "end the process that holds it (fuser shows which)"
            )
        try:
            yield
        finally:
            # Closing is not enough: a child forked meanwhile has the file open too.
            fcntl.flock(file, fcntl.LOCK_UN)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether a condition comes to hold within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
