"""The kernel's statements, by name. `sql/` is the whole protocol with the database."""

from __future__ import annotations

from mainspring.db.sql import Statement, load

SQL: dict[str, Statement] = load("mainspring.kernel")
