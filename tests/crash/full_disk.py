"""The scene of a full disk; run by test_disk.py in a mount namespace of its own.

The database lies on a small tmpfs that is filled to the last byte: enqueueing fails with a clear
error, the worker keeps its results, and when there is room again everything accepted gets done.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psycopg
from scene import Scene

from mainspring import DatabaseUnavailable
from mainspring.embedded.server import EmbeddedServer

SETTINGS = {"fsync": "off", "shared_buffers": "16MB", "max_wal_size": "32MB"}
SETTINGS |= {"min_wal_size": "32MB", "max_connections": "50"}


def main(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=150m", "tmpfs", disk], check=True)
    chosen = os.environ.get("MAINSPRING_TEST_BIN")
    bin_dir = Path(chosen) if chosen else None
    server = EmbeddedServer(disk / "m", bin_dir=bin_dir, settings=SETTINGS)
    server.start()
    try:
        server.create_database("full")
        play(server, disk / "filler", folder)
    finally:
        server.stop(fast_seconds=2)


def play(server: EmbeddedServer, filler: Path, folder: Path) -> None:
    with Scene(server.url("full"), folder) as scene:
        scene.app.migrate_sync()
        worker = scene.worker()
        scene.joined(worker)
        scene.enqueue("stubborn", range(40), seconds=1.5)
        scene.wait(lambda: len(scene.starts()) == 40, "all run")

        fill(filler)
        error = enqueue_until_refused(scene)
        print("refused:", type(error).__name__, error)
        assert isinstance(error, DatabaseUnavailable), repr(error)
        late = [folder / f"late-{n}" for n in range(40)]
        scene.wait(lambda: all(path.exists() for path in late), "results are in")
        filler.unlink()
        server.start()  # unless it runs: it may have stopped for want of room for its log

        scene.wait(lambda: ended(scene), "every task has ended", 30)
        done = scene.sql("select id::text from mainspring.history where outcome = 'done'")
        counted = Counter(row[0] for row in done)
        assert set(counted.values()) == {1}, "a task was done twice"
        assert {handle.id for handle in scene.handles} <= counted.keys(), "a task was lost"
        assert scene.sql("select * from mainspring.violation") == []
        assert worker.process.poll() is None


def fill(filler: Path) -> None:
    for size in (1 << 20, 1 << 12, 1):
        with filler.open("ab", buffering=0) as file:
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


def enqueue_until_refused(scene: Scene) -> Exception:
    """Every batch that is accepted counts; the one that is refused left nothing behind."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            scene.enqueue("quick", range(1000, 1500))
        except Exception as error:
            return error
    raise AssertionError("the disk is full and yet everything is accepted")


def ended(scene: Scene) -> bool:
    try:
        return scene.sql("select count(*) from mainspring.visit") == [(0,)]
    except psycopg.OperationalError:  # it recovers
        return False


if __name__ == "__main__":
    main(Path(sys.argv[1]))
