"""Imports of the package, those for a type checker included, make no knot of more than two files.

import-linter sees no cycle at run time. A knot of `TYPE_CHECKING` imports is one all the same for whoever
reads: none of its files can be understood without the others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
MOST = 2


def _modules() -> dict[str, Path]:
    found = {}
    for path in sorted((SOURCE / "mainspring").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _named(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Each import anywhere in the file: a module, and the name that is taken from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, "relative imports are not ours"
            yield from ((node.module, alias.name) for alias in node.names)


def imports(modules: dict[str, Path]) -> dict[str, set[str]]:
    """Which modules of ours each module names."""
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        found = set()
        for source, name in _named(ast.parse(path.read_text("utf-8"))):
            inner = f"{source}.{name}"
            found.add(inner if inner in modules else source)
        graph[module] = {one for one in found if one in modules and one != module}
    return graph


def knots(graph: dict[str, set[str]]) -> list[list[str]]:
    """Sets of modules each of which reaches all others of its set: the larger part first."""
    reach = {module: _reached(graph, module) for module in graph}
    found = {
        frozenset(other for other in reach[module] if module in reach[other]) for module in graph
    }
    return sorted((sorted(knot) for knot in found if len(knot) > 1), key=len, reverse=True)


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        module = ahead.pop()
        if module not in seen:
            seen.add(module)
            ahead += graph[module]
    return seen


def test_no_cycle_of_imports_has_more_than_two_files() -> None:
    graph = imports(_modules())

    assert len(graph) > 300
    assert [knot for knot in knots(graph) if len(knot) > MOST] == []


def test_a_cycle_by_imports_for_a_type_checker_is_found(tmp_path: Path) -> None:
    """The check itself: three files, one of whose imports never happens."""
    texts = {
        "a": "from b import x",
        "b": "def f():\n    import c",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import y",
        "d": "import a",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)

    assert knots(imports({name: tmp_path / f"{name}.py" for name in texts})) == [["a", "b", "c"]]
