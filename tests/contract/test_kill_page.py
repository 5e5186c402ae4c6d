"""Pages that promise nothing without a test: "what you can kill", and the traps of the private server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "least"), [("guides/what-you-can-kill.md", 10), ("design/embedded.md", 8)]
)
def test_every_line_of_the_page_names_tests_that_exist(name: str, least: int) -> None:
    page = (ROOT / "docs" / name).read_text("utf-8")
    tests = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    lines = [line for line in page.splitlines() if line.startswith("| ")][1:]

    assert len(lines) >= least
    for line in lines:
        named = re.findall(r"`(test_\w+)`", line)
        assert named, f"no test is named for: {line}"
        assert [n for n in named if not re.search(rf"def {n}\b", tests)] == []
