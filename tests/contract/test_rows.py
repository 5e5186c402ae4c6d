"""Every typed row has the columns of its statement, in their order."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from mainspring.db.database import Database
from mainspring.db.sql import Statement

SOURCE = Path(__file__).parents[2] / "src"


def test_the_scan_finds_typed_statements() -> None:
    assert len(list(typed_statements())) >= 70


async def test_a_row_has_a_field_for_each_column_of_its_statement(database_url: str) -> None:
    """Rows are made from columns by their order, so the order of fields must be that of the columns."""
    connection = await Database(database_url).connect("test")
    try:
        wrong = []
        for where, statement, row in typed_statements():
            prepared = await connection.prepare(statement.numbered)
            columns = [column.name for column in prepared.get_attributes()]
            named = fields_of(row)
            fits = len(columns) == 1 if named is None else columns == named
            if not fits:
                wrong.append(f"{where}: {statement.name} returns {columns}, {row.__name__} {named}")
        assert not wrong, "\n".join(wrong)
    finally:
        await connection.close()


def typed_statements() -> Iterator[tuple[str, Statement, Any]]:
    """Calls such as `tx.rows(SQL["name"], Row, ...)`: where, the statement and the row's type."""
    for path in sorted((SOURCE / "mainspring").rglob("*.py")):
        tree = ast.parse(path.read_text())
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for node in calls:
            for first, second in pairwise(node.args):
                found, row = _statement(path, first), _row(path, second)
                if found is not None and isinstance(row, type):
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", found, row


def fields_of(row: type) -> list[str] | None:
    """The names of a row's fields; None for a plain value such as int."""
    if issubclass(row, msgspec.Struct):
        return list(row.__struct_fields__)
    if is_dataclass(row):
        return [field.name for field in fields(row)]
    return list(getattr(row, "_fields", ())) or None


def _module(path: Path) -> Any:
    return importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))


def _statement(path: Path, node: ast.expr) -> Statement | None:
    """`SQL["name"]`, by the SQL of that module."""
    if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
        return None
    if not (isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)):
        return None
    statements = getattr(_module(path), node.value.id, None)
    return statements[node.slice.value] if isinstance(statements, dict) else None


def _row(path: Path, node: ast.expr) -> Any:
    """A class by its name in that module, or a builtin such as int."""
    if not isinstance(node, ast.Name):
        return None
    module = _module(path)
    return getattr(module, node.id, None) or getattr(module, "__builtins__", {}).get(node.id)
