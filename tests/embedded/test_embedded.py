"""The embedded server: it starts, is shared, is killed in every way, and keeps its data."""

import contextlib
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest

from accounts import as_root, run_as
from draws import fast_first
from installs import copy_programs
from mainspring.embedded import binaries, process
from mainspring.embedded import copied as copies
from mainspring.embedded import server as embedded
from mainspring.embedded.server import EmbeddedServer
from mainspring.errors import EmbeddedServerError

SETTINGS = {"fsync": "off"}
BIN = Path(os.environ["MAINSPRING_TEST_BIN"]) if "MAINSPRING_TEST_BIN" in os.environ else None
SOURCE = Path(embedded.__file__).resolve().parents[3]


def server_in(directory: Path) -> EmbeddedServer:
    return EmbeddedServer(directory, bin_dir=BIN, settings=SETTINGS)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory for all tests: what they kill must come up again in the next."""
    directory = tmp_path_factory.mktemp("server") / "m"
    server = server_in(directory)
    server.start()
    server.create_database()
    server.stop()
    return directory


@pytest.fixture
def stopped(directory: Path) -> Iterator[EmbeddedServer]:
    server = server_in(directory)
    yield server
    server.stop(fast_seconds=1)


@pytest.fixture
def copied(directory: Path) -> Iterator[Path]:
    """A parent of its own for a copy of the directory, which root's server could walk to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:
        subprocess.run(["cp", "-a", directory, Path(parent) / "m"], check=True)
        yield Path(parent)


@pytest.fixture
def server(stopped: EmbeddedServer) -> EmbeddedServer:
    stopped.start()
    return stopped


def query(server: EmbeddedServer, statement: str) -> object:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        cursor = connection.execute(statement)
        row = cursor.fetchone() if cursor.description else None
        return row and row[0]


def test_a_new_directory_gets_a_private_utf8_server_with_checksums(tmp_path: Path) -> None:
    server = server_in(tmp_path / "a b+%" / ".mainspring")

    server.start()

    try:
        server.create_database()
        server.create_database()
        assert query(server, "show server_encoding") == "UTF8"
        assert query(server, "show data_checksums") == "on"
        assert query(server, "show listen_addresses") == ""
        assert query(server, "show max_connections") == "200"
        assert server.socket_dir.stat().st_mode & 0o777 == 0o700
    finally:
        server.stop()


NAMES = ['say "hi"', "$HOME", "it's", "a `b`", "back\\slash", " a  b "]


@pytest.mark.parametrize("name", fast_first([" ".join(NAMES), *NAMES], 1))
def test_a_directory_of_any_name_has_a_server(
    copied: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """pg_ctl hands its arguments to a shell. That a database was made is logged, once."""
    copied.chmod(0o755)  # walked to by its name, not handed over by root
    server = server_in(copied / name / ".mainspring")

    with caplog.at_level("WARNING", logger="mainspring"):
        server.start()
    try:
        server.create_database()
        assert query(server, "select 7") == 7
        server.restart()
        assert query(server, "select 7") == 7
    finally:
        server.stop()

    assert not server.running
    if server.socket_dir != server.data:
        server.socket_dir.rmdir()
    assert [r.msg for r in caplog.records].count("embedded.database_created") == 1


def test_programs_below_a_quote_are_copied(
    stopped: EmbeddedServer, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment may be in the same directory as the data."""
    if BIN:
        pytest.skip("only a relocatable tree can be copied")
    copied.chmod(0o755)
    bin_dir = copy_programs(copied / 'say "$x"')
    with tempfile.TemporaryDirectory(dir="/tmp") as cache:
        Path(cache).chmod(0o755)
        monkeypatch.setattr(copies, "CACHE", Path(cache))
        monkeypatch.setattr(Path, "home", lambda: Path(cache))
        server = EmbeddedServer(stopped.directory, bin_dir=bin_dir, settings=SETTINGS)

        server.start()

        assert query(server, "select 1") == 1
        server.stop()


async def test_its_url_serves_both_drivers(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGHOST", "nowhere.invalid")

    connection = await asyncpg.connect(server.url())

    assert await connection.fetchval("select current_database()") == "mainspring"
    assert query(server, "select current_database()") == "mainspring"
    await connection.close()


def test_start_and_stop_may_be_repeated(stopped: EmbeddedServer) -> None:
    assert not stopped.running
    stopped.stop()

    stopped.start()
    first = stopped.pid
    stopped.start()

    assert stopped.running
    assert first == stopped.pid
    stopped.stop()
    stopped.stop()
    assert (stopped.running, stopped.pid) == (False, None)


def test_restart_gives_a_new_server_over_the_same_data(server: EmbeddedServer) -> None:
    first = server.pid
    query(server, "drop table if exists kept; create table kept as select 7 as n")

    server.restart()

    assert first != server.pid
    assert query(server, "select n from kept") == 7


def test_committed_data_outlives_a_kill(server: EmbeddedServer) -> None:
    query(server, "drop table if exists kept; create table kept as select 7 as n")

    server.kill()

    assert not server.running
    server.start()
    assert query(server, "select n from kept") == 7


def test_kill_ends_a_backend_that_only_computes(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "IMMEDIATE_SECONDS", 0.2)
    connection = psycopg.connect(server.url(), autocommit=True)
    connection.pgconn.send_query(b"do $$ begin loop end loop; end $$")

    server.kill()

    assert process.look(connection.info.backend_pid) is None
    connection.close()
    server.start()
    assert query(server, "select 1") == 1


def test_start_right_after_a_kill_by_others_waits_for_the_orphans(server: EmbeddedServer) -> None:
    assert server.pid
    os.kill(server.pid, signal.SIGKILL)

    server.start()

    assert query(server, "select 1") == 1


def test_stop_is_bounded_while_the_server_recovers_from_a_crash(server: EmbeddedServer) -> None:
    with psycopg.connect(server.url()) as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)
        begin = time.monotonic()

        server.stop(fast_seconds=1)

    assert not server.running
    assert time.monotonic() - begin < 3


def test_stop_ends_a_server_that_does_not_react(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "IMMEDIATE_SECONDS", 0.2)
    pid = server.pid
    assert pid
    os.kill(pid, signal.SIGSTOP)

    server.stop(fast_seconds=0.2)

    assert process.look(pid) is None
    assert not server.running


def test_a_pid_file_that_names_another_program_is_stale(stopped: EmbeddedServer) -> None:
    stopped.start()
    stopped.kill()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        for file in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            _, _, rest = (stopped.data / file).read_text().partition("\n")
            (stopped.data / file).write_text(f"{other.pid}\n{rest}")

        stopped.start()

        assert stopped.pid not in (None, other.pid)
        assert other.poll() is None


def test_a_directory_too_deep_for_a_socket_gets_a_short_one(copied: Path) -> None:
    deep = copied / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    server = server_in((copied / "m").rename(deep / "m"))

    server.start()

    try:
        assert query(server, "select 1") == 1
        assert server.socket_dir.parent == Path("/tmp")
        assert server.socket_dir.stat().st_mode & 0o777 == 0o700
        assert f"{server.socket_dir}\n" == (deep / "m" / "socket").read_text()
    finally:
        server.stop()
    # It stays: else another user could take its name while clients wait for the server.
    assert list(server.socket_dir.iterdir()) == []
    server.socket_dir.rmdir()


def test_a_short_socket_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    server = server_in(tmp_path / ("d" * 100))
    server.data.mkdir(parents=True)
    server.socket_dir.mkdir()
    server.socket_dir.chmod(0o755)

    try:
        with pytest.raises(EmbeddedServerError, match="is not a private directory"):
            server._make_socket_dir()
    finally:
        server.socket_dir.rmdir()


def test_data_of_another_major_version_is_refused(tmp_path: Path) -> None:
    server = server_in(tmp_path / "m")
    server.data.mkdir(parents=True)
    (server.data / "PG_VERSION").write_text("9.6\n")

    with pytest.raises(EmbeddedServerError, match=r"made by PostgreSQL 9\.6 and the binaries"):
        server.start()


def test_a_failed_start_shows_the_end_of_the_log(stopped: EmbeddedServer) -> None:
    bad = EmbeddedServer(stopped.directory, bin_dir=BIN, settings={"work_mem": "much"})

    with pytest.raises(EmbeddedServerError, match='invalid value for parameter "work_mem"'):
        bad.start()


def test_binaries_that_are_not_there_are_named(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "m", bin_dir=tmp_path / "bin")

    with pytest.raises(EmbeddedServerError, match=r"cannot run .*bin/postgres: No such file"):
        server.start()


# Sharing: each user is a process of its own, which answers a line with a line.

USER = """
import os, sys
from pathlib import Path
from mainspring.embedded.shared import release, shared
server = None
for line in sys.stdin:
    match line.strip():
        case "join":
            binaries = Path(sys.argv[2]) if len(sys.argv) > 2 else None
            server = shared(Path(sys.argv[1]), bin_dir=binaries, settings={"fsync": "off"})
        case "leave":
            release(server)
        case "open":
            from mainspring import Mainspring
            app = Mainspring(directory=sys.argv[1])
            app.database_sync()
        case "fork":
            child = os.fork()
            if child == 0:
                sys.exit()
            os.waitpid(child, 0)
    print(server.pid, flush=True)
"""


class User:
    def __init__(self, directory: Path) -> None:
        arguments = [sys.executable, "-c", USER, directory, *([BIN] if BIN else [])]
        self.process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )

    def tell(self, word: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def leave_by_exit(self) -> None:
        self.process.communicate(timeout=20)
        assert self.process.returncode == 0

    def die(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def users(stopped: EmbeddedServer) -> Iterator[tuple[User, User]]:
    both = User(stopped.directory), User(stopped.directory)
    yield both
    for user in both:
        with contextlib.suppress(ValueError):
            user.die()


def test_the_last_user_out_stops_a_shared_server(
    stopped: EmbeddedServer, users: tuple[User, User]
) -> None:
    first, second = users
    pid = first.tell("join")
    assert pid == second.tell("join")

    first.leave_by_exit()
    assert stopped.running

    assert second.tell("leave") == "None"
    assert not stopped.running


def test_a_user_that_joined_twice_leaves_twice(
    stopped: EmbeddedServer, users: tuple[User, User]
) -> None:
    user, _ = users
    pid = user.tell("join")
    user.tell("join")

    assert pid == user.tell("leave")
    assert user.tell("leave") == "None"


def test_a_killed_user_does_not_keep_the_server(
    stopped: EmbeddedServer, users: tuple[User, User]
) -> None:
    first, second = users
    first.tell("join")
    second.tell("join")
    reused = stopped.directory / "users" / str(os.getpid())
    reused.write_text("of a process that had our pid before us")

    first.die()
    assert stopped.running

    second.leave_by_exit()
    assert not stopped.running
    assert not any((stopped.directory / "users").iterdir())


def test_a_program_that_sigterm_ends_does_not_keep_the_server(
    stopped: EmbeddedServer, users: tuple[User, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends by the signal all the same."""
    monkeypatch.delenv("MAINSPRING_URL", raising=False)
    user, _ = users
    user.tell("join")
    user.tell("open")

    user.process.terminate()

    assert user.process.wait(20) == -signal.SIGTERM
    assert not stopped.running
    assert not any((stopped.directory / "users").iterdir())


def test_a_forked_child_does_not_leave_for_its_parent(
    stopped: EmbeddedServer, users: tuple[User, User]
) -> None:
    user, _ = users
    pid = user.tell("join")

    assert pid == user.tell("fork")
    assert str(stopped.pid) == pid
    assert (stopped.directory / "users" / str(user.process.pid)).exists()


def test_a_user_restarts_a_shared_server_that_was_killed(
    stopped: EmbeddedServer, users: tuple[User, User]
) -> None:
    first, second = users
    killed = first.tell("join")
    os.kill(int(killed), signal.SIGKILL)

    assert second.tell("join") not in (killed, "None")
    assert stopped.running


# Accounts.


@as_root
def test_a_normal_user_runs_it_as_itself() -> None:
    nobody = pwd.getpwnam("nobody")
    bin_dir, _ = binaries.runnable_binaries(BIN, (nobody.pw_uid, nobody.pw_gid))
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chown(name, nobody.pw_uid, nobody.pw_gid)

        said = run_as(nobody, lambda: start_query_kill_stop(Path(name), bin_dir))

    assert [f"7 False {nobody.pw_uid}"] == said


@as_root
def test_a_directory_that_may_not_be_written_is_named() -> None:
    nobody = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)

        said = run_as(nobody, lambda: server_in(Path(name) / "m").start())

    expected = (
        f"cannot write in {name}/m: Permission denied; {name} belongs to root: give a directory"
    )
    assert expected in said[0]


@as_root
def test_a_directory_of_another_user_is_said_to_be_whose(copied: Path) -> None:
    copied.chmod(0o755)
    (copied / "m").chmod(0o755)

    said = run_as(pwd.getpwnam("nobody"), lambda: server_in(copied / "m").start())

    assert f"{copied / 'm'} belongs to root" in said[0]


def start_query_kill_stop(directory: Path, bin_dir: Path) -> str:
    server = EmbeddedServer(directory / "m", bin_dir=bin_dir, settings=SETTINGS)
    server.start()
    try:
        server.create_database()
        query(server, "drop table if exists kept; create table kept as select 7 as n")
        server.kill()
        server.start()
        kept = query(server, "select n from kept")
    finally:
        server.stop()
    return f"{kept} {server.running} {server.data.stat().st_uid}"


@as_root
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_root_runs_it_as_another_user_below_any_directory(copied: Path, mode: int) -> None:
    copied.chmod(mode)
    server = server_in(copied / "m")

    server.start()

    try:
        shown = query(server, "show data_directory")
        assert (str(server.data) == shown) is (mode == 0o755)
        assert mode == copied.stat().st_mode & 0o777
        assert server.data.stat().st_uid != 0
    finally:
        server.stop()


@as_root
def test_root_copies_binaries_that_the_server_cannot_reach(
    stopped: EmbeddedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if BIN:
        pytest.skip("only a relocatable tree can be copied")
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    bin_dir = copy_programs(hidden)
    with tempfile.TemporaryDirectory(dir="/tmp") as cache:
        Path(cache).chmod(0o755)
        monkeypatch.setattr(copies, "CACHE", Path(cache))
        server = EmbeddedServer(stopped.directory, bin_dir=bin_dir, settings=SETTINGS)

        with caplog.at_level("WARNING", logger="mainspring"):
            server.start()

        assert "embedded.binaries_copied" in [r.msg for r in caplog.records]
        assert query(server, "select 1") == 1
        caplog.clear()
        server.restart()
        assert "embedded.binaries_copied" not in [r.msg for r in caplog.records]
        server.stop()


def test_a_server_of_another_container_is_not_touched(
    stopped: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, socket.socket(socket.AF_UNIX) as other:
        patch.setattr(process, "listener", lambda path: process.SocketListener(0, 0))
        (stopped.data / ".s.PGSQL.5432").unlink(missing_ok=True)
        other.bind(str(stopped.data / ".s.PGSQL.5432"))
        other.listen()

        with pytest.raises(EmbeddedServerError, match="runs in another container"):
            stopped.start()
        with pytest.raises(EmbeddedServerError, match="runs in another container"):
            stopped.stop()
        assert stopped.data.joinpath(".s.PGSQL.5432").exists()
