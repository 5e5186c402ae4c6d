"""A full disk under the database: clear errors, and the work goes on when there is room again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
APART = ["unshare", "--mount", "--propagation", "private"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for a socket; not tmp_path, whose parents the server's account may not enter."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="disk-") as name:
        yield Path(name)


def may_mount(folder: Path) -> bool:
    if not (shutil.which("unshare") and shutil.which("mount")):
        return False
    mount = [*APART, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    return subprocess.run(mount, capture_output=True).returncode == 0


def test_a_full_disk_loses_nothing(folder: Path) -> None:
    if not may_mount(folder):
        pytest.skip("a tmpfs in a private mount namespace is forbidden here")

    done = subprocess.run(
        [*APART, sys.executable, HERE / "full_disk.py", folder],
        env=os.environ | {"PYTHONPATH": str(HERE.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=90,
    )

    assert done.returncode == 0, done.stdout[-8000:]
    assert "refused: NotDone" in done.stdout
