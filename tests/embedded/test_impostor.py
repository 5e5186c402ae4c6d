"""Another user of the machine who stands in the place of the private server, or of its files."""

import asyncio
import contextlib
import os
import pwd
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from accounts import as_root, run_as
from mainspring.db.database import Database, probe
from mainspring.embedded import binaries, process
from mainspring.embedded.server import EmbeddedServer
from mainspring.embedded.shared import release, shared
from mainspring.errors import EmbeddedServerError, NotDone

SETTINGS = {"fsync": "off"}
BIN = Path(os.environ["MAINSPRING_TEST_BIN"]) if "MAINSPRING_TEST_BIN" in os.environ else None


def server_in(directory: Path) -> EmbeddedServer:
    return EmbeddedServer(directory, bin_dir=BIN, settings=SETTINGS)


@pytest.fixture
def other() -> pwd.struct_passwd:
    """A user who is neither us nor the one that root's server runs as."""
    return pwd.getpwnam("bin")


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="ours-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def deep(place: Path) -> Iterator[EmbeddedServer]:
    """A server whose path is too long for a socket, so that it is below /tmp."""
    server = server_in(place / ("d" * 100))
    assert server.socket_dir.parent == Path("/tmp")
    yield server
    with contextlib.suppress(EmbeddedServerError):
        server.stop(fast_seconds=1)
    for file in server.socket_dir.glob("*"):
        file.unlink()
    with contextlib.suppress(FileNotFoundError):
        server.socket_dir.rmdir()


@contextlib.contextmanager
def listening(directory: Path, user: pwd.struct_passwd) -> Iterator[socket.socket]:
    """An impostor: a socket in the server's place, on which a user listens who also owns the place."""
    directory.mkdir(mode=0o700, exist_ok=True)
    os.chown(directory, user.pw_uid, user.pw_gid)
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(directory / ".s.PGSQL.5432"))
        os.chown(directory / ".s.PGSQL.5432", user.pw_uid, user.pw_gid)
        os.seteuid(user.pw_uid)  # the kernel notes who listens
        try:
            impostor.listen()
        finally:
            os.seteuid(0)
        impostor.setblocking(False)
        yield impostor


def nobody_came(impostor: socket.socket) -> bool:
    try:
        impostor.accept()[0].close()
    except BlockingIOError:
        return True
    return False


@as_root
def test_an_impostor_below_tmp_is_not_connected_to(
    deep: EmbeddedServer, other: pwd.struct_passwd
) -> None:
    """The name of the directory can be computed by anybody, before the first start and after."""
    deep.data.mkdir(parents=True)
    account = binaries.account_of(deep.data)
    assert account
    os.chown(deep.data, *account)
    with listening(deep.socket_dir, other) as impostor:
        for act in (deep.start, deep.stop, deep.create_database, lambda: deep.running):
            with pytest.raises(
                EmbeddedServerError, match=f"{deep.socket_dir} is not a private directory of"
            ):
                act()
        assert nobody_came(impostor)
        deep.data.rmdir()

        with pytest.raises(EmbeddedServerError, match="may be an impostor"):
            deep.start()

        assert nobody_came(impostor)


@as_root
def test_the_place_below_tmp_stays_ours_while_the_server_is_away(
    deep: EmbeddedServer, other: pwd.struct_passwd
) -> None:
    """A client that reconnects meanwhile finds nobody: the name is never free to be taken."""
    deep.start()
    deep.stop()

    def take() -> None:
        with contextlib.suppress(FileExistsError):
            deep.socket_dir.mkdir()
        socket.socket(socket.AF_UNIX).bind(str(deep.socket_dir / ".s.PGSQL.5432"))

    def away() -> None:
        deep.socket_dir.rename("/tmp/elsewhere")

    assert run_as(other, take) == ["PermissionError(13, 'Permission denied')"]
    assert "Operation not permitted" in run_as(other, away)[0]
    deep.start()
    assert deep.running


def ways_in(database: Database) -> list[Callable[[], object]]:
    """All that open a connection: of the loops, of the heart and clients, of tasks, of the probe."""
    return [
        lambda: asyncio.run(database.connect("reader")),
        lambda: database.connect_sync("heart"),
        lambda: asyncio.run(database.connect_task()),
        lambda: asyncio.run(probe(database.url)),
    ]


@as_root
def test_no_connection_is_made_to_an_impostor_while_the_server_is_away(
    deep: EmbeddedServer, other: pwd.struct_passwd
) -> None:
    """X6: whatever cleans /tmp up frees the name, and clients go on connecting by it."""
    deep.start()
    database = Database(deep.url("postgres"))
    database.connect_sync("heart").close()
    deep.stop()
    for file in deep.socket_dir.glob("*"):
        file.unlink()
    deep.socket_dir.rmdir()
    with listening(deep.socket_dir, other) as impostor:
        for connect in ways_in(database):
            with pytest.raises(NotDone, match=r"is not a private directory of .* an impostor"):
                connect()
        assert nobody_came(impostor)
    (deep.socket_dir / ".s.PGSQL.5432").unlink()
    deep.socket_dir.rmdir()
    with pytest.raises(NotDone, match="cannot connect to PostgreSQL"):
        database.connect_sync("heart")

    deep.start()

    database.connect_sync("heart").close()


@as_root
def test_no_connection_is_made_to_an_impostor_in_the_place_of_the_data(
    place: Path, other: pwd.struct_passwd
) -> None:
    """X6: in a project folder that others write to, the whole directory may be another by now."""
    server = server_in(place / "m")
    server.start()
    database = Database(server.url("postgres"), private_owner=server.data.stat().st_uid)
    database.connect_sync("heart").close()
    server.stop()
    (place / "m").rename(place / "away")
    (place / "m").mkdir()
    with listening(server.data, other) as impostor:
        for connect in ways_in(database)[:3]:
            with pytest.raises(NotDone, match="an impostor"):
                connect()
        assert nobody_came(impostor)


@as_root
def test_whoever_listens_must_be_the_owner_of_the_data(
    place: Path, other: pwd.struct_passwd
) -> None:
    server = server_in(place / "m")
    server.start()
    server.stop()
    owner = server.data.stat()
    with listening(server.data, other):
        os.chown(server.data, owner.st_uid, owner.st_gid)

        with pytest.raises(EmbeddedServerError, match=r"process \d+ of bin listens in .* end that"):
            server.start()


@as_root
def test_a_directory_of_another_user_is_refused(place: Path, other: pwd.struct_passwd) -> None:
    """By root too, who could write there; nothing is written."""
    planted = place / ".mainspring"
    planted.mkdir()
    os.chown(planted, other.pw_uid, other.pw_gid)

    for act in (server_in(planted).start, lambda: release(shared(planted))):
        with pytest.raises(EmbeddedServerError, match=f"{planted} belongs to bin, who could put"):
            act()

    assert list(planted.iterdir()) == []


@as_root
def test_a_link_that_another_user_made_is_refused(place: Path, other: pwd.struct_passwd) -> None:
    (place / "ours").mkdir()
    (place / "shared").mkdir(mode=0o777)
    (place / "shared").chmod(0o777)
    link = place / "shared" / ".mainspring"
    run_as(other, lambda: link.symlink_to(place / "ours"))

    with pytest.raises(EmbeddedServerError, match=f"{link} belongs to bin"):
        server_in(link).start()

    assert list((place / "ours").iterdir()) == []


def test_a_directory_that_all_may_write_to_is_refused(place: Path) -> None:
    (place / "m").mkdir()
    (place / "m").chmod(0o777)

    with pytest.raises(EmbeddedServerError, match="m may be written to by others"):
        server_in(place / "m").start()


@pytest.mark.parametrize("name", ["lock", "log", "socket"])
def test_no_link_is_followed_to_a_file_of_somebody(place: Path, name: str) -> None:
    victim = place / "victim"
    victim.write_text("kept")
    server = server_in(place / "m")
    server.directory.mkdir()
    (server.directory / name).symlink_to(victim)

    with pytest.raises(EmbeddedServerError, match=f"cannot open .*/{name}: .* it is a link to"):
        server.start()

    assert victim.read_text() == "kept"


@pytest.mark.parametrize("name", ["postmaster.pid", ".s.PGSQL.5432.lock"])
def test_no_link_is_followed_out_of_the_data(place: Path, name: str) -> None:
    """The data is its account's: what is there may lead root to a file of his own."""
    victim = place / "victim"
    victim.write_text("999999999\nkept")
    server = server_in(place / "m")
    server.start()
    server.stop()
    (server.data / name).symlink_to(victim)

    with pytest.raises(EmbeddedServerError, match="it is a link to"):
        server.start()

    assert victim.read_text() == "999999999\nkept"


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(place: Path) -> None:
    server = server_in(place / "m")
    server.directory.mkdir()
    os.mkfifo(server.directory / "lock")

    with pytest.raises(EmbeddedServerError, match=r"cannot open .*/lock: "):
        server.start()


def test_the_kernel_says_who_listens(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as ours:
        ours.bind(str(place / "s"))
        ours.listen()

        assert process.listener(place / "s") == process.SocketListener(os.getpid(), os.geteuid())
