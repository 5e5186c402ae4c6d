"""The page of rules names tests: each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| .+ \| `([a-z_/]+\.py)`(?: `(test_\w+)`)? \|$", re.MULTILINE)


def test_the_tests_that_the_page_names_are_there() -> None:
    named = _ROW.findall((ROOT / "docs" / "rules.md").read_text("utf-8"))
    assert len(named) > 80
    missing = [
        f"{path} {name}"
        for path, name in named
        if not (file := ROOT / "tests" / path).exists()
        or (name and f"def {name}(" not in file.read_text("utf-8"))
    ]
    assert missing == []
