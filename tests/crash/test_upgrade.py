"""The code of before the newest migration still works on the new schema, beside the new code."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from scene import HERE, Scene

from mainspring.db.schema import migrate

ROOT = HERE.parent.parent

_ENQUEUE = """
import crash_app, json, sys
app = crash_app.make(sys.argv[1])
handles = app.tasks["quick"].enqueue_many_sync([{"n": n} for n in range(100, 110)])
print(json.dumps([str(handle.id) for handle in handles]))
app.close_sync()
"""


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True)
    if done.returncode:
        pytest.skip(f"no history to take the previous code from: {done.stderr.decode().strip()}")
    return done.stdout


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The sources of the commit before the newest migration was added."""
    known = migrate.migrations()
    if len(known) < 2:
        pytest.skip("there is only one migration")
    newest = f"src/mainspring/db/schema/migrations/{known[-1].number:04}_{known[-1].name}.sql"
    # Along the line of merges: a file that got its number in one was added by no other commit.
    line = ("log", "-m", "--first-parent", "--diff-filter=A", "--format=%H", "-1", "--", newest)
    added = git(*line).decode().strip()
    before = unpacked(f"{added}^" if added else "HEAD", tmp_path / "previous")
    assert not (before.parent / newest).exists(), "the code of before the newest migration"
    return before


def unpacked(commit: str, into: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "src"))) as archive:
        archive.extractall(into, filter="data")
    return into / "src"


def test_the_previous_code_works_on_the_new_schema(scene: Scene, previous: Path) -> None:
    old = scene.worker(environment={"PYTHONPATH": str(previous)})
    scene.joined(old)
    source = scene.folder / f"source-{old.process.pid}"
    assert source.read_text().startswith(str(previous)), "the old code runs"
    scene.enqueue("quick", range(20))
    scene.enqueue("effect", range(10))
    scene.enqueue("held", range(3), seconds=0.2)
    scene.check()

    new = scene.worker()
    scene.joined(old, new)
    enqueue_with(scene, previous)
    scene.enqueue("nap", range(10), seconds=0.3)
    scene.wait(lambda: len(scene.starts("nap")) == 10, "both work")
    old.send(signal.SIGKILL)

    scene.wait(lambda: scene.sql("select count(*) from mainspring.visit") == [(0,)], "all is done")
    assert scene.sql("select * from mainspring.violation") == []


def enqueue_with(scene: Scene, source: Path) -> None:
    """Enqueue by the code of these sources."""
    subprocess.run(
        [sys.executable, "-c", _ENQUEUE, scene.url],
        env={"PYTHONPATH": f"{source}:{HERE}"},
        check=True,
        timeout=30,
    )
