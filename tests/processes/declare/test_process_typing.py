"""A call in a decider type-checks as its promise, and a promise not as its value."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TYPED = Path(__file__).parents[1] / "typed.py"


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


@pytest.mark.parametrize("guide", ["processes.md", "process-patterns.md"])
def test_the_code_of_the_guide_passes_a_strict_checker(guide: str, tmp_path: Path) -> None:
    """P1: loops that return a value or a promise, contexts, scopes and children, as the page has them."""
    root = TYPED.parents[2]
    page = (root / "docs" / "guides" / guide).read_text()
    program = tmp_path / "guide.py"
    program.write_text("\n".join(re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)))
    found = subprocess.run(
        [sys.executable, "-m", "mypy", str(program)],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout
