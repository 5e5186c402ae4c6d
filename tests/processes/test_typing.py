"""A call in a decider type-checks as its promise, and a promise not as its value."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TYPED = Path(__file__).with_name("typed.py")


def test_calls_are_typed_as_promises_and_results_as_values() -> None:
    """P1: `mypy --strict` knows what a decider does; lines marked '# error' are refused."""
    root = TYPED.parents[2]
    found = subprocess.run(
        [sys.executable, "-m", "mypy", str(TYPED)],  # as `make check` does, whose cache it shares
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip

    lines = TYPED.read_text().splitlines()
    expected = {n for n, line in enumerate(lines, 1) if "# error: " in line}
    reported = {int(line.split(":")[1]) for line in found.stdout.splitlines() if ": error:" in line}
    assert reported == expected, found.stdout
