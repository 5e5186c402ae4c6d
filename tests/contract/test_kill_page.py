"""The page "what you can kill" promises nothing without a test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_line_of_the_page_names_tests_that_exist() -> None:
    page = (ROOT / "docs/guides/what-you-can-kill.md").read_text("utf-8")
    tests = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    lines = [line for line in page.splitlines() if line.startswith("| ")][1:]

    assert len(lines) >= 10
    for line in lines:
        named = re.findall(r"`(test_\w+)`", line)
        assert named, f"no test is named for: {line}"
        assert [n for n in named if not re.search(rf"def {n}\b", tests)] == []
