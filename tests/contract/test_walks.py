"""The walks (walks.py), each in a process of its own: what other tests left would be profiled too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WALKS = Path(__file__).with_name("walks.py")


@pytest.mark.parametrize("walk", ["task", "saved", "process", "seen"])
def test_a_walk_goes_through_few_modules(walk: str) -> None:
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:randomly"),
            *("-o", f"python_files={WALKS.name}", str(WALKS), "-k", f"walk_{walk}"),
        ],
        capture_output=True,
        check=False,
        cwd=WALKS.parents[2],
        text=True,
        timeout=110,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]
    assert "1 passed" in ran.stdout
