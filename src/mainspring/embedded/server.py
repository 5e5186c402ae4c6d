"""A private PostgreSQL in a directory of the project, run from the binaries of a wheel.

It promises: only a 0700 directory leads to its socket, no wait is unbounded, and data outlives
every kill. It is for one machine: pids mean nothing across containers that share a directory.

Under root the server runs as another account (binaries.py), and nothing of root's is opened up for
it. Where that account cannot walk to the data (say, below /root) the server is handed the open
directory and knows it as /proc/self/fd/N.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from mainspring.embedded import private, process
from mainspring.embedded.binaries import (
    MISREAD,
    Account,
    account_of,
    binaries,
    digest,
    execute,
    runnable_binaries,
)
from mainspring.errors import EmbeddedServerError

log = logging.getLogger("mainspring")

START_SECONDS = 60.0  # crash recovery of a laptop's database included
LOCK_SECONDS = 120.0  # longer than any start or stop that another process may be in
FAST_SECONDS = 10.0
IMMEDIATE_SECONDS = 8.0  # after 5 s the postmaster itself kills what is left of its children
PORT = 5432  # only a part of the socket's name: nothing listens on TCP
SOCKET_BYTES = 103  # what macOS takes; Linux takes 107
ROLE = "postgres"
DEFAULTS = {"shared_buffers": "128MB", "max_connections": "200", "log_line_prefix": "%m [%p] "}


class EmbeddedServer:
    """One PostgreSQL over one directory; any number of these objects may stand for one server.

    `settings` are server settings, such as `{"fsync": "off"}`; those of the one who starts count.
    """

    listens_on = ""  # nobody but who may walk to its socket; tests of networks say otherwise

    def __init__(
        self, directory: Path, *, bin_dir: Path | None = None, settings: Mapping[str, str] = {}
    ) -> None:
        self._given = directory.absolute()
        self.directory = self._given.resolve()
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        self._bin_dir = bin_dir
        self._settings = {**DEFAULTS, **settings}

    def start(self) -> None:
        """Start the server unless it runs, and wait until it answers."""
        with self.locked():
            self.bring_up()

    def stop(self, *, fast_seconds: float = FAST_SECONDS) -> None:
        """Stop the server: by a fast shutdown, and if that takes too long an immediate one."""
        if self.directory.is_dir():
            with self.locked():
                self.take_down(fast_seconds)

    def restart(self) -> None:
        """Stop the server and start it again with the settings of this object."""
        with self.locked():
            self.take_down()
            self.bring_up()

    def kill(self) -> None:
        """Kill the postmaster as a crash would, and wait until no process of it is left."""
        pid = self.pid
        if pid is not None and not process.kill_family(pid, IMMEDIATE_SECONDS):
            raise EmbeddedServerError(f"processes of postmaster {pid} outlive SIGKILL")

    @property
    def running(self) -> bool:
        """Whether a postmaster is there; it may still be recovering."""
        return self.pid is not None

    @property
    def pid(self) -> int | None:
        """The postmaster's pid. The kernel says who listens on the socket, so it is never stale.

        Nor is it an impostor's: whoever listens must be the user that the data belongs to.
        """
        return self._find()

    def _find(self) -> int | None:
        try:
            if not self.data.exists():
                return None
            private.refuse_foreign_directory(self._given)
            owner = self.data.stat().st_uid
            if self.socket_dir != self.data and self.socket_dir.is_dir():
                private.refuse_foreign_socket(self.socket_dir, owner)
            found = process.listener(self.socket_dir / f".s.PGSQL.{PORT}")
        except OSError as error:
            raise EmbeddedServerError(
                f"cannot reach the server of {self.directory}: {error.strerror}; "
                f"{_owner(self.directory)}"
            ) from error
        if found is None:
            return None
        if found.pid == 0:
            raise EmbeddedServerError(
                f"the server of {self.directory} runs in another container; stop it there first"
            )
        if found.uid != owner:
            raise EmbeddedServerError(
                f"process {found.pid} of {private.name_of(found.uid)} listens in {self.socket_dir}, "
                f"and the data is {private.name_of(owner)}'s; end that process"
            )
        return found.pid if process.look(found.pid) else None

    @property
    def socket_dir(self) -> Path:
        """The data directory, or a short one in /tmp where that makes no socket address."""
        path = str(self.data)
        plain = not (MISREAD | {","}) & set(path)
        if plain and len(os.fsencode(f"{path}/.s.PGSQL.{PORT}")) <= SOCKET_BYTES:
            return self.data
        return Path(private.BELOW_TMP + digest(path))

    def url(self, database: str = "mainspring") -> str:
        """An address that psycopg, asyncpg and psql take."""
        # The port is written out because drivers would otherwise take it from PGPORT.
        host = quote(str(self.socket_dir))
        return f"postgresql://{ROLE}@/{quote(database, safe='')}?host={host}&port={PORT}"

    def create_database(self, name: str = "mainspring") -> None:
        """Create a database unless it is there."""
        create = sql.SQL("create database {}").format(sql.Identifier(name))
        with (
            self.locked(),  # two at a time would fight over the template
            self._connect(autocommit=True) as connection,
            # Seen only at its end (a violation) where whoever began it was killed, and its server not.
            contextlib.suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation),
        ):
            connection.execute(create)

    def _connect(self, **options: Any) -> psycopg.Connection[Any]:
        self._find()  # raises if an impostor listens
        return psycopg.connect(self.url("postgres"), **options)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from starting or stopping the server meanwhile."""
        is_new = not self.directory.is_dir()
        try:
            self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            if is_new:
                self._check_installed()
            private.refuse_foreign_directory(self._given)
            os.close(private.open_file(self.directory / "lock", os.O_RDWR | os.O_CREAT))
        except OSError as error:
            raise EmbeddedServerError(
                f"cannot write in {self.directory}: {error.strerror}; {_owner(self.directory)}: "
                "give a directory that this user may write to"
            ) from error
        with process.locked(self.directory / "lock", LOCK_SECONDS):
            yield

    def _check_installed(self) -> None:
        """Raise if there are no programs; then no directory is left behind for nothing."""
        try:
            binaries(self._bin_dir)
        except EmbeddedServerError:
            with contextlib.suppress(OSError):  # somebody else has begun to use it
                self.directory.rmdir()
            raise

    def bring_up(self) -> None:
        """Start it unless it runs; the caller has the lock."""
        if not process.wait(self._serves, START_SECONDS):
            raise EmbeddedServerError(
                f"the server of {self.directory} does not answer after {START_SECONDS:.0f} s; "
                f"wait if it is recovering, {self.log} ends:\n{self._log_end(0)}"
            )

    def _serves(self) -> bool:
        """Whether the server answers; where there is none, after having launched it."""
        if self.pid is None:
            account = account_of(self.data)
            binaries, major = runnable_binaries(self._bin_dir, account)
            if not self.data.exists():
                self._create_data(account, binaries, major)
            self._check_version(major)
            self._make_socket_dir()
            self._disown_stale_pids()
            self._launch(account, binaries)
        try:
            self._connect(connect_timeout=2).close()
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
        log.warning("embedded.database_created", extra={"directory": str(self.directory)})

    def _check_version(self, major: int) -> None:
        try:
            found = (self.data / "PG_VERSION").read_text().strip()
        except OSError as error:
            raise EmbeddedServerError(
                f"{self.data} is no PostgreSQL data directory of this user ({error.strerror}; "
                f"{_owner(self.directory)}); "
                "move it away or give another directory"
            ) from error
        if found != str(major):
            raise EmbeddedServerError(
                f"{self.data} was made by PostgreSQL {found} and the binaries are of {major}; "
                f"move its data with pg_dump of {found}, or move the directory away to begin anew"
            )

    def _make_socket_dir(self) -> None:
        private.write_text(self.directory / "socket", f"{self.socket_dir}\n")
        if self.socket_dir == self.data:
            return
        owner = self.data.stat().st_uid
        with contextlib.suppress(FileExistsError):
            self.socket_dir.mkdir(mode=0o700)
        if (
            self.socket_dir.lstat().st_uid == os.geteuid()
        ):  # whoever made it may have been killed then
            os.chown(self.socket_dir, owner, -1, follow_symlinks=False)
        private.refuse_foreign_socket(self.socket_dir, owner)

    def _disown_stale_pids(self) -> None:
        """Let PostgreSQL start where a dead postmaster's pid is a zombie or another program."""
        for file in (self.data / "postmaster.pid", self.socket_dir / f".s.PGSQL.{PORT}.lock"):
            first, _, rest = _text(file).partition("\n") if file.exists() else ("", "", "")
            seen = process.look(int(first)) if first.isdigit() else None
            if first and (seen is None or seen.name not in ("postgres", "postmaster")):
                # PostgreSQL takes the pid of its grandparent, us, for stale. The file stays: by it
                # PostgreSQL finds whether backends of the dead postmaster hold its memory still.
                private.write_text(file, f"{os.getpid()}\n{rest}")

    def _launch(self, account: Account | None, binaries: Path) -> None:
        def command(path: str) -> list[str | Path]:
            own = {"listen_addresses": self.listens_on, "port": str(PORT)}
            own["unix_socket_permissions"] = "0700"
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
            output = stack.enter_context(open(self.log, "ab", opener=private.open_file))
            begin, name, fds = output.tell(), str(path), list[int]()
            if account and not all(p.stat().st_mode & stat.S_IXOTH for p in path.parents):
                fds = [os.open(path, os.O_RDONLY | os.O_DIRECTORY)]
                stack.callback(os.close, fds[0])
                name = f"/proc/self/fd/{fds[0]}"
            # pg_ctl hands the path to a shell, between double quotes.
            here = "." if MISREAD & set(name) else name
            cwd = path if here == "." else Path("/")
            code = execute(command(here), account, output, fds, cwd=cwd).returncode
        return code, self._log_end(begin)

    def _log_end(self, begin: int) -> str:
        with open(self.log, "rb", opener=private.open_file) as written:
            written.seek(max(begin, written.seek(0, os.SEEK_END) - 4000))
            return "\n".join(written.read().decode(errors="replace").splitlines()[-15:])

    def take_down(self, fast_seconds: float = FAST_SECONDS) -> None:
        """Stop it in bounded time; the caller has the lock."""
        if postmaster := process.look(self.pid or 0):
            # A fast shutdown that meets crash recovery may never end.
            ways = ((signal.SIGINT, fast_seconds), (signal.SIGQUIT, IMMEDIATE_SECONDS))
            if not any(process.end(postmaster, way, seconds) for way, seconds in ways):
                self.kill()
        # A directory in /tmp stays: without it another user could take its name, and serve those of
        # our clients who wait for the server to come back.


def _owner(path: Path) -> str:
    """Whose directory it is, or the nearest above it that is there."""
    found = next(p for p in (path, *path.parents) if p.exists())
    return f"{found} belongs to {private.name_of(found.stat().st_uid)}"


def _text(file: Path) -> str:
    with open(file, opener=private.open_file) as opened:
        return opened.read()
