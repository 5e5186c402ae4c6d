"""Names: a file, a class and a room are each found by the one name they have."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "mainspring"
LAYERS = (
    *("kernel", "operate", "jobs", "tasks", "entities", "processes", "reactive", "db"),
    *("breakers", "limits", "sharing", "server", "client", "hooks", "sources", "sinks", "embedded"),
    *("stage_service", "stage_client"),
)
MOST_MODULES = 15  # more than that are no room that a stranger reads at a glance


def rooms() -> list[str]:
    return [
        str(init.parent.relative_to(SOURCE))
        for layer in LAYERS
        for init in sorted((SOURCE / layer).rglob("__init__.py"))
    ]


def modules(room: str) -> list[str]:
    return sorted(path.name for path in (SOURCE / room).glob("*.py") if path.name != "__init__.py")


def test_no_two_test_files_have_the_same_name() -> None:
    """Pytest takes two files of one name for the same module."""
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))

    assert len(names) > 200
    assert [name for name, count in names.items() if count > 1] == []


def test_a_class_name_has_one_meaning() -> None:
    """Across all layers: a reader who meets a name must not ask which of two it is."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(SOURCE)}:{node.lineno}")

    shared = {name: found for name, found in places.items() if len(found) > 1}

    assert len(places) > 400
    assert shared == {}


@pytest.mark.parametrize("room", rooms())
def test_a_room_is_small_and_its_docstring_names_each_module(room: str) -> None:
    """The tree is the map: every module has its line, and no line is left of one that went."""
    there = modules(room)
    text = ast.get_docstring(ast.parse((SOURCE / room / "__init__.py").read_text())) or ""
    named = [
        name
        for line in text.splitlines()
        if (start := re.match(r" *(\w+\.py(?: \w+\.py)*)(?: |$)", line))
        for name in start.group(1).split()
    ]

    assert len(there) <= MOST_MODULES
    assert sorted(named) == there
