"""Installed where other accounts cannot enter, as below root's home or in a user's own."""

import os
import pwd
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from accounts import as_root
from installs import copy_programs, install, run
from mainspring.embedded import binaries, copied
from mainspring.errors import EmbeddedServerError

pytestmark = pytest.mark.timeout(300)  # whole installs are copied

# The demo's way: a private server is made, migrated and restarted, and a task runs.
PROGRAM = """
import asyncio, sys
from pathlib import Path
from mainspring import Mainspring
from mainspring.embedded import copied
from mainspring.embedded.server import EmbeddedServer

copied.CACHE = Path(sys.argv[1])
app = Mainspring()

@app.task
async def greet(name: str) -> str:
    return f"hello {name}"

async def main() -> None:
    async with app, app.worker():
        print(await (await greet.enqueue("world")).result(timeout=60))

asyncio.run(main())
EmbeddedServer(Path(".mainspring")).restart()
EmbeddedServer(Path(".mainspring")).stop()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that nobody but its owner enters, below one that all may."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="closed-") as name:
        yield Path(name)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="cache-") as name:
        Path(name).chmod(0o755)
        monkeypatch.setattr(copied, "CACHE", Path(name) / "mainspring")
        monkeypatch.setattr(Path, "home", lambda: Path(name))
        yield Path(name) / ("mainspring" if os.geteuid() == 0 else ".cache/mainspring")


@as_root
def test_an_install_that_only_root_reaches_runs_its_own_server(place: Path, cache: Path) -> None:
    install(place / "lib", "mainspring[embedded]")

    done = run(place / "lib", "-c", PROGRAM, cache, umask=0o077)

    assert (done.stdout, done.returncode) == ("hello world\n", 0), done.stderr
    assert "embedded.binaries_copied" in done.stderr
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert (place / ".mainspring/data").stat().st_uid != 0


@as_root
def test_an_ordinary_user_runs_it_from_a_home_that_only_he_enters(place: Path, cache: Path) -> None:
    """His modules need not be writable, and nothing is copied: the server is a process of his own."""
    user = pwd.getpwnam("nobody")
    install(place / "lib", "mainspring[embedded]")
    subprocess.run(["chown", "-R", f"{user.pw_uid}:{user.pw_gid}", place], check=True)
    subprocess.run(["chmod", "-R", "a-w", place / "lib"], check=True)

    done = run(place / "lib", "-c", PROGRAM, cache, user=user)

    assert (done.stdout, done.returncode) == ("hello world\n", 0), done.stderr
    assert not cache.exists()
    assert (place / ".mainspring/data").stat().st_uid == user.pw_uid


@as_root
@pytest.mark.parametrize("linked", [False, True])
def test_a_copy_has_the_libraries_that_its_programs_need(
    place: Path, cache: Path, linked: bool
) -> None:
    nobody = pwd.getpwnam("nobody")
    bin_dir = copy_programs(place, linked=linked)

    copy, major = binaries.runnable_binaries(bin_dir, (nobody.pw_uid, nobody.pw_gid))

    assert (copy.is_relative_to(cache), major) == (True, 18)
    assert not any(path.is_symlink() for path in cache.rglob("*"))
    assert not any(stat.S_IMODE(p.stat().st_mode) & 0o022 for p in cache.rglob("*"))
    for program in ("psql", "pg_dump", "pg_ctl"):
        done = binaries.execute(
            [copy / program, "--version"], (nobody.pw_uid, nobody.pw_gid), subprocess.PIPE
        )
        assert b"18" in done.stdout


@pytest.fixture
def small(place: Path) -> Path:
    """A tree of two files and one library, enough to be copied."""
    bin_dir = place / "site" / "package" / "tree" / "bin"
    bin_dir.mkdir(parents=True)
    (bin_dir / "postgres").write_text("#!/bin/sh\necho 18\n")
    (bin_dir / "postgres").chmod(0o700)
    (bin_dir.parent / "share").mkdir()
    (bin_dir.parent / "share" / "zones").write_text("UTC")
    (place / "site" / "package.libs").mkdir()
    (place / "site" / "package.libs" / "libpq.so").write_text("1")
    return bin_dir


def test_a_copy_is_named_by_its_content(cache: Path, small: Path) -> None:
    first = copied.copied(small)
    os.utime(small / "postgres", (1, 1))  # the same wheel, installed at another time
    assert copied.copied(small) == first

    (small.parents[2] / "package.libs" / "libpq.so").write_text("2")
    second = copied.copied(small)

    assert first != second
    assert {(c.parents[2] / "package.libs" / "libpq.so").read_text() for c in (first, second)} == {
        "1",
        "2",
    }


def test_a_copy_that_lost_a_file_is_made_anew(cache: Path, small: Path) -> None:
    zones = copied.copied(small).parent / "share" / "zones"
    for damage in (zones.unlink, lambda: zones.write_text("")):
        damage()

        copied.copied(small)

        assert zones.read_text() == "UTC"


def test_a_copy_that_was_begun_and_not_finished_is_not_taken(cache: Path, small: Path) -> None:
    (cache / "new" / "package").mkdir(parents=True)
    (cache / "new" / "package" / "of somebody killed").touch()

    copy = copied.copied(small)

    assert (copy / "postgres").stat().st_mode & 0o777 == 0o755
    assert not (copy.parents[1] / "of somebody killed").exists()
    assert not (cache / "new").exists()


def test_many_at_once_make_one_copy(cache: Path, small: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        copies = set(threads.map(lambda _: copied.copied(small), range(8)))

    assert len(copies) == 1
    assert sorted(path.name for path in cache.iterdir()) == ["lock", copies.pop().parts[-4]]


@pytest.mark.parametrize("fault", ["open to all", "a link", "above it"])
def test_a_cache_that_others_could_write_to_is_refused(
    cache: Path, small: Path, place: Path, fault: str
) -> None:
    copied.copied(small)
    if fault == "a link":
        cache.rename(place / "elsewhere")
        cache.symlink_to(place / "elsewhere")
    elif fault == "above it":
        cache.parent.chmod(0o777)
    else:
        cache.chmod(0o777)

    with pytest.raises(
        EmbeddedServerError, match=r"another user can write to .*; look at who made"
    ):
        copied.copied(small)


@as_root
def test_a_cache_of_another_user_is_refused(cache: Path, small: Path) -> None:
    cache.mkdir(parents=True)
    os.chown(cache, pwd.getpwnam("nobody").pw_uid, -1)

    with pytest.raises(EmbeddedServerError, match=f"another user can write to {cache}"):
        copied.copied(small)


def test_a_cache_that_cannot_be_made_is_named(cache: Path, small: Path) -> None:
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("a file")

    with pytest.raises(EmbeddedServerError, match=f"programs in {cache} are run"):
        copied.copied(small)
