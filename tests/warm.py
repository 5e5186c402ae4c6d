"""Processes of Python that start fast: forked from one that has imported Mainspring already.

`Popen` is subprocess.Popen for commands of this interpreter. What it starts is a process like any other,
with a pid, arguments, environment, folder and files of its own; it can be stopped and killed. Only its
parent is another: the process that it was forked from, which tells how it ended. What is proven of a start
itself is not for here: of imports, of warnings, of other users.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
from importlib import import_module, reload
from types import FrameType, ModuleType
from typing import Any

import mainspring
from mainspring import testing

# Imported once for all. What `-m` is to run is not among them, but what that imports.
KNOWN = (
    *("asyncpg", "grpc", "jinja2", "psycopg", "rich", "structlog", "typer", "uvicorn", "uvloop"),
    *("mainspring.app", "mainspring.client", "mainspring.serve", "mainspring.stage_service"),
    *("mainspring.cli.commands", "mainspring.cli.log", "mainspring.cli.serve"),
    *("mainspring.cli.supervisor", "mainspring.cli.worker"),
    *("mainspring.server.console", "mainspring.server.door"),
)
_FOLLOWED = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}  # these can change after a start
HERE = os.path.dirname(mainspring.__file__)
_NUMBER = struct.Struct("i")


def _of_start(environment: dict[str, str]) -> dict[str, str]:
    """What the interpreter reads of an environment when it starts, and never again."""
    return {k: v for k, v in environment.items() if k.startswith("PYTHON") and k not in _FOLLOWED}


def _has_own(environment: dict[str, str]) -> bool:
    """Whether a Mainspring of another place is to be imported: that of a release before."""
    places = [p for p in environment.get("PYTHONPATH", "").split(":") if p]
    return any(
        os.path.isdir(found) and not os.path.samefile(found, HERE)
        for found in (os.path.join(place, "mainspring") for place in places)
    )


class Popen(subprocess.Popen[Any]):
    """subprocess.Popen of this interpreter: [sys.executable, "-m" or "-c" or a file, ...]."""

    _end: int | None = None  # where the parent tells how it ended

    def _execute_child(self, args: Any, *rest: Any) -> None:
        """As subprocess calls it, in all versions of Python that we run on."""
        program, *words = map(str, args)
        pass_fds, cwd, env = rest[3], rest[4], dict(os.environ if rest[5] is None else rest[5])
        handles = rest[9:15]
        files = [
            at if fd == -1 else fd for at, fd in enumerate((handles[0], handles[3], handles[5]))
        ]
        assert program == sys.executable, f"{program} is no interpreter that runs"
        assert not pass_fds, "a process that is forked elsewhere inherits nothing"
        parent = _parent()
        if _of_start(env) != parent.environment or _has_own(env):
            self._execute_fresh(args, *rest)
            return
        self._end, told = os.pipe()
        order = {"words": words, "cwd": str(cwd or os.getcwd()), "env": env, "session": rest[20]}
        try:
            self.pid = parent.fork(order, [*files, told])
            self._child_created = True
        finally:
            os.close(told)
        self._close_pipe_fds(*handles)  # type: ignore[attr-defined]

    def _execute_fresh(self, *rest: Any) -> None:
        super()._execute_child(*rest)  # type: ignore[misc]

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self._end is None:
            return super()._try_wait(flags)  # type: ignore[misc, no-any-return]
        if flags & os.WNOHANG and not _readable(self._end):
            return 0, 0
        told = os.read(self._end, _NUMBER.size)
        os.close(self._end)
        assert told, "the process that others are forked from has gone"
        return self.pid, _NUMBER.unpack(told)[0]

    def _internal_poll(self, _deadstate: int | None = None, **how: Any) -> int | None:
        if self._end is None:
            return super()._internal_poll(_deadstate, **how)  # type: ignore[misc, no-any-return]
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid == self.pid:
                        self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def run(
    words: list[Any], *, timeout: float | None = None, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """subprocess.run of this interpreter, whose output is read as text."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(words, text=True, **{**pipes, **options}) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(words, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class WorkerProcess(testing.WorkerProcess):
    """The kit's worker, whose process is forked."""

    _begin = Popen


def _readable(fd: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        return bool(selector.select(0))


class _Parent:
    """The process that others are forked from, as a process that runs tests knows it."""

    def __init__(self) -> None:
        self.environment = _of_start(dict(os.environ))
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # whose interrupts are not for the processes of tests
            )
        self._owner = os.getpid()
        atexit.register(self._close)

    def fork(self, order: dict[str, Any], files: list[int]) -> int:
        """The pid of a process that carries out an order; the last file is told how it ends."""
        text = json.dumps(order).encode()
        with self._lock:
            socket.send_fds(self._socket, [_NUMBER.pack(len(text))], files)
            self._socket.sendall(text)
            pid: int = _NUMBER.unpack(_exactly(self._socket, _NUMBER.size))[0]
            return pid

    def _close(self) -> None:
        if os.getpid() == self._owner:
            self._socket.close()
            self._process.wait()


_parents: list[_Parent] = []
_beginning = threading.Lock()


def _parent() -> _Parent:
    with _beginning:
        if not _parents:
            _parents.append(_Parent())
        return _parents[0]


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        if not (part := connection.recv(count - len(found))):
            raise EOFError("the other side has gone")
        found += part
    return found


def _begotten(asker: socket.socket) -> dict[str, Any]:
    """Fork for whoever asks until he goes; in a process that was forked, the order for it."""
    heard, heard_by = socket.socketpair()
    heard_by.setblocking(False)
    signal.signal(signal.SIGCHLD, _note)
    signal.set_wakeup_fd(heard_by.fileno())
    ends: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        for each in (asker, heard):
            selector.register(each, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if heard in ready:
                heard.recv(4096)
                _tell_ends(ends)
            if asker not in ready:
                continue
            length, files, _, _ = socket.recv_fds(asker, _NUMBER.size, 4)
            if not length:
                raise SystemExit
            order: dict[str, Any] = json.loads(_exactly(asker, _NUMBER.unpack(length)[0]))
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                for at, fd in enumerate(files[:3]):
                    os.dup2(fd, at)
                return order
            ends[pid] = files[3]
            for fd in files[:3]:
                os.close(fd)
            asker.sendall(_NUMBER.pack(pid))


def _note(number: int, frame: FrameType | None) -> None:
    """It is heard at the wakeup's file."""


def _tell_ends(ends: dict[int, int]) -> None:
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        end = ends.pop(pid)
        os.write(end, _NUMBER.pack(status))
        os.close(end)


def _follow(order: dict[str, Any]) -> None:
    """Be as a new interpreter of this order would be."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if order["session"]:
        os.setsid()
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.path[:0] = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(":") if p]
    # It reads MAINSPRING_DIE_AT when it is imported: the parent may have been started by a test with one.
    reload(import_module("mainspring.crash_points"))


def _run(words: list[str]) -> None:
    """What the interpreter does with its command line."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    if words[0] == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = ["-m", *words[2:]]
        import runpy

        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]
    elif words[0] == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), main.__dict__)
    else:
        sys.path.insert(0, os.path.dirname(os.path.realpath(words[0])))
        sys.argv = words
        main.__file__ = words[0]
        with open(words[0], "rb") as program:
            exec(compile(program.read(), words[0], "exec"), main.__dict__)


def _main() -> None:
    asker = socket.socket(fileno=int(sys.argv[1]))
    known = {os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(":") if p}
    sys.path[:] = [p for p in sys.path[1:] if os.path.abspath(p) not in known]
    for name in KNOWN:
        import_module(name)
    gc.collect()
    gc.freeze()  # so that a collection in a child writes to no page of ours
    order = _begotten(asker)
    asker.detach()
    _follow(order)
    _run(order["words"])


if __name__ == "__main__":
    _main()
