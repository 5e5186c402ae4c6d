"""The example's actor in Node: another language, the same promises (P3, P4)."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import psycopg
import pytest

import warm
from mainspring.client import Client
from mainspring.testing import wait_until
from warm import WorkerProcess

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "remote" / "actor"


@cache
def node_actor() -> tuple[list[str], str]:
    """How the actor is started, with its packages in a cache; or why it cannot be."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return [], "node and npm are not installed"
    wanted = (EXAMPLE / "package.json").read_bytes()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainspring-tests"
    place = home / f"node-actor-{hashlib.sha256(wanted).hexdigest()[:12]}"
    if not (place / "done").exists():
        place.mkdir(parents=True, exist_ok=True)
        (place / "package.json").write_bytes(wanted)
        quiet = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
        try:
            done = subprocess.run(
                [npm, "install", *quiet], cwd=place, capture_output=True, timeout=90, check=False
            )
        except subprocess.TimeoutExpired:
            return [], "npm's registry did not answer"
        if done.returncode:
            return [], f"npm cannot install the example's packages: {done.stderr[-200:]!r}"
        (place / "done").touch()
    shutil.copy(EXAMPLE / "actor.js", place / "actor.js")
    return [node, str(place / "actor.js")], ""


class Album:
    """The example's application, served, with a worker; and actors in Node."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self.url, self.folder, self._stack = url, folder, stack
        self.environment = {
            **os.environ,
            "MAINSPRING_URL": url,
            "PYTHONPATH": str(EXAMPLE),
            "MAINSPRING_PROTOS": str(ROOT / "src"),
            "GATE": str(folder / "gate"),
        }
        self.mainspring("migrate", "app:app")
        output = stack.enter_context((folder / "worker.log").open("wb"))
        stack.enter_context(WorkerProcess("app:app", url, path=EXAMPLE, output=output))
        self.address = self._serve()
        token = self.mainspring("tokens", "create", "node", "--scope", "pull:thumbnail")
        self.environment["MAINSPRING_TOKEN"] = token.strip()
        local = (folder / ".mainspring" / "token").read_text().strip()
        self.client = stack.enter_context(Client(self.address, token=local))

    def mainspring(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "mainspring.cli.main", *arguments]
        return warm.run(command, cwd=self.folder, env=self.environment, check=True).stdout

    def _serve(self) -> str:
        command = [sys.executable, "-m", "mainspring.cli.main", "serve", "app:app"]
        log = self._stack.enter_context((self.folder / "server.log").open("wb"))
        self._server = self.started([*command, "--grpc", "127.0.0.1:0"], warm.Popen, stderr=log)
        assert self._server.stdout is not None
        return self._server.stdout.readline().split()[3]

    def actor(self) -> subprocess.Popen[str]:
        return self.started([*node_actor()[0], self.address])

    def started(
        self,
        command: list[str],
        begin: type[subprocess.Popen[str]] = subprocess.Popen,
        stderr: object = None,
    ) -> subprocess.Popen[str]:
        process = begin(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=stderr,  # type: ignore[call-overload]
            text=True,
        )
        self._stack.callback(_end, process)
        return process


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(20)
    if process.stdout is not None:
        process.stdout.close()


@pytest.fixture
def album(database_url: str, tmp_path: Path) -> Iterator[Album]:
    if why := node_actor()[1]:
        pytest.skip(f"an actor in Node: {why}")
    with ExitStack() as stack:
        yield Album(database_url, tmp_path, stack)


def test_the_actor_in_node_serves_a_process(album: Album) -> None:
    """P3, P4: pulled, run and settled by another language; a failure that is final parks.

    A result that the server cannot take is a failure like any other, not the same pull for ever.
    """
    actor = album.actor()
    photos = [f"{n}.jpg" for n in range(30)]
    ref = album.client.processes.start("album", {"name": "sea", "photos": photos})
    result = album.client.processes.result(ref, timeout=60)
    assert result == "sea: " + " ".join(sorted(f"/thumbnails/{p}?w=200" for p in photos))
    call = album.client.tasks.enqueue("thumbnail", {"photo": "odd.jpg", "width": 0})
    wait_for = album.client.tasks
    status = wait_for.get(call, wait=30)
    assert (status.state, status.error) == ("parked", "Error: a width of 0")
    actor.terminate()
    assert actor.wait(20) == 0
    assert (actor.communicate()[0] or "").endswith("left\n")

    [node, file] = node_actor()[0]
    odd = Path(file).with_name("odd.js")
    odd.write_text(Path(file).read_text().replace("return { url:", "return { width, url:"))
    album.started([node, str(odd), album.address])
    call = album.client.tasks.enqueue("thumbnail", {"photo": "a.jpg", "width": 5})
    status = wait_for.get(call, wait=30)
    assert status.state == "parked"
    assert (status.error or "").startswith("InvalidResult: 'thumbnail' was not settled: the result")


def test_an_actor_with_a_token_that_is_no_good_ends_with_a_line(album: Album) -> None:
    refused = subprocess.run(
        [*node_actor()[0], album.address],
        cwd=album.folder,
        env={**album.environment, "MAINSPRING_TOKEN": "wrong"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    told = "the authorization must be: Bearer msp_<id>_<secret>\n"
    assert (refused.returncode, refused.stderr) == (1, told)


async def test_what_a_killed_actor_had_is_done_by_another(album: Album) -> None:
    """P3: by its time, no attempt; an actor that is told to leave finishes what it has."""
    killed = album.actor()
    call = album.client.tasks.enqueue("thumbnail", {"photo": "slow.jpg", "width": 10})
    assert killed.stdout is not None
    assert killed.stdout.readline() == f"works {call.id} 1\n"
    killed.kill()
    with psycopg.connect(album.url, autocommit=True) as connection:
        connection.execute(  # as if its work timeout had passed
            "update mainspring.visit set held_until = held_until - interval '1 hour'"
            " where queue = 'thumbnail'"
        )
    other = album.actor()
    assert other.stdout is not None
    assert other.stdout.readline() == f"works {call.id} 1\n"
    other.terminate()
    (album.folder / "gate").touch()
    result = album.client.tasks.result(call, timeout=60)
    assert result == {"url": "/thumbnails/slow.jpg?w=10"}
    await wait_until(lambda: other.poll() is not None, 20)
    assert other.returncode == 0
