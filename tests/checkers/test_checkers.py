"""What strict mypy and pyright say of users' code: a file of right and wrong calls."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = ["calls.py", "foreign.py", "kinds.py"]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
CHECKERS = {
    "mypy": ["-m", "mypy", "--no-error-summary"],
    "pyright": ["-m", "basedpyright", "--level", "error", "--pythonpath", sys.executable],
}


def lines_refused(checker: str) -> tuple[dict[str, set[int]], str]:
    """The lines of each program that a checker reports, and all that it says; one run for all."""
    ran = subprocess.run(
        [sys.executable, *CHECKERS[checker], *(str(HERE / program) for program in PROGRAMS)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = ran.stdout + ran.stderr
    lines = re.findall(r"(\w+\.py):(\d+)(?::\d+ -|:) error", said)
    return {p: {int(n) for name, n in lines if name == p} for p in PROGRAMS}, said


@pytest.mark.parametrize("checker", CHECKERS)
def test_what_is_wrong_is_refused_and_nothing_else(checker: str) -> None:
    """T1, P1: calls, signals, stages, documents, params and settings go by what was declared."""
    marked = {
        program: {
            number
            for number, line in enumerate((HERE / program).read_text().splitlines(), 1)
            if line.endswith("# error")
        }
        for program in PROGRAMS
    }

    refused, said = lines_refused(checker)

    assert refused == marked, said


def code_of(page: Path) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S))


def test_the_code_of_the_pages_passes_a_strict_checker(tmp_path: Path) -> None:
    """T1: what a reader copies into a strict project is accepted there; one run for all pages."""
    programs = []
    for number, page in enumerate(page for page in PAGES if code_of(page)):
        programs.append(tmp_path / f"page{number}_{re.sub(r'[^a-z]', '_', page.stem)}.py")
        programs[-1].write_text(code_of(page))

    ran = subprocess.run(
        [sys.executable, *CHECKERS["mypy"], *map(str, programs)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert programs
    assert ran.returncode == 0, ran.stdout.replace(str(tmp_path), "")


def test_the_recipes_for_frameworks_do_so_too(tmp_path: Path) -> None:
    """Each block is a file, which others import."""
    text = (ROOT / "docs/guides/frameworks.md").read_text()
    for name, code in re.findall(r"^```py\n# (\w+\.py)\n(.*?)^```", text, re.M | re.S):
        (tmp_path / name).write_text(code)
    programs = sorted(map(str, tmp_path.glob("*.py")))

    ran = subprocess.run(
        [sys.executable, *CHECKERS["mypy"], *programs],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "MYPYPATH": str(tmp_path)},
    )  # fmt: skip

    assert len(programs) == 5
    assert ran.returncode == 0, ran.stdout
