"""What strict mypy and pyright say of users' code: a file of right and wrong calls."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CALLS = HERE / "right_and_wrong.py"
CHECKERS = {
    "mypy": ["-m", "mypy", "--no-error-summary"],
    "pyright": ["-m", "basedpyright", "--level", "error", "--pythonpath", sys.executable],
}


def lines_refused(checker: str, program: Path) -> tuple[set[int], str]:
    """The lines that a checker reports, and all that it says."""
    ran = subprocess.run(
        [sys.executable, *CHECKERS[checker], str(program)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = ran.stdout + ran.stderr
    lines = re.findall(r"\.py:(\d+)(?::\d+ -)?: error|\.py:(\d+):\d+ - error", said)
    return {int(one or other) for one, other in lines}, said


@pytest.mark.parametrize("checker", CHECKERS)
def test_wrong_arguments_are_refused_and_right_ones_are_not(checker: str) -> None:
    """T1, P1: enqueue, bind, start, calls in deciders, signals and settings go by the signature."""
    marked = {n for n, line in enumerate(CALLS.read_text().splitlines(), 1) if "# error" in line}

    refused, said = lines_refused(checker, CALLS)

    assert refused == marked, said
