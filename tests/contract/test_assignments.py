"""Who may assign an attribute: the object itself, its own file, or the function that made the object.

The rule. `x.attribute = ...` (also `+=`, `del`, and as one of many targets) stands only where

- x is `self` or `cls`; or
- x is a local name that this function binds to nothing but new objects: calls of a class; or
- the attribute belongs to a class of the same file: a record and who handles it stand side by side.

Parts that are wired by assigning each other's attributes cannot be read one at a time. Use arguments of
the constructor, a method, or a value that is returned.

What breaks the rule is listed below, with the reason and the number of places. The list may only shrink:
a place that is mended must be taken out of it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "mainspring"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)

ALLOWED = {
    "objects of libraries, which have no other way to say it": {
        "cli/commands.py": "_add_completion rich_markup_mode",
        "cli/log.py": "attempt id key logger task",
        "server/handlers/states.py": "type_url value",
        "db/database.py": "_server_caps isolation_level prepare_threshold",
        "db/idle.py": "daemon name",
        "events.py": "__class__",
        "tasks/run/connections.py": "row_factory*2",
    },
    "a run is the record that the parts of a worker pass on; each part writes its own field of it": {
        "kernel/run/hanging.py": "hangs",
        "kernel/run/suspects.py": "suspect*2",
        "kernel/settle/batches.py": "strayed",
        "kernel/settle/settler.py": "outcome*2",
        "kernel/lease/holds.py": "hold_at",
        "processes/runtime.py": "settings",
    },
    "a commit is a generator of steps over one batch and its changes, which the steps complete in turn": {
        "processes/commit/external.py": "child",
    },
    "simulations and crash points of tests: one state that the simulation moves on": {
        "testing/steps.py": "listener*2",
    },
}


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """What belongs to a function itself, and not to one within it."""
    ahead = [node]
    while ahead:
        for child in ast.iter_child_nodes(ahead.pop()):
            if not isinstance(child, SCOPES):
                yield child
                ahead.append(child)


def _own_attributes(tree: ast.AST) -> set[str]:
    """Attributes of the file's classes: declared in their bodies, or set on `self`."""
    found = set()
    for made in ast.walk(tree):
        if not isinstance(made, ast.ClassDef):
            continue
        for line in made.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                found.add(line.target.id)
        for node in ast.walk(made):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
                continue
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                found.add(node.attr)
    return found


def _makes(value: ast.expr) -> bool:
    """Whether this is a call of a class, by its capital letter."""
    if not isinstance(value, ast.Call):
        return False
    name = value.func.attr if isinstance(value.func, ast.Attribute) else ast.unparse(value.func)
    return name.lstrip("_")[:1].isupper()


def _made_here(nodes: list[ast.AST]) -> set[str]:
    bound: dict[str, bool] = {}
    for node in nodes:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                makes = _makes(node.value)  # type: ignore[attr-defined]
                bound[target.id] = makes and bound.get(target.id, True)
    return {name for name, made in bound.items() if made}


def foreign(tree: ast.AST) -> Iterator[str]:
    """Attributes that are assigned against the rule, one for each place."""
    own = _own_attributes(tree)
    for function in ast.walk(tree):
        if not isinstance(function, FUNCTIONS):
            continue
        nodes = list(_inside(function))
        may = _made_here(nodes) | {"self", "cls"}
        for node in nodes:
            if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
                continue
            if isinstance(node.value, ast.Name) and node.value.id in may:
                continue
            if node.attr not in own:
                yield node.attr


def _written(counts: Counter[str]) -> str:
    return " ".join(n if count == 1 else f"{n}*{count}" for n, count in sorted(counts.items()))


def test_nobody_assigns_an_attribute_of_an_object_that_is_not_theirs() -> None:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if counts := Counter(foreign(ast.parse(path.read_text("utf-8")))):
            found[path.relative_to(SOURCE).as_posix()] = _written(counts)

    allowed = {file: names for files in ALLOWED.values() for file, names in files.items()}
    assert found == allowed


def test_what_breaks_the_rule_is_found() -> None:
    """The check itself, on one function of each form."""
    text = """
class Record:
    mine: int = 0

def allowed(record):
    record.mine += 1  # of a class of this file
    fresh = Other()
    fresh.name = 1

def refused(other, wired):
    other.name = 1
    other.parts[0].size, x = 1, 2
    del other.gone
    wired.inner.callback = print
    again = Other()
    again = other.find()
    again.late = 1

class Part:
    def __init__(self, other):
        self.other = other
        self.other.told = self.hear
"""

    assert sorted(foreign(ast.parse(text))) == ["callback", "gone", "late", "name", "size", "told"]
