"""Data access has types: connections, rows and their columns are named, and `Any` becomes rarer.

`Any` is left where a value really is anything, such as a user's payload. The bounds are a ratchet: they
are what is true today, and are lowered with the code.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

# The most uses of `Any` in a package of mainspring; "top" are modules of no package.
MOST = {
    "cli": 15,
    "client": 35,
    "db": 11,  # a JSON column is anything
    "embedded": 3,
    "entities": 84,  # fields and states of stages elsewhere are anything
    "foreign": 15,  # a user's types are anything
    "jobs": 5,
    "kernel": 47,
    "mainspring_django": 7,  # arguments of Django's tasks, and what they return
    "operate": 8,
    "processes": 60,
    "reactive": 10,  # AnyParam, where a param of any kind is taken
    "server": 28,
    "sources": 5,
    "stage_client": 3,
    "stage_service": 17,
    "tasks": 23,
    "testing": 27,
    "top": 55,  # orders of bulk operations are what each layer makes of them
}


def modules() -> Iterator[tuple[str, str, ast.Module]]:
    """Each module of ours: its package, its path, its code."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        package = parts[0] if parts[0] != "mainspring" else parts[1] if len(parts) > 2 else "top"
        yield package, str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def uses_of_any(tree: ast.Module) -> int:
    """How often `Any` is written, its import included, under whatever name it is imported."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    taken = [alias for node in imports for alias in node.names if alias.name == "Any"]
    names = {alias.asname or alias.name for alias in taken}
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names]
    return len(taken) + len(used)


def untyped_connections(tree: ast.Module) -> list[int]:
    """Lines of parameters such as `connection: Any` or `tx: Any`."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.arg)
        and node.arg.lstrip("_") in ("connection", "tx")
        and isinstance(node.annotation, ast.Name)
        and node.annotation.id == "Any"
    ]


def numbered_columns(tree: ast.Module) -> list[int]:
    """Lines with a column of a row by its number, such as `row[3]` or `rows[0][3]`."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, int)
        and _is_row(node.value)
    ]


def _is_row(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id == "rows"
    return isinstance(node, ast.Name) and node.id == "row"


def test_any_is_used_no_more_than_before() -> None:
    found = Counter[str]()
    for package, _, tree in modules():
        found[package] += uses_of_any(tree)
    over = {package: count for package, count in found.items() if count > MOST.get(package, 0)}
    assert not over, f"more than allowed: {over}"
    assert found.total() < 600  # in all


@pytest.mark.parametrize("look", [untyped_connections, numbered_columns])
def test_connections_and_rows_have_types(look: Callable[[ast.Module], list[int]]) -> None:
    found = [f"{path}:{line}" for _, path, tree in modules() for line in look(tree)]
    assert not found, "\n".join(found)
