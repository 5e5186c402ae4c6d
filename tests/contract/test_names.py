"""Names of test files: pytest takes two files of one name for the same module."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_two_test_files_have_the_same_name() -> None:
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))

    assert len(names) > 200
    assert [name for name, count in names.items() if count > 1] == []
