"""Servers that no wheel brings: PostgreSQL 15, PgBouncer and Redis, from Debian's packages.

`python tests/servers.py postgres` prints a directory of binaries, `... pgbouncer` and `... redis` the
path of a program; Redis is for the benchmarks' peers. What is not installed is downloaded by apt and
unpacked below .cache (for a closed clone of root: /var/cache), without root and without installing.
Where that does not work the reason goes to stderr and the exit code is 3.
"""

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, quote, urlsplit

import psycopg

from mainspring.embedded.copied import refuse_if_foreign

HERE = Path(__file__).resolve().parent
OWN = HERE.parent / ".cache" / "debian"
# Under root the servers run as another account, which may not be able to walk to a clone.
CLOSED = os.geteuid() == 0 and not all(
    p.stat().st_mode & stat.S_IXOTH for p in (HERE, *HERE.parents)
)
CACHE = Path("/var/cache/mainspring-tests") if CLOSED else OWN
POSTGRES_BIN = Path("usr/lib/postgresql/15/bin")
APT_SECONDS = 300
PORT = 6432  # only a part of the socket's name: nothing listens on TCP


class NoServer(Exception):
    """A server is neither installed nor to be had from apt."""


def postgres_bin() -> Path | None:
    """The directory of PostgreSQL 15's binaries, or None if there is no way to get them."""
    return _or_none(_find_postgres)


def pgbouncer_path() -> Path | None:
    """PgBouncer's program, or None if there is no way to get it."""
    return _or_none(_find_pgbouncer)


def ip_path() -> str | None:
    """The program `ip` of iproute2, or None if there is no way to get it."""
    found = _or_none(_find_ip)
    return str(found) if found else None


def _or_none(find: Callable[[], Path]) -> Path | None:
    try:
        return find()
    except NoServer:
        return None


def _find_postgres() -> Path:
    for found in (_pg_config_bin(), Path("/") / POSTGRES_BIN):
        if found and _is_15(found):
            return found
    found = _runnable(_unpacked("postgresql-15", r"postgresql-(?:client-)?15"), POSTGRES_BIN)
    if not _is_15(found):
        raise NoServer(f"the PostgreSQL unpacked in {found} does not run")
    return found


def _pg_config_bin() -> Path | None:
    if not (program := shutil.which("pg_config")):
        return None
    return Path(subprocess.check_output([program, "--bindir"], text=True).strip())


def _is_15(directory: Path) -> bool:
    try:
        shown = subprocess.check_output([directory / "postgres", "--version"], text=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return "(PostgreSQL) 15" in shown


def _find_pgbouncer() -> Path:
    if program := shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin"):
        return Path(program)
    found = _runnable(_unpacked("pgbouncer", "pgbouncer"), Path("usr/sbin")) / "pgbouncer"
    if subprocess.run([found, "--version"], capture_output=True).returncode:
        raise NoServer(f"the PgBouncer unpacked in {found} does not run")
    return found


def _find_redis() -> Path:
    if program := shutil.which("redis-server"):
        return Path(program)
    tree = _unpacked("redis-server", r"redis-(?:server|tools)")
    found = _runnable(tree, Path("usr/bin")) / "redis-server"
    if subprocess.run([found, "--version"], capture_output=True).returncode:
        raise NoServer(f"the Redis unpacked in {found} does not run")
    return found


def _find_ip() -> Path:
    found = _runnable(_unpacked("iproute2", "iproute2"), Path("bin")) / "ip"
    try:
        done = subprocess.run([found, "-V"], capture_output=True)
    except OSError as error:
        raise NoServer(f"the ip unpacked in {found} does not run: {error}") from error
    if done.returncode:
        raise NoServer(f"the ip unpacked in {found} does not run")
    return found


def _unpacked(package: str, wanted: str) -> Path:
    """The tree of a package with the libraries that this machine lacks for it."""
    tree = CACHE / package
    if tree.exists():
        if CLOSED:
            refuse_if_foreign(tree)
        return tree
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise NoServer(f"{package} is not installed and there is no apt to bring it")
    CACHE.mkdir(parents=True, exist_ok=True)
    if CLOSED:
        refuse_if_foreign(CACHE)
        CACHE.chmod(0o755)  # whatever the umask is
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        new = Path(name)
        new.chmod(0o755)
        try:
            debs = _download(package, wanted, new / "debs", options=[])
        except NoServer:  # the package lists may be missing or old; fresh ones need no root here
            debs = _download(package, wanted, new / "debs", options=_fresh_lists())
        (new / "tree").mkdir()
        for deb in debs:
            subprocess.run(["dpkg", "-x", deb, new / "tree"], check=True)
        (new / "tree").chmod(0o755)
        if not tree.exists():
            (new / "tree").rename(tree)
    return tree


def _fresh_lists() -> list[str]:
    apt = CACHE / "apt"
    (apt / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    options = ["-o", f"Dir::State::lists={apt / 'lists'}", "-o", f"Dir::Cache={apt}"]
    _apt([*options, "update"], CACHE)
    return options


def _download(package: str, wanted: str, into: Path, options: list[str]) -> list[Path]:
    into.mkdir(exist_ok=True)
    plan = _apt([*options, "-s", "--no-install-recommends", "install", package], into)
    missing = re.findall(rf"^Inst ((?:{wanted}|lib(?!.*perl)\S+)) ", plan, re.MULTILINE)
    _apt([*options, "download", *missing], into)
    return sorted(into.glob("*.deb"))


def _apt(arguments: list[str], directory: Path) -> str:
    # Root's apt would download as a user that may not write here.
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    command = ["apt-get", "-q", *sandbox, *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=APT_SECONDS,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired as error:
        raise NoServer(f"{shlex.join(command)} took more than {APT_SECONDS} s") from error
    if done.returncode:
        raise NoServer(f"{shlex.join(command)} failed:\n{done.stderr.strip()}")
    return done.stdout


def _runnable(tree: Path, programs: Path) -> Path:
    """The programs of a tree, wrapped to find its libraries where it has some."""
    libraries = sorted({str(path.parent) for path in tree.glob("usr/lib/*/lib*.so.*")})
    libraries += sorted({str(path.parent) for path in tree.glob("lib/*/lib*.so.*")})
    if not libraries:
        return tree / programs
    wrappers = tree / "wrappers"
    wrappers.mkdir(exist_ok=True)
    wrappers.chmod(0o755)
    for program in (tree / programs).iterdir():
        setting = f"LD_LIBRARY_PATH={shlex.quote(':'.join(libraries))}"
        script = f'#!/bin/sh\n{setting} exec {shlex.quote(str(program))} "$@"\n'
        wrapper = wrappers / program.name
        if wrapper.exists() and wrapper.read_text() == script:
            continue
        new = wrappers / f".{program.name}.{os.getpid()}"
        new.write_text(script)
        new.chmod(0o755)
        new.rename(wrapper)
    return wrappers


class PgBouncer:
    """A PgBouncer in front of a server on a Unix socket, for the time of a `with` block."""

    def __init__(self, url: str, mode: str = "transaction") -> None:
        query = parse_qs(urlsplit(url).query)
        self._role = urlsplit(url).username or "postgres"
        self._server = Path(query["host"][0])
        self._server_port = query.get("port", ["5432"])[0]
        self._mode = mode

    def url(self, database: str = "mainspring") -> str:
        return f"postgresql://{self._role}@/{quote(database)}?host={self._directory}&port={PORT}"

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="pgbouncer-", dir="/tmp"))
        try:
            self._start(_find_pgbouncer())
            self._wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def restart(self) -> None:
        """End it, with every connection through it, and start it again at the same address."""
        self._stop()
        self._start(_find_pgbouncer())
        self._wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self, program: Path) -> None:
        # It refuses root, and the server's socket is open to the server's owner alone. That owner
        # may not be able to walk there, so it gets the open directory.
        fd = os.open(self._server, os.O_RDONLY | os.O_DIRECTORY)
        owner = os.fstat(fd).st_uid if os.geteuid() == 0 else None
        host = f"/proc/self/fd/{fd}" if owner else self._server
        (self._directory / "users").write_text(f'"{self._role}" ""\n')
        (self._directory / "ini").write_text(
            f"[databases]\n* = host={host} port={self._server_port}\n"
            f"[pgbouncer]\nlisten_port = {PORT}\nunix_socket_dir = {self._directory}\n"
            f"auth_type = trust\nauth_file = {self._directory / 'users'}\n"
            f"admin_users = {self._role}\npool_mode = {self._mode}\nmax_client_conn = 1000\n"
            "default_pool_size = 20\nserver_login_retry = 1\n"
            "ignore_startup_parameters = extra_float_digits\n"
        )
        if owner:
            os.chown(self._directory, owner, -1)
        try:
            with (self._directory / "log").open("wb") as log:
                self._process = subprocess.Popen(
                    [program, self._directory / "ini"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    pass_fds=[fd],
                    user=owner,
                    extra_groups=[] if owner else None,
                    start_new_session=True,
                )
        finally:
            os.close(fd)

    def _wait(self) -> None:
        deadline = time.monotonic() + 10
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self._directory / "log").read_text()
                    raise NoServer(f"PgBouncer does not answer; its log:\n{log}") from error
                time.sleep(0.02)

    def _stop(self) -> None:
        process = getattr(self, "_process", None)
        if process:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)


def main(arguments: list[str]) -> int:
    finders = {"postgres": _find_postgres, "pgbouncer": _find_pgbouncer, "redis": _find_redis}
    if len(arguments) != 1 or arguments[0] not in finders:
        print(f"usage: servers.py {'|'.join(finders)}", file=sys.stderr)
        return 2
    try:
        print(finders[arguments[0]]())
    except NoServer as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
