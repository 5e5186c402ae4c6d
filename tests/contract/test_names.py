"""Names: of test files, two of which pytest would take for one module, and of classes."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "mainspring"
# Classes of one name and two meanings. Take out what is renamed; nothing is added.
TWICE = {
    "Lines",  # of a log; connections of processes
    "ParkedVisit",  # what a layer is told of one; what an operator sees of one
}


def test_no_two_test_files_have_the_same_name() -> None:
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))

    assert len(names) > 200
    assert [name for name, count in names.items() if count > 1] == []


def test_a_class_name_has_one_meaning() -> None:
    names = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert len(names) > 300
    assert {name for name, count in names.items() if count > 1} == TWICE
